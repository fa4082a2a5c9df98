"""Paths of movement nodes as trackers, against `map_indices` applied node by node."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.view.oracle import moved, offsets
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.infer import shape_of
from torpor.rules.movement import map_indices
from torpor.view import ShapeTracker, View, shapetracker_of

# rank-0 constant, repeated, then doubled: an elementwise node of shape (4, 6) is the base
ONE = UOp.const(dtypes.float32, 1.0)
REPEATED = UOp(
    Ops.EXPAND, dtypes.float32, (UOp(Ops.RESHAPE, dtypes.float32, (ONE,), (1, 1)),), (4, 6)
)
BASE = REPEATED.alu(Ops.ADD, REPEATED)


def chain(*moves):
    node = BASE
    for op, arg in moves:
        node = UOp(op, node.dtype, (node,), arg)
    return node


CHAIN = chain(
    (Ops.PERMUTE, (1, 0)),
    (Ops.PAD, ((1, 1), (0, 0))),
    (Ops.FLIP, (True, False)),
    (Ops.SHRINK, ((0, 6), (1, 3))),
    (Ops.RESHAPE, (2, 3, 2)),
    (Ops.RESHAPE, (2, 3, 2, 1)),
    (Ops.EXPAND, (2, 3, 2, 3)),
)


def walked_back(node, ranges):
    """(flat position in the base, valid) of a node, one movement after the other."""
    indices, valid = tuple(ranges), UOp.const(dtypes.bool, True)
    while node is not BASE:
        indices, condition = map_indices(node, indices)
        valid, node = valid & condition, node.src[0]
    return (indices[0] * 6 + indices[1]).simplify(), valid.simplify()


def test_a_path_is_one_tracker():
    base, tracker = shapetracker_of(CHAIN)
    assert base is BASE
    shape = shape_of(CHAIN)
    assert tracker.shape == shape
    ranges = [UOp.range(size, axis) for axis, size in enumerate(shape)]
    found = [e.render() for e in tracker.to_indexed_uops(ranges)]
    expected = [e.render() for e in walked_back(CHAIN, ranges)]
    for point in itertools.product(*map(range, shape)):
        scope = {f"ridx{a}": i for a, i in enumerate(point)} | {"__builtins__": {}}
        valid = eval(expected[1], scope)
        assert bool(eval(found[1], scope)) == bool(valid)
        if valid:
            assert eval(found[0], scope) == eval(expected[0], scope)


class Path:
    """A node with the methods of a tracker, so that the oracle can move it."""

    def __init__(self, node):
        self.node = node

    def permute(self, order):
        return self.then(Ops.PERMUTE, tuple(order))

    def flip(self, axes):
        return self.then(Ops.FLIP, tuple(a in axes for a in range(len(shape_of(self.node)))))

    def shrink(self, bounds):
        return self.then(Ops.SHRINK, tuple(bounds))

    def pad(self, pairs):
        return self.then(Ops.PAD, tuple(pairs))

    def expand(self, shape):
        return self.then(Ops.EXPAND, tuple(shape))

    def reshape(self, shape):
        return self.then(Ops.RESHAPE, tuple(shape))

    def shear(self, *argument):
        return self.then(Ops.SHEAR, argument)

    def then(self, op, arg):
        return Path(UOp(op, self.node.dtype, (self.node,), arg))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_maps_and_trackers_of_random_paths_walk_as_numpy_does(data):
    path, array = Path(BASE), np.arange(24).reshape(4, 6)
    for _ in range(data.draw(st.integers(1, 6))):
        path, array = data.draw(moved(path, array, 96))
    np.testing.assert_array_equal(offsets(shapetracker_of(path.node)[1]), array)
    ranges = [UOp.range(size, axis) for axis, size in enumerate(array.shape)]
    position, valid = (compile(e.render(), "", "eval") for e in walked_back(path.node, ranges))
    for point in np.ndindex(*array.shape):
        scope = {f"ridx{a}": i for a, i in enumerate(point)} | {"__builtins__": {}}
        assert (eval(position, scope) if eval(valid, scope) else -1) == array[point]


def test_no_movement_is_row_major():
    assert shapetracker_of(BASE) == (BASE, ShapeTracker.from_shape((4, 6)))


def test_a_window_is_one_view():
    window = chain(
        (Ops.RESHAPE, (4, 6, 1)), (Ops.EXPAND, (4, 6, 3)), (Ops.SHEAR, (1, 2, 4, 1, 1, 0))
    )
    assert shapetracker_of(window)[1].views == (View.create((4, 4, 3), (6, 1, 1)),)
