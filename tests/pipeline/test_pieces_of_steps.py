"""Loops of Python over ever other numbers of steps: from some passes on nothing is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import OutOfBoundsError
from torpor.pipeline import pieces
from torpor.pipeline.general import Row
from torpor.pipeline.pieces import Graph
from torpor.pipeline.report import measuring

NUMBERS = np.random.default_rng(57)
COUNTS = (9, 12, 10, 15, 11, 14, 13)


def test_vectors_made_orthogonal_one_after_the_other(compiled) -> None:
    """Each step needs the one before: v loses its part along u."""
    for number, n in enumerate(COUNTS):
        if number == 4:
            compiled.clear()
        axes = np.linalg.qr(NUMBERS.normal(size=(21, n)))[0].T
        wanted = v = NUMBERS.normal(size=21)
        found = Tensor(v)
        for axis in axes:
            u = Tensor(axis)
            found = found - (found * u).sum() * u
            wanted = wanted - (wanted * axis).sum() * axis
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)
    assert compiled == []


def test_a_number_of_steps_that_stays_compiles_nothing(compiled, monkeypatch) -> None:
    """And such a graph is run as a whole: it is not cut again."""
    w, looked_at = NUMBERS.normal(size=(5, 5)) / 3, []
    weight = Tensor(w).realize()
    monkeypatch.setattr(pieces, "Graph", lambda roots: looked_at.append(roots) or Graph(roots))
    for number, n in enumerate((9, 12, 10, *[11] * 15, 12)):
        if number == 4:
            compiled.clear()
        given = NUMBERS.normal(size=(n, 5))
        rows, h, wanted = Tensor(given), Tensor(np.zeros(5)), np.zeros(5)
        for step in range(n):
            h = (rows[step] + h @ weight).tanh()
            wanted = np.tanh(given[step] + wanted @ w)
        np.testing.assert_allclose(h.numpy(), wanted, rtol=1e-10, atol=1e-12)
    assert compiled == []
    assert len(looked_at) < 10


def test_what_watches_a_graph_in_pieces_is_told_what_runs() -> None:
    weight = Tensor(NUMBERS.normal(size=(5, 5)) / 3).realize()
    rows = Tensor(NUMBERS.normal(size=(20, 5))).realize()

    def state(count: int) -> Tensor:
        h = Tensor(np.zeros(5))
        for step in range(count):
            h = (rows[step] + h @ weight).tanh()
        return h

    for count in (9, *[12] * 12):
        with measuring() as seen:
            found = state(count).numpy()
        assert seen.runs
    np.testing.assert_array_equal(state(12).numpy(), found)


def recurrent(rows, w):
    """sum(h**2) + sum(outputs), with gradients for rows and w, of h' = tanh(x + h w)."""
    before, h = [], np.zeros_like(rows[0])
    outputs = np.zeros_like(rows)
    for step, row in enumerate(rows):
        before.append(h)
        h = outputs[step] = np.tanh(row + h @ w)
    slopes, of_w, back = np.zeros_like(rows), np.zeros_like(w), 2 * h
    for step in reversed(range(len(rows))):
        slopes[step] = back = (back + 1) * (1 - outputs[step] ** 2)
        of_w += before[step].T @ back
        back = back @ w.T
    return (h**2).sum() + outputs.sum(), slopes, of_w


@pytest.mark.parametrize("for_rows", [False, True])
def test_recurrences_and_their_gradients(for_rows, compiled) -> None:
    w = NUMBERS.normal(size=(6, 6)) / 3
    for number, n in enumerate(3 * COUNTS):
        if number == 14:
            compiled.clear()
        given = NUMBERS.normal(size=(n, 2, 6))
        rows, weight = Tensor(given).requires_grad_(for_rows), Tensor(w).requires_grad_()
        h, total = Tensor(np.zeros((2, 6))), 0
        for step in range(n):
            h = (rows[step] + h @ weight).tanh()
            total = total + h.sum()
        loss = (h**2).sum() + total
        loss.backward()
        value, of_rows, of_w = recurrent(given, w)
        assert loss.item() == pytest.approx(value)
        np.testing.assert_allclose(weight.grad.numpy(), of_w, rtol=1e-9, atol=1e-12)
        if for_rows:
            np.testing.assert_allclose(rows.grad.numpy(), of_rows, rtol=1e-9, atol=1e-12)
    assert for_rows or compiled == []


def test_a_cell_and_an_optimiser_are_the_layer_that_keeps_its_loop(compiled) -> None:
    torpor.manual_seed(2)
    cell, layer = nn.GRUCell(3, 5), nn.GRU(3, 5)
    for one, other in zip(cell.parameters(), layer.parameters(), strict=True):
        with torpor.no_grad():
            other.copy_(one)
    optimisers = [nn.optim.SGD(one.parameters(), lr=0.1) for one in (cell, layer)]
    for n in COUNTS[:5]:
        rows = Tensor(NUMBERS.normal(size=(n, 2, 3)).astype("f"))
        h = Tensor(np.zeros((2, 5), "f"))
        for step in range(n):
            h = cell(rows[step], h)
        losses = (h**2).mean(), (layer(rows)[1] ** 2).mean()
        for loss, optimiser in zip(losses, optimisers, strict=True):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-4)
    for one, other in zip(cell.parameters(), layer.parameters(), strict=True):
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=1e-3, atol=1e-5
        )


def test_an_index_that_is_wrong_in_a_step_raises() -> None:
    table = Tensor(NUMBERS.normal(size=(30, 4)))
    for n in (9, 12, 10):
        h = Tensor(np.zeros(4))
        for step in range(n):
            h = (h + table[Tensor([step if (n, step) != (10, 6) else 91])][0]).tanh()
        if n < 10 or n == 12:
            assert np.isfinite(h.numpy()).all()
    with pytest.raises(OutOfBoundsError, match="91"):
        h.numpy()


def test_a_graph_that_stays_gets_kernels_of_its_own() -> None:
    row = Row()
    assert [row.is_steady("a") for _ in range(10)] == [False] * 8 + [True] * 2
    assert not row.is_steady("b")
    assert not row.is_steady("a")


def test_steps_with_a_variable_have_its_value() -> None:
    rows = NUMBERS.normal(size=(20, 3))
    x, n = Tensor(rows).realize(), torpor.Variable("n", 1, 8)
    for count in (9, 12, 10, 10, 10, 10, 10):
        place = int(NUMBERS.integers(1, 9))
        h, wanted = Tensor(np.zeros(3)), np.zeros(3)
        for _ in range(count):
            h = (h + x[n.bind(place) : n.bind(place) + 1].sum(0)).tanh()
            wanted = np.tanh(wanted + rows[place])
        np.testing.assert_allclose(h.numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_sorts_of_sorts_whose_number_changes() -> None:
    """A pass of a sort reads counters as they were: what counts is no value of its own."""
    start = np.random.default_rng(3).standard_normal(5000).astype(np.float32)
    for count in (1, 2, 3, 2, 4, 1):
        found, expected = Tensor(start), start
        for _ in range(count):
            found = (found.argsort() * 7 % 11).to(torpor.int16)
            expected = (np.argsort(expected, kind="stable") * 7 % 11).astype(np.int16)
        np.testing.assert_array_equal(found.numpy(), expected)
