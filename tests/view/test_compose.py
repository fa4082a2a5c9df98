"""Minimality, decided by brute force over every view of a small shape."""

import itertools

import numpy as np
import pytest

from tests.view.oracle import fits_one_view, offsets
from torpor.view import ShapeTracker, View


def every_view(shape, size):
    """What every view of `shape` over memory of `size` shows, as bytes (every box and stride)."""
    boxes = [[(low, high) for low in range(s + 1) for high in range(low + 1, s + 1)] for s in shape]
    places = np.indices(shape)
    seen = {np.full(shape, -1).tobytes()}
    for box in itertools.product(*boxes):
        inside = np.zeros(shape, bool)
        inside[tuple(slice(*limits) for limits in box)] = True
        for strides in itertools.product(range(-size + 1, size), repeat=len(shape)):
            walk = sum(s * p for s, p in zip(strides, places, strict=True))
            low, high = walk[inside].min(), walk[inside].max()
            for offset in range(-low, size - high):
                seen.add(np.where(inside, walk + offset, -1).tobytes())
    return seen


def moves(shape):
    """Every small movement of a shape of two axes with six elements at most."""
    yield lambda t: t.permute((1, 0)) if isinstance(t, ShapeTracker) else t.transpose(1, 0)
    for axis in range(2):
        yield lambda t, a=axis: t.flip((a,)) if isinstance(t, ShapeTracker) else np.flip(t, (a,))
    for new in [(2, 3), (3, 2), (1, 6), (6, 1), (2, 2), (1, 4), (4, 1), (1, 2), (2, 1), (1, 3)]:
        if new[0] * new[1] == shape[0] * shape[1]:
            yield lambda t, new=new: t.reshape(new)
    for axis, (before, after) in itertools.product(range(2), [(1, 0), (0, 1)]):
        pairs = tuple((before, after) if a == axis else (0, 0) for a in range(2))
        grown = [s + b + a for s, (b, a) in zip(shape, pairs, strict=True)]
        if grown[0] * grown[1] <= 6:
            yield (
                lambda t, p=pairs: (
                    t.pad(p) if isinstance(t, ShapeTracker) else np.pad(t, p, constant_values=-1)
                )
            )
        if shape[axis] > 1:
            cut = tuple((before, s - after) if a == axis else (0, s) for a, s in enumerate(shape))
            yield (
                lambda t, c=cut: (
                    t.shrink(c)
                    if isinstance(t, ShapeTracker)
                    else t[tuple(slice(low, high) for low, high in c)]
                )
            )


@pytest.mark.parametrize("start", [(2, 2), (3, 2)])
def test_no_chain_of_small_movements_takes_a_view_too_many(start):
    size = start[0] * start[1]
    said: dict = {}
    array = np.arange(size).reshape(start)
    known = {(array.shape, array.tobytes()): (ShapeTracker.from_shape(start), array)}
    frontier = list(known.values())
    for _ in range(4):
        reached = []
        for tracker, array in frontier:
            for move in moves(array.shape):
                new, expected = move(tracker), np.ascontiguousarray(move(array))
                key = (expected.shape, expected.tobytes())
                if key in known:  # other ways to the same walk are no longer
                    assert len(new.views) == 1 or len(known[key][0].views) > 1
                    continue
                known[key] = (new, expected)
                reached.append(known[key])
        frontier = reached
    assert {len(tracker.views) for tracker, _ in known.values()} >= {1, 2}
    for tracker, array in known.values():
        if array.shape not in said:
            said[array.shape] = every_view(array.shape, size)
        one = array.tobytes() in said[array.shape]
        assert one == fits_one_view(array)
        assert (len(tracker.views) == 1) == one
        np.testing.assert_array_equal(offsets(tracker), array)


def test_a_run_inside_a_chain_is_found_without_its_ends():
    turn = View.create((3, 2)).permute((1, 0))
    chain = ShapeTracker((turn, View.create((3, 2)), View.create((3, 2)), turn))
    assert len(chain.simplify().views) == 2
