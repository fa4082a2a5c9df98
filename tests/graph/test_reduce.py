"""Builders of reductions, gathers and markers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate, tensor
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops

NUMPY = {Ops.ADD: np.sum, Ops.MUL: np.prod, Ops.MAX: np.max, Ops.MIN: np.min}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=4), st.sampled_from(list(NUMPY)), st.booleans(), st.data()
)
def test_reduce(shape, op, keepdims, data):
    x = np.random.default_rng(0).integers(-3, 4, size=shape)
    rank = len(shape)
    axes = data.draw(st.none() | st.sets(st.sampled_from(range(rank)) if rank else st.nothing()))
    given_axes = axes if axes is None else tuple(axis - rank for axis in axes)
    try:
        expected = NUMPY[op](x, axis=None if axes is None else tuple(axes), keepdims=keepdims)
    except ValueError:  # max or min of nothing
        with pytest.raises(ShapeError, match=r"(max|min) of int64 .* expected an element"):
            build.reduce(tensor(x), op, given_axes, keepdims)
        return
    made = build.reduce(tensor(x), op, given_axes, keepdims)
    assert shape_of(made) == np.shape(expected)
    np.testing.assert_array_equal(evaluate(made), expected)


def test_axes_of_size_one_are_not_reduced():
    x = tensor(np.ones((2, 1, 3)))
    assert build.reduce(x, Ops.MAX, (1,), keepdims=True) is x
    assert build.reduce(x, Ops.ADD, (0, 1), keepdims=True).arg == (Ops.ADD, (0,))
    assert build.reduce(x, Ops.ADD, ()) is x


def test_reduce_refuses():
    x = tensor(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"sum of float64 \(2, 3\): .*from -2 to 1, got 2"):
        build.reduce(x, Ops.ADD, 2)
    with pytest.raises(ShapeError, match="an axis is named twice"):
        build.reduce(x, Ops.ADD, (1, -1))
    with pytest.raises(DTypeError, match="no reduction"):
        build.reduce(x, Ops.SUB, 0)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_gather(shape):
    x, index = np.arange(5.0) * 2, np.full(shape, 3)
    made = build.gather(tensor(x), tensor(index))
    assert shape_of(made) == shape
    np.testing.assert_array_equal(evaluate(made), x[index])


def test_gather_refuses():
    x, index = tensor(np.ones(3)), tensor(np.zeros(2, np.int32))
    with pytest.raises(DTypeError, match=r"expected an int64 index, got int32 \(2,\)"):
        build.gather(x, index)
    with pytest.raises(ShapeError, match=r"gather of float64 \(1, 3\): expected a tensor of one"):
        build.gather(build.reshape(x, (1, 3)), index)


def test_markers():
    x = tensor(np.ones(3))
    assert build.leaf(x) is not build.leaf(x)
    assert build.contiguous(build.contiguous(x)) is build.contiguous(x)
    assert build.detach(build.detach(x)) is build.detach(x)
    there = build.copy_to(x, "CPU:1")
    assert build.copy_to(there, "CPU:1") is there
    assert build.copy_to(there, "CPU").src == (there,)
    for node in (build.leaf(x), build.contiguous(x), build.detach(x), there):
        assert shape_of(node) == (3,)
        assert node.dtype is x.dtype
