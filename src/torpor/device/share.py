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
LONG: Final = 500_000  # nanoseconds by one thread from which several are quicker in any case
GAIN: Final = 0.9  # of the time by one thread; for less the other cores are left in peace
AGAIN_FIRST: Final = 64  # runs until it is looked at again: soon, since programs compile at first
AGAIN_AFTER: Final = 4096  # and later


def longer(runs: int) -> int:
    """After how many runs to look again, having looked after `runs` of them."""
    return min(4 * runs, AGAIN_AFTER)


class Trial:
    """What the runs of one kernel by one and by several threads took. Threads may meet in it: then
    a run more is looked at, or a time is missing.
    """

    def __init__(self) -> None:
        self._alone: list[int] = []  # nanoseconds
        self._shared: list[int] = []
        self._left = self._again = AGAIN_FIRST
        self.shares: bool | None = None  # None: not known yet

    def run(self, alone: Callable[[], None], shared: Callable[[], None]) -> None:
        """Run the kernel, by the way that is quicker or that has to be looked at."""
        if self.shares is None:
            self._look(alone, shared)
            return
        if self.shares:
            shared()
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

    def _look(self, alone: Callable[[], None], shared: Callable[[], None]) -> None:
        by_several = len(self._alone) >= RUNS
        started = perf_counter_ns()
        (shared if by_several else alone)()
        taken = perf_counter_ns() - started
        (self._shared if by_several else self._alone).append(taken)
        if taken > LONG and not by_several:
            self.shares = True
        elif len(self._shared) >= RUNS:
            # Whatever disturbs a run only makes it longer.
            self.shares = min(self._shared[1:]) < GAIN * min(self._alone[1:])
