"""Outputs that are used again: never while anybody can still see them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.capture.commit import MOST_BYTES, Shown, results_of
from torpor.pipeline.compiled_graph import Kind

SHOWN = Shown((2, 3), False)


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_a_result_that_nobody_holds_is_taken_again() -> None:
    take = results_of(Kind("CPU", 6, dtypes.float32), SHOWN)
    first = take()
    assert first.node is not None
    assert first.node.src[0].arg is first.buffer
    assert first.address == first.buffer.address
    address = first.address
    other = take()
    assert other.address != address  # the first is about to be filled
    del first
    assert take().address == address


@pytest.mark.parametrize("what", ["node", "below", "buffer", "memory", "view", "array", "graph"])
def test_a_result_that_somebody_holds_is_not(what: str) -> None:
    take = results_of(Kind("CPU", 6, dtypes.float32), Shown((2, 3), True))
    first: Any = take()
    address = first.address
    held: Any = {
        "node": first.node,
        "below": first.node.src[0],
        "buffer": first.buffer,
        "memory": first.buffer.memory,
        "view": first.buffer.view(1, 2),
        "array": first.buffer.numpy()[1:],
        "graph": first.node.src[0].src[0].cast(dtypes.int32),
    }.pop(what)
    del first
    assert take().address != address
    assert held is not None
    del held
    found = [take(), take()]
    assert address in [result.address for result in found]


def test_large_results_are_not_kept() -> None:
    take = results_of(Kind("CPU", MOST_BYTES, dtypes.float32), SHOWN)
    node = take().node
    assert take().node is not node


HOLDERS = {
    "tensor": lambda y: y,
    "view": lambda y: y[1:],
    "reshaped": lambda y: y.reshape(1, 3),
    "copy": lambda y: copy.copy(y),
    "lazy": lambda y: y + 1,
    "array": lambda y: y.numpy(copy=False),
    "memoryview": lambda y: y.data(),
    "dlpack": lambda y: np.from_dlpack(y),
    "slice of an array": lambda y: y.numpy(copy=False)[1:],
    "gradient's graph": lambda y: (y * numbers(1, 1, 1).requires_grad_(True)).sum(),
    "iterator": lambda y: list(y),
}


def shown(held: Any) -> Any:
    if isinstance(held, list):
        return [part.item() for part in held]
    return np.array(held.numpy() if isinstance(held, Tensor) else held).tolist()


@pytest.mark.parametrize("how", HOLDERS)
def test_what_was_given_does_not_change(how: str) -> None:
    f = torpor.jit(lambda x: x * 2)
    f(numbers(0, 0, 0))
    held = [HOLDERS[how](f(numbers(i, i + 1, i + 2))) for i in range(4)]
    wanted = [shown(HOLDERS[how](numbers(2 * i, 2 * i + 2, 2 * i + 4))) for i in range(4)]
    for i in range(10):
        f(numbers(-i, -i, -i))
    assert [shown(each) for each in held] == wanted


def test_results_as_arguments_and_states() -> None:
    state = numbers(1, 1)

    @torpor.jit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        state.add_(x)
        return x + 1, state * 1

    x, seen = numbers(0, 0), []
    for _ in range(8):
        x, total = f(x)
        seen.append((x, total, state.clone()))
    for i, (now, total, copied) in enumerate(seen, 1):
        assert now.tolist() == [i, i]
        assert total.tolist() == copied.tolist() == [1 + i * (i - 1) / 2] * 2


def test_a_result_that_a_finaliser_brings_back() -> None:
    kept: list[Tensor] = []

    class Holder:
        def __init__(self, value: Tensor) -> None:
            self.value = value

        def __del__(self) -> None:
            kept.append(self.value)

    f = torpor.jit(lambda x: x * 2)
    for i in range(6):
        Holder(f(numbers(i)))
    assert [x.item() for x in kept] == [2 * i for i in range(6)]
