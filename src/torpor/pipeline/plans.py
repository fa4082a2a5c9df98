"""Schedules on disk, by the canonical form of their graphs: a warm start plans nothing.

An entry names memory by number: that of the graph first, then what the schedule makes. It has no
places in programs: those of kernels come from the graph that is there, and what a check means, if
one fails, is planned anew. So an entry serves every graph of one form, as a recipe does.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import chain
from typing import Any, Final

from torpor.base.target import Target
from torpor.device import Buffer, Device
from torpor.ir.infer import JOINT
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import disk
from torpor.pipeline.canonical import Canonical
from torpor.pipeline.recipe import Result

# What decides on schedules besides what decides on kernels.
ROOMS: Final = (*disk.ROOMS, "graph", "schedule", "pipeline")
ADDRESS: Final = " at 0x"  # in the text of what is another thing in each process

Roots = Sequence[tuple[UOp, str]]
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
    if type(word) is UOp and word.op is Ops.CONST:
        return f"{word.dtype!r} {word.arg!r}"
    return word.name if type(word) is Ops else repr(word)


# --- writing --------------------------------------------------------------------------------------
def lines_of(form: Canonical) -> Lines:
    """Where each origin is found in a graph: before it is planned, which hands origins down."""
    found: Lines = {}
    for number, node in enumerate(form.order):
        for place, origin in enumerate(node.origins):
            found.setdefault(origin, (number, place))
    return found


def write(name: str, form: Canonical, lines: Lines, schedule: Schedule) -> None:
    """Keep a schedule on disk, if it means the same in another process."""
    items, results = schedule
    # In order, since what a node is made of is pickled within it where it has not come before.
    nodes = list(UOp.sink(*dict.fromkeys(item.ast for item in items)).toposort())
    known = [[lines[o] for o in item.origins if o in lines] for item in items]
    plain = [replace(item, checks=(), origins=()) for item in items]
    body = BytesIO()
    try:
        if any(type(n) is not int for one in results for _, shape in one.parts for n in shape):
            raise Unfit("a size that is a variable")
        _Writer(body, form).dump((nodes, plain, known, results))
    except (Unfit, pickle.PicklingError, TypeError, AttributeError):
        return
    disk.write_body(disk.SCHEDULES, name, body.getvalue())


class _Writer(pickle.Pickler):
    """Has numbers for what is the graph's, and for memory that the schedule makes."""

    def __init__(self, stream: BytesIO, form: Canonical):
        super().__init__(stream)
        self.bound = {node: number for number, node in enumerate(form.bound)}
        self.slots: dict[int, Any] = {id(one): number for number, one in enumerate(form.buffers)}

    def persistent_id(self, value: Any) -> Any:
        if type(value) is Buffer:
            if id(value) not in self.slots:
                self.slots[id(value)] = self.made(value)
            return self.slots[id(value)]
        if type(value) is UOp and value.op is Ops.BIND:
            if value not in self.bound:
                raise Unfit("a variable that is not the graph's")
            return "bound", self.bound[value]
        return None

    def made(self, buffer: Buffer) -> Any:
        """What there is to know of memory that the schedule makes."""
        if buffer.is_allocated() or not is_kept(buffer.device):
            raise Unfit("memory that is neither the graph's nor new")
        return len(self.slots), str(buffer.device), buffer.size, buffer.dtype

    def reducer_override(self, value: Any) -> Any:
        if type(value) is UOp:
            return UOp, (value.op, value.dtype, value.src, value.arg)
        return NotImplemented


# --- reading --------------------------------------------------------------------------------------
def read(name: str, form: Canonical) -> Schedule | None:
    """The schedule of a graph from the disk; None where it is missing or damaged."""
    body = disk.read_body(disk.SCHEDULES, name)
    if body is None:
        return None
    _, items, known, results = _Reader(BytesIO(body), form).load()
    graph = list(form.order)
    return tuple([of_graph(*pair, graph) for pair in zip(items, known, strict=True)]), results


class _Reader(pickle.Unpickler):
    def __init__(self, stream: BytesIO, form: Canonical):
        super().__init__(stream)
        self.form = form
        self.made: dict[int, Buffer] = {}

    def persistent_load(self, known: Any) -> Any:
        if type(known) is int:
            return self.form.buffers[known]
        number, *kind = known
        if number == "bound":
            return self.form.bound[kind[0]]
        return self.made.get(number) or self.made.setdefault(number, Buffer(*kind))


def of_graph(
    item: ScheduleItem, lines: Sequence[tuple[int, int]], graph: Sequence[UOp]
) -> ScheduleItem:
    """An item with the values of variables that the graph has now, and its lines."""
    named = zip(item.variables, item.bindings, strict=False)
    bound = tuple([(name, int(node.src[1].arg)) for (name, _), node in named])
    origins = chain.from_iterable(graph[n].origins[place : place + 1] for n, place in lines)
    values = (*bound, *item.variables[len(bound) :])
    return replace(item, variables=values, origins=tuple(dict.fromkeys(origins)))
