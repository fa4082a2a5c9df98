"""Reductions over whole rows go on from tile to tile, in as many passes over a row as it takes.

before  for each block of rows: s = q @ k.T;  m = max(s), p = exp(s - m), l = sum(p);  o = p @ v / l
after   for each block of rows, for each tile of columns: s of the tile; m, p, l and o go on by it,
        l and o times exp(the last m - the new m) before (see `online_reduction.py`)

So memory between the kernels does not depend on the length of a row. What needs a row's reductions
as they are in the end, such as gradients, waits for a second pass over the tiles, and what the
kernels of that pass read of a tile is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from torpor.base.target import WORD, Target
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.schedule.dead_tiles import Columns, columns_of
from torpor.schedule.online_reduction import degree
from torpor.schedule.reduction_fission import (
    MakeBuffer,
    ReductionFission,
    fission,
    parameter_of,
)
from torpor.schedule.tile_groups import FusionGroup, even_part, read_by, stored_by
from torpor.schedule.tiles import WIDEST, Launches, once, tiles_of

# Columns from which tiles pay in any case: blocks of shorter rows stay in the last cache, and with
# gradients nothing of them is computed again (bench/results/attention.md).
LONG: Final = 8192
ROWS: Final = 512  # of a block, at most
WIDE: Final = 512  # columns of a tile, at most, but for rows that had more than `MOST` tiles then
MOST: Final = 64  # tiles of a row: each is a launch of every kernel


@dataclass(eq=False)
class Member:
    """A kernel, and when it runs: with `columns` for each tile of a pass, else between passes.

    parts: the reductions that it carries on, if any.
    final: whether it makes more than columns of a tile.
    phase: after how many passes it can run; with columns, in the next one.
    power: relative to whose maximum so far its results are in that pass.
    """

    item: ScheduleItem
    rows: frozenset[UOp]
    columns: frozenset[UOp]
    parts: ReductionFission | None = None
    final: bool = True
    phase: int = 0
    power: Member | None = None


@dataclass
class Phases:
    """The kernels of a group, by passes over its columns.

    ready:  after how many passes a buffer holds what it does in the end.
    powers: what holds columns relative to the maximum so far of a kernel, in its pass.
    online: whether some reduction goes on that others need.
    """

    columns: Columns
    make: MakeBuffer
    members: list[Member] = field(default_factory=list)
    ready: dict[UOp, int] = field(default_factory=dict)
    powers: dict[UOp, Member] = field(default_factory=dict)
    online: bool = False

    @property
    def count(self) -> int:
        """How many passes there are."""
        return 1 + max(m.phase for m in self.members if m.columns and m.final)

    def add(self, item: ScheduleItem, rows: frozenset[UOp], own: frozenset[UOp]) -> bool:
        """Take in the next kernel, if it can go by tiles."""
        parts = fission(item, own) if own else None
        if own and parts is None:
            return False
        if parts is None:
            self.note(Member(item, rows, own))
        elif not parts.reductions:
            inside = self.columns.values.issuperset(stored_by(item))
            terms = [store.src[1] for store in item.ast.src]
            power = self.power_of(item, terms) if inside else None
            self.note(Member(item, rows, own, final=not inside, power=power))
        else:
            return self.add_reductions(parts, rows)
        return True

    def add_reductions(self, parts: ReductionFission, rows: frozenset[UOp]) -> bool:
        """Take in a kernel with reductions over the columns, in its parts."""
        (row,), item, own = rows, parts.item, parts.ranges
        relative = parts.find_top(row)
        inside = [s for s in parts.along() if into(item, s) in self.columns.values]
        # What it keeps of a tile is of the row so far: others need its columns as they end.
        if relative is None or not set(inside).issuperset(parts.dependent):
            return False
        self.online |= not parts.is_simple or bool(parts.dependent)
        power = None
        if parts.is_simple and not parts.along() and not any(map(parts.goes_on, parts.places)):
            terms = (one.src[0] if one.arg is Ops.ADD else one for one in parts.reductions)
            power = self.power_of(item, terms)
        parts.make_places(self.make, relative)
        scale = None
        if power is not None and power.parts is not None:
            scale = power.parts.factor_in(parts.memory, row)
        made = parts.accumulated(scale, relative)
        member = self.note(Member(made, rows, own, parts, power=power))
        for one in parts.initial():
            self.members.append(Member(one, rows, frozenset(), phase=member.phase))
        self.powers.update({into(item, store): member for store in relative})
        after = member.phase + 1
        if inside:
            beside = frozenset(map(parts.beside, own))
            self.note(Member(parts.rest(inside), rows, beside, final=False, phase=after))
        for one in parts.finished():
            self.note(Member(one, rows, frozenset(), phase=after))
        return True

    def note(self, member: Member) -> Member:
        """Say when a kernel runs at the earliest, and when what it stores is ready."""
        self.members.append(member)
        power = member.power
        read = (self.ready.get(b, 0) for b in read_by(member.item))
        member.phase = max((member.phase, *read)) if power is None else power.phase
        at_once = not member.columns or (member.parts is None and power is None)
        for buffer in stored_by(member.item):
            self.ready[buffer] = member.phase + (not at_once)
            if power is not None and buffer in self.columns.values:
                self.powers[buffer] = power
        return member

    def power_of(self, item: ScheduleItem, terms: Iterable[UOp]) -> Member | None:
        """Relative to whose maximum so far the results of a kernel are, if they can go on from it:
        its `terms` are linear in what it reads that is.
        """
        found = {id(m): m for b in read_by(item) for m in [self.powers.get(b)] if m is not None}
        if len(found) != 1:
            return None
        (power,) = found.values()
        relative: set[UOp] = set()
        moving: set[UOp] = set()
        for node in item.ast.toposort():
            if node.op is Ops.LOAD and node.src[0].op is Ops.INDEX:
                buffer = item.buffers[parameter_of(node.src[0])]
                if buffer in self.powers:
                    relative.add(node)
                elif self.ready.get(buffer, 0) > power.phase:
                    moving.add(node)
        grows = (degree(term, relative.__contains__, moving) == 1 for term in terms)
        return power if all(grows) else None

    def needed(self, phase: int) -> list[Member]:
        """The kernels with columns that run in a pass, with those that compute tiles for them."""
        wanted: set[UOp] = set()
        found = []
        for member in reversed(self.members):
            ends = member.phase == phase and member.final
            again = member.phase <= phase if member.parts is None else member.phase == phase
            asked = again and not wanted.isdisjoint(stored_by(member.item))
            if member.columns and (ends or asked):
                found.append(member)
                wanted |= self.columns.values.intersection(read_by(member.item))
        return found[::-1]


def into(item: ScheduleItem, store: UOp) -> UOp:
    """The buffer that a STORE is into."""
    return item.buffers[parameter_of(store.src[0])]


def phases_of(group: FusionGroup, make: MakeBuffer, target: Target) -> Phases | None:
    """The passes over the columns that the kernels of a group make; None if rows stay whole."""
    columns = columns_of(group)
    if columns is None or columns.width < least_columns(target):
        return None
    phases = Phases(columns, make)
    if not all(phases.add(*one) for one in columns.kernels) or not phases.online:
        return None
    return phases if columns.width >= LONG or phases.count == 1 else None


def least_columns(target: Target) -> int:
    """Columns from which tiles pay where one pass does: as many as blocks of few whole rows fill
    half of the second cache with, if tiles leave the other half to what they read.
    """
    room = target.cache_bytes // 2
    return min(LONG, room // (WIDEST * WORD)) if room >= ROWS * WIDE * WORD else LONG


def rows_of_tiles(group: FusionGroup, make: MakeBuffer, target: Target) -> int | None:
    """How many rows a block of tiles has; None where rows stay whole."""
    return None if phases_of(group, make, target) is None else even_part(group.count, ROWS)


def tile_by_tile(
    group: FusionGroup, counts: tuple[int, ...], make: MakeBuffer, target: Target
) -> list[Launches] | None:
    """The kernels of one block of rows by tiles of its columns; None where rows stay whole."""
    phases = phases_of(group, make, target)
    if phases is None:
        return None
    widest = max(WIDE, phases.columns.width // MOST)
    tiles = tiles_of(phases.columns, counts, target, widest)
    if tiles is None:
        return None
    smaller = {
        b: make(b.arg.device, b.arg.size // phases.columns.width * tiles.width, b.dtype)
        for b in phases.columns.values
    }
    made: list[Launches] = []
    for phase in range(phases.count + 1):
        between = (m for m in phases.members if not m.columns and m.phase == phase)
        made += [Launches(m.item, m.rows, once) for m in between]
        for m in phases.needed(phase):
            made.append(tiles.one(m.item, m.rows, m.columns, smaller, phase))
    return made
