"""Two views as one: `outer` walks through the elements of `inner`, which walks through memory.

Known sizes: by digits, whatever the size; where those carry and the elements are few, every
position is computed and one view fitted to them, so one view is found exactly if there is one.
Symbolic sizes: dimensions are matched, else the index expressions are read back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from torpor.ir.infer import Shape, Size, largest, product
from torpor.view.digits import compose_digits
from torpor.view.expression import compose_expressions
from torpor.view.merge import is_full, merge_dims, same, times
from torpor.view.view import View

COUNTED: Final = 1 << 15  # elements up to which positions are computed one by one

Positions = NDArray[np.int64]
Valid = NDArray[np.bool_]


def is_static(view: View) -> bool:
    """Whether nothing about the view is symbolic."""
    numbers: list[Any] = [*view.shape, *view.strides, view.offset]
    numbers += [n for limits in view.limits for n in limits]
    return all(isinstance(n, int) for n in numbers)


def can_count(views: list[View]) -> bool:
    """Whether every position of the chain can be computed one by one."""
    if not all(map(is_static, views)):
        return False
    return largest(product(views[-1].shape)) <= COUNTED


def positions(view: View, flat: Positions, valid: Valid) -> tuple[Positions, Valid]:
    """Memory positions of the elements numbered `flat` of a static view, and which are valid."""
    found = np.full(flat.shape, view.offset, np.int64)
    rest = np.where(valid, flat, 0)
    for size, stride, (low, high) in reversed(
        list(zip(view.shape, view.strides, view.limits, strict=True))
    ):
        index = rest % size
        rest = rest // size
        found += index * stride
        valid = valid & (index >= low) & (index < high)
    return found, valid


def compose(inner: View, outer: View) -> View | None:
    """The one view that walks as `outer` of `inner` does; None if there is none (or none found)."""
    if outer.contiguous and outer.shape == inner.shape:
        return inner
    if inner.contiguous and (outer.mask is None or inner.mask is None):
        return outer
    if is_static(inner) and is_static(outer):
        return compose_digits(inner, outer) or compose_chain([inner, outer])
    matched = match_dimensions(inner, outer.shape) if outer.contiguous else None
    return matched or compose_expressions([inner, outer])


def compose_chain(views: list[View]) -> View | None:
    """The one view equal to a chain, if there is one; None too where it is too large to tell."""
    if can_count(views):
        return fit(views)
    return None if all(map(is_static, views)) else compose_expressions(views)


def fit(views: list[View]) -> View | None:
    """The one view equal to a chain of static views, if there is one."""
    shape = tuple(map(largest, views[-1].shape))
    count = largest(product(shape))
    if count == 0:
        return View.create(shape)
    flat: Positions = np.arange(count, dtype=np.int64)
    valid: Valid = np.ones(count, np.bool_)
    for view in reversed(views):
        flat, valid = positions(view, flat, valid)
    flat, valid = flat.reshape(shape), valid.reshape(shape)
    if not valid.any():
        # a view without axes has no mask that says so
        return View.create(shape, mask=((0, 0),) * len(shape)) if shape else None
    limits = [
        (int(along.min()), int(along.max()) + 1)
        for along in (
            np.nonzero(valid.any(other_axes(axis, len(shape))))[0] for axis in range(len(shape))
        )
    ]
    box = tuple(slice(low, high) for low, high in limits)
    if not valid[box].all():
        return None
    inside = flat[box]
    origin = int(inside.reshape(-1)[0])
    strides = []
    expected: Positions = np.full(inside.shape, origin, np.int64)
    for axis, (low, high) in enumerate(limits):
        first = tuple(1 if a == axis else 0 for a in range(len(shape)))
        step = int(inside[first]) - origin if high - low > 1 else 0
        strides.append(step)
        along = np.arange(high - low).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        expected = expected + along * step
    if not np.array_equal(expected, inside):
        return None
    offset = origin - sum(low * step for (low, _), step in zip(limits, strides, strict=True))
    return View.create(shape, strides, offset, tuple(limits))


def other_axes(axis: int, count: int) -> tuple[int, ...]:
    return tuple(a for a in range(count) if a != axis)


def match_dimensions(inner: View, shape: Shape) -> View | None:
    """The reshape of `inner` by matching merged dimensions from the last to the first."""
    if inner.mask is not None:
        return match_masked(inner, shape)
    strides: list[Size] = []
    wanted = list(reversed(shape))
    for size, stride, _ in reversed(merge_dims(inner.shape, inner.strides)):
        covered: Size = 1
        step = stride
        while not same(covered, size):
            if not wanted:
                return None
            here = wanted.pop(0)
            covered = times(covered, here)
            if isinstance(covered, int) and isinstance(size, int) and covered > size:
                return None
            strides.append(step)
            step = times(step, here)
    if any(not same(size, 1) for size in wanted):
        return None
    strides.extend([0] * len(wanted))
    return View.create(shape, tuple(reversed(strides)), inner.offset)


def match_masked(inner: View, shape: Shape) -> View | None:
    """The reshape of a masked view where only axes of size 1 come or go."""
    old = [axis for axis, size in enumerate(inner.shape) if not same(size, 1)]
    new = [axis for axis, size in enumerate(shape) if not same(size, 1)]
    if len(old) != len(new) or not all(
        same(inner.shape[a], shape[b]) for a, b in zip(old, new, strict=True)
    ):
        return None
    dropped = [a for a, size in enumerate(inner.shape) if same(size, 1)]
    if not all(is_full(inner.limits[a], 1) for a in dropped):
        return None
    strides: list[Size] = [0] * len(shape)
    limits: list[tuple[Size, Size]] = [(0, size) for size in shape]
    for a, b in zip(old, new, strict=True):
        strides[b], limits[b] = inner.strides[a], inner.limits[a]
    return View.create(shape, strides, inner.offset, tuple(limits))
