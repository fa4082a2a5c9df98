"""How many steps a loop has is a number that its kernels are given: programs over sequences of ever
other lengths compile their kernels twice.
"""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor, nn

NUMBERS = np.random.default_rng(23)
LENGTHS = (9, 12, 7, 16, 2, 11)


def by_numpy(rows, w, reverse):
    """The outputs, and the gradients of sum(outputs**2) + sum(end) for rows and w."""
    order = range(len(rows))[::-1] if reverse else range(len(rows))
    before, h = {}, np.zeros_like(rows[0])
    outputs, slopes, of_w = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(w)
    for step in order:
        before[step], h = h, np.tanh(rows[step] + h @ w)
        outputs[step] = h
    back = np.ones_like(h)
    for step in reversed(order):
        back = (back + 2 * outputs[step]) * (1 - outputs[step] ** 2)
        slopes[step] = back
        of_w += before[step].T @ back
        back = back @ w.T
    return outputs, h, slopes, of_w


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("watched", [False, True])
def test_loops_of_other_lengths_and_their_gradients(reverse, watched, compiled) -> None:
    size = 5 + reverse + 2 * watched  # a size of kernel that no other test has
    w = NUMBERS.normal(size=(size, size)) / 3
    for number, length in enumerate(LENGTHS):
        if number == 2:
            compiled.clear()
        given = NUMBERS.normal(size=(length, 3, size))
        rows, weight = Tensor(given).requires_grad_(), Tensor(w).requires_grad_()

        def step(h, row, weight=weight):
            after = (row + h @ weight).tanh()
            return after, after

        with Context(DEBUG=2 if watched else 0):
            end, outputs = torpor.scan(step, rows[0] * 0, rows, reverse=reverse)
            ((outputs * outputs).sum() + end.sum()).backward()
            Tensor.realize(outputs, end, rows.grad, weight.grad)
        found = outputs, end, rows.grad, weight.grad
        for one, wanted in zip(found, by_numpy(given, w, reverse), strict=True):
            np.testing.assert_allclose(one.detach().numpy(), wanted, rtol=1e-10, atol=1e-12)
    assert watched or compiled == []  # who watches has every graph planned


def test_carries_that_change_places() -> None:
    for length in (5, 6, 7, 8, 3):
        rows = np.arange(length)
        step = lambda c, row: ((c[1], c[0] * 2 + row, c[2] + 1), c[0])  # noqa: E731
        start = Tensor(1), Tensor(0), Tensor(4)
        (a, b, c), steps = torpor.scan(step, start, Tensor(rows))
        before, now, seen = 1, 0, []
        for row in rows:
            seen.append(before)
            before, now = now, before * 2 + row
        assert [a.item(), b.item(), c.item()] == [before, now, 4 + length]
        assert steps.tolist() == seen


def test_both_directions_of_one_step() -> None:
    """One body, whose rows are read from both ends."""
    for length in (5, 6, 7, 4):
        rows = NUMBERS.normal(size=(length, 2))
        ways = [
            torpor.scan(lambda c, row: (c + row, c * row), Tensor(np.zeros(2)), Tensor(rows),
                        reverse=reverse)
            for reverse in (False, True)
        ]  # fmt: skip
        Tensor.realize(*(one for way in ways for one in way))
        for (end, steps), given in zip(ways, (rows, rows[::-1]), strict=True):
            sums = np.cumsum(given, 0)
            wanted = (sums - given) * given
            np.testing.assert_allclose(end.numpy(), sums[-1], rtol=1e-12)
            wanted = wanted if given is rows else wanted[::-1]
            np.testing.assert_allclose(steps.numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_lengths_that_are_one_less_than_another_size() -> None:
    """As of sequences without their first element; a loop of no step is none."""
    for length in (6, 7, 8, 5, 2, 1):
        rows = NUMBERS.normal(size=(length,))
        x = Tensor(rows)
        total = x[0] if length == 1 else torpor.scan(lambda c, y: (c * y, c), x[0], x[1:])[0]
        assert (total + x.sum()).item() == pytest.approx(rows.prod() + rows.sum())


@pytest.mark.parametrize("reverse", [False, True])
def test_as_many_steps_as_a_variable_says(reverse) -> None:
    w = NUMBERS.normal(size=(4, 4)) / 3
    for size in (1, 4, 7, 10):
        steps = torpor.Variable("n", 1, 10).bind(size)
        given = NUMBERS.normal(size=(10, 3, 4))
        rows, weight = Tensor(given).requires_grad_(), Tensor(w).requires_grad_()

        def step(h, row, weight=weight):
            after = (row + h @ weight).tanh()
            return after, after

        end, outputs = torpor.scan(step, Tensor(np.zeros((3, 4))), rows[:steps], reverse=reverse)
        ((outputs * outputs).sum() + end.sum()).backward()
        wanted = by_numpy(given[:size], w, reverse)
        found = outputs.sum(), end, rows.grad[:size], weight.grad
        for one, other in zip(found, (wanted[0].sum(), *wanted[1:]), strict=True):
            np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-10, atol=1e-12)


def test_what_of_steps_has_to_be_known() -> None:
    n, x = torpor.Variable("n", 1, 10).bind(3), Tensor(np.arange(10.0))
    with pytest.raises(ValueError, match="how long xs is has to be known"):
        torpor.scan(lambda c, y: (c, y), 0, x[: n // 2])
    with pytest.raises(ValueError, match=r"scan: xs\[1\] has 10 steps, not"):
        torpor.scan(lambda c, y: (c, None), 0, (x[:n], x))
    with pytest.raises(ValueError, match="how many steps it has has to be known"):
        torpor.scan(lambda c, y: (c, y + Tensor.rand()), 0, x[:n])
    with pytest.raises(ValueError, match="where another size is a variable"):
        torpor.scan(lambda c, y: (c, y[0]), x[:n], x[:n])


def losses(kind, width, batches, jitted=False):
    """The losses of a training, as it goes on."""
    torpor.manual_seed(3)
    layers, head = kind(4, width, batch_first=True), nn.Linear(width, 2)
    optimiser = nn.optim.Adam([*layers.parameters(), *head.parameters()], lr=0.01)

    def step(x):
        optimiser.zero_grad()
        loss = (head(layers(x)[0]) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss

    call = torpor.jit(step) if jitted else step
    for batch in batches:
        yield call(Tensor(batch)).item()


@pytest.mark.parametrize(("kind", "jitted"), [(nn.RNN, False), (nn.GRU, False), (nn.LSTM, True)])
def test_training_on_sequences_of_other_lengths(kind, jitted, compiled) -> None:
    lengths = (*LENGTHS, 10, 13)
    batches = (NUMBERS.normal(size=(3, length, 4)).astype("f") for length in lengths)
    for number, loss in enumerate(losses(kind, 7, batches, jitted)):
        assert np.isfinite(loss)
        if number == (3 if jitted else 1):
            compiled.clear()
    assert compiled == []


def test_training_is_that_of_kernels_for_each_length() -> None:
    batches = [NUMBERS.normal(size=(3, length, 4)).astype("f") for length in (5, 6, 8, 4)]
    found = list(losses(nn.LSTM, 5, batches))
    assert pinned_losses(nn.LSTM, 5, batches) == pytest.approx(found, rel=1e-5)


def pinned_losses(kind, width, batches):
    """The same, each step under settings of its own, so that it is like no other one."""
    steps = losses(kind, width, batches)
    found = []
    for number in range(len(batches)):
        with Context(CACHE_MB=1000 + number):
            found.append(next(steps))
    return found


def test_sizes_of_large_tensors_vary_up_to_the_next_power_of_two(compiled) -> None:
    for number, length in enumerate((33, 40, 36, 63, 50)):
        if number == 2:
            compiled.clear()
        given = NUMBERS.random((length, 500, 70), np.float32)  # more than a million elements
        found = (Tensor(given).sqrt() * 3).mean().item()
        assert found == pytest.approx(3 * np.sqrt(given, dtype="d").mean(), rel=1e-6)
    assert compiled == []


@pytest.mark.parametrize("axis", [None, 1, (1, 2)])
def test_long_sums_beside_sizes_that_vary_keep_their_last_digits(axis, compiled) -> None:
    for number, length in enumerate((9, 12, 7, 16, 14)):
        if number == 2:
            compiled.clear()
        given = NUMBERS.random((length, 300, 901), np.float32)
        found = (Tensor(given) + 1).sum(axis).numpy()
        np.testing.assert_allclose(found, (given + 1.0).sum(axis, np.float64), rtol=1e-6)
    assert compiled == []
