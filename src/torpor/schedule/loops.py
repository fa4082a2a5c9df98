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
from torpor.ir.infer import count, count_of, largest, shape_of, shaped
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Counter, Jump, ParamArg, ScheduleItem, Section, Stored, calls_host
from torpor.ir.uop import UOp
from torpor.ir.variable import above
from torpor.rules.rebuild import map_nodes
from torpor.schedule.reduction_fission import MakeBuffer

COUNTED_FROM: Final = 4  # rounds: fewer are written out
HANDED: Final = Stored("handed on to the next step")
SEEN_THROUGH: Final = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.LEAF})
Moved = tuple[int, int, int, int]  # a parameter, its start, how far its rows are, all their size
NOT_STORED: Final = frozenset({Ops.BUFFER, Ops.CONST})  # by kernels of a body
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


class Body:
    """Nodes of a loop's body, scheduled. `memory` stands for what they read, by SLOT; `results` is
    where each of them will be.
    """

    def __init__(
        self, nodes: Sequence[UOp], device: str, plan_body: PlanBody, make_buffer: MakeBuffer
    ):
        slots = [n for n in UOp.sink(*nodes).toposort() if n.op is Ops.SLOT]
        self.memory = {n: make_buffer(device, largest(count(n.arg[1])), n.dtype) for n in slots}
        roots = self.over_memory(nodes)
        self.items, places = plan_body([(root, device) for root in roots])
        self.results = [places[root] for root in roots]
        self.asts: dict[tuple[UOp, tuple[Moved, ...], UOp], UOp] = {}

    def over_memory(self, nodes: Sequence[UOp]) -> list[UOp]:
        """The nodes over memory in place of SLOTs, each of them with memory of its own."""
        there = {
            n: shaped(UOp(Ops.RESHAPE, n.dtype, (b,), n.arg[1]), n.arg[1])
            for n, b in self.memory.items()
        }
        seen: set[UOp] = set()
        found = []
        for root in map_nodes(UOp.sink(*nodes).substitute(there), over_whole_buffers).src:
            while (below := root.below(SEEN_THROUGH)) in seen or not is_stored_by_kernel(below):
                root = handed(root)
            seen.add(below)
            found.append(root)
        return found

    def moved(self, ast: UOp, moved: tuple[Moved, ...], row: UOp) -> UOp:
        """A kernel with some of its parameters being parts of other memory."""
        key = ast, moved, row
        if key not in self.asts:
            self.asts[key] = over_parts(ast, moved, row)
        return self.asts[key]


def handed(node: UOp) -> UOp:
    """The node's value in memory of its own."""
    return UOp(Ops.CONTIGUOUS, node.dtype, (node,), HANDED)


def is_of_kernel(node: UOp) -> bool:
    """Whether a kernel computes a node; a copy or a call of the host takes whole buffers."""
    return node.op is not Ops.COPY and not calls_host(node)


def is_stored_by_kernel(node: UOp) -> bool:
    """Whether a node lies where a kernel of the body stores it."""
    return node.op not in NOT_STORED and is_of_kernel(node)


def over_whole_buffers(node: UOp) -> UOp:
    """A node that reads no rows of other memory where it is no kernel's."""
    return node if is_of_kernel(node) else node.replace(src=tuple(map(handed, node.src)))


class Bodies:
    """Bodies of loops, each scheduled once."""

    def __init__(self, plan_body: PlanBody, make_buffer: MakeBuffer):
        self.plan_body, self.make = plan_body, make_buffer
        self.known: dict[tuple[tuple[UOp, ...], str], Body] = {}

    def of(self, nodes: Sequence[UOp], device: str) -> Body:
        """The body that these nodes are."""
        key = tuple(nodes), device
        if key not in self.known:
            self.known[key] = Body(nodes, device, self.plan_body, self.make)
        return self.known[key]

    def kernels(self, item: ScheduleItem) -> Iterator[ScheduleItem]:
        """What a loop's item comes to."""
        loop, _ = item.ast.src[0].src[1].src[0].arg
        kind = Rounds if loop.goes_on is not None else Counted
        return (Unrolled if isinstance(loop.count, int) else kind)(item, self).items()


class Unfolded:
    """A loop's item in memory: what it gives (`outs`, by op and arg), and its operands."""

    def __init__(self, item: ScheduleItem, bodies: Bodies):
        self.item, self.make = item, bodies.make
        given = [store.src[1] for store in item.ast.src]
        self.loop, self.starts = given[0].src[0].arg
        self.outs = dict(zip(((n.op, n.arg) for n in given), item.buffers))
        self.operands = item.buffers[len(given) :]
        self.device = item.buffers[0].arg.device
        self.places: dict[UOp, Place] = {}

    def place_operands(self, body: Body, steps: int) -> None:
        """Say where lies what stands for operands that are no carries."""
        for node, memory in body.memory.items():
            number, shape = node.arg
            if number >= len(self.loop.nexts):
                size = count(shape) if number in self.loop.stepped else 0
                place = Place([self.operands[number]] * steps, self.starts[number], size)
                self.places[memory] = place

    def at(
        self, body: Body, item: ScheduleItem, step: int, sections: dict[Section, Section]
    ) -> ScheduleItem:
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
        checks = tuple(replace(site, looped=True) for site in item.checks)
        made = replace(item, buffers=buffers, checks=checks)
        if item.group is not None:
            section, number = item.group
            again = sections.setdefault(section, Section(section.own))
            made = replace(made, group=(again, number))
        return self.on_rows(made, body, moved, step) if moved else made

    def on_rows(
        self, item: ScheduleItem, body: Body, moved: tuple[Moved, ...], step: int
    ) -> ScheduleItem:
        """A kernel on the rows of a step."""
        count = self.loop.count or 1
        assert isinstance(count, int), "each step is known"
        name = f"v{len(item.variables)}"
        made = replace(item, ast=body.moved(item.ast, moved, UOp.variable(name, 0, count - 1)))
        if not any(by for _, _, by, _ in moved):
            return made
        row = count - 1 - step if self.loop.backwards else step
        return replace(made, variables=(*item.variables, (name, row)))


class Unrolled(Unfolded):
    """A loop of so many steps: the kernels of its body for each of them."""

    def __init__(self, item: ScheduleItem, bodies: Bodies):
        super().__init__(item, bodies)
        self.before: list[ScheduleItem] = []
        self.steps = self.told_apart()
        values = [arg for op, arg in self.outs if op is Ops.STEPS]
        self.body = bodies.of([*self.loop.nexts, *values], self.device)
        carries = len(self.loop.nexts)
        for number, after in enumerate(self.body.results[:carries]):
            self.place_carry(number, after)
        for node, result in zip(values, self.body.results[carries:], strict=True):
            self.places[result] = self.rows(self.outs[Ops.STEPS, node], 0, count_of(node))
        self.place_operands(self.body, self.steps)

    def told_apart(self) -> int:
        """How many steps have places of their own."""
        return int(self.loop.length)

    def rows(self, buffer: UOp, start: int, size: int) -> Place:
        """A row of a buffer at each step."""
        return Place([buffer] * self.steps, start, size)

    def place_carry(self, number: int, after: UOp) -> None:
        """Say where a carry lies before a step, and after it: `after` stands for that."""
        size, before = after.arg.size, carry_in(self.body, number)
        trail = self.outs.get((Ops.TRAIL, number))
        if trail is not None:
            into, out = (size, 0) if self.loop.backwards else (0, size)
            self.before.append(self.begun(number, trail, size))
            self.places[after] = self.rows(trail, out, size)
            if before is not None:
                self.places[before] = self.rows(trail, into, size)
            return
        self.take_turns(number, after, before)

    def begun(self, number: int, trail: UOp, size: int) -> ScheduleItem:
        """What puts a carry's beginning into its trail."""
        first = self.steps * size if self.loop.backwards else 0
        return copy_of(self.operands[number], self.starts[number], trail, first, size)

    def take_turns(self, number: int, after: UOp, before: UOp | None) -> None:
        """Have a carry in two places that take turns."""
        size = after.arg.size
        turns = [after, self.make(self.device, size, after.dtype)]
        written = [turns[step % 2] for step in range(self.steps)]
        written[-1] = self.outs.get((Ops.LAST, number), written[-1])
        self.places[after] = Place(written)
        if before is not None:
            self.places[before] = Place([self.whole(number, size), *written[:-1]])

    def whole(self, number: int, size: int) -> UOp:
        """What a carry begins as, where memory begins: rows of other memory are copied."""
        begins, start = self.operands[number], self.starts[number]
        if not start:
            return begins
        own = self.make(self.device, size, begins.dtype)
        self.before.append(copy_of(begins, start, own, 0, size))
        return own

    def items(self) -> Iterator[ScheduleItem]:
        """All kernels, in order: those that are the same at each step once."""
        yield from self.before
        each = self.at_each_step()
        yield from (self.at(self.body, one, 0, {}) for one in self.body.items if one not in each)
        first, period, rounds = self.alike() if each else (0, 1, 0)
        yield from self.written_out(each, range(first))
        if rounds:
            counter = Counter(rounds)
            inside = list(self.written_out(each, range(first, first + period), counter))
            yield jump(inside[0].buffers[0], Jump(1, counter=counter))
            yield from inside
            yield jump(inside[0].buffers[0], Jump(-len(inside), counter=counter))
        yield from self.written_out(each, range(first + period * rounds, self.loop.length))

    def written_out(
        self, items: Sequence[ScheduleItem], steps: range, counter: Counter | None = None
    ) -> Iterator[ScheduleItem]:
        """Kernels of some steps; with a counter these are the first of rounds."""
        further = -len(steps) if self.loop.backwards else len(steps)
        for step in steps:
            sections: dict[Section, Section] = {}
            for item in items:
                made = self.at(self.body, item, step, sections)
                own = made.variables[len(item.variables) :]
                moves = [(name, counter, further) for name, _ in own] if counter else []
                yield replace(made, moves=(*made.moves, *moves))

    def alike(self) -> tuple[int, int, int]:
        """From which step on so many steps come again and again, with rows aside, and how often."""
        for first, period in ((0, 1), (1, 2)):
            end = self.loop.length - first
            rounds = (end - first) // period
            steps = range(first, end - period)
            if rounds >= COUNTED_FROM and all(
                place.buffers[step] is place.buffers[step + period]
                for place in self.places.values()
                for step in steps
            ):
                return first, period, rounds
        return 0, 1, 0

    def at_each_step(self) -> list[ScheduleItem]:
        """The body's kernels without those that are the same at each step."""
        if any(item.jump for item in self.body.items):
            return list(self.body.items)
        changing = self.changing()
        return [item for item in self.body.items if not changing.isdisjoint(item.buffers)]

    def changing(self) -> set[UOp]:
        """The memory that not all steps find and leave alike."""
        memory, carries = self.body.memory, len(self.loop.nexts)
        found = {b for b, place in self.places.items() if place.by or len({*place.buffers}) > 1}
        found |= {b for n, b in memory.items() if n.arg[0] < carries} | {*self.body.results}
        while True:
            touched = [item for item in self.body.items if not found.isdisjoint(item.buffers)]
            more = {item.buffers[n] for item in touched for n in item.outputs} - found
            if not more:
                return found
            found |= more


class Counted(Unrolled):
    """A loop of as many steps as a variable says: the kernels of a step, done in rounds. A carry
    without a trail is copied to where the next step finds it.
    """

    def __init__(self, item: ScheduleItem, bodies: Bodies):
        self.counter = Counter(item.ast.src[0].src[1].src[0].arg[0].length)
        self.after: list[ScheduleItem] = []
        super().__init__(item, bodies)

    def told_apart(self) -> int:
        return 1

    def begun(self, number: int, trail: UOp, size: int) -> ScheduleItem:
        made = copy_of(self.operands[number], self.starts[number], trail, 0, size)
        if not self.loop.backwards:
            return made
        made, count = self.with_count(made)
        return replace(made, ast=over_parts(made.ast, [(0, 0, size, trail.arg.size)], count))

    def take_turns(self, number: int, after: UOp, before: UOp | None) -> None:
        size = after.arg.size
        end = self.outs.get((Ops.LAST, number)) or self.make(self.device, size, after.dtype)
        self.before.append(copy_of(self.operands[number], self.starts[number], end, 0, size))
        self.after.append(copy_of(after, 0, end, 0, size))
        if before is not None:
            self.places[before] = Place([end])

    def with_count(self, item: ScheduleItem) -> tuple[ScheduleItem, UOp]:
        """A kernel that is given how many steps there are, and what that is in it."""
        bound, more = above(self.loop.length)
        name = f"v{len(item.variables)}"
        given = (*item.variables, (name, int(bound.src[1].arg)))
        made = replace(item, variables=given, bindings=(*item.bindings, bound))
        return made, UOp.variable(name, *bound.src[0].arg[1:]) + more

    def on_rows(
        self, item: ScheduleItem, body: Body, moved: tuple[Moved, ...], step: int
    ) -> ScheduleItem:
        if not any(by for _, _, by, _ in moved):
            return replace(item, ast=body.moved(item.ast, moved, UOp.index_const(0)))
        row = UOp.index_const(0)
        if self.loop.backwards:
            item, count = self.with_count(item)
            row = count - 1
        name = f"v{len(item.variables)}"
        done = UOp.variable(name, 0, largest(self.loop.length) - 1)
        row = row - done if self.loop.backwards else done
        made = replace(item, ast=body.moved(item.ast, moved, row))
        moves = (*item.moves, (name, self.counter, 1))
        return replace(made, variables=(*item.variables, (name, 0)), moves=moves)

    def items(self) -> Iterator[ScheduleItem]:
        yield from self.before
        each = self.at_each_step()
        yield from (self.at(self.body, one, 0, {}) for one in self.body.items if one not in each)
        sections: dict[Section, Section] = {}
        inside = [*(self.at(self.body, item, 0, sections) for item in each), *self.after]
        yield jump(inside[0].buffers[0], Jump(1, counter=self.counter))
        yield from inside
        yield jump(inside[0].buffers[0], Jump(-len(inside), counter=self.counter))


class Rounds(Unfolded):
    """A loop that goes on as long as a bool says: the kernels of that, those of a round, and jumps.

    begin;  look: bool;  jump to the end if not;  round;  jump to `look` if it held
    """

    def __init__(self, item: ScheduleItem, bodies: Bodies):
        super().__init__(item, bodies)
        self.look = bodies.of([self.loop.goes_on], self.device)
        self.round = bodies.of(self.loop.nexts, self.device)
        self.carries = [
            self.outs.get((Ops.LAST, n)) or self.make(self.device, count_of(one), one.dtype)
            for n, one in enumerate(self.loop.nexts)
        ]
        for body in (self.look, self.round):
            self.place_operands(body, 1)
            for number, carry in enumerate(self.carries):
                memory = carry_in(body, number)
                if memory is not None:
                    self.places[memory] = Place([carry])

    def items(self) -> Iterator[ScheduleItem]:
        """All kernels, in order."""
        look = [self.at(self.look, item, 0, {}) for item in self.look.items]
        inside = [self.at(self.round, item, 0, {}) for item in self.round.items]
        for number, carry in enumerate(self.carries):
            size = carry.arg.size
            begins, start = self.operands[number], self.starts[number]
            yield copy_of(begins, start, carry, 0, size)
            inside.append(copy_of(self.round.results[number], 0, carry, 0, size))
        (holds,) = self.look.results
        yield from (*look, jump(holds, Jump(len(inside) + 2, False)), *inside)
        yield jump(holds, Jump(-len(inside) - len(look) - 1, True))


def carry_in(body: Body, number: int) -> UOp | None:
    """What stands for a carry before a step, if the body reads it."""
    return next((memory for n, memory in body.memory.items() if n.arg[0] == number), None)


def jump(flag: UOp, where: Jump) -> ScheduleItem:
    """The item that says where to go on."""
    memory = UOp(Ops.PARAM, flag.dtype, (), ParamArg(0, flag.arg.size))
    ast = UOp.sink(UOp(Ops.IF, dtypes.void, (memory,)))
    return ScheduleItem(ast, (flag,), reason="loop", outputs=(), jump=where)


def over_parts(ast: UOp, moved: Sequence[Moved], row: UOp) -> UOp:
    """A kernel of which some parameters are rows of other memory: (the parameter's number, where
    row 0 begins, how far the next is, and the size of that memory).
    """
    known = {slot: rest for slot, *rest in moved}

    def placed(node: UOp) -> UOp:
        memory = node.src[0] if node.op is Ops.INDEX else node
        if memory.op is not Ops.PARAM or memory.arg.slot not in known:
            return node
        start, by, size = known[memory.arg.slot]
        if node is memory:
            return node.replace(arg=ParamArg(node.arg.slot, size))
        position = (node.src[1] + (row * by + start)).simplify()
        return node.replace(src=(memory, position, *node.src[2:]))

    return map_nodes(ast, placed)


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
    return ScheduleItem(UOp.sink(store), (into, begins), reason="carried on")
