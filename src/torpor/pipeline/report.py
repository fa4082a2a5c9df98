"""What DEBUG prints about schedules and kernels, and what `measuring` collects."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import DeviceError
from torpor.base.site import decode
from torpor.device.base import DeviceBase
from torpor.ir.ops import Ops
from torpor.ir.records import Program, ScheduleItem
from torpor.ir.text import show, show_lines
from torpor.ir.trace import Event, listener, listening
from torpor.ir.uop import UOp
from torpor.pipeline.journal import journal, recording


@dataclass(frozen=True)
class KernelRun:
    """One launch: the schedule item, its program (None for a copy), and seconds."""

    item: ScheduleItem
    program: Program | None
    seconds: float


@dataclass
class Measurement:
    """Launches, compilations (program, seconds, whether it came from disk), and how many tensor
    operations the graphs had that were scheduled.
    """

    operations: int = 0
    runs: list[KernelRun] = field(default_factory=list)
    compiles: list[tuple[Program, float, bool]] = field(default_factory=list)


_measurement: Final[ContextVar[Measurement | None]] = ContextVar("torpor_measure", default=None)


where_noted: Final = _measurement.get  # where launches are noted here and now, if anywhere


@contextmanager
def measuring() -> Iterator[Measurement]:
    """Collect every kernel launch and compilation inside the block."""
    measurement = Measurement()
    token = _measurement.set(measurement)
    try:
        yield measurement
    finally:
        _measurement.reset(token)


def timing() -> bool:
    """Whether launches are timed here and now."""
    now = settings.snapshot()
    return where_noted() is not None or now["DEBUG"] not in (0, 1) or now["VIZ"] != 0


def watched() -> bool:
    """Whether anything is printed or collected about schedules, here and now."""
    return settings.number("DEBUG") >= 1 or _measurement.get() is not None or recording()


def say(text: str) -> None:
    """Diagnostics go to standard error, so that a program's output stays its own."""
    print(text, file=sys.stderr)


say_once: Final = lru_cache(maxsize=64)(say)  # what would be said again and again


def say_event(event: Event) -> None:
    """One application of a rule: the stage, the rule, and the nodes before and after."""
    before, after = show(event.before).splitlines(), show(event.after).splitlines()
    say(f"{event.stage}: {event.rule}\n  - {before[-1]}\n  + {after[-1]}")


def tell_event(event: Event) -> None:
    """Print an application of a rule, write it down, or both, as the settings are."""
    if settings.number("DEBUG") >= 6:
        say_event(event)
    if recording():
        journal().rewrite(event)


@contextmanager
def narrating() -> Iterator[None]:
    """Inside the block, DEBUG=6 prints every rewrite and VIZ=1 writes it down (unless somebody else
    listens).
    """
    if (settings.number("DEBUG") < 6 and not recording()) or listener() is not None:
        yield
        return
    with listening(tell_event):
        yield


def note_graph(root: UOp) -> None:
    """Count the operations of a graph that is about to be scheduled."""
    measurement = _measurement.get()
    if measurement is not None:
        leaves = (Ops.CONST, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.SINK, Ops.LEAF, Ops.DETACH)
        measurement.operations += sum(node.op not in leaves for node in root.toposort())


def note_compile(program: Program, seconds: float, from_disk: bool) -> None:
    measurement = _measurement.get()
    if measurement is not None:
        measurement.compiles.append((program, seconds, from_disk))


def note_run(item: ScheduleItem, program: Program | None, seconds: float) -> None:
    measurement = _measurement.get()
    if measurement is not None:
        measurement.runs.append(KernelRun(item, program, seconds))
    if recording():
        journal().run(item, program, seconds)
    if settings.number("DEBUG") >= 2:
        say(describe_run(item, program, seconds))


def describe_run(item: ScheduleItem, program: Program | None, seconds: float) -> str:
    """One line: device, kernel, time, rates, the reason it is a kernel of its own, its origin."""
    device = item.buffers[0].arg.device
    name = program.name if program is not None else "copy"
    moved = program.bytes if program is not None else 2 * item.buffers[0].arg.nbytes
    flops = program.ops if program is not None else 0
    rates = f"{flops / seconds / 1e9:8.2f} GFLOP/s {moved / seconds / 1e9:7.2f} GB/s"
    where = f"  {decode(item.origins[0])}" if item.origins else ""
    return f"*** {device:8} {name:32} {seconds * 1e6:10.1f} us {rates}  {item.reason}{where}"


def show_schedule(items: Sequence[ScheduleItem]) -> None:
    """What DEBUG and VIZ ask for about kernels that are about to run."""
    if recording() and items:
        journal().schedule(items)
    if settings.number("DEBUG") >= 1 and items:
        devices = ", ".join(dict.fromkeys(item.buffers[0].arg.device for item in items))
        say(f"schedule: {len(items)} kernels on {devices}")


def show_program(ast: UOp, program: Program, device: DeviceBase) -> None:
    """What DEBUG and VIZ ask for about a program that has just been made ready."""
    if recording():
        journal().program(ast, program, device.name)
    level = settings.number("DEBUG")
    if level >= 3:
        say(f"{show(ast)}\nopts of {program.name}: {list(program.opts)}")
    if level >= 4:
        say(program.source)
    if level >= 5:
        say(show_lines(program.linear))
    if level >= 7:
        say(assembly_of(program, device))


def assembly_of(program: Program, device: Any) -> str:
    """Machine code as text, or why there is none."""
    try:
        return str(device.compiler.assembly(program))
    except DeviceError as error:
        return f"; {error}"
