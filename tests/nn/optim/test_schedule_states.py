"""States of schedules, saved by either library, are gone on from by the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torpor

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


class Warm:
    """A function with a state of its own."""

    def __init__(self) -> None:
        self.slowest = 1.0

    def __call__(self, step: int) -> float:
        self.slowest = min(self.slowest, 1 / (1 + step))
        return self.slowest


def schedules(library: Any, rule: Any) -> dict[str, Any]:
    made = library.optim.lr_scheduler
    return {
        "StepLR": lambda: made.StepLR(rule, 3, 0.5),
        "MultiStepLR": lambda: made.MultiStepLR(rule, [2, 5, 5, 7], 0.3),
        "ConstantLR": lambda: made.ConstantLR(rule, 0.5, 4),
        "LinearLR": lambda: made.LinearLR(rule, 0.2, 1.0, 6),
        "ExponentialLR": lambda: made.ExponentialLR(rule, 0.9),
        "PolynomialLR": lambda: made.PolynomialLR(rule, 8, 2.0),
        "CosineAnnealingLR": lambda: made.CosineAnnealingLR(rule, 7, 0.001),
        "CyclicLR": lambda: made.CyclicLR(rule, 0.01, 0.2, 3, cycle_momentum=False),
        "OneCycleLR": lambda: made.OneCycleLR(rule, 0.3, total_steps=14),
        "LambdaLR": lambda: made.LambdaLR(rule, lambda step: 0.95**step),
        "LambdaLR of an object": lambda: made.LambdaLR(rule, Warm()),
        "MultiplicativeLR": lambda: made.MultiplicativeLR(rule, lambda step: 0.9),
        "SequentialLR": lambda: made.SequentialLR(
            rule, [made.LinearLR(rule, 0.1, 1.0, 3), made.CosineAnnealingLR(rule, 8)], [3]
        ),
        "ChainedScheduler": lambda: made.ChainedScheduler(
            [made.ConstantLR(rule, 0.1, 2), made.ExponentialLR(rule, 0.9)]
        ),
    }


def begun(library: Any, name: str) -> tuple[Any, Any]:
    parameter = library.nn.Parameter(library.ones(2))
    rule = library.optim.SGD([parameter], lr=0.1, momentum=0.9)
    return rule, schedules(library, rule)[name]()


def rates(rule: Any, schedule: Any, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        rule.step()
        schedule.step()
        found.append(float(rule.param_groups[0]["lr"]))
    return found


@pytest.mark.parametrize("name", schedules(torch, None))
@pytest.mark.parametrize("libraries", [(torch, torpor), (torpor, torch)])
def test_schedules_go_on_from_states_of_either(name: str, libraries: tuple[Any, Any]) -> None:
    one, other = (begun(library, name) for library in libraries)
    rates(*one, 4)
    state, groups = one[1].state_dict(), one[0].state_dict()["param_groups"]
    other[1].load_state_dict(state)
    own = other[0].state_dict()["param_groups"]
    both = [{**mine, **theirs} for mine, theirs in zip(own, groups)]
    other[0].load_state_dict({"state": {}, "param_groups": both})
    np.testing.assert_allclose(rates(*other, 5), rates(*one, 5), rtol=1e-6)
