"""What a function reads besides its arguments may change between calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.capture.guards import same_array

SCALE = 2.0
TABLE: dict[str, float] = {"scale": 2.0}


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


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


def test_arrays_are_compared_to_the_bit() -> None:
    long = np.arange(5000.0)
    for at in (0, 1023, 1024, 4999):
        other = long.copy()
        other[at] = -1
        assert not same_array(other, long)
    assert same_array(long[::-1], long[::-1].copy())
    assert same_array(np.array([np.nan]), np.array([np.nan]))
    assert not same_array(np.array([0.0]), np.array([-0.0]))
    assert not same_array(np.zeros((2, 3)), np.zeros((3, 2)))
    assert same_array(np.zeros((0, 3)), np.zeros((0, 3)))
    assert same_array(np.array(2.0), np.array(2.0))
