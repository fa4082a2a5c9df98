"""Whether several threads are quicker than one: seen in the first runs of a kernel.

What it costs to wake a thread depends on the machine, on what else runs there, and on whether the
thread still waits awake: on one virtual machine 2 to 35 microseconds were measured, as long as
many a kernel. So it is not guessed: a kernel for which it may matter is run both ways, and again
now and then, since the machine may have been busy. The runs of one way follow each other, as they
will later: a thread that has just shared a kernel may still wait awake for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final

RUNS: Final = 8  # each way; the first is not counted
# By several, where these do not gain: they get quicker until each has its part of the data in its
# own cache (1 MB copied by two: 34, 31, 28, from the tenth on 21 to 23 us, and 31 by one).
RUNS_MOST: Final = 16
RUNS_AFTER: Final = 4  # alone again, where several gain: the machine may have got quicker meanwhile
LONG: Final = 500_000  # nanoseconds by one thread from which several are quicker in any case
SURE: Final = 2  # runs that all have to be long: one may just have been held up
# Of the time by one thread; for less the other cores are left in peace. A choice, beyond the spread
# of short runs (bench/results/jit.md, "Waking threads", which also tells of the numbers of runs).
GAIN: Final = 0.9
KEPT: Final = 1.0  # likewise, where several shared it so far: or it would go to and fro
# Nanoseconds by one thread up to which it does not pay to wake one: that takes the waker 40 us on a
# virtual machine, and the sleeper comes later still.
SHORT: Final = 150_000
AGAIN_FIRST: Final = 64  # runs until it is looked at again: soon, since programs compile at first
AGAIN_AFTER: Final = 4096  # and later
# Nanoseconds that a piece takes at least: threads meet at each claim, and a kernel sets up once a
# piece. Rows of 1 MiB summed by two threads (17 us alone): 8.5 us in 2 pieces, 9.3 in 8, 15 in 32.
PIECE: Final = 2_500
FEWEST: Final = 2  # pieces for each thread: one that comes late leaves the rest to the others
MOST: Final = 16  # so that one which is held up costs the others little


def longer(runs: int) -> int:
    """After how many runs to look again, having looked after `runs` of them."""
    return min(4 * runs, AGAIN_AFTER)


def pieces_for(alone: int, threads: int) -> int:
    """Pieces for each of so many threads of a kernel that one does in `alone` nanoseconds."""
    return max(FEWEST, min(alone // (threads * PIECE), MOST))


def usual(runs: Sequence[int]) -> int:
    """What a run takes that nothing disturbs: whatever does only makes it longer, so that it is the
    second of all; the first may have been lucky.
    """
    return sorted(runs)[1]


class Trial:
    """What the runs of one kernel by one and by several threads took. Threads may meet in it: then
    a run more is looked at, or a time is missing.

    Several gain if they do against the runs alone before and after theirs.

    pieces: into how many pieces for each thread the kernel is cut, as far as is known. Negative: so
            many too, and it is `SHORT`, so that no sleeping thread is woken for it after a pause.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.pieces = MOST
        self._alone: list[int] = []  # nanoseconds
        self._shared: list[int] = []
        self._after: list[int] = []
        self._left = self._again = AGAIN_FIRST
        self._limit = GAIN
        self.shares: bool | None = None  # None: not known yet

    def run(self, alone: Callable[[], None], shared: Callable[[int], None]) -> None:
        """Run the kernel, by the way that is quicker or that has to be looked at.

        `shared` is given what `pieces` says.
        """
        if self.shares is None:
            self._look(alone, shared)
            return
        if self.shares:
            shared(self.pieces)
        else:
            alone()
        self._left -= 1
        if self._left <= 0:
            self.begin()

    def begin(self) -> None:
        """Find out anew."""
        self._alone, self._shared, self._after = [], [], []
        self._left = self._again = longer(self._again)
        self._limit = KEPT if self.shares else GAIN
        self.shares = None

    def _look(self, alone: Callable[[], None], shared: Callable[[int], None]) -> None:
        runs = self._now()
        started = perf_counter_ns()
        if runs is self._shared:
            shared(self.pieces)
        else:
            alone()
        runs.append(perf_counter_ns() - started)
        if runs is self._alone:
            self._note_alone()
        else:
            self._decide()

    def _now(self) -> list[int]:
        """The runs whose turn it is."""
        if len(self._alone) < RUNS:
            return self._alone
        if len(self._shared) < RUNS or not self._gains(self._alone):
            return self._shared
        return self._after

    def _note_alone(self) -> None:
        """After a run by one thread: a long kernel is shared in any case; else the last of these
        runs tells into how many pieces it is cut for several.
        """
        if len(self._alone) >= SURE and min(self._alone) > LONG:
            self.pieces, self.shares = MOST, True
        elif len(self._alone) == RUNS:
            taken = usual(self._alone[1:])
            pieces = pieces_for(taken, self._threads)
            self.pieces = -pieces if taken < SHORT else pieces

    def _decide(self) -> None:
        """After a run by several, or by one thread again: whether to share it from now on, once
        there are runs enough.
        """
        gains = len(self._shared) >= RUNS and self._gains(self._alone)
        if gains and len(self._after) >= RUNS_AFTER:
            self.shares = self._gains(self._after)
        elif not gains and len(self._shared) >= RUNS_MOST:
            self.shares = False

    def _gains(self, alone: list[int]) -> bool:
        """Whether the last runs by several were quicker than these."""
        return usual(self._shared[1:]) < self._limit * usual(alone[1:])
