"""Whether several threads are quicker than one: seen in the first runs of a kernel.

What it costs to wake a thread depends on the machine, on what else runs there, and on whether the
thread still waits awake: on one virtual machine 2 to 35 microseconds were measured, as long as
many a kernel. So it is not guessed: a kernel for which it may matter is run both ways, and again
now and then, since the machine may have been busy. The runs of one way follow each other, as they
will later: a thread that has just shared a kernel may still wait awake for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

RUNS: Final = 8  # each way; the first is not counted, of the others the least one is
# By several, where these do not gain: they get quicker until each has its part of the data in its
# own cache (1 MB copied by two: 34, 31, 28, from the tenth on 21 to 23 us, and 31 by one).
RUNS_MOST: Final = 16
LONG: Final = 500_000  # nanoseconds by one thread from which several are quicker in any case
SURE: Final = 2  # runs that all have to be long: one may just have been held up
# Of the time by one thread; for less the other cores are left in peace. A choice, beyond the spread
# of short runs (bench/results/jit.md, "Waking threads", which also tells of the numbers of runs).
GAIN: Final = 0.9
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


class Trial:
    """What the runs of one kernel by one and by several threads took. Threads may meet in it: then
    a run more is looked at, or a time is missing.

    pieces: into how many pieces for each thread the kernel is cut, as far as is known.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.pieces = MOST
        self._alone: list[int] = []  # nanoseconds
        self._shared: list[int] = []
        self._left = self._again = AGAIN_FIRST
        self.shares: bool | None = None  # None: not known yet

    def run(self, alone: Callable[[], None], shared: Callable[[int], None]) -> None:
        """Run the kernel, by the way that is quicker or that has to be looked at.

        `shared` is given the number of pieces for each thread.
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
        self._alone, self._shared = [], []
        self._left = self._again = longer(self._again)
        self.shares = None

    def _look(self, alone: Callable[[], None], shared: Callable[[int], None]) -> None:
        by_several = len(self._alone) >= RUNS
        started = perf_counter_ns()
        if by_several:
            shared(self.pieces)
        else:
            alone()
        taken = perf_counter_ns() - started
        (self._shared if by_several else self._alone).append(taken)
        if len(self._alone) >= SURE and min(self._alone) > LONG and not by_several:
            self.pieces, self.shares = MOST, True
        elif len(self._alone) == RUNS and not by_several:
            self.pieces = pieces_for(min(self._alone[1:]), self._threads)
        elif len(self._shared) >= RUNS:
            # Whatever disturbs a run only makes it longer.
            gains = min(self._shared[1:]) < GAIN * min(self._alone[1:])
            if gains or len(self._shared) >= RUNS_MOST:
                self.shares = gains
