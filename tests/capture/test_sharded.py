"""Tensors over several devices under the jit."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor

DEVICES = ("CPU", "CPU:1")
X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_results_follow_the_arguments(axis: int | None) -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, y: Tensor, n: float) -> Any:
        calls.write(".")
        return (x * n + y).sum(0), {"product": x @ y.T, "same": x, "part": (x + 1)[1:]}

    for i in range(4):
        x, y = Tensor(X + i).shard(DEVICES, axis), Tensor(X - i).shard(DEVICES)
        total, rest = f(x, y, i + 0.5)
        assert total.device == rest["product"].device == DEVICES
        np.testing.assert_allclose(total.numpy(), ((X + i) * (i + 0.5) + X - i).sum(0))
        np.testing.assert_allclose(rest["product"].numpy(), (X + i) @ (X - i).T)
        assert rest["same"] is x
        np.testing.assert_array_equal(rest["part"].numpy(), (X + i + 1)[1:])
    assert len(calls.getvalue()) == 1


def test_the_cut_axis_is_part_of_the_kind() -> None:
    f = torpor.jit(lambda x, y: x @ y)
    for _ in range(2):
        for first in (0, 1, None):
            for second in (0, 1, None):
                got = f(Tensor(X).shard(DEVICES, first), Tensor(X.T).shard(DEVICES, second))
                np.testing.assert_allclose(got.numpy(), X @ X.T)
        np.testing.assert_allclose(f(Tensor(X), Tensor(X.T)).numpy(), X @ X.T)
        lazy = Tensor(X).shard(DEVICES, 0) * 2
        np.testing.assert_allclose(f(lazy, Tensor(X.T).shard(DEVICES)).numpy(), 2 * X @ X.T)
    assert "the cut axis of x" in torpor.explain(f)


def test_state_over_devices() -> None:
    total = Tensor(X * 0).shard(DEVICES, 0)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        total.add_(x)
        return total.sum()

    for i in range(1, 5):
        assert f(Tensor(X).shard(DEVICES, 0)).item() == 28 * i
        np.testing.assert_array_equal(total.numpy(), X * i)
    total.assign(Tensor(X).shard(DEVICES, 1))
    for i in range(2, 5):
        assert f(Tensor(X).shard(DEVICES, 0)).item() == 28 * i
        np.testing.assert_array_equal(total.numpy(), X * i)


def test_a_training_step_over_devices() -> None:
    weight = Tensor(np.ones((2, 3), np.float32)).shard(DEVICES).requires_grad_()

    @torpor.jit
    def step(x: Tensor, rate: float) -> Tensor:
        weight.grad = None
        loss = (x @ weight).relu().square().sum()
        loss.backward()
        assert weight.grad is not None
        with torpor.no_grad():
            weight.sub_(weight.grad * rate)
        return loss

    known = np.ones((2, 3), np.float32)
    for i in range(5):
        rate, x = 1e-3 * (i + 1), X / 4 + i
        loss = step(Tensor(x).shard(DEVICES, 0), rate)
        hidden = np.maximum(x @ known, 0)
        assert loss.item() == pytest.approx((hidden**2).sum(), rel=1e-5)
        known = known - rate * x.T @ (2 * hidden)
        np.testing.assert_allclose(weight.numpy(), known, rtol=1e-4, atol=1e-5)
    # The first run of all, and the first with a gradient there, are traced.
    assert "replayed 3 times" in torpor.explain(step)
