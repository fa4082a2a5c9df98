"""A jitted training step leaves the same weights behind as the plain one."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.standard_normal((6, 8, 4)).astype(np.float32)
TARGETS = RANDOM.standard_normal((6, 8, 1)).astype(np.float32)


class Net(nn.Module):
    """Two layers, dropout between them."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        if self.training:
            hidden = hidden * (Tensor.rand(8) > 0.25)
        return self.second(hidden)


def train(make: Callable[..., Any], wrap: Callable[..., Any]) -> list[Any]:
    """Weights and losses after some steps; a jitted step may be traced twice."""
    torpor.manual_seed(1)
    net = Net()
    optimiser = make(net.parameters())
    calls = StringIO()

    def step(x: Tensor, y: Tensor) -> Tensor:
        calls.write(".")
        optimiser.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss

    run = wrap(step)
    losses = []
    for x, y in zip(INPUTS, TARGETS, strict=True):
        losses.append(run(Tensor(x), Tensor(y)).numpy())
    net.eval()
    losses.append(net(Tensor(INPUTS[0])).numpy())
    if run is not step:
        assert len(calls.getvalue()) <= 2, torpor.explain(run)
    return [p.numpy() for p in net.parameters()] + losses


def momentum(parameters: Any) -> Any:
    return nn.optim.SGD(parameters, lr=0.05, momentum=0.9)


@pytest.mark.parametrize("make", [momentum, nn.optim.Adam])
def test_training_gives_the_same_weights(make: Callable[..., Any]) -> None:
    plain = train(make, lambda step: step)
    jitted = train(make, torpor.jit)
    for got, expected in zip(jitted, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_train_and_eval_are_told_apart() -> None:
    torpor.manual_seed(2)
    net = Net()
    f = torpor.jit(net)
    x = Tensor(INPUTS[0])
    net.eval()
    expected = net(x).numpy()
    for _ in range(2):
        np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5)
    net.train()
    first, second = f(x).numpy(), f(x).numpy()
    assert not np.array_equal(first, second)
    net.eval()
    np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5)


def test_a_learning_rate_that_changes() -> None:
    torpor.manual_seed(3)
    weight = Tensor(np.ones(2, np.float32)).requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=1.0)

    @torpor.jit
    def step() -> None:
        optimiser.zero_grad()
        weight.sum().backward()
        optimiser.step()

    expected = 1.0
    for rate in (1.0, 0.5, 0.25, 0.25):
        optimiser.lr = rate
        step()
        expected -= rate
        assert weight.tolist() == [expected, expected]
