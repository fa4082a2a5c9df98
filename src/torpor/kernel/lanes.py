"""Which written-out axes become vectors: those along which memory lies in a row."""

from __future__ import annotations

from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses
from torpor.kernel.ranges import WRITTEN, Loops, find_loops, kind_of, size_of

WIDEST: Final = 16  # lanes of the widest vector that is ever formed
ITEM_LANES: Final = 4  # words of the widest load of a GPU, which has 16 bytes


def lane_axes(root: UOp, target: Target) -> list[tuple[UOp, int]]:
    """The written-out axes along which memory lies in a row, each with the width of its vectors;
    of axes that some value depends on together only the best.
    """
    loops = find_loops(root)
    found = accesses(loops)
    ranked = []
    for one in loops.order:
        if one.op is Ops.RANGE and kind_of(one) in WRITTEN:
            widest = max((a.itemsize for a in found if a.stride(one) != 0), default=4)
            most = min(target.lanes(widest), ITEM_LANES if target.groups else WIDEST)
            rank = lane_rank(one, found, most)
            if rank is not None:
                ranked.append((rank, one))
    ranked.sort(key=lambda r: r[0], reverse=True)
    chosen: list[tuple[UOp, int]] = []
    for (_, _, width), one in ranked:
        if not any(together(loops, one, other) for other, _ in chosen):
            chosen.append((one, width))
    return chosen


def together(loops: Loops, one: UOp, other: UOp) -> bool:
    """Whether some value depends on both axes, or some loop nest contains both."""
    both = {one, other}
    return any(both <= set(loops.nest_of(free)) for free in set(loops.free.values()))


def is_row(access: Access, one: UOp) -> bool:
    """Whether neighbours along an axis are moved as vectors, perhaps shuffled."""
    return access.stride(one) == 1 or access.is_near(one) or access.is_interleaved(one)


def lane_rank(one: UOp, found: list[Access], most: int) -> tuple[bool, int, int] | None:
    """How well an axis suits vectors: whether whole ones are stored, how many accesses they
    spare ((n - 1) / n of those to rows by n elements), and the width that divides it; None if it
    does not.
    """
    size = size_of(one) or 1
    width = next((n for n in (16, 8, 4, 2) if n <= most and size % n == 0), 1)
    rows = sum(a.count for a in found if is_row(a, one))
    moved = sum(a.count for a in found if a.stride(one) != 0)
    gathers = moved - rows
    stored = any(a.is_store and (a.stride(one) == 1 or a.is_interleaved(one)) for a in found)
    if width < 2 or rows == 0 or gathers > rows:
        return None
    return stored and width == most, rows * 2 * (width - 1) // width - gathers + stored, width
