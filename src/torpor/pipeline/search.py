"""`BEAM=n`: opts by timed search instead of by heuristics alone, within a budget of time.

The heuristics' choice is the first candidate, and is kept unless another one beats it, measured in
turns, by more than noise. Results are kept in a file (`found.py`); candidates are timed in another
process (`judge.py`, `contest.py`).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from torpor.base import settings
from torpor.base.errors import OptError
from torpor.base.target import Target
from torpor.device import Device
from torpor.device.machine import cores
from torpor.device.pool import thread_count
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.choose.candidates import after
from torpor.pipeline import found
from torpor.pipeline.builders import Builders
from torpor.pipeline.found import Entry, Opts
from torpor.pipeline.hunt import STARTING, Asked, Clock, Compiling, Hunt, Task, code, note
from torpor.pipeline.judge import Judge, Lost, Refused
from torpor.pipeline.launches import Values, typical
from torpor.pipeline.report import say_once
from torpor.pipeline.watch import Watch, watching

MEMORY: Final = 1 << 30  # bytes of buffers past which a kernel is not searched


_lock = threading.RLock()  # a finaliser may compute something during a search
_spent: dict[str, float] = {"seconds": 0.0}


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # the thread that held it is not in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Wanted(NamedTuple):
    """A kernel that is about to run on a device, with these values of its VARIABLEs."""

    ast: UOp
    device: str
    launches: Sequence[Values] = ({},)


def opts_for(kernels: Sequence[Wanted]) -> list[Opts | None]:
    """For each kernel the opts that were found, searching now where nothing is known and the budget
    allows; None: the heuristics' choice.
    """
    with _lock:
        tasks = [task_for(*kernel) for kernel in kernels]
        wanted = [n for n, task in enumerate(tasks) if task is not None and not is_settled(task)]
        if wanted:
            search_for(tasks, wanted)
        return [None if task is None else usable(task) for task in tasks]


def search_for(tasks: list[Task | None], wanted: Sequence[int]) -> None:
    """Settle the `wanted` ones of the tasks, as far as the time for all reaches."""
    given, started = settings_for_candidates(), time.monotonic()
    with closing(Judge(given)) as judge, closing(Builders(given)) as builders:
        with suppress(Lost, Refused):  # then candidates are compiled where they are timed
            builders.start(STARTING)
        with suppress(Lost, Refused):  # no kernel need answer for a process that starts slowly
            judge.ask(STARTING, "hello")
        _spent["seconds"] += time.monotonic() - started
        with watching(len(wanted)) as watch:
            for n in wanted:
                task = tasks[n]
                assert task is not None
                if time_left() > 0:
                    task = replace(task, seconds=min(task.seconds, time_left()))
                    entry = settle(task, judge, watch, builders=builders)
                    tasks[n] = replace(task, entry=entry)


def opts_known(ast: UOp, device_name: str, target: Target) -> Opts | None:
    """What `opts_for` would give, without searching; None for other targets than the device's."""
    if Device[device_name].target != target:
        return None
    task = task_for(ast, device_name)
    return None if task is None else usable(task)


def settings_for_candidates() -> dict[str, settings.Value]:
    """The settings here and now, without those that print or search."""
    threads = threads_for(bool(settings.number("BEAM_SPLITS")))
    return {**settings.snapshot(), "BEAM": 0, "DEBUG": 0, "CHECK": 0, "THREADS": threads}


def task_for(ast: UOp, device_name: str, launches: Sequence[Values] = ({},)) -> Task | None:
    """The search for a kernel, with what is known about it; None where it is none to search."""
    device = Device[device_name]
    target = device.target
    splits = bool(settings.number("BEAM_SPLITS"))
    why = why_not(ast, target)
    if why:
        note(f"beam: a kernel is not searched: {why}")
        return None
    flags = f"strict {settings.number('STRICT_FLOAT')} splits {int(splits)}"
    kernel = hashlib.sha256(ast.key + flags.encode()).hexdigest()[:32]
    hardware = f"{device.key} {threads_for(splits)} threads" if target.threads else device.key
    fresh = Entry(hardware, kernel, Kernel(ast, target).name, code())
    entry = found.read().get(fresh.key, fresh)
    width, seconds = settings.number("BEAM"), settings.number("BEAM_SECONDS")
    chosen = typical(launches)
    return Task(ast, device_name, target, width, seconds, splits, entry, chosen)


def threads_for(splits: bool) -> int:
    """How many threads candidates are timed with: as many as the program uses, whose sums are the
    same for any number. Where splits are searched it is as many as there are cores, whatever the
    setting says, so that they are not chosen by it.
    """
    return cores() if splits else thread_count()


def why_not(ast: UOp, target: Target) -> str:
    """Why a kernel's opts are not searched for; empty where they are."""
    if settings.number("NOOPT"):
        return "NOOPT is set"
    if target.name in ("python", "null"):
        return "nothing there is worth timing"
    nodes = ast.toposort()
    memory = [n.arg.size * n.dtype.itemsize for n in nodes if n.op is Ops.PARAM]
    return "its buffers are too large to have them twice" if sum(memory) > MEMORY else ""


def is_settled(task: Task) -> bool:
    """Whether what is known is enough, or there is no time to learn more."""
    entry = task.entry
    enough = entry.code == code() and entry.suffices(task.width, task.seconds)
    return enough or time_left() <= 0


def time_left() -> float:
    """Seconds that this process's searches may still take."""
    return float(settings.number("BEAM_TOTAL") - _spent["seconds"])


def usable(task: Task) -> Opts | None:
    """The opts that won, if they were measured with this compiler and fit."""
    entry = task.entry
    if entry.opts is None or entry.code != code():
        return None
    made = after(Kernel(task.ast, task.target), entry.opts)
    return None if isinstance(made, OptError) else entry.opts


# --- one kernel -----------------------------------------------------------------------------------
def settle(
    task: Task,
    judge: Asked,
    watch: Watch,
    clock: Clock = time.monotonic,
    builders: Compiling | None = None,
) -> Entry:
    """Search, or go on with it, and keep the result; Ctrl-C keeps what there is, and is raised."""
    started = clock()
    hunt = Hunt(task, judge, watch, clock, builders, keep)
    entry = task.entry
    try:
        entry = hunt.run()
    except (Lost, Refused) as error:
        note(f"beam: {task.entry.name} keeps the heuristics' choice: {error}")
    except KeyboardInterrupt:
        keep(hunt.state())
        raise
    else:
        keep(entry)
        watch.settled(entry)
    finally:
        _spent["seconds"] += clock() - started
    return entry


def keep(entry: Entry) -> None:
    """Add an entry to the file; where that cannot be written, it is searched again next time."""
    try:
        found.add([entry])
    except OSError as error:
        say_once(f"beam: what was found cannot be kept: {error}")
