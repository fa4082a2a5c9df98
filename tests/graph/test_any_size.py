"""One template for inputs of any sizes gives the nodes that the function makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.graph.any_size import MARKS, AnySize, Unfit
from torpor.graph.build import cast, constant, elementwise, expand, pad, reduce, reshape
from torpor.graph.template import Template
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def slot(*shape):
    return UOp(Ops.SLOT, dtypes.float32, (), (f"x{shape}", shape))


def handed_on(x):
    """Numbers that are sizes, products and sums of them, and one more."""
    rows, columns = shape_of(x)
    halves = expand(reshape(constant(0.5, dtypes.float32), (1, 1)), (rows, columns))
    product = cast(elementwise(Ops.MUL, x, halves), dtypes.float64)
    flat = reshape(reduce(product, Ops.ADD, (1,)), (rows,))
    wide = expand(reshape(pad(flat, ((0, columns),)), (rows + columns, 1)), (rows + columns, 4))
    more = reduce(pad(flat, ((1, 0),)), Ops.ADD, (0,))
    summed = reduce(reshape(product, (rows * columns, 1)), Ops.ADD, (0,))
    return elementwise(Ops.ADD, elementwise(Ops.ADD, wide, more), summed)


def template_of(function, *shape):
    x = slot(*shape)
    return Template((x,), [function(x)])


def any_size(function, count=2):
    marks = [mark[:count] for mark in MARKS]
    return AnySize([template_of(function, *mark) for mark in marks], marks)


@given(st.integers(2, 300), st.integers(2, 300))
def test_the_nodes_are_those_that_the_function_makes(rows, columns):
    x = slot(rows, columns)
    made = any_size(handed_on).template((rows, columns)).made((x,), lambda _: ())
    assert made == [handed_on(x)]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pad(x, ((0, min(shape_of(x)[0], 64)),)),
        lambda x: pad(x, ((0, shape_of(x)[0] % 16),)),
        lambda x: pad(x, ((0, shape_of(x)[0].bit_length()),)),
        lambda x: elementwise(Ops.MUL, x, x) if shape_of(x)[0] > 64 else x,
        lambda x: expand(reshape(constant(1 / shape_of(x)[0], dtypes.float32), (1,)), (3,)),
    ],
)
def test_what_else_is_done_with_a_size_is_found_out(function):
    with pytest.raises(Unfit):
        any_size(function, 1)


def exponentials(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_operations_on_sizes_that_grow():
    w = np.random.default_rng(3).normal(size=(6, 4))
    weight, kept, wanted = Tensor(w).realize(), Tensor(np.ones((1, 6))), np.ones((1, 6))
    for n in range(2, 60):
        row = np.full((1, 6), n / 60)
        kept = Tensor.cat(kept, Tensor(row))
        wanted = np.concatenate([wanted, row])
        found = (kept @ weight).softmax(-1)
        assert found.shape == (n, 4)
        np.testing.assert_allclose(found.numpy(), exponentials(wanted @ w), rtol=1e-12)
