"""A kernel split at its reductions over some ranges, so that these can go on from tile to tile.

before  o[r, d] = sum(p[r, c] * v[c, d], c) / l[r]
after   o[r, d] = 0                                           once
        o[r, d] = o[r, d] + sum(p[r, c] * v[c, d], c)         for each tile of c
        o[r, d] = o[r, d] / l[r]                              once

A reduction accumulates where it is stored, or in memory of its own. Where one is a maximum that
others are relative to, the kernel of a tile carries all of them on as one tuple (see
`online_reduction.py`), and stores by which factor sums of such exponentials grow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ParamArg, ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules.affine import free_ranges, number_of, size_of
from torpor.rules.movement import flat
from torpor.rules.rebuild import with_slots
from torpor.schedule.online_reduction import degree, factor, known, power_of
from torpor.schedule.region import NONE, Ranges

MakeBuffer = Callable[[str, int, DType], UOp]  # a BUFFER: its device, elements and their format


def parameter_of(place: UOp) -> int:
    """The number of the parameter that an INDEX is of, or that is a whole buffer itself."""
    memory = place.src[0] if place.op is Ops.INDEX else place
    return int(memory.arg.slot)


def load(place: UOp) -> UOp:
    """What lies at a place."""
    return UOp(Ops.LOAD, place.dtype, (place,))


def of_value(old: UOp, changes: Mapping[UOp, UOp]) -> UOp:
    """A STORE of the value with some nodes replaced."""
    return old.replace(src=(old.src[0], old.src[1].substitute(dict(changes)), *old.src[2:]))


class Memory:
    """The parameters of kernels that are made of another one's."""

    def __init__(self, item: ScheduleItem):
        self.origin = item
        self.buffers = list(item.buffers)

    def place(self, buffer: UOp, position: UOp) -> UOp:
        """A place in a buffer that is one more parameter."""
        memory = UOp(Ops.PARAM, buffer.dtype, (), ParamArg(len(self.buffers), buffer.arg.size))
        self.buffers.append(buffer)
        return UOp(Ops.INDEX, buffer.dtype, (memory, position))

    def item(self, stores: Iterable[UOp]) -> ScheduleItem:
        """The kernel of these STOREs with what it uses of parameters, outputs first."""
        ast = UOp.sink(*stores)
        nodes = ast.toposort()
        written = {parameter_of(s.src[0]) for s in ast.src}
        read = {n.arg.slot for n in nodes if n.op is Ops.PARAM} - written
        order = [*sorted(written), *sorted(read)]
        fresh = {}
        names = {n.arg[0]: n for n in nodes if n.op is Ops.VARIABLE}
        kept = [n for n, (name, _) in enumerate(self.origin.variables) if name in names]
        for number, place in enumerate(kept):
            node = names[self.origin.variables[place][0]]
            fresh[node] = node.replace(arg=(f"v{number}", *node.arg[1:]))
        values = [(f"v{n}", self.origin.variables[place][1]) for n, place in enumerate(kept)]
        bindings = self.origin.bindings
        return replace(
            self.origin,
            ast=with_slots(ast, order).substitute(fresh),
            buffers=tuple(self.buffers[slot] for slot in order),
            outputs=tuple(range(len(written))),
            variables=tuple(values),
            bindings=tuple(bindings[place] for place in kept) if bindings else (),
            checks=self.origin.checks if any(n.op is Ops.CHECK for n in nodes) else (),
        )


@dataclass(eq=False)
class ReductionFission:
    """A kernel with reductions over `ranges`, of which each node below depends on one at most.

    reductions: in order.
    below:      by node, the reductions that it takes.
    places:     where reductions accumulate: where, over which ranges.
    top:        the maximum that other reductions are relative to, if there is one.
    """

    item: ScheduleItem
    ranges: Ranges
    reductions: list[UOp]
    below: dict[UOp, Ranges]
    places: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = field(default_factory=dict)
    top: UOp | None = None
    factor: UOp | None = None

    def __post_init__(self) -> None:
        self.memory = Memory(self.item)
        for one in reversed(self.reductions):
            users = [s for s in self.item.ast.src if one in self.below[s]]
            if len(users) == 1 and self.is_home(users[0], one):
                self.places[one] = users[0].src[0], users[0].src[2:]

    def is_home(self, store: UOp, one: UOp) -> bool:
        """Whether a reduction can accumulate where a STORE puts what is made of it."""
        taken = any(place is store.src[0] for place, _ in self.places.values())
        fits = free_ranges(one) == {*store.src[2:]} and one.dtype is store.src[0].dtype
        return fits and not taken

    @property
    def is_simple(self) -> bool:
        """Whether each reduction has a place, where nothing over the ranges depends on it."""
        return len(self.places) == len(self.reductions)

    def goes_on(self, one: UOp) -> bool:
        """Whether the kernel already adds a reduction to what was there."""
        before = load(self.places[one][0])
        return any(s.src[1] is before.alu(one.arg, one) for s in self.item.ast.src)

    # --- the kernels ------------------------------------------------------------------------------
    def initial(self) -> list[ScheduleItem]:
        """Kernels that set what accumulates to nothing."""
        made = []
        for one in self.reductions:
            place, around = self.places[one]
            if not self.goes_on(one):
                nothing = UOp.const(one.dtype, identity(one.arg, one.dtype))
                store = UOp(Ops.STORE, dtypes.void, (place, nothing, *around))
                made.append(self.memory.item([store]))
        return made

    def accumulated(self, scale: UOp | None = None, powers: Collection[UOp] = ()) -> ScheduleItem:
        """The kernel of a tile: reductions of all tiles so far, of earlier ones times `scale`, and
        what does not depend on them; of the `powers` that do, as they are so far.
        """
        now, shown = self.carried(scale)
        stores = [s for s in self.along() if not self.below[s]]
        for one, value in now.items():
            place, around = self.places[one]
            stores.append(UOp(Ops.STORE, dtypes.void, (place, value, *around)))
        stores += [of_value(s, shown) for s in powers]
        return self.memory.item(stores)

    def carried(self, scale: UOp | None) -> tuple[dict[UOp, UOp], dict[UOp, UOp]]:
        """The tuple of reductions after a tile, and the maximum as others are relative to it."""
        before = {one: load(place) for one, (place, _) in self.places.items()}
        now: dict[UOp, UOp] = {}
        shown: dict[UOp, UOp] = {}
        if self.top is not None:
            now[self.top] = before[self.top].alu(Ops.MAX, self.top)
            shown[self.top] = known(now[self.top])
            scale = factor(before[self.top], shown[self.top])
        for one in self.reductions:
            if one is not self.top:
                total, already = one.substitute(shown), before[one]
                if scale is not None and (self.top is None or total is not one):
                    already = already * scale
                now[one] = already.alu(one.arg, total)
        if self.factor is not None and scale is not None:
            now[self.factor] = scale
        return now, shown

    def finished(self) -> list[ScheduleItem]:
        """The kernel, if any, that makes of complete reductions what is stored of them."""
        stores = []
        for old in self.item.ast.src:
            if not self.is_along(old) and not any(old is self.bare(r) for r in self.below[old]):
                stores.append(of_value(old, self.complete()))
        return [self.memory.item(stores)] if stores else []

    def bare(self, one: UOp) -> UOp | None:
        """The STORE that holds a reduction itself."""
        place, around = self.places[one]
        value = load(place).alu(one.arg, one) if self.goes_on(one) else one
        return UOp(Ops.STORE, dtypes.void, (place, value, *around))

    def complete(self) -> dict[UOp, UOp]:
        """The reductions as they are after the last tile."""
        return {one: load(self.places[one][0]) for one in self.reductions}

    def rest(self, stores: Iterable[UOp]) -> ScheduleItem:
        """The kernel of some STOREs over the ranges once the reductions are complete."""
        ast = UOp.sink(*(of_value(s, self.complete()) for s in stores))
        return self.memory.item(ast.substitute({one: self.beside(one) for one in self.ranges}).src)

    def beside(self, one: UOp) -> UOp:
        """One of the ranges where none is reduced over."""
        return one.replace(arg=(one.arg[0], AxisType.GLOBAL))

    def is_along(self, store: UOp) -> bool:
        """Whether a STORE runs over the ranges."""
        return not self.ranges.isdisjoint(store.src[2:])

    def along(self) -> list[UOp]:
        """The STOREs over the ranges."""
        return [s for s in self.item.ast.src if self.is_along(s)]

    @property
    def dependent(self) -> list[UOp]:
        """The STOREs over the ranges that need reductions over them."""
        return [s for s in self.along() if self.below[s]]

    def factor_in(self, memory: Memory, row: UOp) -> UOp:
        """By what sums of powers grow, in another kernel."""
        assert self.factor is not None
        place, _ = self.places[self.factor]
        return load(memory.place(self.memory.buffers[parameter_of(place)], row))

    # --- online -----------------------------------------------------------------------------------
    def find_top(self, row: UOp) -> list[UOp] | None:
        """Which of the dependent STOREs hold what counts once in exp(-top), after a look for the
        maximum, if any, that others are relative to; None if reductions need the whole row.
        """
        found = [r for r in self.reductions if r.arg is Ops.MAX]
        top = found[0] if len(found) == 1 and free_ranges(found[0]) == {row} else None
        is_power: Callable[[UOp], bool] = power_of(top, self.ranges) if top is not None else never
        for one in self.reductions:
            inner = self.below[one] - {one}
            if not one.dtype.is_float or (inner and (inner != {top} or one.arg is not Ops.ADD)):
                return None
            if inner and degree(one.src[0], is_power, inner) != 1:
                return None
        self.top = top
        moving = frozenset(self.reductions)
        return [s for s in self.dependent if degree(s.src[1], is_power, moving) == 1]

    def make_places(self, make: MakeBuffer, powers: Collection[UOp]) -> None:
        """Memory for reductions that have no place, and for the factor by which powers grow."""
        lacking = [one for one in self.reductions if one not in self.places]
        if self.top is not None and powers:
            self.factor = self.top.alu(Ops.EXP)
            lacking.append(self.factor)
        for one in lacking:
            around = tuple(sorted(free_ranges(one), key=number_of))
            sizes = [size_of(inner) or 0 for inner in around]
            buffer = make(self.item.buffers[0].arg.device, prod(sizes), one.dtype)
            position = flat(list(zip(around, sizes, strict=True)))
            self.places[one] = self.memory.place(buffer, position), around


def never(node: UOp) -> bool:
    """There is no power without a maximum."""
    return False


def fission(item: ScheduleItem, ranges: Ranges) -> ReductionFission | None:
    """The kernel split at its reductions over some ranges; None where these are part of other ones,
    or something depends on two of the ranges.
    """
    reductions: list[UOp] = []
    below: dict[UOp, Ranges] = {}
    for node in item.ast.toposort():
        below[node] = NONE.union(*(below[s] for s in node.src))
        if node.op is Ops.SCAN or len(free_ranges(node) & ranges) > 1:
            return None
        if node.op is Ops.REDUCE and not ranges.isdisjoint(node.src[1:]):
            reductions.append(node)
            below[node] |= {node}
        elif node.op is Ops.REDUCE and below[node]:
            return None
    return ReductionFission(item, ranges, reductions, below)
