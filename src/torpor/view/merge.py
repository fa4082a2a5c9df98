"""Merging dimensions: neighbours that memory does not tell apart become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torpor.ir.infer import Size
from torpor.rules.sizes import plus, same, times

Mask = tuple[tuple[Size, Size], ...]
Merged = tuple[Size, Size, Size]


def is_full(limits: tuple[Size, Size], size: Size) -> bool:
    """Whether a mask leaves the whole dimension."""
    return same(limits[0], 0) and same(limits[1], size)


class Dimension(NamedTuple):
    """A merged dimension: `size` places, `stride` elements apart, valid in low:high, and how many
    of them memory tells apart (0 for stride 0).
    """

    size: Size
    stride: Size
    low: Size
    high: Size
    real: Size


def merged(
    shape: Sequence[Size], strides: Sequence[Size], limits: Mask
) -> tuple[list[Dimension], Size]:
    """The fewest dimensions that say the same, and by how much the offset changes.

    Dimensions of size 1 disappear. A dimension that is masked in part does not merge into the one
    before it, unless that one has stride 0 and its mask leaves one index: the mask moves then.
    """
    found: list[Dimension] = []
    offset: Size = 0
    for size, stride, (low, high) in zip(shape, strides, limits, strict=True):
        if same(size, 1) and same(high, 1):
            continue
        real: Size = 0 if same(stride, 0) else size
        last = found[-1] if found else None
        if last and same(last.stride, 0) and same(plus(last.low, 1), last.high):
            begin = times(last.low, size)
            ends = plus(begin, low), plus(begin, high)
            offset = plus(offset, times(times(begin, stride), -1))
            found[-1] = Dimension(times(last.size, size), stride, *ends, real)
        elif last and is_full((low, high), size) and same(last.stride, times(size, stride)):
            ends = times(last.low, size), times(last.high, size)
            real = times(last.real, real) if real != 0 else 0
            found[-1] = Dimension(times(last.size, size), stride, *ends, real)
        else:
            found.append(Dimension(size, stride, low, high, real))
    return found, offset


def merge_dims(
    shape: Sequence[Size], strides: Sequence[Size], mask: Mask | None = None
) -> tuple[Merged, ...]:
    """The fewest dimensions that say the same: (size, stride, size in memory: 0 for stride 0)."""
    found, _ = merged(shape, strides, mask or tuple((0, size) for size in shape))
    return tuple((one.size, one.stride, one.real) for one in found) or ((1, 0, 0),)
