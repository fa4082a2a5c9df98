"""Merging dimensions: neighbours that memory does not tell apart become one."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.ir.infer import Size, fold_size, size_node
from torpor.view.polynomial import is_same

Mask = tuple[tuple[Size, Size], ...]
Merged = tuple[Size, Size, Size]


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are provably equal."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return is_same(size_node(fold_size(left)), size_node(fold_size(right)))


def times(left: Size, right: Size) -> Size:
    """The product of two sizes or strides."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return fold_size(left * right if not isinstance(left, int) else right * left)


def plus(left: Size, right: Size) -> Size:
    """The sum of two sizes or offsets."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return fold_size(left + right if not isinstance(left, int) else right + left)


def is_full(limits: tuple[Size, Size], size: Size) -> bool:
    """Whether a mask leaves the whole dimension."""
    return same(limits[0], 0) and same(limits[1], size)


def merge_dims(
    shape: Sequence[Size], strides: Sequence[Size], mask: Mask | None = None
) -> tuple[Merged, ...]:
    """The fewest dimensions that say the same: (size, stride, size in memory: 0 for stride 0).

    Dimensions of size 1 disappear. A dimension that is masked in part does not merge into the one
    before it, unless that one has stride 0 and its mask leaves one index.
    """
    merged: list[Merged] = []
    single = False  # whether the last dimension has stride 0 and one valid index
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if same(size, 1) and len(shape) > 1:
            continue
        whole = mask is None or is_full(mask[axis], size)
        real: Size = 0 if same(stride, 0) else size
        before_is_single, limits = single, mask[axis] if mask is not None else (0, size)
        single = real == 0 and same(plus(limits[0], 1), limits[1])
        if merged and before_is_single:
            merged[-1] = (times(merged[-1][0], size), stride, real)
        elif merged and whole and same(merged[-1][1], times(size, stride)):
            before = merged[-1]
            merged[-1] = (times(before[0], size), stride, times(before[0], real) if real else 0)
        else:
            merged.append((size, stride, real))
    return tuple(merged) or ((1, 0, 0),)
