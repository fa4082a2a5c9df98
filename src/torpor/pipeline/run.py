"""Running a schedule: memory for results, kernels in order, errors in the user's terms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import get_ident
from typing import Final

from torpor.base.errors import DivisionByZeroError, OutOfBoundsError, ValueRangeError
from torpor.base.site import decode
from torpor.device import copy_buffer
from torpor.device.base import Executable
from torpor.ir.infer import shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import CheckSite, Program, Requirement, ScheduleItem
from torpor.ir.trace import listener
from torpor.ir.uop import UOp
from torpor.pipeline import anew
from torpor.pipeline.compile import executable_for, is_copy, make_ready
from torpor.pipeline.inplace import heirs
from torpor.pipeline.report import note_run, show_schedule, timing, watched


@dataclass(frozen=True)
class Prepared:
    """A schedule item that is ready to run; a copy has no program."""

    item: ScheduleItem
    program: Program | None
    executable: Executable | None
    values: tuple[int, ...]


# By thread: who wants to know what has been run (the jit, while it traces a function).
recorders: Final[dict[int, Callable[[Sequence[Prepared]], None]]] = {}


def prepare(item: ScheduleItem) -> Prepared:
    """The item with its program compiled and loaded."""
    if is_copy(item):
        return Prepared(item, None, None, ())
    program, executable = executable_for(item)
    return Prepared(item, program, executable, program.values_of(item.variables))


def recorded() -> bool:
    """Whether the jit traces what this thread runs."""
    return bool(recorders) and get_ident() in recorders


def observed() -> bool:
    """Whether somebody wants to see the schedules that run: DEBUG, `measuring`, a trace."""
    return recorded() or watched() or listener() is not None


def run(items: Sequence[ScheduleItem], keep: Iterable[UOp] = ()) -> list[Prepared]:
    """Run the kernels in order; gives them as they ran. Memory of results that are in `keep` stays;
    other results are let go after the last kernel that reads them.
    """
    show_schedule(items)
    missing = make_ready(items)
    if not recorded():  # the jit knows by itself how often it traces
        anew.compiled(missing) if missing else anew.ran()
    ready = [prepare(item) for item in items]
    last = last_uses(items, frozenset(keep))
    inherited = heirs([(r.program, r.item.buffers) for r in ready], set(chain(*last.values())))
    for number, prepared in enumerate(ready):
        for new, old in inherited.get(number, ()):
            new.arg.share(old.arg)
        launch(prepared)
        for buffer in last.get(number, ()):
            buffer.arg.deallocate()
    if recorders and (recorder := recorders.get(get_ident())) is not None:
        recorder(ready)
    return ready


def last_uses(items: Sequence[ScheduleItem], keep: frozenset[UOp]) -> dict[int, list[UOp]]:
    """By number of the kernel that uses it last: the results made here that nobody keeps."""
    made = {item.buffers[n] for item in items for n in item.outputs} - keep
    final = {buffer: n for n, item in enumerate(items) for buffer in item.buffers if buffer in made}
    last: dict[int, list[UOp]] = {}
    for buffer, number in final.items():
        last.setdefault(number, []).append(buffer)
    return last


def launch(prepared: Prepared) -> None:
    """Run one item; its outputs get memory if they have none."""
    item = prepared.item
    buffers = [node.arg for node in item.buffers]
    for number in item.outputs:
        if not buffers[number].is_allocated():
            buffers[number].allocate()
    for buffer in buffers:
        if not buffer.is_allocated():
            buffer.allocate()  # `empty`: whatever lies there
    started = time.perf_counter() if timing() else 0.0
    if prepared.executable is None:
        copy_buffer(buffers[0], buffers[1])
        error = 0
    else:
        error = prepared.executable(buffers, prepared.values)
    if started:
        note_run(item, prepared.program, started, time.perf_counter() - started)
    if error:
        raise Refused(item.checks[error - 1])


class Refused(Exception):
    """A kernel says that what `site` asks does not hold."""

    def __init__(self, site: CheckSite):
        super().__init__(site)
        self.site = site


def requirement_of(site: CheckSite) -> Requirement | None:
    """What the failed check's operation says itself, or that which gave it its index."""
    node = site.node if site.kind == "requirement" else site.node.src[1].below(MOVEMENT)
    return node.arg if node.op is Ops.CHECK and site.kind != "division" else None


def error_of(site: CheckSite, found: int | None = None) -> Exception:
    """What a failed check means to the user; `found`: the index that failed it, if it is known."""
    where = "".join(f"\n  built at {decode(origin)}" for origin in site.node.origins)
    requirement = requirement_of(site)
    if requirement is not None:
        fault = OutOfBoundsError if requirement.kind == "index" else ValueRangeError
        which = "" if found is None else f": {found}"
        return fault(f"{requirement.text}{which}{where}")
    shapes = ", ".join(str(shape_of(s)) for s in site.node.src)
    if site.kind == "index":
        source, index = (s.below(MOVEMENT) for s in site.node.src[:2])
        return OutOfBoundsError(
            f"an index is out of bounds for the axis that it selects from: {site.size} elements "
            f"of a tensor of shape {shape_of(source)}, indices of shape "
            f"{shape_of(index)}{where}"
        )
    name = "//" if site.node.op.name == "IDIV" else "%"
    return DivisionByZeroError(
        f"integer {name} by zero (operands of shapes {shapes}, {site.node.dtype.name}){where}"
    )
