"""Sums and joins of ever other numbers of terms: from some passes on nothing is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import OutOfBoundsError
from torpor.pipeline import pieces, planning

NUMBERS = np.random.default_rng(41)
# Even, as signs take turns; so many that nothing is the same in all terms by chance.
COUNTS = 3 * (20, 26, 22, 30, 18, 24, 28)
W = NUMBERS.normal(size=(3, 4))
TABLE = NUMBERS.normal(size=(30, 4))


def of_memory(w, n):
    """Vectors of their own, and a number for each."""
    rows, numbers = NUMBERS.normal(size=(n, 3)), NUMBERS.normal(size=n)
    found = sum(((Tensor(row) @ w).tanh() * float(c)).sum() for row, c in zip(rows, numbers))
    each = np.tanh(rows @ W) * numbers[:, None]
    slope = (rows[:, :, None] * ((1 - np.tanh(rows @ W) ** 2) * numbers[:, None])[:, None]).sum(0)
    return found, each.sum(), slope


def of_boxes(w, n):
    """Rows of a table in any order, and one place of each product; some are subtracted."""
    table = Tensor(TABLE)
    rows, places = NUMBERS.permutation(30)[:n], NUMBERS.integers(0, 3, n)
    found, wanted, slope = Tensor(1.0).double(), 1.0, np.zeros_like(W)
    for number, (row, place) in enumerate(zip(rows.tolist(), places.tolist())):
        sign = -1 if number % 2 else 1
        product = (w @ table[row])[place] ** 2
        found = found - product if sign < 0 else found + product
        wanted += sign * (W @ TABLE[row])[place] ** 2
        slope[place] += sign * 2 * (W @ TABLE[row])[place] * TABLE[row]
    return found, wanted, slope


def of_shared(w, n):
    """What all terms share, what two of them share by chance, and one that is like no other."""
    norm = (w * w).sum().sqrt()
    rows = [Tensor(row) for row in NUMBERS.normal(size=(n - 1, 3))]
    rows.append(rows[0])
    found = sum((w.sum(1) * row).sum() / norm for row in rows) + w.exp().sum()
    total = sum(row.numpy() for row in rows)
    length, each = np.sqrt((W * W).sum()), (W.sum(1) * total).sum()
    slope = total[:, None] / length - each * W / length**3 + np.exp(W)
    return found, each / length + np.exp(W).sum(), slope


def of_choices(w, n):
    """One of four elements for each term: what tells which is made of a constant alone."""
    rows, chosen = NUMBERS.normal(size=(n, 3)), NUMBERS.integers(0, 4, n).tolist()
    found = sum((Tensor(row) @ w)[Tensor(one)] for row, one in zip(rows, chosen))
    value, slope = 0.0, np.zeros_like(W)
    for row, one in zip(rows, chosen):
        value += (row @ W)[one]
        slope[:, one] += row
    return found, value, slope


def of_a_stack(w, n):
    """Values laid end to end, and what comes of all of them."""
    rows, numbers = NUMBERS.normal(size=(n, 3)), NUMBERS.normal(size=n)
    parts = Tensor.stack([(Tensor(row) @ w).tanh() for row in rows], dim=1)
    each = np.tanh(rows @ W)
    slope = (rows[:, :, None] * ((1 - each**2) * numbers[:, None])[:, None]).sum(0)
    return (parts * Tensor(numbers)).sum(), (each * numbers[:, None]).sum(), slope


@pytest.mark.parametrize("terms", [of_memory, of_boxes, of_shared, of_choices, of_a_stack])
def test_sums_and_gradients_compile_nothing_from_some_passes_on(
    terms, compiled, monkeypatch
) -> None:
    """Where two of a few numbers are the same by chance, that is another piece."""
    monkeypatch.setattr(pieces, "_fresh", {})  # each has its lines for itself
    for number, n in enumerate(COUNTS):
        if number == 14:
            compiled.clear()
        w = Tensor(W).requires_grad_()
        found, value, slope = terms(w, n)
        found.backward()
        Tensor.realize(found, w.grad)
        assert found.item() == pytest.approx(value)
        np.testing.assert_allclose(w.grad.numpy(), slope, rtol=1e-10, atol=1e-12)
    assert compiled == [] or terms in (of_boxes, of_choices)


def test_losses_of_a_list_and_an_optimiser(compiled) -> None:
    torpor.manual_seed(5)
    model = nn.Linear(3, 2)
    optimiser = nn.optim.SGD(model.parameters(), lr=0.1)
    w, b = (one.detach().numpy().astype("d") for one in (model.weight, model.bias))
    for number, n in enumerate(COUNTS):
        if number == 14:
            compiled.clear()
        batches = NUMBERS.normal(size=(n, 6, 3)).astype("f")
        losses = [(model(Tensor(batch)) ** 2).mean() for batch in batches]
        optimiser.zero_grad()
        (sum(losses) / n).backward()
        optimiser.step()
        out = batches @ w.T + b
        w -= 0.1 * 2 * np.einsum("nbo,nbi->oi", out, batches) / out.size
        b -= 0.1 * 2 * out.sum((0, 1)) / out.size
        np.testing.assert_allclose(model.weight.detach().numpy(), w, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(model.bias.detach().numpy(), b, rtol=1e-4, atol=1e-6)
    assert compiled == []


def test_terms_that_are_not_alike_stay_apart() -> None:
    for n in (5, 7, 6):
        rows = [NUMBERS.normal(size=k + 2) for k in range(n)]
        found = sum((Tensor(row) ** 2).sum() for row in rows)
        assert found.item() == pytest.approx(sum((row**2).sum() for row in rows))


def test_integers_wrap_and_equal_terms_count_each_time() -> None:
    for n in (5, 8, 6):
        x = [Tensor(np.array([100 + k, 3], np.int8)) for k in range(n)]
        found = x[0] + x[0]
        for one in x:
            found = found + one * one
        rows = np.array([[100 + k, 3] for k in range(n)], np.int8)
        assert found.tolist() == (rows[0] * 2 + (rows * rows).sum(0, dtype=np.int8)).tolist()


def test_a_check_that_fails_in_one_of_the_terms_names_it() -> None:
    table = Tensor(TABLE)
    for n in (5, 8, 6):
        places = [Tensor([k]) for k in range(n)]
        assert sum(table[one].sum() for one in places).item() == pytest.approx(TABLE[:n].sum())
    places[3] = Tensor([77])
    with pytest.raises(OutOfBoundsError, match="77"):
        sum(table[one].sum() for one in places).item()


def test_the_second_sum_of_many_like_terms_is_none_that_is_planned_as_a_whole(monkeypatch):
    sizes = []
    plan = planning.planned

    def counted(roots, target_of):
        sizes.append(len({node for root, _ in roots for node in root.toposort()}))
        return plan(roots, target_of)

    monkeypatch.setattr(planning, "planned", counted)
    w = Tensor(W).requires_grad_()
    rows = NUMBERS.normal(size=(90, 3))
    for n in (80, 71, 90, 64):
        w.grad = None
        (sum(((Tensor(row) @ w).tanh() ** 2).mean() for row in rows[:n]) / n).backward()
        each = np.tanh(rows[:n] @ W)
        slope = rows[:n].T @ (each * (1 - each**2)) * 2 / 4 / n
        np.testing.assert_allclose(w.grad.numpy(), slope, rtol=1e-9)
    assert sum(size > 300 for size in sizes) <= 1
