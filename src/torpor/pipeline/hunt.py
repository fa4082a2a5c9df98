"""The search for one kernel's opts: what is asked of the timing process, and what wins."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from torpor.base import settings
from torpor.base.target import Target
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.choose.search import Search
from torpor.pipeline import disk
from torpor.pipeline.found import Entry, Opts
from torpor.pipeline.judge import Lost, Refused
from torpor.pipeline.launches import Values
from torpor.pipeline.report import say
from torpor.pipeline.watch import Watch

Clock = Callable[[], float]

# The first three are checked against simulated noise in tests/pipeline/test_hunt.py; the others are
# choices of how the time is spent.
MARGIN: Final = 1.03  # a winner's gain over the heuristics' choice, at least
ROUNDS: Final = 40  # comparisons of a candidate with it, in turns
DEVIATIONS: Final = 3.0  # of a fair coin, which it has to win oftener than by luck
FINALISTS: Final = 2  # candidates that are compared with it at the end
RESERVE: Final = 0.1  # share of the time that is kept for the comparison,
COMPARED: Final = 9  # but no less than so many runs take: the fewest that decide it
GRACE: Final = 0.1  # share of the time in which what was begun before may end
STARTING: Final = 20.0  # seconds in which the other process must be there
PATIENCE: Final = 3.0  # seconds that a candidate may take to compile,
DEARER: Final = 4.0  # but no more than so many times what the heuristics' choice takes,
ALLOWED: Final = 0.75  # or so many seconds: others of its batch wait for it
RUNS: Final = 30.0  # how many runs of the best one it may take to run
SPOILED: Final = 0.1  # seconds of a run that threads which start meanwhile spoil
SAVING: Final = 2.0  # seconds after which the state is kept anew: what a killed process loses


class Compiling(Protocol):
    """What compiles candidates meanwhile: `Builders`, or what a test puts in their place."""

    def submit(
        self, ast: UOp, device: str, opts: Opts, patience: float, seconds: float
    ) -> None: ...

    def take(self, opts: Opts) -> Any: ...

    def drop(self) -> None: ...


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
    launches: Sequence[Values] = ({},)  # as a `Contest` wants them


def unsaved(entry: Entry) -> None:
    """The state is kept at the end only."""


def code() -> str:
    """What tells this compiler from another: times of one say little about the other's."""
    return disk.code_version()[:16]


def note(text: str) -> None:
    if settings.number("DEBUG") >= 3:
        say(text)


class Hunt:
    """The search for one kernel while it goes on."""

    def __init__(
        self,
        task: Task,
        judge: Asked,
        watch: Watch,
        clock: Clock,
        builders: Compiling | None = None,
        save: Callable[[Entry], None] = unsaved,
    ):
        self.task, self.judge, self.watch, self.clock = task, judge, watch, clock
        self.builders, self.save = builders, save
        self.kernel = Kernel(task.ast, task.target)
        self.heuristic: Opts = tuple(choose(self.kernel))
        known = task.entry
        self.same_code = known.code == code()
        self.before = known.spent if self.same_code and not known.done else 0.0
        self.own = 0.0  # seconds that the heuristics' choice takes,
        self.first = 0.0  # and with being compiled
        self.begin()
        self.lost = True  # whether the other process has no kernel
        self.search = Search(
            self.kernel, self.time, self.is_over, task.width, self.note, self.prepare
        )
        if self.same_code:
            self.search.tried |= set(known.tried)

    def begin(self) -> None:
        """From now on time is counted."""
        self.given = max(self.task.seconds - self.before, RESERVE * self.task.seconds)
        self.started = self.saved = self.clock()
        self.deadline = self.started + self.given
        self.allot()

    def allot(self) -> None:
        """Share out the time: candidates are begun until `end`, and those that were begun end by
        `latest`; then the best are compared, until the deadline.
        """
        self.latest = self.deadline - max(RESERVE * self.given, COMPARED * self.own)
        self.end = self.latest - GRACE * self.given

    def is_over(self) -> bool:
        return self.clock() >= self.end

    def note(self, text: str) -> None:
        note(f"beam: {text}")

    def left(self) -> float:
        """Seconds that a candidate may take at most."""
        return max(self.latest - self.clock(), 0.0)

    def prepare(self, opts: Opts) -> None:
        """Have a list compiled that will soon be timed."""
        if self.builders is not None:
            patience = min(PATIENCE, max(ALLOWED, DEARER * self.first))
            self.builders.submit(self.task.ast, self.task.device, opts, patience, self.left())

    def time(self, opts: Opts, limit: float) -> float | str:
        """Seconds that a list takes, or why it is out."""
        made = None if self.builders is None else self.builders.take(opts)
        taken = made if isinstance(made, str) else self.measured(opts, limit, made)
        self.watch.tried(len(self.search.tried), self.search.best, self.end - self.clock())
        if self.clock() - self.saved > SAVING:
            self.saved = self.clock()
            self.save(self.state())
        return taken

    def measured(self, opts: Opts, limit: float, made: Any) -> float | str:
        """Seconds that a list takes, or why it is out; `made` has been compiled from it, if it is
        not None.
        """
        if self.lost and (fault := self.reopened(self.latest)):
            return fault
        patience = min(PATIENCE + RUNS * self.search.best[0][0], self.left())
        if patience <= 0:
            return "there was no time left to measure it"
        try:
            taken: float | str = self.judge.ask(patience, "measure", opts, limit, made)
            if not isinstance(taken, str) and taken < self.search.best[0][0]:
                self.measure_own(patience)
        except Refused as refusal:
            return str(refusal)
        except Lost as lost:
            self.lost = True
            return str(lost)
        return taken

    def measure_own(self, patience: float) -> None:
        """Measure the heuristics' choice anew, when another one seems to be faster than all: the
        machine may only have been slower before, and then its neighbours are worth trying.
        """
        own = float(self.judge.ask(patience, "measure", self.heuristic, float("inf")))
        if own < self.own:
            self.own = own
            self.search.keep(own, self.heuristic)

    def drop(self) -> None:
        """Let nothing be compiled any more that was prepared and is not wanted."""
        if self.builders is not None:
            self.builders.drop()

    def open(self, until: float) -> None:
        """Give the other process the kernel; the heuristics' choice says what results are right.
        Nobody waits for it past `until`.
        """
        task = self.task
        self.asked(until, "open", task.ast, task.device, task.splits, task.launches)
        started = self.clock()
        cold = self.asked(until, "measure", self.heuristic, float("inf"))
        self.first = self.clock() - started
        self.own = float(cold)
        if cold < SPOILED:
            warm = self.asked(until, "measure", self.heuristic, float("inf"))
            self.own = float(min(cold, warm))
        self.lost = False

    def asked(self, until: float, *request: Any) -> Any:
        """The answer to a request, if it comes in time."""
        left = until - self.clock()
        if left <= 0:
            raise Lost("no time is left")
        return self.judge.ask(left, *request)

    def reopened(self, until: float) -> str:
        """Why the other process, which was lost, has not got the kernel again; empty if it has."""
        try:
            self.open(until)
        except Lost as lost:
            return str(lost)
        return ""

    def run(self) -> Entry:
        """The entry that the search ends with."""
        self.drop()
        self.begin()
        self.open(self.deadline)
        self.allot()
        self.watch.begun(self.task.entry.name, self.end - self.clock())
        earlier = [opts for _, opts in self.task.entry.beam if opts != self.heuristic]
        for opts in earlier:  # their times are those of another day
            self.search.forget(opts)
        self.search.admit(self.own, self.heuristic)
        self.search.run([*earlier, ()])
        return self.decided()

    def decided(self) -> Entry:
        """The state, with the fastest list that beats the heuristics' choice, if one does."""
        self.drop()
        rivals = [(s, o) for s, o in self.search.best if o != self.heuristic and s < self.own]
        made = replace(self.state(), opts=None, gain=1.0, seconds=self.own)
        soon = self.deadline - COMPARED * self.own  # from then on there is no time to compare
        if rivals and self.lost and self.reopened(soon):
            return replace(made, spent=self.state().spent)  # another search may compare them
        each = RESERVE * self.given / FINALISTS
        for seconds, opts in rivals[:FINALISTS]:
            if self.clock() > soon:
                break
            pairs = self.asked(self.deadline, "duel", self.heuristic, opts, ROUNDS, each)
            gain = gain_of(pairs)
            if gain > 1.0:
                made = replace(made, opts=opts, gain=gain, seconds=seconds)
                break
        return made if made.done else replace(made, spent=max(made.spent, self.task.seconds))

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
    won = sum(ratio > 1 for ratio in ratios)
    by_luck = len(ratios) / 2 + DEVIATIONS * len(ratios) ** 0.5 / 2
    fastest = min(theirs for theirs, _ in pairs) / min(mine for _, mine in pairs)
    sure = won >= min(by_luck, len(ratios)) and fastest > 1
    return round(median, 4) if sure and median >= MARGIN else 1.0
