"""`BEAM=n`: opts by timed search instead of by heuristics alone, within a budget of time.

The heuristics' choice is the first candidate, and is kept unless another one beats it, measured in
turns, by more than noise. Results are kept in a file (`found.py`); candidates are timed in another
process (`judge.py`, `trial.py`).
"""

from __future__ import annotations

import hashlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from torpor.base import settings
from torpor.base.errors import OptError
from torpor.base.target import Target
from torpor.device import Device
from torpor.device.pool import cores
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.candidates import after
from torpor.kernel.heuristics import choose
from torpor.kernel.search import Search
from torpor.pipeline import disk, found
from torpor.pipeline.found import Entry, Opts
from torpor.pipeline.judge import Judge, Lost, Refused
from torpor.pipeline.report import say
from torpor.pipeline.watch import Watch, watching

Clock = Callable[[], float]

MARGIN: Final = 1.03  # a winner's gain over the heuristics' choice, at least
ROUNDS: Final = 40  # comparisons of a candidate with it, in turns, of which
SHARE: Final = 0.8  # this share has to be won
FINALISTS: Final = 2  # candidates that are compared with it at the end
RESERVE: Final = 0.1  # share of the time that is kept for the comparison
MEMORY: Final = 1 << 30  # bytes of buffers past which a kernel is not searched
STARTING: Final = 20.0  # seconds in which the other process must be there
PATIENCE: Final = 3.0  # seconds that a candidate may take to compile,
RUNS: Final = 30.0  # and how many runs of the best one it may take to run


class Asked(Protocol):
    """What times candidates: a `Judge`, or what a test puts in its place."""

    def ask(self, patience: float, *request: Any) -> Any: ...


@dataclass(frozen=True)
class Task:
    """A kernel to search opts for, and how long."""

    ast: UOp
    device: str
    target: Target
    width: int
    seconds: float
    splits: bool
    entry: Entry  # what is known so far


_lock = threading.RLock()  # a finaliser may compute something during a search
_spent: dict[str, float] = {"seconds": 0.0}


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # the thread that held it is not in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def opts_for(kernels: Sequence[tuple[UOp, str]]) -> list[Opts | None]:
    """For each kernel (ast, device) the opts that were found, searching now where nothing is known
    and the budget allows; None: the heuristics' choice.
    """
    with _lock:
        tasks = [task_for(ast, device) for ast, device in kernels]
        wanted = [n for n, task in enumerate(tasks) if task is not None and not is_settled(task)]
        if wanted:
            judge = Judge(settings_for_candidates())
            try:
                with watching(len(wanted)) as watch:
                    for n in wanted:
                        task = tasks[n]
                        assert task is not None
                        tasks[n] = replace(task, entry=settle(task, judge, watch))
            finally:
                judge.close()
        return [None if task is None else usable(task) for task in tasks]


def code() -> str:
    """What tells this compiler from another: times of one say little about the other's."""
    return disk.code_version()[:16]


def settings_for_candidates() -> dict[str, settings.Value]:
    """The settings here and now, without those that print or search."""
    return {**settings.snapshot(), "BEAM": 0, "DEBUG": 0, "CHECK": 0}


def task_for(ast: UOp, device_name: str) -> Task | None:
    """The search for a kernel, with what is known about it; None where it is none to search."""
    device = Device[device_name]
    target = device.target
    splits = bool(settings.number("BEAM_SPLITS"))
    if settings.number("NOOPT") or why_not(ast, target):
        return None
    flags = f"strict {settings.number('STRICT_FLOAT')} splits {int(splits)}"
    kernel = hashlib.sha256(ast.key + flags.encode()).hexdigest()[:32]
    hardware = f"{device.key} {cores()} cores" if target.threads else device.key
    fresh = Entry(hardware, kernel, Kernel(ast, target).name, code())
    entry = found.read().get(fresh.key, fresh)
    width, seconds = settings.number("BEAM"), settings.number("BEAM_SECONDS")
    return Task(ast, device_name, target, width, seconds, splits, entry)


def why_not(ast: UOp, target: Target) -> str:
    """Why a kernel's opts are not searched for; empty where they are."""
    if target.name in ("python", "null"):
        return "nothing there is worth timing"
    nodes = ast.toposort()
    if any(n.op is Ops.VARIABLE for n in nodes):
        return "its sizes are known at launch only"
    memory = [n.arg.size * n.dtype.itemsize for n in nodes if n.op is Ops.PARAM]
    return "its buffers are too large to have them twice" if sum(memory) > MEMORY else ""


def is_settled(task: Task) -> bool:
    """Whether what is known is enough, or there is no time to learn more."""
    entry, total = task.entry, settings.number("BEAM_TOTAL")
    if entry.code == code() and entry.suffices(task.width, task.seconds):
        return True
    return _spent["seconds"] >= total


def usable(task: Task) -> Opts | None:
    """The opts that won, if they were measured with this compiler and fit."""
    entry = task.entry
    if entry.opts is None or entry.code != code():
        return None
    made = after(Kernel(task.ast, task.target), entry.opts)
    return None if isinstance(made, OptError) else entry.opts


# --- one kernel -----------------------------------------------------------------------------------
def settle(task: Task, judge: Asked, watch: Watch, clock: Clock = time.monotonic) -> Entry:
    """Search, or go on with it, and keep the result; Ctrl-C keeps what there is, and is raised."""
    started = clock()
    hunt = Hunt(task, judge, watch, clock)
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
        say(f"beam: what was found cannot be kept: {error}")


def note(text: str) -> None:
    if settings.number("DEBUG") >= 3:
        say(text)


class Hunt:
    """The search for one kernel while it goes on."""

    def __init__(self, task: Task, judge: Asked, watch: Watch, clock: Clock):
        self.task, self.judge, self.watch, self.clock = task, judge, watch, clock
        self.kernel = Kernel(task.ast, task.target)
        self.heuristic: Opts = tuple(choose(self.kernel))
        known = task.entry
        self.same_code = known.code == code()
        self.before = known.spent if self.same_code and not known.done else 0.0
        self.begin()
        self.own = 0.0  # seconds that the heuristics' choice takes
        self.search = Search(self.kernel, self.time, self.is_over, task.width, self.note)
        if self.same_code:
            self.search.tried |= set(known.tried)

    def begin(self) -> None:
        """From now on time is counted."""
        left = max(self.task.seconds - self.before, RESERVE * self.task.seconds)
        self.started = self.clock()
        self.end = self.started + left * (1 - RESERVE)

    def is_over(self) -> bool:
        return self.clock() >= self.end

    def note(self, text: str) -> None:
        note(f"beam: {text}")

    def time(self, opts: Opts, limit: float) -> float | str:
        """Seconds that a list takes, or why it is out."""
        best = self.search.best[0][0] if self.search.best else self.task.seconds / RUNS
        patience = PATIENCE + RUNS * best
        try:
            try:
                taken: float | str = self.judge.ask(patience, "measure", opts, limit)
            except Refused as refusal:
                return str(refusal)
        except Lost as lost:
            self.open()
            return str(lost)
        self.watch.tried(len(self.search.tried), self.search.best, self.end - self.clock())
        return taken

    def open(self) -> None:
        """Give the other process the kernel; the heuristics' choice says what results are right."""
        task = self.task
        self.judge.ask(STARTING, "open", task.ast, task.device, task.splits)
        patience = STARTING + task.seconds
        self.own = float(self.judge.ask(patience, "measure", self.heuristic, float("inf")))

    def run(self) -> Entry:
        """The entry that the search ends with."""
        self.open()
        self.begin()  # the kernel need not answer for a process that takes long to start
        self.watch.begun(self.task.entry.name, self.end - self.clock())
        earlier = [opts for _, opts in self.task.entry.beam if opts != self.heuristic]
        for opts in earlier:  # their times are those of another day
            self.search.forget(opts)
        self.search.admit(self.own, self.heuristic)
        self.search.run([*earlier, ()])
        return self.decided()

    def decided(self) -> Entry:
        """The state, with the fastest list that beats the heuristics' choice, if one does."""
        rivals = [(s, o) for s, o in self.search.best if o != self.heuristic and s < self.own]
        each = RESERVE * self.task.seconds / FINALISTS
        made = replace(self.state(), opts=None, gain=1.0, seconds=self.own)
        for seconds, opts in rivals[:FINALISTS]:
            patience = PATIENCE + each + RUNS * self.own
            gain = gain_of(self.judge.ask(patience, "duel", self.heuristic, opts, ROUNDS, each))
            if gain > 1.0:
                made = replace(made, opts=opts, gain=gain, seconds=seconds)
                break
        return replace(made, spent=max(made.spent, self.task.seconds))

    def state(self) -> Entry:
        """What is known so far; what won before still does."""
        known = self.task.entry
        return replace(
            known if self.same_code else replace(known, opts=None, gain=1.0),
            code=code(),
            width=self.task.width,
            spent=round(self.before + self.clock() - self.started, 3),
            done=self.search.done,
            beam=tuple(self.search.best),
            tried=tuple(sorted(self.search.tried)),
        )


def gain_of(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of the heuristics' time over the candidate's, from times (of the one, of the
    other) measured in turns; 1 where it is within noise.
    """
    ratios = [theirs / mine for theirs, mine in pairs]
    median = statistics.median(ratios)
    won = sum(ratio > 1 for ratio in ratios) / len(ratios)
    fastest = min(theirs for theirs, _ in pairs) / min(mine for _, mine in pairs)
    return round(median, 4) if median >= MARGIN and won >= SHARE and fastest > 1 else 1.0
