"""What a jitted function depends on where modules read attributes by computed names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torpor
from torpor import Tensor, nn


class Network(nn.Module):
    def __init__(self) -> None:
        self.layers = nn.Sequential(nn.Linear(3, 2), nn.LeakyReLU(0.5))
        self.remark: Any = "as it was"
        self.more: Any = None

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(x)
        return made


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """A jitted function, and a list that is as long as it was traced often."""
    traces: list[int] = []

    def traced(*arguments: Any) -> Any:
        traces.append(1)
        return function(*arguments)

    return torpor.jit(traced), traces


def test_an_attribute_that_modules_do_not_read_is_no_guard() -> None:
    network, x = Network(), Tensor([1.0, 2, 3])
    f, traces = counted(lambda x: network(x).sum())
    for name in ("remark", "new", "remark"):
        f(x)
        network.__dict__[name] = name
    assert len(traces) == 1


def test_an_argument_of_a_module_is_a_guard() -> None:
    network, x = Network(), Tensor([-1.0, -2, -3])
    network.layers[0].weight = nn.Parameter(Tensor.ones(2, 3))
    network.layers[0].bias = None
    f, _ = counted(lambda x: network(x).sum())
    assert f(x).item() == -6
    network.layers[1].negative_slope = 0.25
    assert f(x).item() == -3


def test_a_parameter_that_is_there_later_is_one_of_all() -> None:
    network = Network()
    f, traces = counted(lambda: sum((p * 0 + 1).sum() for p in network.parameters()))
    assert f().item() == f().item() == 8
    network.more = nn.Parameter(Tensor([1.0, 2]))
    assert f().item() == 10
    network.more = None
    assert f().item() == 8
