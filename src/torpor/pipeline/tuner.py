"""`BEAM=n`: opts by timed search instead of by heuristics alone, within a budget of time.

A beam search over lists of opts: neighbours of the fastest ones are timed in the order that the
cost model predicts. The heuristics' choice is the first candidate, and is kept unless another one
beats it, measured in turns, by more than noise. Candidates are timed in another process
(`timing_worker.py`), results are kept in a file (`tuning_database.py`).
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.errors import OptError
from torpor.base.locks import recursive_lock
from torpor.base.target import Target
from torpor.device import Device
from torpor.device.pool import thread_count
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.choose.candidates import after, neighbours, predicted
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.choose.vectors import is_short
from torpor.pipeline import disk
from torpor.pipeline import tuning_database as database
from torpor.pipeline.report import say, say_once
from torpor.pipeline.timing_worker import Lost, Refused, TimingWorker, Values
from torpor.pipeline.tuning_database import Entry, Opts

Clock = Callable[[], float]

# How the time is spent: these decide what a search finds, never whether that is right. The first
# three are checked against simulated noise in tests/pipeline/test_tuner.py.
MARGIN: Final = 1.03  # a winner's gain over the heuristics' choice, at least
ROUNDS: Final = 40  # comparisons of a candidate with it, in turns
DEVIATIONS: Final = 3.0  # of a fair coin, which it has to win oftener than by luck
RESERVE: Final = 0.1  # share of the time for the comparison, and for what was begun before to end;
COMPARED: Final = 9  # no less than so many runs take: the fewest that decide it
PATIENCE: Final = 3.0  # seconds that a candidate may take to compile,
RUNS: Final = 30.0  # and how many runs of the best one it may take to run
SAVING: Final = 2.0  # seconds after which the state is kept anew: what a killed process loses
EVERY: Final = 10.0  # seconds between lines that say how far a search is
SLOW: Final = 2.0  # times the best one's time past which a list is neither timed exactly nor varied
ROUND: Final = 12  # lists that are timed in each round for each member of the beam
MEMORY: Final = 1 << 30  # bytes of buffers past which a kernel is not searched
DIGEST: Final = 12  # hexadecimal digits that tell one kernel from another within a search

_lock: Final = recursive_lock()  # a finaliser may compute something during a search
_spent: Final[dict[str, float]] = {"seconds": 0.0}


class Wanted(NamedTuple):
    """A kernel that is about to run on a device, with these values of its VARIABLEs."""

    ast: UOp
    device: str
    launches: Sequence[Values] = ({},)


@dataclass(frozen=True)
class Task:
    """A kernel to search opts for, and how long."""

    ast: UOp
    device: str
    target: Target
    width: int
    seconds: float
    entry: Entry  # what is known so far
    launches: Sequence[Values] = ({},)  # that stand for all


def opts_for(kernels: Sequence[Wanted]) -> list[Opts | None]:
    """For each kernel the opts that were found, searching now where nothing is known and the budget
    allows; None: the heuristics' choice.
    """
    with _lock:
        tasks = [task_for(*kernel) for kernel in kernels]
        wanted = [n for n, task in enumerate(tasks) if task is not None and not is_settled(task)]
        with closing(TimingWorker(settings_for_candidates())) as worker:
            for count, n in enumerate(wanted, 1):
                task = tasks[n]
                if task is not None and time_left() > 0:
                    task = replace(task, seconds=min(task.seconds, time_left()))
                    title = f"{count} of {len(wanted)} kernels"
                    tasks[n] = replace(task, entry=settle(task, worker, title=title))
        return [None if task is None else usable(task) for task in tasks]


def opts_known(ast: UOp, device_name: str, target: Target) -> Opts | None:
    """What `opts_for` would give, without searching; None for other targets than the device's."""
    if Device[device_name].target != target:
        return None
    task = task_for(ast, device_name)
    return None if task is None else usable(task)


def settings_for_candidates() -> dict[str, settings.Value]:
    """The settings here and now, without those that print or search."""
    return {
        **settings.snapshot(), "BEAM": 0, "DEBUG": 0, "CHECK": 0, "THREADS": thread_count(),
    }  # fmt: skip


def task_for(ast: UOp, device_name: str, launches: Sequence[Values] = ({},)) -> Task | None:
    """The search for a kernel, with what is known about it; None where it is none to search."""
    device = Device[device_name]
    target = device.target
    why = why_not(ast, target)
    if why:
        note(f"a kernel is not searched: {why}")
        return None
    flags = f"strict {settings.number('STRICT_FLOAT')}"
    kernel = hashlib.sha256(ast.key + flags.encode()).hexdigest()[:32]
    hardware = f"{device.key} {thread_count()} threads" if target.threads else device.key
    fresh = Entry(hardware, kernel, Kernel(ast, target).name, code())
    entry = database.read().get(fresh.key, fresh)
    width, seconds = settings.number("BEAM"), settings.number("BEAM_SECONDS")
    return Task(ast, device_name, target, width, seconds, entry, typical(launches))


def typical(launches: Sequence[Values]) -> list[Values]:
    """The launch whose values are nearest to the middle, then the first and the last one, each
    once. What a block of causal attention does grows with its number, so none stands for all.
    """
    known = launches or ({},)
    ranges = {name: sorted(one[name] for one in known) for name in known[0]}

    def distance(values: Values) -> float:
        """From the middle, each number by how far it goes."""
        apart = [(values[n] - r[len(r) // 2], r[-1] - r[0] or 1) for n, r in ranges.items()]
        return sum(abs(far) / most for far, most in apart)

    chosen = (min(known, key=distance), known[0], known[-1])
    return [one for n, one in enumerate(chosen) if one not in chosen[:n]]


def why_not(ast: UOp, target: Target) -> str:
    """Why a kernel's opts are not searched for; empty where they are."""
    if settings.number("NOOPT"):
        return "NOOPT is set"
    if target.name in ("python", "null"):
        return "nothing there is worth timing"
    memory = [n.arg.size * n.dtype.itemsize for n in ast.toposort() if n.op is Ops.PARAM]
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


def code() -> str:
    """What tells this compiler from another: times of one say little about the other's."""
    return disk.code_version()[:16]


def note(text: str) -> None:
    if settings.number("DEBUG") >= 3:
        say(f"beam: {text}")


# --- one kernel -----------------------------------------------------------------------------------
def settle(task: Task, worker: Any, clock: Clock = time.monotonic, title: str = "") -> Entry:
    """Search, or go on with it, and keep the result; Ctrl-C keeps what there is, and is raised."""
    started = clock()
    tuner = Tuner(task, worker, clock, title)
    entry = task.entry
    try:
        entry = tuner.run()
    except (Lost, Refused) as error:
        note(f"{task.entry.name} keeps the heuristics' choice: {error}")
    except KeyboardInterrupt:
        keep(tuner.state())
        raise
    else:
        keep(entry)
        if settings.number("DEBUG") >= 1:
            say(described(entry))
    finally:
        _spent["seconds"] += clock() - started
    return entry


def keep(entry: Entry) -> None:
    """Add an entry to the file; where that cannot be written, it is searched again next time."""
    try:
        database.add([entry])
    except OSError as error:
        say_once(f"beam: what was found cannot be kept: {error}")


def described(entry: Entry) -> str:
    """One line: the kernel, what was found."""
    what = "the heuristics' choice stays"
    if entry.opts is not None:
        what = f"{entry.gain:.2f} times as fast with {list(entry.opts)}"
    how = f"{len(entry.tried)} tried in {entry.spent:.1f} s"
    return f"search: {entry.name}: {what} ({entry.seconds * 1e6:.1f} us; {how})"


class Tuner:
    """The search for one kernel while it goes on."""

    def __init__(self, task: Task, worker: Any, clock: Clock, title: str = ""):
        self.task, self.worker, self.clock, self.title = task, worker, clock, title
        self.kernel = Kernel(task.ast, task.target)
        self.heuristic: Opts = tuple(choose(self.kernel))
        known = task.entry
        if known.code != code():  # what won is a candidate, no more
            known = replace(known, code=code(), opts=None, gain=1.0, spent=0.0, tried=())
        self.known, self.before = known, 0.0 if known.done else known.spent
        self.own = 0.0  # seconds that the heuristics' choice takes
        self.best: list[tuple[float, Opts]] = []
        self.tried = set(known.tried)
        self.named = set(known.tried)  # digests of all that was tried or waits
        self.rates: dict[Opts, float] = {}  # measured seconds over predicted ones
        self.grown: set[Opts] = set()  # lists whose neighbours are ranked
        self.seen: set[Opts] = {self.heuristic}
        self.waiting: list[tuple[float, int, Opts, str, float]] = []
        self.lost = True  # whether the other process has no kernel
        self.done = False
        given = max(task.seconds - self.before, RESERVE * task.seconds)
        self.started = self.saved = self.said = clock()
        self.deadline, self.reserve = self.started + given, RESERVE * given

    def latest(self) -> float:
        """When what is being timed must have ended, and the comparison begins."""
        return self.deadline - max(self.reserve, COMPARED * self.own)

    def is_over(self) -> bool:
        """Whether no more candidates are begun."""
        return self.clock() >= self.latest() - self.reserve

    def run(self) -> Entry:
        """The entry that the search ends with."""
        self.open(self.deadline)
        made = self.kernel.copy().apply(self.heuristic)
        self.tried.add(digest(made))
        self.named.add(digest(made))
        self.enter(self.heuristic, self.own, predicted(made))
        for opts in (*(one for _, one in self.known.beam), ()):
            if opts not in self.seen:
                self.rank(opts, 0.0, again=bool(opts))
        while not self.is_over() and not self.done:
            for _ in range(min(ROUND * self.task.width, len(self.waiting))):
                if not self.is_over():
                    self.attempt(*heappop(self.waiting)[2:])
            self.grow()
            self.done = not self.waiting and not self.is_over()
        return self.decided()

    def grow(self) -> None:
        """Rank the neighbours of the fastest lists."""
        for seconds, opts in self.best:
            if opts in self.grown or seconds > self.best[0][0] * SLOW:
                continue
            self.grown.add(opts)
            for other in neighbours(self.kernel, opts):
                if self.is_over():
                    return
                if other not in self.seen:
                    self.rank(other, self.rates[opts])

    def rank(self, opts: Opts, rate: float, again: bool = False) -> None:
        """Put a list where it will be timed by what is predicted, corrected by the `rate` at which
        that was off for its parent, if it makes a new kernel, or one to be timed again.
        """
        self.seen.add(opts)
        made = after(self.kernel, opts)
        if isinstance(made, OptError):
            note(f"refused: {made}")
            return
        name = digest(made)
        if name in self.named and not again:
            return
        if not is_short(made):
            note(f"refused: {list(opts)}: it would be written out too often")
            return
        self.named.add(name)
        guess = predicted(made)
        heappush(self.waiting, (guess * rate, len(self.seen), opts, name, guess))

    def attempt(self, opts: Opts, name: str, guess: float) -> None:
        """Time one list, and keep it if it is among the best."""
        fastest = self.best[0][0]
        try:
            if self.lost:
                self.open(self.latest())
            until = min(self.clock() + PATIENCE + RUNS * fastest, self.latest())
            taken = self.asked(until, "measure", opts, fastest * SLOW)
        except (Lost, Refused) as fault:
            self.lost |= isinstance(fault, Lost)
            taken = str(fault)
        self.tried.add(name)  # not before: what is interrupted has not been tried
        if isinstance(taken, str):
            note(f"out: {taken}: {list(opts)}")
        else:
            note(f"{taken * 1e6:.1f} us: {list(opts)}")
            self.enter(opts, taken, guess)
        self.tell()

    def enter(self, opts: Opts, seconds: float, guess: float) -> None:
        """Note that a list takes so long, if it is among the best."""
        self.rates[opts] = seconds / guess
        timed = [(seconds, opts), *(one for one in self.best if one[1] != opts)]
        self.best = sorted(timed, key=itemgetter(0))[: self.task.width]

    def tell(self) -> None:
        """Keep the state, and say how far the search is, now and then."""
        now = self.clock()
        if now - self.saved > SAVING:
            self.saved = now
            keep(self.state())
        if self.title and now - self.said > EVERY:
            self.said = now
            left = max(self.deadline - now, 0.0)
            say(
                f"search: {self.title}, {self.known.name}: {len(self.tried)} tried; "
                f"{left:.0f} s more at most for this one (BEAM_SECONDS, BEAM_TOTAL)"
            )

    def open(self, until: float) -> None:
        """Give the other process the kernel; the heuristics' choice says what results are right.
        Nobody waits for it past `until`.
        """
        task = self.task
        self.asked(until, "open", task.ast, task.device, task.launches)
        self.own = float(self.asked(until, "measure", self.heuristic, float("inf")))
        self.lost = False

    def asked(self, until: float, *request: Any) -> Any:
        """The answer to a request, if it comes in time."""
        if until - self.clock() <= 0:
            raise Lost("no time is left")
        return self.worker.ask(until - self.clock(), *request)

    def decided(self) -> Entry:
        """The state, with the fastest list that beats the heuristics' choice, if one does."""
        seconds, opts = self.best[0]
        made = replace(self.state(), opts=None, gain=1.0, seconds=self.own)
        soon = self.deadline - COMPARED * self.own  # from then on there is no time to compare
        if opts != self.heuristic and seconds < self.own:
            try:
                if self.lost:
                    self.open(soon)
            except Lost:
                return made  # another search may compare them
            if self.clock() <= soon:
                request = "compare", self.heuristic, opts, ROUNDS, self.reserve
                if gain := gain_of(self.asked(self.deadline, *request)):
                    made = replace(made, opts=opts, gain=gain, seconds=seconds)
        spent = self.state().spent  # no search as long as this one adds to it
        return replace(made, spent=spent if made.done else max(spent, self.task.seconds))

    def state(self) -> Entry:
        """What is known so far; what won before still does."""
        return replace(
            self.known,
            width=self.task.width,
            spent=round(self.before + self.clock() - self.started, 3),
            done=self.done,
            beam=tuple(self.best),
            tried=tuple(sorted(self.tried)),
        )


def digest(kernel: Kernel) -> str:
    """What tells a kernel with its opts applied from others of the same search."""
    return ("n" if kernel.no_locals else "") + kernel.ast.key.hex()[:DIGEST]


def gain_of(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of the heuristics' time over the candidate's, from times (of the one, of the
    other) measured in turns; 0 where it is within noise.
    """
    ratios = [theirs / mine for theirs, mine in pairs]
    median = statistics.median(ratios)
    by_luck = len(ratios) / 2 + DEVIATIONS * len(ratios) ** 0.5 / 2
    won = sum(ratio > 1 for ratio in ratios) >= min(by_luck, len(ratios))
    fastest = min(theirs for theirs, _ in pairs) > min(mine for _, mine in pairs)
    return round(median, 4) if won and fastest and median >= MARGIN else 0.0
