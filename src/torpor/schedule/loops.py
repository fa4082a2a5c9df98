"""Loops in a schedule: an item that stands for a loop, and the kernels that it comes to.

The body is scheduled once, over memory that stands for one step's: SLOTs of the operands, the next
carries, and values that are kept by step. Each step runs the same kernels. Where they read or write
rows, a VARIABLE says which; carries lie in two places that take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import CheckSite, ParamArg, ScheduleItem, Section, Stored
from torpor.ir.uop import UOp
from torpor.schedule.chain import BLOCK_NUMBER, MakeBuffer
from torpor.schedule.region import count

STEP: Final = BLOCK_NUMBER.format(" of a loop")  # name of the VARIABLE that counts steps
HANDED: Final = Stored("handed on to the next step")
SEEN_THROUGH: Final = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.LEAF})
Moved = tuple[int, int, int, int]  # a parameter, its start, how far its rows are, all their size
PlanBody = Callable[[Sequence[tuple[UOp, str]]], tuple[Sequence[ScheduleItem], dict[UOp, UOp]]]


# --- the item that stands for a loop --------------------------------------------------------------
def below_parts(node: UOp) -> tuple[UOp, int]:
    """What a node is consecutive rows of, and at which of its elements they begin."""
    start = 0
    while True:
        if node.op is Ops.SHRINK and is_rows(node):
            start += node.arg[0][0] * count(shape_of(node.src[0])[1:])
        elif node.op is not Ops.RESHAPE:
            return node, start
        node = node.src[0]


def is_rows(node: UOp) -> bool:
    """Whether a SHRINK takes whole rows along the first axis."""
    rest = zip(node.arg[1:], shape_of(node.src[0])[1:], strict=True)
    return isinstance(node.arg[0][0], int) and all(box == (0, size) for box, size in rest)


def loop_item(given: Sequence[UOp], places: dict[UOp, UOp]) -> ScheduleItem:
    """The item of what a LOOP gives: memory of that first, then of its operands."""
    loop = given[0].src[0]
    found = [below_parts(source) for source in loop.src]
    buffers = [*(places[n] for n in given), *(places.get(node, node) for node, _ in found)]
    memory = [UOp(Ops.PARAM, b.dtype, (), ParamArg(n, b.arg.size)) for n, b in enumerate(buffers)]
    starts = tuple(start for _, start in found)
    body = UOp(Ops.LOOP, dtypes.void, tuple(memory[len(given) :]), (loop.arg, starts))
    stores = [
        UOp(Ops.STORE, dtypes.void, (one, node.replace(src=(body,))))
        for one, node in zip(memory, given)
    ]
    origins = tuple(dict.fromkeys(origin for node in given for origin in node.origins))
    return ScheduleItem(
        UOp.sink(*stores), tuple(buffers), reason="loop", outputs=tuple(range(len(given))),
        origins=origins,
    )  # fmt: skip


def is_loop(item: ScheduleItem) -> bool:
    """Whether the item stands for a loop."""
    first = item.ast.src[0].src[1]
    return bool(first.src) and first.src[0].op is Ops.LOOP


# --- the kernels that it comes to -----------------------------------------------------------------
@dataclass(frozen=True)
class Place:
    """Where a buffer of the body lies: in which buffer at each step, in the order in which they
    run; from element `start` on in row 0, and `by` further from row to row.
    """

    buffers: Sequence[UOp]
    start: int = 0
    by: int = 0

    @property
    def moves(self) -> bool:
        """Whether it is a part of other memory."""
        return bool(self.start or self.by)


class Unrolled:
    """A loop's item as the kernels that it comes to."""

    def __init__(self, item: ScheduleItem, plan_body: PlanBody, make_buffer: MakeBuffer):
        self.item, self.make = item, make_buffer
        self.given = [store.src[1] for store in item.ast.src]
        self.loop, self.starts = self.given[0].src[0].arg
        self.outs = dict(zip(((n.op, n.arg) for n in self.given), item.buffers))
        self.operands = item.buffers[len(self.given) :]
        self.device = item.buffers[0].arg.device
        self.places: dict[UOp, Place] = {}
        self.before: list[ScheduleItem] = []
        self.asts: dict[tuple[UOp, tuple[Moved, ...]], UOp] = {}
        values = [node.arg for node in self.given if node.op is Ops.STEPS]
        self.slots = slots_in([*self.loop.nexts, *values])
        self.memory = {n: self.make(self.device, count(n.arg[1]), n.dtype) for n in self.slots}
        roots = self.over_memory([*self.loop.nexts, *values])
        self.body, results = plan_body([(root, self.device) for root in roots])
        afters = [results[root] for root in roots[: len(self.loop.nexts)]]
        for number, after in enumerate(afters):
            self.place_carry(number, after)
        for node, root in zip(values, roots[len(afters) :], strict=True):
            out = self.outs[Ops.STEPS, node]
            self.places[results[root]] = self.rows(out, 0, count(shape_of(node)))
        for node in self.slots:
            number, shape = node.arg
            if number >= len(afters):
                size = count(shape) if number in self.loop.stepped else 0
                place = self.rows(self.operands[number], self.starts[number], size)
                self.places[self.memory[node]] = place

    def over_memory(self, nodes: Sequence[UOp]) -> list[UOp]:
        """The nodes over memory in place of SLOTs, each of them with memory of its own."""
        there = {
            n: shaped(UOp(Ops.RESHAPE, n.dtype, (b,), n.arg[1]), n.arg[1])
            for n, b in self.memory.items()
        }
        seen: set[UOp] = set()
        found = []
        for root in UOp.sink(*nodes).substitute(there).src:
            while (below := root.below(SEEN_THROUGH)) in seen or below.op in (
                Ops.BUFFER,
                Ops.CONST,
            ):
                root = UOp(Ops.CONTIGUOUS, root.dtype, (root,), HANDED)
            seen.add(below)
            found.append(root)
        return found

    def rows(self, buffer: UOp, start: int, size: int) -> Place:
        """A row of a buffer at each step."""
        return Place([buffer] * self.loop.count, start, size)

    def place_carry(self, number: int, after: UOp) -> None:
        """Say where a carry lies before a step, and after it: `after` stands for that."""
        size, begins = after.arg.size, self.operands[number]
        before = next((self.memory[n] for n in self.slots if n.arg[0] == number), None)
        trail = self.outs.get((Ops.TRAIL, number))
        steps = self.loop.count
        if trail is not None:
            into, out = (size, 0) if self.loop.backwards else (0, size)
            first = steps * size if self.loop.backwards else 0
            self.before.append(copy_of(begins, self.starts[number], trail, first, size))
            self.places[after] = Place([trail] * steps, out, size)
            if before is not None:
                self.places[before] = Place([trail] * steps, into, size)
            return
        turns = [after, self.make(self.device, size, after.dtype)]
        written = [turns[step % 2] for step in range(steps)]
        written[-1] = self.outs.get((Ops.LAST, number), written[-1])
        self.places[after] = Place(written)
        if before is not None:
            self.places[before] = Place([begins, *written[:-1]])

    # --- the kernels ------------------------------------------------------------------------------
    def items(self) -> Iterator[ScheduleItem]:
        """All kernels, in order: those that are the same at each step once."""
        yield from self.before
        changing = self.changing()
        each = [item for item in self.body if not changing.isdisjoint(item.buffers)]
        yield from (self.at(item, 0, {}) for item in self.body if item not in each)
        for step in range(self.loop.count):
            sections: dict[Section, Section] = {}
            yield from (self.at(item, step, sections) for item in each)

    def changing(self) -> set[UOp]:
        """The memory that not all steps find and leave alike."""
        found = {b for b, place in self.places.items() if place.by or len({*place.buffers}) > 1}
        found |= {b for n, b in self.memory.items() if n.arg[0] < len(self.loop.nexts)}
        found |= {b for b in self.places if b not in self.memory.values()}
        while True:
            touched = [item for item in self.body if not found.isdisjoint(item.buffers)]
            more = {item.buffers[n] for item in touched for n in item.outputs} - found
            if not more:
                return found
            found |= more

    def at(self, item: ScheduleItem, step: int, sections: dict[Section, Section]) -> ScheduleItem:
        """A kernel of the body as it is at a step."""
        places = [self.places.get(b) for b in item.buffers]
        buffers = tuple(
            b if place is None else place.buffers[step]
            for b, place in zip(item.buffers, places, strict=True)
        )
        moved = tuple(
            (n, place.start, place.by, buffers[n].arg.size)
            for n, place in enumerate(places)
            if place is not None and place.moves
        )
        made = replace(item, buffers=buffers, checks=tuple(map(in_a_loop, item.checks)))
        if item.group is not None:
            section, number = item.group
            again = sections.setdefault(section, Section(section.own))
            made = replace(made, group=(again, number))
        if not moved:
            return made
        name = f"v{len(item.variables)}"
        variable = UOp.variable(name, 0, self.loop.count - 1)
        made = replace(made, ast=self.moved(item.ast, moved, variable))
        if not any(by for _, _, by, _ in moved):
            return made
        row = self.loop.count - 1 - step if self.loop.backwards else step
        counter = UOp.variable(STEP, 0, self.loop.count - 1)
        return replace(
            made,
            variables=(*item.variables, (name, row)),
            bindings=(*item.bindings, UOp(Ops.BIND, dtypes.index, (counter, UOp.index_const(row)))),
        )

    def moved(self, ast: UOp, moved: tuple[Moved, ...], row: UOp) -> UOp:
        """The kernel with some of its parameters being parts of other memory."""
        key = ast, moved
        if key not in self.asts:
            self.asts[key] = over_parts(ast, moved, row)
        return self.asts[key]


def slots_in(nodes: Sequence[UOp]) -> list[UOp]:
    """The SLOTs below some nodes."""
    return [n for n in UOp.sink(*nodes).toposort() if n.op is Ops.SLOT]


def in_a_loop(site: CheckSite) -> CheckSite:
    """What a check means, asked in a loop."""
    return replace(site, looped=True)


def over_parts(ast: UOp, moved: Sequence[Moved], row: UOp) -> UOp:
    """A kernel of which some parameters are rows of other memory: (the parameter's number, where
    row 0 begins, how far the next is, and the size of that memory).
    """
    known = {slot: rest for slot, *rest in moved}
    done: dict[UOp, UOp] = {}
    for node in ast.toposort():
        source = [done[s] for s in node.src]
        if node.op is Ops.PARAM and node.arg.slot in known:
            done[node] = node.replace(arg=ParamArg(node.arg.slot, known[node.arg.slot][2]))
            continue
        if node.op is Ops.INDEX and node.src[0].op is Ops.PARAM and node.src[0].arg.slot in known:
            start, by, _ = known[node.src[0].arg.slot]
            source[1] = (source[1] + (row * by + start)).simplify()
        done[node] = node if tuple(source) == node.src else node.replace(src=tuple(source))
    return done[ast]


def copy_of(begins: UOp, start: int, into: UOp, place: int, size: int) -> ScheduleItem:
    """The kernel that puts elements of a buffer into another one."""
    target, origin = (
        UOp(Ops.PARAM, b.dtype, (), ParamArg(n, b.arg.size)) for n, b in enumerate((into, begins))
    )
    each = UOp.range(size, 0, AxisType.GLOBAL) if size > 1 else UOp.index_const(0)
    read, written = (
        UOp(Ops.INDEX, into.dtype, (memory, (each + first).simplify()))
        for memory, first in ((origin, start), (target, place))
    )
    value = UOp(Ops.LOAD, into.dtype, (read,))
    ranges = (each,) if size > 1 else ()
    store = UOp(Ops.STORE, dtypes.void, (written, value, *ranges))
    return ScheduleItem(UOp.sink(store), (into, begins), reason="where a loop begins")
