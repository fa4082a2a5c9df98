"""Aliases, writes, and what a replay gives back."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_one_tensor_twice_is_another_call_than_two() -> None:
    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += 1
        return x * y

    for _ in range(3):
        x, y = numbers(2), numbers(3)
        assert f(x, y).item() == 9
        assert f(x, x).item() == 16
        assert (x.item(), y.item()) == (4, 3)


def test_equal_memory_in_the_trace_is_not_taken_for_granted() -> None:
    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    x = numbers(1).realize()
    assert f(x, x.clone()).item() == 2
    assert f(numbers(1), numbers(5)).item() == 6
    assert f(x, x.clone()).item() == 2


def test_constants_are_not_confused_with_arguments_of_the_same_value() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + Tensor.zeros(2)

    zeros = Tensor.zeros(2)
    assert f(zeros).tolist() == [0, 0]
    assert f(numbers(1, 2)).tolist() == [1, 2]
    assert f(numbers(1, 2)).tolist() == [1, 2]


def test_a_tensor_in_the_closure_is_an_input() -> None:
    weight = numbers(2)
    lazy = numbers(1) * 3

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * weight + lazy

    assert [f(numbers(2)).item() for _ in range(2)] == [7, 7]
    weight.assign(numbers(5))
    assert f(numbers(2)).item() == 13
    weight += 1
    lazy.zero_()
    assert f(numbers(2)).item() == 12
    weight = numbers(1)
    assert [f(numbers(2)).item() for _ in range(2)] == [2, 2]


def test_an_argument_that_is_a_closed_over_tensor_too() -> None:
    total = numbers(1)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        total.add_(1)
        return x * 10

    assert f(numbers(4)).item() == 40
    assert f(numbers(4)).item() == 40
    assert f(total).item() == 40
    assert f(total).item() == 50
    assert f(numbers(4)).item() == 40
    assert total.item() == 6


def test_writes_to_arguments_and_closed_over_tensors() -> None:
    total = numbers(0)

    @torpor.jit
    def f(x: Tensor) -> None:
        total.add_(x)
        x.zero_()

    for i in range(5):
        x = numbers(i)
        view = x.reshape(1, 1)
        f(x)
        assert (x.item(), view.item(), total.item()) == (0, 0, sum(range(i + 1)))


def test_views_as_arguments() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.write(".")
        return x.sum() + y.sum()

    data = Tensor(np.arange(12, dtype=np.float32).reshape(6, 2)).realize()
    for i in range(5):
        assert f(data[i], data[i + 1]).item() == 4 * i + 1 + 4 * (i + 1) + 1
    assert len(calls.getvalue()) == 2


def test_writes_through_a_view_that_was_passed() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        x += 1
        return x.sum()

    data = Tensor(np.zeros((3, 2), np.float32))
    for i in range(3):
        assert f(data[i]).item() == 2
    assert f(data[0]).item() == 4
    assert data.tolist() == [[2, 2], [1, 1], [1, 1]]


def test_results_that_are_arguments_and_views_of_them() -> None:
    @torpor.jit
    def f(x: Tensor) -> Any:
        return x, x[0], (x + 1)[1:], 7, {"a": [x.reshape(1, 2)]}

    for i in range(3):
        x = numbers(i, i + 1)
        same, first, rest, seven, tree = f(x)
        assert same is x
        assert seven == 7
        assert rest.tolist() == [i + 2]
        x += 10
        assert first.item() == i + 10
        assert tree["a"][0].tolist() == [[i + 10, i + 11]]


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_what_was_built_before_a_write_to_an_array_keeps_the_old_value(
    shape: tuple[int, ...],
) -> None:
    array = np.arange(6, dtype=np.float32).reshape(shape)
    before = array.copy()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        old = x * 3
        x.assign(x * 2)
        x.assign(old + x)
        return old

    assert np.array_equal(f(torpor.from_numpy(array)).numpy(), before * 3)
    assert np.array_equal(array, before * 5)
