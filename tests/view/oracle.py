"""An oracle for views: the same movements on NumPy arrays of element numbers, -1 where a pad is."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from torpor.view import ShapeTracker, View


def value(expr, env):
    return eval(expr.render(), {"__builtins__": {}}, env)


def offsets(tracked):
    """Memory positions in the shape of a view or tracker, -1 where invalid, by its expressions."""
    position, valid = tracked.to_indexed_uops()
    found = np.full(tracked.shape, -1, np.int64)
    for point in itertools.product(*(range(s) for s in tracked.shape)):
        env = {f"ridx{axis}": i for axis, i in enumerate(point)}
        if value(valid, env):
            found[point] = value(position, env)
    return found


def factorings(count, draw):
    """A shape of up to four axes with `count` elements."""
    shape = []
    rest = count
    for _ in range(draw(st.integers(0, 3))):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0] if rest else [0, 1, 2]
        chosen = draw(st.sampled_from(divisors))
        shape.append(chosen)
        rest = rest // chosen if chosen else 0
    shape.append(rest)
    if math.prod(shape) != count:
        return (count,)
    return tuple(draw(st.permutations(shape)))


def shear_array(array, axis, by, length, stride, step, offset):
    found = np.empty([length if a == axis else s for a, s in enumerate(array.shape)], np.int64)
    for point in np.ndindex(*found.shape):
        source = list(point)
        source[axis] = point[axis] * stride + point[by] * step + offset
        found[point] = array[tuple(source)]
    return found


@st.composite
def movements(draw, steps=8, most=96):
    """(tracker, array) after a random chain of movements."""
    shape = tuple(draw(st.lists(st.sampled_from([2, 3, 4, 1, 2, 3, 4, 0]), min_size=0, max_size=3)))
    tracker = ShapeTracker.from_shape(shape)
    array = np.arange(math.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, steps))):
        tracker, array = draw(moved(tracker, array, most))
    return tracker, array


@st.composite
def moved(draw, tracker, array, most):
    """One more movement of both."""
    kind = draw(st.sampled_from(["permute", "flip", "shrink", "pad", "reshape", "expand", "shear"]))
    rank = array.ndim
    if kind == "permute":
        order = tuple(draw(st.permutations(range(rank))))
        return tracker.permute(order), array.transpose(order)
    if kind == "flip":
        axes = tuple(a for a in range(rank) if draw(st.booleans()))
        return tracker.flip(axes), np.flip(array, axes)
    if kind == "shrink" and rank:
        bounds = []
        for size in array.shape:
            start = draw(st.integers(0, max(size - 1, 0)))
            bounds.append((start, draw(st.integers(min(start + 1, size), size))))
        return tracker.shrink(bounds), array[tuple(slice(a, b) for a, b in bounds)]
    if kind == "pad" and rank and array.size <= most // 4:
        pairs = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
        padded = np.pad(array, pairs, constant_values=-1)
        if padded.size <= most:
            return tracker.pad(pairs), padded
    if kind == "expand" and rank and array.size:
        shape = [draw(st.integers(1, 3)) if s == 1 else s for s in array.shape]
        if math.prod(shape) <= most:
            return tracker.expand(shape), np.broadcast_to(array, shape)
    if kind == "shear" and rank >= 2 and array.size:
        axis, by = draw(st.permutations(range(rank)))[:2]
        stride, step = draw(st.integers(1, 2)), draw(st.sampled_from([-1, 1]))
        reach = (array.shape[by] - 1) * step
        offset = max(0, -reach)
        length = (array.shape[axis] - 1 - offset - max(0, reach)) // stride + 1
        if length >= 1:
            arguments = (axis, by, length, stride, step, offset)
            return tracker.shear(*arguments), shear_array(array, *arguments)
    shape = factorings(array.size, draw)
    return tracker.reshape(shape), array.reshape(shape)


def fits_one_view(array):
    """Whether any single view says this array of positions: by trying every box and solving."""
    valid = array >= 0
    if not valid.any():
        return array.ndim > 0  # a view without axes has no mask
    limits = [np.nonzero(valid.any(tuple(b for b in range(array.ndim) if b != a)))[0]
              for a in range(array.ndim)]  # fmt: skip
    box = tuple(slice(at.min(), at.max() + 1) for at in limits)
    inside = array[box]
    if (inside < 0).any():
        return False
    for axis in range(array.ndim):
        steps = np.diff(inside, axis=axis)
        if steps.size and (steps != steps.reshape(-1)[0]).any():
            return False
    return True


__all__ = ["ShapeTracker", "View", "fits_one_view", "moved", "movements", "offsets"]
