"""Shears, windows and strides against NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from tests.graph.evaluate import evaluate, tensor
from torpor.base.errors import ShapeError
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.variable import Variable, bind

FEW = settings(max_examples=50, deadline=None)


def array(*shape):
    return np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)


def agree(node, expected):
    assert shape_of(node) == expected.shape
    np.testing.assert_array_equal(evaluate(node), expected)


@FEW
@given(
    st.integers(0, 2), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3)
)
def test_window(axis, size, stride, dilation, extra):
    shape = [2, 3, 2]
    shape[axis] = (size - 1) * dilation + 1 + extra
    x = array(*shape)
    view = sliding_window_view(x, (size - 1) * dilation + 1, axis=axis)[..., ::dilation]
    expected = np.moveaxis(np.moveaxis(view, axis, 0)[::stride], 0, axis)
    agree(build.window(tensor(x), axis, size, stride, dilation), expected)
    agree(build.window(tensor(x), axis - 3, size, stride, dilation), expected)


@FEW
@given(st.integers(0, 7), st.integers(1, 9), st.integers(0, 1))
def test_stride(length, step, axis):
    x = array(length, 2) if axis == 0 else array(2, length)
    expected = x[::step] if axis == 0 else x[:, ::step]
    agree(build.stride_axis(tensor(x), axis, step), expected)


def test_shear():
    x = array(7, 3)
    expected = np.array([[x[o * 2 + k + 1, k] for k in range(3)] for o in range(2)])
    agree(build.shear(tensor(x), 0, 1, 2, 2, 1, 1), expected)
    expected = np.array([[x[6 - o * 2 - k, k] for k in range(3)] for o in range(3)])
    agree(build.shear(tensor(x), 0, 1, 3, -2, -1, 6), expected)
    assert build.shear(tensor(x), 0, 1, 0, 5, 5, 5).op is Ops.SHEAR
    node = tensor(x)
    assert build.shear(node, 0, 1, 7, 1, 0, 0) is node


def test_windows_that_touch_are_only_reshaped():
    made = build.window(tensor(array(4, 6)), 1, 3, stride=3)
    assert all(node.op is not Ops.SHEAR for node in made.toposort())


def test_symbolic_sizes():
    n = bind(Variable("n", 3, 7), 5)
    x = array(7)
    part = build.shrink(tensor(x), ((0, n),))
    np.testing.assert_array_equal(evaluate(build.window(part, 0, 3)), sliding_window_view(x[:5], 3))
    np.testing.assert_array_equal(evaluate(build.stride_axis(part, 0, 2)), x[:5:2])
    with pytest.raises(ShapeError, match=r"takes 4 elements, got \(n=5,\)"):
        build.window(part, 0, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: build.window(x, 1, 4), r"window of int32 \(2, 3\).*takes 4 elements"),
        (lambda x: build.window(x, 1, 2, dilation=3), "takes 4 elements"),
        (lambda x: build.window(x, 1, 0), "positive size, stride and dilation, got 0, 1 and 1"),
        (lambda x: build.window(x, 2, 1), "window.*from -2 to 1, got 2"),
        (lambda x: build.stride_axis(x, 0, 0), "expected a positive step, got 0"),
        (lambda x: build.shear(x, 0, -2, 2, 1, 1, 0), "sheared by itself"),
        (lambda x: build.shear(x, 0, 1, 2, 1, 1, 0), r"within axis 0, got those from \(0, 3\)"),
        (lambda x: build.shear(x, 1, 0, 2, 1, -1, 0), r"got those from \(-1, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call(call, words):
    with pytest.raises(ShapeError, match=words):
        call(tensor(array(2, 3)))
