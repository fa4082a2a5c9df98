"""A kernel of several passes over a row, whose reductions go on from tile to tile of the row.

    p[c] = exp(s[c] - max s); l = sum(p)

keeps the maximum m and the sum l of each row between tiles. At each tile it stores p relative to
the maximum so far, and the factor by which sums of such p grow. A kernel like it, without the
reductions, makes p of a tile once m is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ParamArg, ScheduleItem
from torpor.ir.uop import UOp
from torpor.schedule.chain import MakeBuffer, length, parameter_of
from torpor.schedule.rescale import IsPower, degree, factor, known, power_of
from torpor.schedule.skip import FIRST, Tiles, flag, narrowed, one_tile

REFUSED: Final = (Ops.CHECK, Ops.SCAN)


@dataclass(eq=False)
class Passes:
    """A kernel with reductions over the columns of a row.

    top:     the maximum, if there is one, relative to which others are.
    powers:  the buffers of columns that it stores and that count once in exp(-top).
    kept:    for each reduction, and for the factor (at None), what holds it for a block of rows.
    """

    item: ScheduleItem
    row: UOp
    columns: frozenset[UOp]
    reductions: list[UOp]
    top: UOp | None
    powers: frozenset[UOp]
    kept: dict[UOp | None, UOp] = field(default_factory=dict)

    def going_on(self, tiles: Tiles, make: MakeBuffer) -> ScheduleItem:
        """The kernel for a tile: its reductions of all tiles so far, and columns relative to it."""
        device = self.item.buffers[0].arg.device
        dtypes_of: dict[UOp | None, DType] = {one: one.dtype for one in self.reductions}
        if self.top is not None and self.powers:
            dtypes_of[None] = self.top.dtype
        self.kept = {one: make(device, length(self.row), d) for one, d in dtypes_of.items()}
        memory = Memory(self.item)
        places = {one: memory.place(buffer, self.row) for one, buffer in self.kept.items()}
        now, shown = self.grown_reductions(places)
        stores = [store(places[one], value, self.row) for one, value in now.items()]
        for old in self.item.ast.src:
            if self.columns.isdisjoint(old.src[2:]):
                stores.append(of_value(old, now))
            elif self.item.buffers[parameter_of(old.src[0])] in self.powers:
                stores.append(of_value(old, shown))
        return memory.item(narrowed(self.item.ast.replace(src=tuple(stores)), self.columns, tiles))

    def grown_reductions(
        self, places: dict[UOp | None, UOp]
    ) -> tuple[dict[UOp | None, UOp], dict[UOp, UOp]]:
        """What is kept after a tile, and the maximum as it is subtracted from others, if any."""
        before = {one: so_far(one, places[one]) for one in self.reductions}
        now: dict[UOp | None, UOp] = {}
        shown: dict[UOp, UOp] = {}
        grows: UOp | None = None
        if self.top is not None:
            now[self.top] = before[self.top].alu(Ops.MAX, self.top)
            shown[self.top] = known(now[self.top])
            grows = factor(before[self.top], shown[self.top])
        for one in self.reductions:
            if one is not self.top:
                total, already = one.substitute(shown), before[one]
                if total is not one and grows is not None:
                    already = already * grows
                now[one] = already.alu(one.arg, total)
        if grows is not None and None in places:
            now[None] = grows
        return now, shown

    def ended(self, tiles: Tiles) -> ScheduleItem:
        """The columns of a tile, of the reductions as they are after the last one."""
        memory = Memory(self.item)
        ends = {one: load(memory.place(self.kept[one], self.row)) for one in self.reductions}
        over = (s for s in self.item.ast.src if not self.columns.isdisjoint(s.src[2:]))
        stores = [of_value(old, ends) for old in over]
        ast = self.item.ast.replace(src=tuple(stores))
        beside = {one: one.replace(arg=(one.arg[0], AxisType.GLOBAL)) for one in self.columns}
        return memory.item(narrowed(ast.substitute(beside), beside.values(), tiles))

    def grown(self, item: ScheduleItem, row: UOp, column: UOp, tiles: Tiles) -> ScheduleItem:
        """A kernel that sums what is relative to the maximum so far, for a tile."""
        memory = Memory(item)
        scale = load(memory.place(self.kept[None], row))
        return memory.item(one_tile(item.ast, column, tiles, scale))


def passes_of(item: ScheduleItem, row: UOp, own: frozenset[UOp]) -> Passes | None:
    """The kernel as one whose reductions can go on; None if they need the whole row."""
    nodes = item.ast.toposort()
    reductions = [n for n in nodes if n.op is Ops.REDUCE and not own.isdisjoint(n.src)]
    ranges = [{row}, *({row, column} for column in own)]
    plain = all(set(s.src[2:]) in ranges for s in item.ast.src) and not item.variables
    if not reductions or not plain or any(n.op in REFUSED for n in nodes):
        return None
    if any(len(one.src) != 2 or not one.dtype.is_float for one in reductions):
        return None
    found = [one for one in reductions if one.arg is Ops.MAX]
    top = found[0] if len(found) == 1 else None
    is_power: IsPower = power_of(top, own) if top is not None else never
    for one in reductions:
        inner = [other for other in reductions if other in one.src[0].toposort()]
        if inner and (inner != [top] or one.arg is not Ops.ADD):
            return None
        if inner and degree(one.src[0], is_power, inner) != 1:
            return None
    powers = frozenset(
        item.buffers[parameter_of(old.src[0])]
        for old in item.ast.src
        if not own.isdisjoint(old.src[2:]) and degree(old.src[1], is_power, reductions) == 1
    )
    return Passes(item, row, own, reductions, top, powers)


def never(node: UOp) -> bool:
    """There is no power without a maximum."""
    return False


def so_far(one: UOp, place: UOp) -> UOp:
    """What a reduction was before this tile."""
    neutral = UOp.const(one.dtype, identity(one.arg, one.dtype))
    return flag(FIRST).where(neutral, load(place))


def load(place: UOp) -> UOp:
    """What lies at a place."""
    return UOp(Ops.LOAD, place.dtype, (place,))


def of_value(old: UOp, changes: Mapping[Any, UOp]) -> UOp:
    """A STORE of the value with reductions replaced."""
    return old.replace(src=(old.src[0], old.src[1].substitute(dict(changes)), *old.src[2:]))


def store(place: UOp, value: UOp, row: UOp) -> UOp:
    """A STORE of a value of each row."""
    return UOp(Ops.STORE, dtypes.void, (place, value, row))


class Memory:
    """The parameters of a kernel that is made of another one's."""

    def __init__(self, item: ScheduleItem):
        self.origin = item
        self.buffers = list(item.buffers)

    def place(self, buffer: UOp, row: UOp) -> UOp:
        """Where a buffer holds something of a row, as one more parameter."""
        slot = len(self.buffers)
        self.buffers.append(buffer)
        memory = UOp(Ops.PARAM, buffer.dtype, (), ParamArg(slot, buffer.arg.size))
        return UOp(Ops.INDEX, buffer.dtype, (memory, row))

    def item(self, ast: UOp) -> ScheduleItem:
        """The kernel with those parameters that it has, outputs first."""
        used = {n.arg.slot: n for n in ast.toposort() if n.op is Ops.PARAM}
        written = {parameter_of(s.src[0]) for s in ast.src}
        order = [*sorted(written), *sorted(used.keys() - written)]
        fresh = {
            used[slot]: used[slot].replace(arg=ParamArg(number, used[slot].arg.size))
            for number, slot in enumerate(order)
        }
        return replace(
            self.origin,
            ast=ast.substitute(fresh),
            buffers=tuple(self.buffers[slot] for slot in order),
            outputs=tuple(range(len(written))),
        )
