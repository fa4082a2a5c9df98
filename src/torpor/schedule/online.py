"""Chains by tiles of rows and columns: reductions over whole rows go on from tile to tile.

before  for each block of rows: s = q @ k.T;  m = max(s), p = exp(s - m), l = sum(p);  o = p @ v / l
after   for each block of rows, for each tile of columns: s of the tile; m, p, l and o go on by it,
        l and o times exp(the last m - the new m) before (see `rescale.py`)

So memory between the kernels does not depend on the length of a row. What needs a row's reductions
as they are in the end, such as gradients, waits for a second pass over the tiles, and what the
kernels of that pass read of a tile is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from torpor.base import settings
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg, ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules.linear import linear
from torpor.schedule.chain import Chain, MakeBuffer, even_part, parameter_of, read_by, stored_by
from torpor.schedule.columns import Columns, columns_of
from torpor.schedule.passes import Passes, passes_of
from torpor.schedule.rescale import degree
from torpor.schedule.skip import (
    ITEMSIZE,
    Launches,
    Rounds,
    Tiles,
    is_start,
    last_tile,
    once,
    one_tile,
    summed,
    tiles_of,
)

# Columns from which tiles pay: blocks of shorter rows stay in the last cache, and with gradients
# nothing of them is computed again (bench/results/attention.md).
LONG: Final = 8192
ROWS: Final = 512  # of a block, at most
WIDE: Final = 512  # columns of a tile, at most, but for rows that had more than `MOST` tiles then
MOST: Final = 64  # tiles of a row: each is a launch of every kernel


@dataclass(eq=False)
class Member:
    """A kernel of a chain, and when it runs.

    rows:        its ranges that count rows.
    columns:     its ranges that count columns.
    row, column: the one of each, if it has columns; without a column it works on rows alone, or
                 makes `passes` over the columns.
    final:       whether it makes more than columns of a tile.
    phase:       after how many passes over the tiles it can run; with columns, in the next one.
    power:       relative to whose maximum so far its results are in that pass.
    """

    item: ScheduleItem
    rows: frozenset[UOp]
    columns: frozenset[UOp]
    row: UOp | None = None
    column: UOp | None = None
    passes: Passes | None = None
    final: bool = True
    phase: int = 0
    power: Member | None = None

    @property
    def on_rows(self) -> bool:
        """Whether it has no columns."""
        return self.column is None and self.passes is None

    @property
    def along(self) -> bool:
        """Whether its results run over the columns."""
        return self.column is not None and self.column.arg[1] is AxisType.GLOBAL

    def terms(self) -> Iterator[UOp]:
        """What it sums over the columns, or stores for each."""
        for store in self.item.ast.src:
            sums = [n for n in store.src[1].toposort() if over(n, self.column)]
            yield sums[0].src[0] if sums and sums[0].arg is Ops.ADD else store.src[1]


def over(node: UOp, column: UOp | None) -> bool:
    """Whether a node reduces over a range."""
    return node.op is Ops.REDUCE and column in node.src


def member_of(
    item: ScheduleItem, cut: frozenset[UOp], own: frozenset[UOp], values: frozenset[UOp]
) -> Member | None:
    """A kernel as one of those that go by tiles, of whose columns the `values` are; else None."""
    if not own:
        return Member(item, cut, own)
    row = next(iter(cut))
    if len(own) == 1:
        column = next(iter(own))
        final = not values.issuperset(stored_by(item))
        member = Member(item, cut, own, row, column, final=final)
        if member.along:
            reduces = any(over(n, column) for n in item.ast.toposort())
            return None if reduces else member
        if summed(item, column):
            return member
    # What it keeps of a tile is of the row so far: others need its columns as they are in the end.
    whole = (s for s in item.ast.src if not own.isdisjoint(s.src[2:]))
    if not values.issuperset(item.buffers[parameter_of(s.src[0])] for s in whole):
        return None
    passes = passes_of(item, row, own)
    return Member(item, cut, own, row, passes=passes) if passes else None


@dataclass
class Phases:
    """The kernels of a chain, by passes over its columns.

    ready:  after how many passes a buffer holds what it does in the end.
    powers: what holds columns relative to the maximum so far of a kernel, in its pass.
    """

    columns: Columns
    members: list[Member] = field(default_factory=list)
    ready: dict[UOp, int] = field(default_factory=dict)
    powers: dict[UOp, Member] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many passes there are."""
        return 1 + max(m.phase for m in self.members if not m.on_rows)

    def add(self, member: Member) -> None:
        """Take in the next kernel."""
        self.members.append(member)
        member.power = self.power_of(member)
        if member.power is not None:
            member.phase = member.power.phase
        else:
            member.phase = max((self.ready.get(b, 0) for b in read_by(member.item)), default=0)
        at_once = member.on_rows or (member.along and member.power is None)
        for buffer in stored_by(member.item):
            self.ready[buffer] = member.phase + (0 if at_once else 1)
            if member.passes and buffer in member.passes.powers:
                self.powers[buffer] = member
            elif member.power and buffer in self.columns.values:
                self.powers[buffer] = member.power

    def power_of(self, member: Member) -> Member | None:
        """Relative to whose maximum so far its results are, if they can go on from it: its terms
        are linear in what it reads that is. What else changes until the pass ends may only count
        after its sums: its last tile is the last one of these too.
        """
        read = read_by(member.item)
        found = list(
            {id(self.powers[b]): self.powers[b] for b in read if b in self.powers}.values()
        )
        if len(found) != 1 or member.column is None or (member.along and member.final):
            return None
        power = found[0]
        late = {b for b in read if self.ready.get(b, 0) > power.phase} - self.powers.keys()
        if not late <= set(stored_by(power.item)):
            return None
        loads = {
            n: member.item.buffers[parameter_of(n.src[0])]
            for n in member.item.ast.toposort()
            if n.op is Ops.LOAD and n.src[0].op is Ops.INDEX
        }
        relative = {node for node, buffer in loads.items() if buffer in self.powers}
        moving = {node for node, buffer in loads.items() if buffer in late}
        grows = (degree(term, relative.__contains__, moving) == 1 for term in member.terms())
        return power if all(grows) else None

    def needed(self, phase: int) -> list[Member]:
        """The kernels with columns that run in a pass, with those that compute tiles for them."""
        wanted: set[UOp] = set()
        found = []
        for member in reversed(self.members):
            ends = member.phase == phase and member.final
            asked = member.phase <= phase and not wanted.isdisjoint(stored_by(member.item))
            if not member.on_rows and (ends or asked):
                found.append(member)
                wanted |= self.columns.values.intersection(read_by(member.item))
        return found[::-1]


def phases_of(chain: Chain) -> Phases | None:
    """The passes over the columns that the kernels of a chain make; None if rows stay whole."""
    columns = None if settings.number("STRICT_FLOAT") else columns_of(chain)
    if columns is None or columns.width < LONG:
        return None
    phases = Phases(columns)
    for item, cut, (_, own) in zip(chain.items, chain.cut, columns.ranges, strict=True):
        member = member_of(item, cut, own, columns.values)
        if member is None:
            return None
        phases.add(member)
    return phases if any(m.passes for m in phases.members) else None


def rows_of_tiles(chain: Chain) -> int | None:
    """How many rows a block of tiles has; None where rows stay whole."""
    if phases_of(chain) is None:
        return None
    return even_part(chain.count, ROWS)


def tile_by_tile(
    chain: Chain, counts: tuple[int, ...], make: MakeBuffer, target: Target
) -> list[Launches] | None:
    """The kernels of one block of rows by tiles of its columns; None where rows stay whole."""
    phases = phases_of(chain)
    if phases is None:
        return None
    widest = max(WIDE, phases.columns.width // MOST)
    tiles = tiles_of(phases.columns, counts, target.lanes(ITEMSIZE), widest)
    if tiles is None:
        return None
    smaller = {
        b: make(b.arg.device, b.arg.size // phases.columns.width * tiles.width, b.dtype)
        for b in phases.columns.values
    }
    made: list[Launches] = []
    for phase in range(phases.count + 1):
        made += [on_rows(m) for m in phases.members if m.on_rows and m.phase == phase]
        for member in phases.needed(phase):
            item, rounds = of_tile(member, phase, tiles, make)
            item = in_tile(item, smaller, tiles)
            short = last_tile(item.ast, member.columns, tiles)
            made.append(Launches(item, member.rows, rounds, short, phase))
    return made


def on_rows(member: Member) -> Launches:
    """A kernel without columns."""
    return Launches(member.item, member.rows, once)


def in_tile(item: ScheduleItem, smaller: dict[UOp, UOp], tiles: Tiles) -> ScheduleItem:
    """The kernel of a tile with memory for one tile: its rows follow each other."""
    changes = {}
    for node in item.ast.toposort():
        if node.op is Ops.INDEX and item.buffers[parameter_of(node)] in smaller:
            size = smaller[item.buffers[parameter_of(node)]].arg.size
            memory = node.src[0].replace(arg=ParamArg(parameter_of(node), size))
            terms, _ = linear(node.src[1])
            position = UOp.index_const(0)
            for term, scale in terms.items():
                if term.op is Ops.RANGE:
                    position += term * (tiles.width if scale == tiles.columns.width else scale)
            changes[node] = node.replace(src=(memory, position))
    buffers = tuple(smaller.get(b, b) for b in item.buffers)
    return replace(item, ast=item.ast.substitute(changes), buffers=buffers)


def of_tile(
    member: Member, phase: int, tiles: Tiles, make: MakeBuffer
) -> tuple[ScheduleItem, Rounds]:
    """A kernel for a tile in a pass over the tiles, and its rounds."""
    if member.passes is not None:
        own = member.phase == phase
        item = member.passes.going_on(tiles, make) if own else member.passes.ended(tiles)
        return item, tiles.each
    assert member.column is not None and member.row is not None
    if member.power is not None and member.power.passes is not None and not member.along:
        item = member.power.passes.grown(member.item, member.row, member.column, tiles)
        return item, tiles.each
    item = replace(member.item, ast=one_tile(member.item.ast, member.column, tiles))
    grows = member.along and any(is_start(n) for n in item.ast.toposort())
    return item, tiles.each_column if grows else tiles.each
