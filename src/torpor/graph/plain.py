"""Arithmetic on shapes of plain ints, remembered: programs make the same few shapes all the time.

Each function says what becomes of a shape, or None where something is wrong or symbolic: the
builder then looks closer, and says what.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from torpor.graph.sizes import is_plain
from torpor.ir.infer import Shape

Axes = tuple[int, ...]
Reduced = tuple[Axes, Shape, Shape]
_REMEMBERED: Final = 4096


@lru_cache(maxsize=_REMEMBERED)
def is_reshape(old: Shape, new: Axes) -> bool:
    """Whether both have as many elements."""
    return is_plain(old) and math.prod(old) == math.prod(new) and min(new, default=0) >= 0


@lru_cache(maxsize=_REMEMBERED)
def completed(old: Shape, new: Axes) -> Axes | None:
    """The sizes of a reshape, with the one that is -1 worked out."""
    if min(new, default=0) >= 0:
        return new
    rest = -math.prod(new)
    if not is_plain(old) or new.count(-1) != 1 or rest <= 0 or math.prod(old) % rest:
        return None
    return tuple([math.prod(old) // rest if size == -1 else size for size in new])


@lru_cache(maxsize=_REMEMBERED)
def permuted(old: Shape, order: Axes) -> Shape | None:
    """The sizes in another order, which names each axis once, from the front, and moves some."""
    axes = range(len(old))
    if order == tuple(axes) or sorted(order) != [*axes]:
        return None
    return tuple([old[axis] for axis in order])


@lru_cache(maxsize=_REMEMBERED)
def aligned(old: Shape, new: Axes) -> Shape | None:
    """`old` with axes of size 1 in front, where those of size 1 expand to `new`."""
    extra = len(new) - len(old)
    if extra < 0 or not is_plain(old):
        return None
    ones = (1,) * extra + old if extra else old
    pairs = zip(ones, new, strict=True)
    fits = all(before == after or (before == 1 and after >= 0) for before, after in pairs)
    return ones if fits else None


@lru_cache(maxsize=_REMEMBERED)
def reduced(old: Shape, axes: Axes) -> Reduced | None:
    """The axes to reduce over, in order and without those of size 1; the shape with 1 in place of
    `axes`; and without them. Axes are named once each, from the front; none has no elements.
    """
    rank = len(old)
    legal = len({*axes}) == len(axes) and all(0 <= axis < rank for axis in axes)
    if not legal or not is_plain(old) or 0 in old:
        return None
    over = tuple(sorted([axis for axis in axes if old[axis] != 1]))
    ones = tuple([1 if axis in axes else size for axis, size in enumerate(old)])
    return over, ones, tuple([size for axis, size in enumerate(old) if axis not in axes])
