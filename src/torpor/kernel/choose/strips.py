"""Which register tiles cover an axis along the vectors: wide ones, and others for what they leave.

A tile two vectors wide leaves an odd vector, which one of three vectors takes along: 56 elements in
vectors of 8 are 2 + 2 + 3 of them, where tiles of one kind would compute 64 elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import Final, NamedTuple

from torpor.ir.records import Opt, OptOps
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import number_of

Shapes = Sequence[tuple[int, int]]  # (vectors, rows) of tiles: sums in most registers, a few left
# By counting: 12 sums of 16 registers, or 24 of 32, leave some for a row of vectors and a factor;
# 16 where tiles are one vector wide, 10 where products take registers before they are added.
FEW_REGISTERS: Final = ((2, 6), (3, 4), (1, 12))  # fewer than 32
UNFUSED: Final = ((2, 5), (1, 10))
MANY_REGISTERS: Final = ((4, 6), (3, 8), (2, 12), (1, 16))
# Choices, of which the order matters: what tiles one vector wide, which are bound by loads, take of
# the time of others; and what share of the time another kind of tile has to save.
ALONE: Final = 1.25
CUT: Final = 0.03


class Strip(NamedTuple):
    """Elements of an axis that tiles of `rows` rows of `panel` elements cover."""

    lanes: int
    panel: int
    rows: int

    @property
    def padded(self) -> int:
        """The elements that the tiles compute."""
        return ceil(self.lanes / self.panel) * self.panel

    def cost(self, width: int) -> float:
        """Time to compute it, in elements that go through a wide tile."""
        return self.padded * (ALONE if self.panel == width else 1.0)


def shapes_of(registers: int, fused: bool) -> Shapes:
    """The tiles for so many registers; `fused`: one instruction multiplies and adds."""
    if registers >= 32:
        return MANY_REGISTERS
    return FEW_REGISTERS if fused else UNFUSED


def strips_of(lanes: int, width: int, shapes: Shapes) -> tuple[Strip, ...]:
    """The tiles of one kind, or of two kinds one after the other, that take least time for an axis
    of `lanes` elements in vectors of `width`.
    """
    one = strip_of(lanes, width, shapes)
    best: tuple[Strip, ...] = (one,)
    least = one.cost(width)
    if least <= lanes * (1 + CUT):
        return best
    for count in range(width, lanes, width):
        pair = strip_of(count, width, shapes), strip_of(lanes - count, width, shapes)
        taken = sum(strip.cost(width) for strip in pair) + CUT * lanes
        if pair[1].lanes > 1 and taken < least:  # a range of one element is none
            best, least = pair, taken
    return best


def strip_of(lanes: int, width: int, shapes: Shapes, most: float = inf) -> Strip:
    """The tiles of one kind that take least time, of those with panels of at most `most` elements:
    the first of those that take nearly the same.
    """
    strips = [Strip(lanes, vectors * width, rows) for vectors, rows in shapes]
    strips = [strip for strip in strips if strip.panel <= most]
    least = min(strip.cost(width) for strip in strips)
    return next(strip for strip in strips if strip.cost(width) <= least * (1 + CUT))


def cut_lanes(kernel: Kernel, row: int, strips: Sequence[Strip]) -> list[int]:
    """The vectors' axis, which is next to the rows at `row`, padded to whole tiles, which are
    written out; or cut in two such, each with rows of its own around it. Gives the places of the
    rows.
    """
    if len(strips) == 1:
        if strips[0].lanes < strips[0].padded:
            kernel.apply_opt(Opt(OptOps.PADTO, row + 1, strips[0].panel))
        kernel.apply_opt(Opt(OptOps.UPCAST, row + 1, strips[0].panel))
        return [row]
    kernel.apply_opt(Opt(OptOps.SWAP, row, row + 1))
    kernel.apply_opt(Opt(OptOps.PARTITION, row, strips[0].lanes))
    places = [row, row + 2]
    for place, strip in zip(places, strips, strict=True):
        kernel.apply_opt(Opt(OptOps.SWAP, place, place + 1))
        if strip.lanes < strip.padded:
            kernel.apply_opt(Opt(OptOps.PADTO, place + 1, strip.panel))
    rows = [number_of(kernel.axes[place]) for place in places]
    for place, strip in reversed(list(zip(places, strips, strict=True))):
        kernel.apply_opt(Opt(OptOps.UPCAST, place + 1, strip.panel))
    return [n for n, r in enumerate(kernel.axes) if number_of(r) in rows]
