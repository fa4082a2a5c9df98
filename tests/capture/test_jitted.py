"""The jit means what the plain function means, whatever changes between the calls."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.errors import CaptureError, DivisionByZeroError, GradientError, OutOfBoundsError

SCALE = 2.0
TABLE: dict[str, float] = {"scale": 2.0}


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_results_follow_the_arguments() -> None:
    calls = []

    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return (x * y + 1).sum()

    for i in range(5):
        x, y = np.arange(6, dtype=np.float32) + i, np.linspace(-1, 1, 6, dtype=np.float32) * i
        assert f(Tensor(x), Tensor(y)).item() == pytest.approx((x * y + 1).sum(), abs=1e-4)
    assert len(calls) == 1


def test_lazy_arguments_and_results_of_the_last_call() -> None:
    f = torpor.jit(step_of_two)
    x = numbers(1, 2)
    for i in range(1, 6):
        x = f(x * 1)
        np.testing.assert_array_equal(x.numpy(), [1 + 2 * i, 2 + 2 * i])


def step_of_two(x: Tensor) -> Tensor:
    return x + 2


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


# --- guards ---------------------------------------------------------------------------------------
def test_a_closure_variable_is_guarded() -> None:
    factor = 2.0

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * factor

    assert [f(numbers(3)).item() for _ in range(3)] == [6, 6, 6]
    factor = 5.0
    assert [f(numbers(3)).item() for _ in range(3)] == [15, 15, 15]
    assert "factor" in torpor.explain(f)


def test_a_global_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return inner(x)

    def inner(x: Tensor) -> Tensor:
        return x * SCALE + TABLE["scale"]

    assert [f(numbers(3)).item() for _ in range(3)] == [8, 8, 8]
    monkeypatch.setattr(f"{__name__}.SCALE", 4.0)
    assert [f(numbers(3)).item() for _ in range(3)] == [14, 14, 14]
    monkeypatch.setitem(TABLE, "scale", 1.0)
    assert [f(numbers(3)).item() for _ in range(3)] == [13, 13, 13]


class Layer:
    """A plain object with a tensor and a flag."""

    bias = 0.0

    def __init__(self, weight: float) -> None:
        self.weight = numbers(weight)
        self.training = True

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * (2 if self.training else 1) + self.bias


class Model:
    """Layers in a list."""

    def __init__(self, *weights: float) -> None:
        self.layers = [Layer(w) for w in weights]

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer.forward(x)
        return x


def test_attributes_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(2, 3)
    f = torpor.jit(lambda x: model(x))
    x = numbers(1)
    assert [f(x).item() for _ in range(3)] == [24, 24, 24]
    model.layers[1].training = False
    assert [f(x).item() for _ in range(3)] == [12, 12, 12]
    model.layers[1].training = True
    assert f(x).item() == 24
    model.layers.append(Layer(5))
    assert [f(x).item() for _ in range(3)] == [240, 240, 240]
    model.layers[0] = Layer(1)
    assert [f(x).item() for _ in range(3)] == [120, 120, 120]
    model.layers[0].weight = numbers(7)
    assert [f(x).item() for _ in range(3)] == [840, 840, 840]
    monkeypatch.setattr(Layer, "bias", 1.0)
    assert f(x).item() == model(x).item()
    model.layers[0].bias = 3.0
    assert f(x).item() == model(x).item()


def test_an_object_argument_is_followed() -> None:
    model = Model(2)

    @torpor.jit
    def f(model: Model, x: Tensor) -> Tensor:
        return model(x)

    assert [f(model, numbers(1)).item() for _ in range(3)] == [4, 4, 4]
    model.layers[0].training = False
    assert [f(model, numbers(1)).item() for _ in range(3)] == [2, 2, 2]
    assert f(Model(5), numbers(1)).item() == 10


def test_names_that_are_computed_are_covered() -> None:
    options = SimpleNamespace(scale0=2.0, scale1=3.0)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        for i in range(2):
            x = x * getattr(options, f"scale{i}")
        return x

    assert [f(numbers(1)).item() for _ in range(2)] == [6, 6]
    options.scale1 = 5.0
    assert [f(numbers(1)).item() for _ in range(2)] == [10, 10]


def test_an_array_in_the_closure_is_guarded_by_its_elements() -> None:
    array = np.array([1, 2], np.float32)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + Tensor(array)

    assert f(numbers(0, 0)).tolist() == [1, 2]
    array[0] = 5
    assert f(numbers(0, 0)).tolist() == [5, 2]
    assert f(numbers(0, 0)).tolist() == [5, 2]


def test_settings_and_modes_are_guarded() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * (2 if Tensor.training else 3)

    assert f(numbers(1)).item() == 3
    with Tensor.train():
        assert f(numbers(1)).item() == 2
        assert f(numbers(1)).item() == 2
    assert f(numbers(1)).item() == 3


def test_a_function_that_counts_runs_as_it_is() -> None:
    state = SimpleNamespace(count=0)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        state.count += 1
        return x * state.count

    assert [f(numbers(1)).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert "count" in torpor.explain(f)


def test_what_is_only_stored_is_stored_again() -> None:
    state = SimpleNamespace(last=None, mode="")

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        state.last = x * 2
        state.mode = "on"
        return x

    for i in range(4):
        state.mode = "off"
        f(numbers(i))
        assert state.last is not None
        assert state.last.item() == 2 * i
        assert state.mode == "on"


# --- aliases and writes ---------------------------------------------------------------------------
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
    calls = []

    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return x.sum() + y.sum()

    data = Tensor(np.arange(12, dtype=np.float32).reshape(6, 2)).realize()
    for i in range(5):
        assert f(data[i], data[i + 1]).item() == 4 * i + 1 + 4 * (i + 1) + 1
    assert len(calls) == 2


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


# --- shapes of functions --------------------------------------------------------------------------
def test_no_arguments() -> None:
    state = numbers(1)

    @torpor.jit
    def f() -> Tensor:
        state.mul_(2)
        return state + 0

    assert [f().item() for _ in range(5)] == [2, 4, 8, 16, 32]


def test_nested_jits() -> None:
    inner_calls = []

    @torpor.jit
    def inner(x: Tensor) -> Tensor:
        inner_calls.append(1)
        return x * 2

    @torpor.jit
    def outer(x: Tensor) -> Tensor:
        return inner(x) + inner(x + 1)

    assert [outer(numbers(i)).item() for i in range(4)] == [2, 6, 10, 14]
    assert len(inner_calls) == 2
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
    calls = []

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        calls.append(1)
        return x + 1

    with Context(JIT="0"):
        assert [f(numbers(1)).item() for _ in range(3)] == [2, 2, 2]
    assert len(calls) == 3


def test_explain_tells_what_is_baked_in() -> None:
    import time

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + time.time()

    f(numbers(1))
    assert "time.time" in torpor.explain(f)


def test_many_kinds_of_calls_are_bounded() -> None:
    f = torpor.jit(lambda x, n: x + n)
    for i in range(40):
        assert f(numbers(1), i).item() == 1 + i
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
