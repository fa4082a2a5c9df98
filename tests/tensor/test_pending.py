"""What waits to be computed is taken along by what is computed next: no graph grows for ever."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from torpor import Tensor, nn, no_grad
from torpor.base.errors import OutOfBoundsError
from torpor.device import Buffer

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.standard_normal((50, 3))
TARGETS = INPUTS @ np.array([1.0, -2.0, 0.5])


def nodes_of(tensor: Tensor) -> int:
    return len(tensor._current().toposort())


def descend(steps: int, look: bool, kept: list[Tensor] | None = None) -> Tensor:
    """Gradient descent written by hand."""
    x, y = Tensor(INPUTS), Tensor(TARGETS)
    w = Tensor(np.zeros(3)).requires_grad_()
    largest = 0
    for _ in range(steps):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        if kept is not None:
            kept.append(loss.detach())
        if look:
            loss.item()
        largest = max(largest, nodes_of(w))
    assert largest < 2000
    return w


def expected(steps: int) -> tuple[np.ndarray, list[float]]:
    w, losses = np.zeros(3), []
    for _ in range(steps):
        away = INPUTS @ w - TARGETS
        losses.append(float((away**2).mean()))
        w = w - 0.1 * 2 * INPUTS.T @ away / len(away)
    return w, losses


@pytest.mark.parametrize("look", [True, False])
def test_descent_by_hand_does_not_grow(look: bool) -> None:
    w = descend(60, look)
    np.testing.assert_allclose(w.detach().numpy(), expected(60)[0], rtol=1e-10)


def test_losses_in_a_list_are_computed_with_the_steps() -> None:
    losses: list[Tensor] = []
    descend(40, look=False, kept=losses)
    assert sum(bool(loss.schedule()) for loss in losses) <= 20  # the last ones wait
    np.testing.assert_allclose([loss.item() for loss in losses], expected(40)[1], rtol=1e-10)


def test_a_value_that_is_written_to_is_computed_along() -> None:
    total = Tensor(np.zeros(2)).realize()
    for n in range(3):
        total += n
    (Tensor(np.ones(2)) * 2).realize()
    assert not total.schedule()
    assert total.tolist() == [3.0, 3.0]


def test_reading_elements_of_a_value_computes_it_once() -> None:
    table = Tensor(np.zeros(4)).realize()
    table += 1
    assert table[2].item() == 1.0
    assert not table.schedule()


def test_what_fails_is_left_for_whoever_asks_for_it() -> None:
    wrong = Tensor([1.0, 2.0]).realize()
    wrong += Tensor([5.0, 6.0])[Tensor([0, 7])]
    assert (Tensor([1.0]) + 1).item() == 2.0
    assert (Tensor([1.0]) + 2).item() == 3.0
    with pytest.raises(OutOfBoundsError):
        wrong.numpy()


def test_what_nobody_holds_is_not_computed() -> None:
    gone = Tensor([1.0]).realize()
    gone += Tensor([5.0])[Tensor([7])]  # would fail
    del gone
    gc.collect()
    assert (Tensor([1.0]) + 1).item() == 2.0


def test_one_that_fails_keeps_no_other_from_being_computed() -> None:
    bad, good = Tensor(np.zeros(1)).realize(), Tensor(np.ones(2)).realize()
    bad += Tensor(np.ones(3))[Tensor([9])]
    for step in range(30):
        bad += 1
        good *= 0.5
        assert (Tensor(np.ones(2)) * step).sum().item() == 2 * step
        assert nodes_of(good) < 30
    assert good.tolist() == [0.5**30] * 2
    with pytest.raises(OutOfBoundsError):
        bad.numpy()


def test_writes_raise_no_error_of_others() -> None:
    quotient = Tensor([0, 0]).realize()
    for _ in range(20):
        quotient += Tensor([1, 2]) // Tensor([1, 0])
    with pytest.raises(ZeroDivisionError):
        quotient.numpy()


def test_what_many_write_to_in_turn_is_computed_in_rounds() -> None:
    """Each time all of them as often, so that the same kernels compute them."""
    several = [Tensor(np.zeros(3)).realize() for _ in range(4)]
    seen = set()
    for step in range(40):
        for one in several:
            one += step
        seen.add(tuple(nodes_of(one) for one in several))
    assert len(seen) <= 8
    assert [one.tolist() for one in several] == [[780.0] * 3] * 4


def test_a_detached_loss_that_is_kept_keeps_no_weights() -> None:
    x = Tensor(np.ones((3, 317))).realize()
    w = Tensor(np.ones((317, 11)), requires_grad=True)
    optimiser = nn.optim.SGD([w], lr=1e-3)
    kept, wanted = [], []

    def step() -> None:
        optimiser.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimiser.step()
        kept.append(loss.detach())
        wanted.append(loss.item())

    def weights() -> int:
        gc.collect()
        return sum(isinstance(one, Buffer) and one.size == 317 * 11 for one in gc.get_objects())

    for _ in range(4):
        step()
    before = weights()
    for _ in range(10):
        step()
    assert weights() == before
    assert [one.item() for one in kept] == wanted
    assert wanted[-1] < wanted[0]


def test_a_write_to_a_detached_view_is_still_seen() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    doubled = w * 2
    view = doubled.detach()
    doubled.sum().item()
    with no_grad():
        view += 5
    assert doubled.tolist() == [7, 9]
    other = (w * 3).detach()
    (other + 1).sum().item()
    other += 1
    assert other.tolist() == [4, 7]
