"""`BEAM=n`: opts that are timed, instead of those of the heuristics alone, within a budget of time.

The cost model ranks candidates (`kernel/choose/candidates.py`); the best few are timed in turns
with the heuristics' choice, in another process (`timing_worker.py`), and so are then lists near the
quickest of them. One that beats that choice by more than noise, twice, is kept in a file
(`tuning_database.py`).
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from torpor.base import settings
from torpor.base.errors import OptError
from torpor.base.locks import recursive_lock
from torpor.base.target import Target
from torpor.device import Device
from torpor.device.pool import thread_count
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.choose.candidates import Opts, candidates
from torpor.kernel.choose.heuristics import choose
from torpor.pipeline import disk
from torpor.pipeline import tuning_database as database
from torpor.pipeline.report import say, say_once
from torpor.pipeline.timing_worker import ROUNDS, Pairs, TimingWorker, Values
from torpor.pipeline.tuning_database import Entry

Ask = Callable[..., Pairs | str]  # what a `TimingWorker` answers
Clock = Callable[[], float]

# How the time is spent: these decide what a search finds, never whether that is right. The first
# two are checked against simulated noise in tests/pipeline/test_tuner.py.
MARGIN: Final = 1.03  # a winner's gain over the heuristics' choice, at least
DEVIATIONS: Final = 3.0  # of a fair coin, which it has to win oftener than by luck
RESERVE: Final = 0.1  # share of the time for the winner's second comparison
PATIENCE: Final = 3.0  # seconds that a candidate may take to compile,
RUNS: Final = 3.0 * ROUNDS  # and how many runs of the heuristics' choice it may be measured for
EVERY: Final = 10.0  # seconds between lines that say how far the searches are
MEMORY: Final = 1 << 30  # bytes of buffers past which a kernel is not searched

_lock: Final = recursive_lock()  # a finaliser may compute something during a search
_spent: Final = {"seconds": 0.0}


class Task(NamedTuple):
    """A kernel that is about to run on a device, with these values of its VARIABLEs."""

    ast: UOp
    device: str
    launches: Sequence[Values] = ({},)

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.ast, Device[self.device].target)


def opts_for(tasks: Sequence[Task]) -> list[Opts | None]:
    """For each kernel the opts that were found, searching now where too little is known and the
    budget allows; None: the heuristics' choice.
    """
    with _lock:
        known = database.read()
        entries = [entry_of(task, known) for task in tasks]
        open_ones = [n for n, entry in enumerate(entries) if entry is not None and is_open(entry)]
        said = time.monotonic()
        with closing(TimingWorker(settings_for_candidates())) as worker:
            for count, n in enumerate(open_ones, 1):
                entry = entries[n]
                if entry is None or time_left() <= 0:
                    continue
                if time.monotonic() - said > EVERY:
                    said = time.monotonic()
                    say(f"search: {count} of {len(open_ones)} kernels, {entry.name}")
                entries[n] = settle(tasks[n], entry, worker.ask)
        return [usable(*pair) for pair in zip(tasks, entries, strict=True)]


def opts_known(ast: UOp, device_name: str, target: Target) -> Opts | None:
    """What `opts_for` would give, without searching; None for other targets than the device's."""
    if Device[device_name].target != target:
        return None
    task = Task(ast, device_name)
    return usable(task, entry_of(task, database.read()))


def settings_for_candidates() -> dict[str, settings.Value]:
    """The settings here and now, without those that print or search."""
    return {
        **settings.snapshot(), "BEAM": 0, "DEBUG": 0, "CHECK": 0, "THREADS": thread_count(),
    }  # fmt: skip


def entry_of(task: Task, known: Mapping[tuple[str, str], Entry]) -> Entry | None:
    """What is known about a kernel, perhaps nothing; None where it is none to search."""
    device = Device[task.device]
    why = why_not(task.ast, device.target)
    if why:
        note(f"a kernel is not searched: {why}")
        return None
    flags = f"strict {settings.number('STRICT_FLOAT')}"
    kernel = hashlib.sha256(task.ast.key + flags.encode()).hexdigest()[:32]
    threads = f" {thread_count()} threads" if device.target.threads else ""
    fresh = Entry(device.key + threads, kernel, task.kernel.name, disk.code_version()[:16])
    found = known.get(fresh.key, fresh)
    return found if found.code == fresh.code else fresh  # times of another compiler say little


def why_not(ast: UOp, target: Target) -> str:
    """Why a kernel's opts are not searched for; empty where they are."""
    if settings.number("NOOPT"):
        return "NOOPT is set"
    if target.name in ("python", "null"):
        return "nothing there is worth timing"
    memory = [n.arg.size * n.dtype.itemsize for n in ast.toposort() if n.op is Ops.PARAM]
    return "its buffers are too large to have them twice" if sum(memory) > MEMORY else ""


def is_open(entry: Entry) -> bool:
    """Whether no search as wide and as long as wanted has been made."""
    return not entry.suffices(settings.number("BEAM"), settings.number("BEAM_SECONDS"))


def time_left() -> float:
    """Seconds that this process's searches may still take."""
    return float(settings.number("BEAM_TOTAL") - _spent["seconds"])


def usable(task: Task, entry: Entry | None) -> Opts | None:
    """The opts that won, if they fit."""
    if entry is None or entry.opts is None:
        return None
    try:
        task.kernel.apply(entry.opts)
    except OptError:
        return None
    return entry.opts


def note(text: str) -> None:
    if settings.number("DEBUG") >= 3:
        say(f"beam: {text}")


# --- one kernel -----------------------------------------------------------------------------------
def settle(task: Task, entry: Entry, ask: Ask, clock: Clock = time.monotonic) -> Entry:
    """Search, keep the result, and give it; where nothing can be timed, what was known."""
    started = clock()
    seconds = min(float(settings.number("BEAM_SECONDS")), time_left())
    try:
        found = search(task, entry, ask, clock, seconds)
    finally:
        _spent["seconds"] += clock() - started
    if found is None:
        return entry
    try:
        database.add([found])
    except OSError as error:
        say_once(f"beam: what was found cannot be kept: {error}")
    if settings.number("DEBUG") >= 1:
        say(described(found, clock() - started))
    return found


def search(task: Task, entry: Entry, ask: Ask, clock: Clock, seconds: float) -> Entry | None:
    """The entry that a search of so many seconds ends with, which begins with what is known; None
    where that, or the heuristics' choice, cannot be timed.
    """
    kernel, width, deadline = task.kernel, settings.number("BEAM"), clock() + seconds
    first, launches = tuple(choose(kernel)), typical(task.launches)
    latest = deadline - RESERVE * seconds

    def compare(opts: Opts, until: float, patience: float) -> Pairs | str:
        left = min(patience, until - clock())
        return ask(left, task.ast, task.device, launches, first, opts) if left > 0 else "too late"

    measured = compare(first, latest, seconds)
    if isinstance(measured, str):
        note(f"{entry.name} keeps the heuristics' choice: {measured}")
        return None
    own = min(min(pair) for pair in measured)
    patience, taken, gains = PATIENCE + RUNS * own, {first: 1.0}, dict[Opts, float]()
    known = usable(task, entry)
    others = candidates(kernel, taken, width, lambda: clock() >= latest)
    for opts in chain([] if known is None else [known], others):
        pairs = compare(opts, latest, patience)
        taken[opts], gains[opts] = float("inf"), 0.0
        if not isinstance(pairs, str):
            taken[opts], gains[opts] = 1 / ratio_of(pairs), gain_of(pairs)
        elif opts == known:
            return None
        note(f"{pairs if isinstance(pairs, str) else f'{taken[opts]:.2f}'}: {list(opts)}")
    made = replace(entry, opts=None, gain=1.0, seconds=own, extent=(width, seconds))
    for opts in sorted(filter(gains.get, gains), key=gains.__getitem__, reverse=True):
        if opts == known:  # which has won twice before
            made = replace(made, opts=opts, gain=gains[opts], seconds=own / gains[opts])
            break
        pairs = compare(opts, deadline, patience)
        if not isinstance(pairs, str) and (gain := gain_of(pairs)):
            made = replace(made, opts=opts, gain=gain, seconds=min(mine for _, mine in pairs))
            break
    return replace(made, tried=len(taken))


def typical(launches: Sequence[Values]) -> list[Values]:
    """Launches that stand for all: those whose values add up to the least, the middle and the most.
    What a block of causal attention does grows with its number, for instance.
    """
    known = sorted(launches or ({},), key=lambda one: sum(one.values()))
    chosen = (known[0], known[len(known) // 2], known[-1])
    return [one for n, one in enumerate(chosen) if one not in chosen[:n]]


def ratio_of(pairs: Pairs) -> float:
    """The heuristics' time over a candidate's: the median of those measured in turns."""
    return statistics.median(theirs / mine for theirs, mine in pairs)


def gain_of(pairs: Pairs) -> float:
    """The ratio, or 0 where it is within noise: the candidate has to win in more turns than luck
    would let it, and in the best run.
    """
    by_luck = len(pairs) / 2 + DEVIATIONS * len(pairs) ** 0.5 / 2
    won = sum(theirs > mine for theirs, mine in pairs) >= min(by_luck, len(pairs))
    fastest = min(theirs for theirs, _ in pairs) > min(mine for _, mine in pairs)
    ratio = ratio_of(pairs)
    return round(ratio, 4) if won and fastest and ratio >= MARGIN else 0.0


def described(entry: Entry, seconds: float) -> str:
    """One line: the kernel, what was found."""
    what = "the heuristics' choice stays"
    if entry.opts is not None:
        what = f"{entry.gain:.2f} times as fast with {list(entry.opts)}"
    how = f"{entry.tried} tried in {seconds:.1f} s"
    return f"search: {entry.name}: {what} ({entry.seconds * 1e6:.1f} us; {how})"
