"""Schedules on disk, by the canonical form of their graphs: a warm start plans nothing.

An entry names memory by number: that of the graph first, then what the schedule makes. It has no
places in programs: those of kernels come from the graph that is there, and what a check means, if
one fails, is planned anew. So an entry serves every graph of one form, as a recipe does.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from torpor.base.dtypes import DType, from_name
from torpor.base.target import Target
from torpor.device import Device
from torpor.ir.infer import JOINT
from torpor.ir.ops import Ops
from torpor.ir.records import Counter, Jump, ScheduleItem, Section
from torpor.ir.uop import UOp
from torpor.pipeline import disk
from torpor.pipeline.canonical import Canonical
from torpor.pipeline.recipe import Result

# What decides on schedules besides what decides on kernels.
ROOMS: Final = (*disk.ROOMS, "graph", "schedule", "pipeline")
ADDRESS: Final = " at 0x"  # in the text of what is another thing in each process

Roots = Sequence[tuple[UOp, str]]
MakeBuffer = Callable[[str, int, DType], UOp]
Schedule = tuple[tuple[ScheduleItem, ...], list[Result]]
Lines = dict[Any, tuple[int, int]]  # of an origin: a node that has it, and its place there


class Unfit(Exception):
    """A schedule holds what another process has not."""


def name_of(form: Canonical, roots: Roots) -> str | None:
    """The name of the entry for a graph; None where none is kept."""
    devices = {one for _, joined in roots for one in joined.split(JOINT)}
    if not all(map(is_kept, devices)):
        return None
    settings, wanted, *lists = form.key
    shown = (*["\0".join(map(text_of, one)) for one in lists], repr(wanted), repr(tuple(settings)))
    if any(ADDRESS in text for text in shown):
        return None
    keys = sorted(Device[one].key for one in devices)
    digest = hashlib.sha256("\n".join((disk.code_version(ROOMS), *keys, *shown)).encode())
    return digest.hexdigest()


def is_kept(device: str) -> bool:
    """Whether schedules for a device are kept: where kernels are."""
    target: Target = Device[device].target
    return disk.usable(target)


def text_of(word: Any) -> str:
    """A word of a canonical form, so that equal ones have equal texts in all processes."""
    if type(word) is UOp:  # a constant
        return f"{word.dtype!r} {word.arg!r}"
    return word.name if type(word) is Ops else repr(word)


# --- writing --------------------------------------------------------------------------------------
def lines_of(form: Canonical) -> Lines:
    """Where each origin is found in a graph: before it is planned, which hands origins down."""
    found: Lines = {}
    for node, number in form.order.items():
        for place, origin in enumerate(node.origins):
            found.setdefault(origin, (number, place))
    return found


def write(name: str, form: Canonical, lines: Lines, schedule: Schedule) -> None:
    """Keep a schedule on disk, if it means the same in another process."""
    try:
        body = pickle.dumps(_Writer(form, lines).entry(*schedule))
    except (Unfit, pickle.PicklingError, TypeError, AttributeError):
        return
    disk.write_body(disk.SCHEDULES, name, body)


class _Writer:
    def __init__(self, form: Canonical, lines: Lines):
        self.lines = lines
        self.bound = {node: number for number, node in enumerate(form.bound)}
        self.slots = {id(buffer): number for number, buffer in enumerate(form.buffers)}
        self.made: list[tuple[str, int, str]] = []
        self.numbers: dict[UOp, int] = {}
        self.nodes: list[tuple[str, str, tuple[int, ...], Any]] = []
        self.sections: dict[Section, int] = {}
        self.counters: dict[Counter, int] = {}

    def entry(self, items: Sequence[ScheduleItem], results: Sequence[Result]) -> Any:
        written = list(map(self.item, items))
        values = [
            ([(self.slot(node), plain(shape)) for node, shape in one.parts], one.joint)
            for one in results
        ]
        sections = [[self.slot(node) for node in section.own] for section in self.sections]
        rounds = [counter.rounds for counter in self.counters]
        return self.nodes, self.made, sections, rounds, written, values

    def item(self, item: ScheduleItem) -> Any:
        buffers = [self.slot(node) for node in item.buffers]
        bound = [self.place(node) for node in item.bindings]
        values = item.variables[len(bound) :] if bound else item.variables
        names = [name for name, _ in item.variables[: len(bound)]]
        group = None
        if item.group is not None:
            section, number = item.group
            group = self.sections.setdefault(section, len(self.sections)), number
        lines = [self.lines[o] for o in item.origins if o in self.lines]
        ast, jump = self.node(item.ast), None
        if item.jump is not None:
            jump = item.jump.by, item.jump.holds, self.counter(item.jump.counter)
        moves = [(name, self.counter(counter), by) for name, counter, by in item.moves]
        memory = ast, buffers, names, bound, values
        return *memory, item.reason, item.outputs, lines, group, jump, moves

    def counter(self, counter: Counter | None) -> int | None:
        """The number of what counts rounds."""
        if counter is None:
            return None
        return self.counters.setdefault(counter, len(self.counters))

    def place(self, node: UOp) -> int:
        """The number of a bound variable of the graph."""
        if node not in self.bound:
            raise Unfit("a variable that is not the graph's")
        return self.bound[node]

    def slot(self, node: UOp) -> int:
        """The number of memory: the graph's, or such as the schedule makes."""
        buffer = node.arg
        if id(buffer) not in self.slots:
            if buffer.is_allocated() or not is_kept(buffer.device):
                raise Unfit("memory that is neither the graph's nor new")
            self.slots[id(buffer)] = len(self.slots)
            self.made.append((buffer.device, buffer.size, buffer.dtype.name))
        return self.slots[id(buffer)]

    def node(self, root: UOp) -> int:
        """The number of a kernel's node, written down with what is below it."""
        for node in root.toposort(lambda n: n not in self.numbers):
            if node not in self.numbers:
                source = tuple([self.numbers[s] for s in node.src])
                self.numbers[node] = len(self.numbers)
                self.nodes.append((node.op.name, node.dtype.name, source, node.arg))
        return self.numbers[root]


def plain(shape: Iterable[Any]) -> tuple[int, ...]:
    """A shape of numbers."""
    sizes = tuple(shape)
    if not all(type(size) is int for size in sizes):
        raise Unfit("a size that is a variable")
    return sizes


# --- reading --------------------------------------------------------------------------------------
def read(name: str, form: Canonical, make_buffer: MakeBuffer) -> Schedule | None:
    """The schedule of a graph from the disk; None where it is missing or damaged."""
    body = disk.read_body(disk.SCHEDULES, name)
    if body is None:
        return None
    written, made, sections, rounds, items, results = pickle.loads(body)
    nodes = _nodes(written)
    memory = [UOp(Ops.BUFFER, buffer.dtype, (), buffer) for buffer in form.buffers]
    memory += [make_buffer(device, size, from_name(dtype)) for device, size, dtype in made]
    groups = [Section(frozenset(memory[slot] for slot in own)) for own in sections]
    graph, counters = list(form.order), list(map(Counter, rounds))
    found = tuple([_item(one, nodes, memory, form.bound, graph, groups, counters) for one in items])
    values = [
        Result(tuple([(memory[slot], shape) for slot, shape in parts]), joint)
        for parts, joint in results
    ]
    return found, values


def _nodes(written: Sequence[tuple[str, str, tuple[int, ...], Any]]) -> list[UOp]:
    ops: Mapping[str, Ops] = Ops.__members__
    formats: dict[str, DType] = {}
    nodes: list[UOp] = []
    for op, name, source, arg in written:
        dtype = formats.get(name) or formats.setdefault(name, from_name(name))
        nodes.append(UOp(ops[op], dtype, tuple([nodes[n] for n in source]), arg))
    return nodes


def _item(
    written: Any, nodes: Sequence[UOp], memory: Sequence[UOp], bound: Sequence[UOp],
    graph: Sequence[UOp], groups: Sequence[Section], counters: Sequence[Counter],
) -> ScheduleItem:  # fmt: skip
    ast, buffers, names, places, values, reason, outputs, lines, group, jump, moves = written
    bindings = tuple([bound[place] for place in places])
    known = [(name, int(node.src[1].arg)) for name, node in zip(names, bindings, strict=True)]
    origins = chain.from_iterable(graph[n].origins[place : place + 1] for n, place in lines)
    return ScheduleItem(
        nodes[ast],
        tuple([memory[slot] for slot in buffers]),
        (*known, *values),
        reason,
        (),
        outputs,
        tuple(dict.fromkeys(origins)),
        bindings,
        None if group is None else (groups[group[0]], group[1]),
        None if jump is None else _jump(jump, counters),
        tuple([(name, counters[number], by) for name, number, by in moves]),
    )


def _jump(written: tuple[int, bool, int | None], counters: Sequence[Counter]) -> Jump:
    by, holds, number = written
    return Jump(by, holds, None if number is None else counters[number])
