"""Symbolic reshapes by matching dimensions: one view where there is one, masks included."""

import numpy as np
import pytest

from torpor.ir import Variable
from torpor.view import ShapeTracker, View

N, M = Variable("n", 1, 5), Variable("m", 2, 4)
VALUES = [(1, 2), (3, 4), (5, 3)]


def number(size, n, m):
    return (
        size if isinstance(size, int) else eval(size.render(), {"__builtins__": {}, "n": n, "m": m})
    )


def walked(view, n, m):
    """Positions where the variables have these values, -1 where invalid, by the expressions."""
    shape = [number(size, n, m) for size in view.shape]
    position, valid = (e.render() for e in view.to_indexed_uops())
    found = np.full(shape, -1)
    for point in np.ndindex(*shape):
        scope = {f"ridx{axis}": i for axis, i in enumerate(point)}
        scope |= {"__builtins__": {}, "n": n, "m": m}
        if eval(valid, scope):
            found[point] = eval(position, scope)
    return found


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        # one row of a padded matrix, flattened: its mask moves to the long axis
        (View.create((1, N)).pad(((2, 0), (0, 1))), ((N + 1) * 3,)),
        (View.create((1, N)).pad(((1, M), (2, 1))), ((N + 3) * (M + 2), 1)),
        # groups apart: a masked one, a static one, a symbolic one that only splits
        (View.create((2, 9, N * M)).pad(((0, 0), (1, 0), (0, 0))), (2, 1, 10, N, M)),
        (View.create((1, 9, N)).pad(((2, 0), (1, 0), (0, 0))), (30, N)),
        (View.create((N, 2, 4)).flip((0, 1, 2)).pad(((1, 2), (0, 0), (0, 0))), (N + 3, 8)),
        (View.create((N, M)).flip((0, 1)), (N * M,)),
        (View.create((N, 1, M)).expand((N, 6, M)), (1, N, 2, 3, M)),
        (View.create((N, 4), offset=M), (N, 2, 2)),
    ],
)
def test_what_one_view_can_say_is_found(view, shape):
    one = view.reshape(shape)
    assert one is not None
    for n, m in VALUES:
        expected = walked(view, n, m).reshape([number(size, n, m) for size in shape])
        np.testing.assert_array_equal(walked(one, n, m), expected)


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (View.create((N, M)).permute((1, 0)), (N * M,)),
        (View.create((N, M)).pad(((0, 0), (1, 0))), (N * (M + 1),)),
        (View.create((N, 4)).shrink(((0, N), (0, 3))), (N * 3,)),
    ],
)
def test_what_one_view_cannot_say_is_refused(view, shape):
    assert view.reshape(shape) is None


@pytest.mark.parametrize("rows", [N, 3])
def test_a_refused_reshape_walks_right_in_two_views(rows):
    tracker = ShapeTracker.from_shape((rows, M)).pad(((0, 0), (1, 0))).permute((1, 0))
    tracker = tracker.reshape((rows, M + 1))
    assert len(tracker.views) == 2
    for n, m in VALUES:
        first = number(rows, n, m)
        array = np.pad(np.arange(first * m).reshape(first, m), ((0, 0), (1, 0)), constant_values=-1)
        np.testing.assert_array_equal(walked(tracker, n, m), array.T.reshape(first, m + 1))
