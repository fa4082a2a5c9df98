"""Builders of movements against NumPy, and what they refuse."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate, tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind

FEW = settings(max_examples=50, deadline=None)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def array(shape):
    return np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)


def agree(node, expected):
    assert shape_of(node) == expected.shape
    np.testing.assert_array_equal(evaluate(node), expected)


@FEW
@given(shapes, st.data())
def test_reshape(shape, data):
    x = array(shape)
    new = [*data.draw(st.permutations(shape)), 1]
    agree(build.reshape(tensor(x), tuple(new)), x.reshape(new))
    place = data.draw(st.integers(0, len(new) - 1))
    if math.prod(new[:place] + new[place + 1 :]):
        missing = [*new[:place], -1, *new[place + 1 :]]
        agree(build.reshape(tensor(x), missing), x.reshape(new))


@FEW
@given(shapes, st.data())
def test_permute_and_flip(shape, data):
    x = array(shape)
    order = data.draw(st.permutations(range(len(shape))))
    agree(build.permute(tensor(x), order), x.transpose(order))
    axes = data.draw(st.sets(st.sampled_from(range(-len(shape), 0)))) if shape else ()
    agree(build.flip(tensor(x), tuple(axes)), np.flip(x, tuple(axes)))
    agree(build.flip(tensor(x), None), np.flip(x))


@FEW
@given(shapes, st.data())
def test_expand_and_broadcast(shape, data):
    ones = tuple(1 if data.draw(st.booleans()) else size for size in shape)
    front = data.draw(st.lists(st.integers(0, 3), max_size=2))
    x = array(ones)
    expected = np.broadcast_to(x, (*front, *shape))
    agree(build.expand(tensor(x), (*front, *shape)), expected)
    agree(build.broadcast_to(tensor(x), (*front, *shape)), expected)
    keep = tuple(-1 if size == one else size for size, one in zip(shape, ones))
    agree(build.expand(tensor(x), keep), np.broadcast_to(x, shape))


@FEW
@given(shapes, st.data())
def test_pad_and_shrink(shape, data):
    x = array(shape)
    amounts = st.tuples(st.integers(0, 2), st.integers(0, 2))
    pairs = tuple(data.draw(amounts) for _ in shape)
    agree(build.pad(tensor(x), pairs), np.pad(x, pairs) if shape else x)
    boxes = []
    for size in shape:
        start = data.draw(st.integers(0, size))
        boxes.append((start, data.draw(st.integers(start, size))))
    agree(build.shrink(tensor(x), boxes), x[tuple(slice(*box) for box in boxes)])


@FEW
@given(st.lists(shapes, min_size=1, max_size=3))
def test_broadcast_shapes(given_shapes):
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            build.broadcast_shapes(*given_shapes)
    else:
        assert build.broadcast_shapes(*given_shapes) == expected


def test_what_changes_nothing_gives_the_operand():
    x = tensor(array((2, 3)))
    assert build.reshape(x, (2, 3)) is x
    assert build.reshape(x, [2, -1]) is x
    assert build.permute(x, (0, -1)) is x
    assert build.expand(x, (2, -1)) is x
    assert build.broadcast_to(x, (2, 3)) is x
    assert build.pad(x, ((0, 0), (0, 0))) is x
    assert build.shrink(x, ((0, 2), (0, 3))) is x
    assert build.flip(x, ()) is x
    assert build.flip(build.reshape(x, (6, 1)), 1).op is Ops.RESHAPE


X = UOp(Ops.RESHAPE, dtypes.float32, (UOp.const(dtypes.float32, 1),), (1, 1))
X = build.expand(X, (2, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build.reshape(X, (4, 2)), r"reshape of float32 \(2, 3\) to \(4, 2\).*6.*got 8"),
        (lambda: build.reshape(X, (-1, -1)), "only one size can be -1"),
        (lambda: build.reshape(X, (-1, 4)), "do not divide"),
        (lambda: build.reshape(X, (-1, 0)), "could be any size"),
        (lambda: build.reshape(X, (-2, -3)), r"to \(-2, -3\)"),
        (lambda: build.reshape(X, (1.5, 4)), r"sizes are ints or Variables, got 1\.5"),
        (lambda: build.reshape(X, (True, 6)), "got True"),
        (lambda: build.permute(X, (0, 0)), r"permute of float32 \(2, 3\).*twice in \(0, 0\)"),
        (lambda: build.permute(X, (0,)), "each of its 2 axes once"),
        (lambda: build.permute(X, (0, 2)), "from -2 to 1, got 2"),
        (lambda: build.expand(X, (4, 3)), r"only axes of size 1 expand, got \(2,\) to \(4,\)"),
        (lambda: build.expand(X, (3,)), "at least 2 sizes"),
        (lambda: build.expand(X, (-1, 2, 3)), "new axis cannot keep"),
        (lambda: build.expand(build.reshape(X, (6, 1)), (6, -2)), r"got \(1,\) to \(-2,\)"),
        (lambda: build.pad(X, ((0, -1), (0, 0))), "no negative amounts, got"),
        (lambda: build.pad(X, ((0, 1),)), "expected 2 pairs"),
        (lambda: build.pad(X, (0, 1)), "expected 2 pairs"),
        (lambda: build.pad(X, ((0, 1.5), (0, 1))), "no pairs of sizes"),
        (lambda: build.shrink(X, ((0, 3), (0, 3))), r"stop <= 2 at axis 0, got \(0, 3\)"),
        (lambda: build.shrink(X, ((0, 2), (2, 1))), r"at axis 1, got \(2, 1\)"),
        (lambda: build.shrink(X, ((-1, 2), (0, 1))), r"at axis 0, got \(-1, 2\)"),
        (lambda: build.flip(X, (2,)), "flip.*from -2 to 1, got 2"),
        (lambda: build.flip(build.constant(1, dtypes.bool), 0), "0-d"),
        (lambda: build.flip(X, ("a",)), "an axis is an int, got 'a'"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call(call, words):
    with pytest.raises(ShapeError, match=words):
        call()


def test_symbolic_sizes():
    n = bind(Variable("n", 1, 5), 3)
    x = array((5, 4))
    part = build.shrink(tensor(x), ((0, n), (0, 4)))
    assert shape_of(part) == (n, 4)
    turned = build.reshape(part, (2, n, -1))
    assert shape_of(turned) == (2, n, 2)
    np.testing.assert_array_equal(evaluate(turned), x[:3].reshape(2, 3, 2))
    flat = build.reshape(part, (-1,))
    np.testing.assert_array_equal(evaluate(build.reshape(flat, (n, 4))), x[:3])
    tail = build.shrink(part, ((1, n), (0, 4)))
    np.testing.assert_array_equal(evaluate(tail), x[1:3])
    wide = build.expand(build.reshape(part, (1, n, 4)), (2, -1, -1))
    assert shape_of(wide) == (2, n, 4)
    with pytest.raises(ShapeError, match=r"\(n=3, 4\) to \(n=3, 3\)"):
        build.reshape(part, (n, 3))
    np.testing.assert_array_equal(evaluate(build.shrink(part, ((0, 2), (0, 4)))), x[:2])
    four = build.shrink(tensor(x[:4]), ((0, n), (0, 4)))
    np.testing.assert_array_equal(evaluate(four), x[:3])
    with pytest.raises(ShapeError, match=r"got \(0, n=3\); n=3 reaches from 1 to 5"):
        build.shrink(tensor(x[:2]), ((0, n), (0, 4)))
    with pytest.raises(ShapeError, match=r"stop <= n at axis 0, got \(0, 2\); n reaches"):
        build.shrink(build.shrink(tensor(x), ((0, n.src[0]), (0, 4))), ((0, 2), (0, 4)))
    with pytest.raises(ShapeError, match=r"got \(0, .*; .* reaches from -3 to 1$"):
        build.pad(tensor(x), ((0, 2 - n), (0, 0)))
