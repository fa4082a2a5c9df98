"""Reshapes of symbolic views, by matching dimensions: what holds the same elements goes together.

Groups of neighbouring axes that hold the same elements in both shapes are independent: one view
says the whole exactly if one says every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torpor.ir.infer import Shape, Size
from torpor.view.counting import compose_static, is_static
from torpor.view.merge import Mask, is_full, plus, same, times
from torpor.view.movement import groups
from torpor.view.view import View


@dataclass(frozen=True)
class Dimension:
    """A merged dimension of a view: `size` places, `stride` elements apart, valid in low:high."""

    size: Size
    stride: Size
    low: Size
    high: Size


def match_dimensions(inner: View, shape: Shape) -> View | None:
    """The reshape of `inner` group by group; None where one view cannot say it or none is found."""
    strides: list[Size] = []
    limits: list[tuple[Size, Size]] = []
    offset = inner.offset
    for wanted, given in groups(shape, inner.shape):
        part = View.create(
            [inner.shape[axis] for axis in given],
            [inner.strides[axis] for axis in given],
            0,
            tuple(inner.limits[axis] for axis in given),
        )
        moved = match_group(part, tuple(shape[axis] for axis in wanted))
        if moved is None:
            return None
        strides.extend(moved.strides)
        limits.extend(moved.limits)
        offset = plus(offset, moved.offset)
    return View.create(shape, strides, offset, tuple(limits))


def match_group(part: View, shape: Shape) -> View | None:
    """The reshape of a group of axes that cannot be taken apart further."""
    if part.shape == shape:
        return part
    if is_static(part) and all(isinstance(size, int) for size in shape):
        return compose_static(part, View.create(shape))
    dimensions, offset = merged(part)
    strides: list[Size] = []
    limits: list[tuple[Size, Size]] = []
    wanted = list(shape)
    for dimension in reversed(dimensions):
        sizes = taken(wanted, dimension.size)
        moved = None if sizes is None else spread(dimension, sizes)
        if sizes is None or moved is None:
            return None
        strides[:0] = moved[0]
        limits[:0] = moved[1]
    if any(not same(size, 1) for size in wanted):
        return None
    whole: Mask = (*((0, size) for size in wanted), *limits)
    return View.create(shape, [*(0 for _ in wanted), *strides], offset, whole)


def merged(view: View) -> tuple[list[Dimension], Size]:
    """The fewest dimensions of a view, and the offset that belongs to them.

    A dimension in which one index is valid merges with any next one: its mask moves there.
    """
    offset = view.offset
    found: list[Dimension] = []
    for size, stride, (low, high) in zip(view.shape, view.strides, view.limits, strict=True):
        if same(size, 1) and same(high, 1):
            continue
        last = found[-1] if found else None
        if last and same(last.stride, times(size, stride)) and is_full((low, high), size):
            ends = (times(last.low, size), times(last.high, size))
            found[-1] = Dimension(times(last.size, size), stride, *ends)
        elif last and same(plus(last.low, 1), last.high) and same(last.stride, 0):
            begin = times(last.low, size)
            ends = (plus(begin, low), plus(begin, high))
            found[-1] = Dimension(times(last.size, size), stride, *ends)
            offset = plus(offset, times(times(begin, stride), -1))
        else:
            found.append(Dimension(size, stride, low, high))
    return found, offset


def taken(wanted: list[Size], size: Size) -> list[Size] | None:
    """The last sizes of `wanted` whose product is `size`, removed from it; None without such."""
    covered: Size = 1
    for place in range(len(wanted) - 1, -1, -1):
        covered = times(covered, wanted[place])
        if same(covered, size):
            sizes = wanted[place:]
            del wanted[place:]
            return sizes
    return None


def spread(dimension: Dimension, sizes: Sequence[Size]) -> tuple[list[Size], Mask] | None:
    """(strides, mask) of one dimension taken apart; None where its mask cannot be."""
    strides: list[Size] = []
    step = dimension.stride
    for size in reversed(sizes):
        strides.insert(0, step)
        step = times(step, size)
    limits: list[tuple[Size, Size]] = [(0, size) for size in sizes]
    if not is_full((dimension.low, dimension.high), dimension.size):
        real = [place for place, size in enumerate(sizes) if not same(size, 1)]
        if len(real) != 1:
            return None
        limits[real[0]] = (dimension.low, dimension.high)
    return strides, tuple(limits)
