"""What DEBUG prints about schedules and kernels, and what `measuring` collects."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any, Final

from torpor.base import phases, settings
from torpor.base.errors import DeviceError
from torpor.base.site import decode
from torpor.device import Buffer
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
class Measurement(phases.Listener):
    """Launches, compilations (program, seconds, whether it came from disk), and how many tensor
    operations the graphs had that were scheduled.
    """

    operations: int = 0
    runs: list[KernelRun] = field(default_factory=list)
    compiles: list[tuple[Program, float, bool]] = field(default_factory=list)

    def hear(self, event: phases.Event) -> None:
        if event.phase == "kernel":
            item, program = event.subject
            self.runs.append(KernelRun(item, program, event.seconds))
        elif event.phase in ("compile", "load"):
            self.compiles.append((event.subject, event.seconds, event.phase == "load"))


@contextmanager
def measuring() -> Iterator[Measurement]:
    """Collect every kernel launch and compilation inside the block."""
    measurement = Measurement()
    with phases.listening(measurement):
        yield measurement


def timing() -> bool:
    """Whether launches are timed here and now."""
    now = settings.snapshot()
    return phases.listeners() is not None or now["DEBUG"] not in (0, 1) or now["VIZ"] != 0


def measurements() -> list[Measurement]:
    """Those that are collected here and now."""
    return [one for one in phases.listeners() or () if isinstance(one, Measurement)]


def watched(told: bool = False) -> bool:
    """Whether anything is printed or collected about schedules, here and now; `told`: about one
    that a trace has already.
    """
    now = settings.snapshot()
    return bool(now["DEBUG"] or (now["VIZ"] and not told) or measurements())


def level_for(kernel: str) -> int:
    """How much DEBUG prints of a kernel: nothing where it names others."""
    names = settings.text("DEBUG_KERNELS")
    return settings.number("DEBUG") if not names or fnmatchcase(kernel, names) else 0


def say(text: str) -> None:
    """Diagnostics go to standard error, so that a program's output stays its own."""
    print(text, file=sys.stderr)


say_once: Final = lru_cache(maxsize=64)(say)  # what would be said again and again


def say_event(event: Event) -> None:
    """One application of a rule: the stage, the rule, and the nodes before and after."""
    before, after = show(event.before).splitlines(), show(event.after).splitlines()
    say(f"{event.stage}: {event.rule}\n  - {before[-1]}\n  + {after[-1]}")


_held: Final[dict[UOp, list[Event]]] = {}  # of kernels whose names are not known yet


def tell_event(event: Event, ast: UOp | None = None) -> None:
    """Print an application of a rule, write it down, or both, as the settings are."""
    if settings.number("DEBUG") >= 6:
        if not settings.text("DEBUG_KERNELS"):
            say_event(event)
        elif ast is not None:
            _held.setdefault(ast, []).append(event)
    if recording():
        journal().rewrite(event, ast)


def tell_pass(name: str, root: UOp, ast: UOp) -> None:
    """Write down what a pass over a kernel left behind, if that is asked for."""
    if recording():
        journal().after_pass(name, root, ast)


@contextmanager
def narrating(ast: UOp | None = None) -> Iterator[None]:
    """Inside the block, DEBUG=6 prints every rewrite and VIZ=1 writes it down (unless somebody else
    listens), as done for the kernel `ast` if it is for one.
    """
    if (settings.number("DEBUG") < 6 and not recording()) or listener() is not None:
        yield
        return
    if recording():
        journal().since = time.perf_counter()
    passes = None if ast is None else partial(tell_pass, ast=ast)
    with listening(partial(tell_event, ast=ast), passes):
        yield


def note_graph(root: UOp) -> None:
    """Count the operations of a graph that is about to be scheduled, and write it down."""
    if recording():
        journal().graph(root)
    for measurement in measurements():
        leaves = (Ops.CONST, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.SINK, Ops.LEAF, Ops.DETACH)
        measurement.operations += sum(node.op not in leaves for node in root.toposort())


def note_compile(
    program: Program,
    item: ScheduleItem,
    why: str,
    *,
    start: float,
    seconds: float,
    from_disk: bool,
) -> None:
    """Tell of a kernel that has been made ready for an item, and why that had to be."""
    built = item.origins[0] if item.origins else None
    kind = "load" if from_disk else "compile"
    phases.note(kind, program.name, start, seconds, built=built, why=why, subject=program)


def note_run(
    item: ScheduleItem,
    program: Program | None,
    values: Sequence[int],
    start: float,
    seconds: float,
) -> None:
    """Tell of a launch, with these values of the program's variables."""
    name = program.name if program is not None else "copy"
    if not phases.heard() and level_for(name) < 2:
        return
    operations, moved = _work(item, program, values)
    if phases.heard():
        phases.note(
            "kernel",
            name,
            start,
            seconds,
            built=item.origins[0] if item.origins else None,
            operations=operations,
            bytes=moved,
            device=item.buffers[0].arg.device,
            subject=(item, program),
        )
    if level_for(name) >= 2:
        say(describe_run(item, name, seconds, operations, moved))


def _work(item: ScheduleItem, program: Program | None, values: Sequence[int]) -> tuple[int, int]:
    """The operations and the bytes of a launch, at the sizes that it has."""
    if program is None:
        return 0, 2 * int(item.buffers[0].arg.nbytes)
    if not values:
        return program.ops, program.bytes
    from torpor.kernel.estimate import estimate  # slow to import, and rarely needed

    known = dict(zip((name for name, _ in program.variables), values, strict=True))
    symbols = [n for n in item.ast.toposort() if n.op is Ops.VARIABLE and n.arg[0] in known]
    return estimate(item.ast.substitute({n: n.const(n.dtype, known[n.arg[0]]) for n in symbols}))


def stripped(item: ScheduleItem) -> ScheduleItem:
    """The item for measurements only: with memory of the same kind that is never there."""
    buffers = tuple(map(_like, item.buffers))
    return replace(item, buffers=buffers, checks=(), bindings=(), group=None)


def _like(node: UOp) -> UOp:
    buffer = node.arg
    return UOp(Ops.BUFFER, node.dtype, (), Buffer(buffer.device, buffer.size, buffer.dtype))


def describe_run(item: ScheduleItem, name: str, seconds: float, flops: int, moved: int) -> str:
    """One line: device, kernel, time, rates, the reason it is a kernel of its own, its origin."""
    device = item.buffers[0].arg.device
    rates = f"{flops / seconds / 1e9:8.2f} GFLOP/s {moved / seconds / 1e9:7.2f} GB/s"
    where = f"  {decode(item.origins[0])}" if item.origins else ""
    return f"*** {device:8} {name:32} {seconds * 1e6:10.1f} us {rates}  {item.reason}{where}"


def show_schedule(items: Sequence[ScheduleItem]) -> None:
    """What DEBUG and VIZ ask for about kernels that are about to run."""
    if recording() and items:
        journal().schedule(items)
    if settings.number("DEBUG") >= 1 and items and not settings.text("DEBUG_KERNELS"):
        devices = ", ".join(dict.fromkeys(item.buffers[0].arg.device for item in items))
        say(f"schedule: {len(items)} kernels on {devices}")


def show_program(ast: UOp, program: Program, device: DeviceBase) -> None:
    """What DEBUG and VIZ ask for about a program that has just been made ready."""
    if recording():
        journal().program(ast, program, device.name)
    level = level_for(program.name)
    for event in _held.pop(ast, ()):
        if level >= 6:
            say_event(event)
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
