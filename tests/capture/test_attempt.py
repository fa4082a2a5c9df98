"""First calls whose results are written over what was before: traced, undone, and replayed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torpor import Tensor, jit, manual_seed, no_grad, rand
from torpor.base.errors import OutOfBoundsError
from torpor.capture import successor

SIZE = 4096


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes values of any size worth writing over; skips what needs to know who holds things."""
    if not successor.COUNTS:
        pytest.skip("this Python does not count every holder")
    if successor.others_run():
        pytest.skip("something else has left a thread running")
    monkeypatch.setattr(successor, "LEAST", 1)


def weights(seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).random((64, 64), dtype=np.float32)).realize()


STEPS = """
import numpy as np
from torpor import Tensor, jit, nn
from torpor.device.memory import host

sizes, most, allocate, free = {}, 0, host.allocate, host.free

def allocated(nbytes, spec):
    global most
    block = allocate(nbytes, spec)
    sizes[block.address] = nbytes
    most = max(most, sum(sizes.values()))
    return block

def freed(block):
    sizes.pop(block.address, 0)
    free(block)

model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)])
for parameter in model.parameters():
    parameter.realize()
optimiser = nn.optim.AdamW(model.parameters(), lr=1e-3)
x = Tensor(np.random.default_rng(0).random((4, 512), dtype=np.float32)).realize()

@jit
def step(x):
    optimiser.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimiser.step()
    return loss

host.allocate, host.free = allocated, freed
for _ in range(4):
    step(x).item()
print(most / sum(4 * parameter.numel() for parameter in model.parameters()))
"""


def test_no_call_of_a_step_has_parameters_twice() -> None:
    """Two moments and gradients beside the parameters, and what is on the way; nothing more. In a
    process of its own, where nobody else holds memory.
    """
    shown = subprocess.run(
        [sys.executable, "-c", STEPS], capture_output=True, text=True, check=True
    )
    assert float(shown.stdout) < 3.2


def graph(weight: Tensor) -> Callable[[], Any]:
    held = weight + 0.0
    return lambda: held.numpy()


def view(weight: Tensor) -> Callable[[], Any]:
    held = weight.numpy(copy=False)
    return lambda: held


def shared_array(weight: Tensor) -> Callable[[], Any]:
    held = np.from_dlpack(weight)
    return lambda: held


@pytest.mark.parametrize("hold", [graph, view, shared_array])
def test_what_somebody_holds_is_kept(hold: Callable[[Tensor], Callable[[], Any]]) -> None:
    weight = weights()
    before, held = weight.numpy(copy=True), hold(weight)

    @jit
    def step() -> Tensor:
        with no_grad():
            weight.sub_(1)
        return weight.sum()

    step()
    np.testing.assert_array_equal(weight.numpy(), before - 1)
    np.testing.assert_array_equal(held(), before)


def test_a_first_call_that_fails_has_changed_nothing() -> None:
    weight = weights()
    seen: list[Any] = []
    before = weight.numpy(copy=True)

    @jit
    def step(index: Tensor) -> Tensor:
        seen.append(index)
        weight.assign(weight * 2)
        return weight.reshape(-1)[index]

    with pytest.raises(OutOfBoundsError, match="out of bounds"):
        step(Tensor(np.array([1, SIZE])))
    assert seen == []
    np.testing.assert_array_equal(weight.numpy(), before)
    good = Tensor(np.array([1, 2]))
    for number in range(1, 4):
        wanted = before.reshape(-1)[1:3] * 2**number
        np.testing.assert_array_equal(step(good).numpy(), wanted)
        assert len(seen) == number


class Program:
    """A step that changes a parameter, gradients, names, a list, a dict and a random stream."""

    def __init__(self) -> None:
        self.weight, self.steps = weights().requires_grad_(True), 0
        self.seen: list[Tensor] = []
        self.last: Tensor | None = None

    def step(self, x: Tensor, options: dict[str, Any], by: float) -> dict[str, Any]:
        self.weight.grad = None
        loss = ((self.weight * x * by).square() * rand(64, 64)).sum()
        loss.backward()
        with no_grad():
            self.weight.sub_(self.weight.grad * 0.1)
        self.seen.append(loss.detach())
        self.last = options["loss"] = loss.detach()
        return {"loss": loss.detach(), "more": [by * 2, x]}

    def run(self, wrap: Callable[[Any], Any]) -> list[Any]:
        """What there is after each of two steps."""
        manual_seed(5)
        step, x, found = wrap(self.step), weights(3), []
        for number in range(2):
            options: dict[str, Any] = {}
            made = step(x, options, 0.5)
            assert made["more"][1] is x and len(self.seen) == number + 1
            found += [self.weight.numpy(copy=True), self.weight.grad.numpy(copy=True), rand(3)]
            found += [self.seen[-1], self.last, options["loss"], made["loss"], made["more"][0]]
        return [one.numpy() if isinstance(one, Tensor) else one for one in found]


def test_a_first_call_leaves_behind_what_the_function_does() -> None:
    plain, jitted = Program().run(lambda step: step), Program().run(jit)
    for got, wanted in zip(jitted, plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_what_a_function_reads_and_changes_is_changed_by_a_first_call() -> None:
    """A replay puts nothing where it has a guard."""
    total, table = weights(), {"a": 1}
    before = total.numpy(copy=True)

    @jit
    def step(x: Tensor) -> Tensor:
        total.add_(x)
        table["a"] += 1
        return total.sum()

    for number in range(1, 4):
        step(weights())
        assert table["a"] == 1 + number
        np.testing.assert_allclose(total.numpy(), before * (1 + number), rtol=1e-6)


def test_a_leaf_that_a_first_call_makes_has_its_gradient() -> None:
    @jit
    def squared(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (x * x).sum().backward()
        return x

    for number in range(3):
        leaf = squared(weights(number))
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), 2 * leaf.detach().numpy(), rtol=1e-6)
