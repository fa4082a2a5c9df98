"""Movement nodes as maps of indices, against NumPy."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.infer import shape_of
from torpor.rules.movement import groups, map_indices


def leaf(shape):
    base = UOp.const(dtypes.float32, 0.0)
    ones = UOp(Ops.RESHAPE, base.dtype, (base,), (1,) * len(shape))
    return UOp(Ops.EXPAND, base.dtype, (ones,), tuple(shape))


def walked(node):
    """Positions in the operand of a movement, in the shape of its result; -1 where invalid."""
    shape, inner = shape_of(node), shape_of(node.src[0])
    ranges = tuple(UOp.range(size, axis) for axis, size in enumerate(shape))
    indices, valid = map_indices(node, ranges)
    found = np.full(shape, -1)
    for point in itertools.product(*map(range, shape)):
        env = {f"ridx{a}": i for a, i in enumerate(point)} | {"__builtins__": {}}
        if eval(valid.render(), env):
            place = tuple(eval(i.render(), env) for i in indices)
            found[point] = np.ravel_multi_index(place, inner) if inner else 0
    return found


@st.composite
def reshapes(draw):
    factors = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cuts = draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
    outer = tuple(factors)
    inner, run = [], 1
    for factor, cut in zip(factors, cuts, strict=True):
        run *= factor
        if cut:
            inner.append(run)
            run = 1
    inner.append(run)
    pair = [outer, tuple(inner)]
    if draw(st.booleans()):
        total = math.prod(outer)
        pair[1] = draw(st.sampled_from([(total,), (1, total), (total, 1)]))
    return tuple(draw(st.permutations(pair)))


@settings(max_examples=120, deadline=None)
@given(reshapes())
def test_reshape_keeps_row_major_order(shapes):
    old, new = shapes
    node = UOp(Ops.RESHAPE, dtypes.float32, (leaf(old),), new)
    np.testing.assert_array_equal(walked(node), np.arange(math.prod(old)).reshape(new))


@settings(max_examples=60, deadline=None)
@given(reshapes())
def test_groups_hold_the_same_elements(shapes):
    old, new = shapes
    for first, second in groups(old, new):
        assert math.prod(old[a] for a in first) == math.prod(new[a] for a in second)


def test_a_reshape_asks_only_the_axes_that_it_must():
    node = UOp(Ops.RESHAPE, dtypes.float32, (leaf((5, 6, 7)),), (5, 2, 3, 7))
    ranges = tuple(UOp.range(s, a) for a, s in enumerate((5, 2, 3, 7)))
    indices, _ = map_indices(node, ranges)
    assert [i.render() for i in indices] == ["ridx0", "((ridx1*3)+ridx2)", "ridx3"]


def test_each_movement_agrees_with_numpy():
    array = np.arange(24).reshape(2, 3, 4)
    base = leaf(array.shape)

    def check(op, arg, expected):
        np.testing.assert_array_equal(walked(UOp(op, base.dtype, (base,), arg)), expected)

    check(Ops.PERMUTE, (2, 0, 1), array.transpose(2, 0, 1))
    check(Ops.SHRINK, ((0, 1), (1, 3), (2, 4)), array[0:1, 1:3, 2:4])
    check(Ops.FLIP, (True, False, True), array[::-1, :, ::-1])
    padded = np.pad(array, ((1, 0), (0, 2), (1, 1)), constant_values=-1)
    check(Ops.PAD, ((1, 0), (0, 2), (1, 1)), padded)
    sheared = np.stack([[array[i, i * 1 : i * 1 + 2, 0] for i in range(2)]])
    node = UOp(Ops.SHEAR, base.dtype, (base,), (1, 0, 2, 1, 1, 0))
    np.testing.assert_array_equal(walked(node)[:, :, 0], sheared[0])
