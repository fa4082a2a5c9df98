"""Hooks of leaves: they stay where an optimiser writes to the leaf, plain and jitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import torpor
from torpor import Tensor

START = np.array([1.0, -2.0, 3.0], np.float32)
ROWS = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def by_hand(weights: np.ndarray, row: np.ndarray, change: Callable[[np.ndarray], np.ndarray]):
    """A step of descent for (w · x)² / 2, in float64."""
    return weights - 0.1 * change(row.astype(np.float64) * (weights @ row))


def step_of(weights: Tensor) -> Callable[[Tensor], Tensor]:
    optimiser = torpor.optim.SGD([weights], lr=0.1)

    def step(row: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = (weights @ row).square() / 2
        loss.backward()
        optimiser.step()
        return loss

    return step


@pytest.mark.parametrize("jitted", [False, True])
def test_a_hook_of_a_parameter_is_called_in_each_step(jitted: bool) -> None:
    weights = Tensor(START, requires_grad=True)
    weights.register_hook(lambda gradient: gradient.clamp(-0.05, 0.05))
    step = step_of(weights)
    step, wanted = torpor.jit(step) if jitted else step, START.astype(np.float64)
    for row in ROWS:
        step(Tensor(row))
        wanted = by_hand(wanted, row, lambda gradient: gradient.clip(-0.05, 0.05))
        np.testing.assert_allclose(weights.numpy(), wanted, rtol=1e-5)


WAYS = {
    "before anybody has it": lambda leaf: leaf.register_hook(lambda gradient: gradient * 3),
    "after it was added": lambda leaf: leaf.register_post_accumulate_grad_hook(
        lambda leaf: leaf.grad.mul_(3)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("jitted", [False, True])
def test_hooks_come_and_go_between_steps(jitted: bool, way: str) -> None:
    weights = Tensor(START, requires_grad=True)
    step = step_of(weights)
    step, wanted = torpor.jit(step) if jitted else step, START.astype(np.float64)
    factor, hook = 1.0, None
    for number, row in enumerate(np.concatenate([ROWS] * 3)):
        if number == 7:
            hook, factor = WAYS[way](weights), 3.0
        if number == 15:
            hook.remove()
            factor = 1.0
        step(Tensor(row))
        wanted = by_hand(wanted, row, partial(np.multiply, factor))
        np.testing.assert_allclose(weights.numpy(), wanted, rtol=1e-4)


def test_the_hook_of_a_leaf_that_was_written_to_between_uses_gets_the_sum() -> None:
    seen = []
    leaf = Tensor([1.0, 2.0], requires_grad=True)
    leaf.register_hook(lambda gradient: seen.append(gradient.tolist()))
    before = (leaf * 3).sum()
    with torpor.no_grad():
        leaf.mul_(2)
    (before + (leaf * 5).sum()).backward()
    assert seen == [[8.0, 8.0]]
    assert leaf.grad.tolist() == [8.0, 8.0]


def test_hooks_of_a_leaf_are_called_in_order_for_gradients_of_every_kind() -> None:
    leaf = Tensor([1.0, 2.0], requires_grad=True)
    leaf.register_hook(lambda gradient: gradient + 1)
    leaf.register_hook(lambda gradient: gradient * 10)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [30.0, 30.0]
    assert (leaf * 2).sum().gradient(leaf)[0].tolist() == [30.0, 30.0]
    assert torpor.autograd.grad((leaf * 2).sum(), leaf)[0].tolist() == [30.0, 30.0]
