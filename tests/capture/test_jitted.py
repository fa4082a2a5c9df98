"""The jit means what the plain function means, whatever changes between the calls."""

from __future__ import annotations

import threading
from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.errors import CaptureError, DivisionByZeroError, GradientError, OutOfBoundsError


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_results_follow_the_arguments() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.write(".")
        return (x * y + 1).sum()

    for i in range(5):
        x, y = np.arange(6, dtype=np.float32) + i, np.linspace(-1, 1, 6, dtype=np.float32) * i
        assert f(Tensor(x), Tensor(y)).item() == pytest.approx((x * y + 1).sum(), abs=1e-4)
    assert len(calls.getvalue()) == 1


def test_lazy_arguments_and_results_of_the_last_call() -> None:
    f = torpor.jit(step_of_two)
    x = numbers(1, 2)
    for i in range(1, 6):
        x = f(x * 1)
        np.testing.assert_array_equal(x.numpy(), [1 + 2 * i, 2 + 2 * i])


def step_of_two(x: Tensor) -> Tensor:
    return x + 2


def test_marks_that_a_function_leaves_in_a_list_count_its_traces() -> None:
    traces: list[int] = []

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        traces.append(1)
        return x + 1

    assert [f(Tensor([float(i)])).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert len(traces) == 1


def test_results_of_earlier_calls_stay() -> None:
    f = torpor.jit(step_of_two)
    results = [f(numbers(i, i + 1)) for i in range(6)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), [i + 2, i + 3])


def test_shapes_and_dtypes_are_other_calls() -> None:
    f = torpor.jit(step_of_two)
    for _ in range(2):
        for array in (np.ones((2, 3), np.float32), np.ones(4, np.float32), np.ones(4, np.int32)):
            result = f(Tensor(array))
            assert result.shape == array.shape
            assert result.numpy().dtype == array.dtype
            assert (result.numpy() == 3).all()


def test_numbers_and_strings_are_guarded() -> None:
    @torpor.jit
    def f(x: Tensor, factor: Any, mode: str = "mul") -> Tensor:
        return x * factor if mode == "mul" else x + factor

    x = numbers(1, 2)
    for factor in (2, 3.0, 2, -0.0, 0.0):
        np.testing.assert_array_equal(f(x, factor).numpy(), x.numpy() * factor)
        assert np.signbit(f(x, factor).numpy()[0]) == np.signbit(np.float32(factor))
        np.testing.assert_array_equal(f(x, factor, mode="add").numpy(), x.numpy() + factor)


# --- shapes of functions --------------------------------------------------------------------------
def test_no_arguments() -> None:
    state = numbers(1)

    @torpor.jit
    def f() -> Tensor:
        state.mul_(2)
        return state + 0

    assert [f().item() for _ in range(5)] == [2, 4, 8, 16, 32]


def test_nested_jits() -> None:
    inner_calls = StringIO()

    @torpor.jit
    def inner(x: Tensor) -> Tensor:
        inner_calls.write(".")
        return x * 2

    @torpor.jit
    def outer(x: Tensor) -> Tensor:
        return inner(x) + inner(x + 1)

    assert [outer(numbers(i)).item() for i in range(4)] == [2, 6, 10, 14]
    assert len(inner_calls.getvalue()) == 2
    assert inner(numbers(3)).item() == 6


def test_recursion_and_generators() -> None:
    @torpor.jit
    def f(x: Tensor, depth: int) -> Tensor:
        return x if depth == 0 else f(x * 2, depth - 1) + sum(x * i for i in range(depth))

    def plain(x: float, depth: int) -> float:
        return x if depth == 0 else plain(x * 2, depth - 1) + sum(x * i for i in range(depth))

    for i in range(3):
        assert f(numbers(i), 3).item() == plain(i, 3)


def test_methods() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = numbers(0)

        @torpor.jit
        def add(self, x: Tensor) -> Tensor:
            self.total.add_(x)
            return self.total * 2

    first, second = Counter(), Counter()
    assert [first.add(numbers(i)).item() for i in range(4)] == [0, 2, 6, 12]
    assert [second.add(numbers(1)).item() for _ in range(3)] == [2, 4, 6]
    assert first.total.item() == 6


def test_names_are_kept() -> None:
    f = torpor.jit(step_of_two)
    assert f.__name__ == "step_of_two"
    assert torpor.TinyJit is torpor.jit


def test_an_exception_in_the_function() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        if x.shape[0] > 2:
            raise KeyError("too long")
        return x + 1

    for _ in range(2):
        with pytest.raises(KeyError, match="too long"):
            f(numbers(1, 2, 3))
        assert f(numbers(1)).item() == 2


def test_reading_a_value_inside_gives_the_right_branch() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * 2 if x.sum().item() > 0 else x * 3

    assert [f(numbers(v)).item() for v in (1, -1, 2, -2)] == [2, -3, 4, -6]
    assert "reads the value" in torpor.explain(f)


def test_errors_of_kernels_leave_state_unchanged() -> None:
    state = numbers(0)
    data = Tensor([10, 20, 30])

    @torpor.jit
    def f(index: Tensor, divisor: Tensor) -> Tensor:
        state.add_(1)
        return data[index] // divisor

    one = Tensor([1])
    assert [f(Tensor([i]), one).item() for i in range(3)] == [10, 20, 30]
    with pytest.raises(OutOfBoundsError):
        f(Tensor([3]), one)
    with pytest.raises(DivisionByZeroError):
        f(Tensor([1]), Tensor([0]))
    assert state.item() == 3
    assert f(Tensor([2]), one).item() == 30
    assert state.item() == 4


# --- random numbers -------------------------------------------------------------------------------
def test_random_numbers_are_those_of_the_plain_function() -> None:
    def f(x: Tensor) -> Tensor:
        return x + Tensor.rand(4) * Tensor.randn(4)

    def run(function: Any) -> list[Any]:
        torpor.manual_seed(7)
        found = [function(numbers(1, 2, 3, 4)).numpy() for _ in range(4)]
        return [*found, Tensor.rand(2).numpy()]

    jitted = torpor.jit(f)
    plain = run(f)
    for _ in range(2):
        for got, expected in zip(run(jitted), plain, strict=True):
            np.testing.assert_array_equal(got, expected)
    assert not np.array_equal(plain[0], plain[1])


def test_a_generator_and_a_seed_inside() -> None:
    generator = torpor.Generator(3)

    @torpor.jit
    def f() -> Tensor:
        return Tensor.rand(3, generator=generator)

    @torpor.jit
    def seeded() -> Tensor:
        torpor.manual_seed(5)
        return Tensor.rand(3)

    found = [f().numpy() for _ in range(4)]
    other = torpor.Generator(3)
    for got in found:
        np.testing.assert_array_equal(got, Tensor.rand(3, generator=other).numpy())
    torpor.manual_seed(5)
    first, second = Tensor.rand(3).numpy(), Tensor.rand(3).numpy()
    for _ in range(3):
        np.testing.assert_array_equal(seeded().numpy(), first)
        np.testing.assert_array_equal(Tensor.rand(3).numpy(), second)


# --- gradients ------------------------------------------------------------------------------------
def test_gradients_accumulate_as_they_would() -> None:
    weight = numbers(2).requires_grad_()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        loss = (x * weight * weight).sum()
        loss.backward()
        return loss

    total = 0.0
    for i in range(1, 6):
        assert f(numbers(i)).item() == 4 * i
        total += 4 * i
        assert weight.grad is not None
        assert weight.grad.item() == total
    weight.grad = None
    f(numbers(1))
    assert weight.grad is not None
    assert weight.grad.item() == 4


def test_gradients_for_arguments() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return (x * x).sum()

    for i in range(3):
        x = numbers(i).requires_grad_()
        f(x).backward()
        assert x.grad is not None
        assert x.grad.item() == 2 * i


def test_no_gradient_is_lost_silently() -> None:
    weight = numbers(2).requires_grad_()
    f = torpor.jit(lambda x: (x * weight).sum())
    for _ in range(2):
        loss = f(numbers(3))
        assert loss.requires_grad
        with pytest.raises(GradientError, match="jit"):
            (loss + weight.sum()).backward()


def test_grad_inside_a_jit() -> None:
    f = torpor.jit(torpor.grad(lambda x: (x**3).sum()))
    for i in range(1, 4):
        assert f(numbers(i)).item() == pytest.approx(3 * i * i)


# --- strictness and reports -----------------------------------------------------------------------
def test_strict_refuses_what_cannot_be_guarded() -> None:
    import random

    things = iter([1.0, 2.0, 3.0])

    def clock(x: Tensor) -> Tensor:
        return x * random.random()

    def iterator(x: Tensor) -> Tensor:
        return x * next(things)

    def reading(x: Tensor) -> Tensor:
        return x * x.sum().item()

    for function in (clock, iterator, reading):
        with Context(JIT="strict"), pytest.raises(CaptureError):
            torpor.jit(function)(numbers(1))
    with Context(JIT="strict"):
        f = torpor.jit(step_of_two)
        assert [f(numbers(1)).item() for _ in range(3)] == [3, 3, 3]


def test_jit_0_runs_the_function() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        calls.write(".")
        return x + 1

    with Context(JIT="0"):
        assert [f(numbers(1)).item() for _ in range(3)] == [2, 2, 2]
    assert len(calls.getvalue()) == 3


def test_explain_tells_what_is_baked_in() -> None:
    import time

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + time.time()

    f(numbers(1))
    assert "time.time" in torpor.explain(f)


def test_many_kinds_of_calls_are_bounded() -> None:
    f = torpor.jit(lambda x, n: x + len(n))
    for i in range(40):
        assert f(numbers(1), "a" * i).item() == 1 + i
    assert torpor.explain(f).count("trace ") <= 16


def test_threads_do_not_share_intermediates() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return ((x + 1).contiguous() * 2).contiguous().sum()

    f(Tensor.zeros(1000))
    wrong: list[float] = []

    def work(start: int) -> None:
        for i in range(start, start + 20):
            got = f(Tensor.full((1000,), float(i))).item()
            if got != 2000.0 * (i + 1):
                wrong.append(got)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_that_is_called_in_another_way_each_time_is_left_alone() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, n: str) -> Tensor:
        calls.write(".")
        return x + len(n)

    for i in range(70):
        assert f(numbers(1), "a" * i).item() == 1 + i
    assert "another way" in torpor.explain(f)
    for _ in range(2):
        assert f(numbers(1), "a" * 63).item() == 64
    assert len(calls.getvalue()) == 70


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(CaptureError, match="jit takes a function"):
        torpor.jit(numbers(1))  # type: ignore[arg-type]
