"""Static views as one, by visiting every element: exact, for chains that show few elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from torpor.ir.infer import largest, product
from torpor.view.view import View

COUNTED: Final = 1 << 15  # elements up to which positions are computed one by one

Positions = np.ndarray[Any, np.dtype[np.int64]]
Valid = np.ndarray[Any, np.dtype[np.bool_]]


def is_static(view: View) -> bool:
    """Whether nothing about the view is symbolic."""
    numbers: list[Any] = [*view.shape, *view.strides, view.offset]
    numbers += [number for limits in view.limits for number in limits]
    return all(isinstance(number, int) for number in numbers)


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


def fit(views: Sequence[View]) -> View | None:
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
            np.nonzero(valid.any((*range(axis), *range(axis + 1, len(shape)))))[0]
            for axis in range(len(shape))
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
