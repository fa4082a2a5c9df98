"""Tensors as text: numbers, computed then; shape and format inside a jit."""

import numpy as np
import pytest

import torpor
from torpor import Tensor


@pytest.fixture(autouse=True)
def _as_at_first():
    yield
    torpor.set_printoptions(profile="default")


def test_text_shows_the_numbers_of_what_was_not_computed():
    x = Tensor([1.0, 2.5]) + 1
    assert repr(x) == str(x) == f"{x}" == "tensor([2. , 3.5])"
    assert not x.schedule()
    assert repr(Tensor([[1, 2], [3, 4]])[1:] * 2) == "tensor([[6, 8]])"
    assert repr(Tensor(3.5) * 2) == "tensor(7.)"
    assert repr(Tensor([True]) & False) == "tensor([False])"
    assert repr(Tensor([1j]) * 2) == "tensor([0.+2.j])"


def test_formats_devices_and_gradients_are_named():
    assert repr(Tensor([1.0], requires_grad=True) * 2) == "tensor([2.], requires_grad=True)"
    assert repr(Tensor(np.ones(1)) + 1) == "tensor([2.], dtype=float64)"
    assert repr(Tensor([1.0], dtype="bfloat16") + 1) == "tensor([2.], dtype=bfloat16)"
    assert repr(Tensor([1.0], device="PYTHON") + 1) == "tensor([2.], device='PYTHON')"


def test_formats_are_those_of_the_number():
    third = Tensor(1.0) / 3
    assert f"{third:.2f} {third:8.3e} {Tensor(7) + 1:04d} {third > 0}" == "0.33 3.333e-01 0008 True"
    assert f"{Tensor([1.5]):>20}" == "       tensor([1.5])"
    with pytest.raises(TypeError, match=r"'\.2f' is for one number.*\(2,\)"):
        f"{Tensor([1.0, 2.0]):.2f}"


def test_inside_a_jit_shape_and_format_are_shown():
    seen = []

    @torpor.jit
    def step(x):
        seen.append(f"{x * 2} {(x * 2)!r} {(x * 2).sum()}")
        return x + 1

    step(Tensor([1.0, 2.0]))
    step(Tensor([3.0, 4.0]))
    whole = "<Tensor (2,) float32 on CPU>"
    assert seen[0] == f"{whole} {whole} <Tensor () float32 on CPU>"


def test_sizes_without_a_value_are_shown_as_shapes():
    rows = torpor.Variable("rows", 1, 4)
    assert repr(Tensor.ones(4)[:rows] + 1) == "<Tensor (rows,) float32 on CPU>"
    assert repr(Tensor.ones(4)[: rows.bind(2)] + 1) == "tensor([2., 2.])"


def test_errors_of_values_come_with_the_text():
    with pytest.raises(ZeroDivisionError):
        repr(Tensor([1]) // Tensor([0]))


def test_options_of_text():
    x = Tensor([1.23456, 1e-5])
    torpor.set_printoptions(precision=2, sci_mode=False)
    assert repr(x) == "tensor([1.23, 0.  ])"
    torpor.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e+00, 1.00e-05])"
    torpor.set_printoptions(profile="default")
    torpor.set_printoptions(threshold=4, edgeitems=1)
    assert repr(Tensor.arange(9)) == "tensor([0, ..., 8])"
    torpor.set_printoptions(profile="full")
    assert "..." not in repr(Tensor.arange(2000))
    with pytest.raises(ValueError, match="short or full"):
        torpor.set_printoptions(profile="long")


def test_what_has_no_elements_shows_its_shape_as_numpy_does():
    assert str(Tensor.zeros(0)) == "tensor([])"
    assert str(Tensor.zeros(0, 3)) == "tensor([], shape=(0, 3))"
    assert repr(Tensor.zeros(2, 0, dtype="int32")) == "tensor([], shape=(2, 0), dtype=int32)"
