"""Whether several threads are quicker than one: seen again and again in the runs of a kernel.

What it costs to wake a thread depends on the machine, on what else runs there, and on whether the
thread still waits awake: on one virtual machine 2 to 35 microseconds were measured, as long as
many a kernel. At times the two cores of that machine were as quick together as one of them. So it
is not guessed: a kernel for which it may matter is run both ways, and again now and then. The runs
of one way follow each other, as they will later: a thread that has just shared a kernel may still
wait awake for the next, and finds its part of the data in its own cache. All this happens in native
code, among runs of which none is lost: each computes what it was asked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from torpor.device.words import Text
from torpor.device.worker import worker_text

# The runs of one look: by the way that has been taken so far, by the other, and again by the first,
# since the machine may have got quicker meanwhile. The second-best of each way counts: whatever
# disturbs a run only makes it longer, and one may have been lucky.
BEFORE: Final = 4
# Threads get quicker until each has its part of the data in its own cache: 1 MB copied by two took
# 34, 31, 28, from the tenth run on 21 to 23 us, and 31 by one.
OTHER: Final = 12
AFTER: Final = 4
LONG: Final = 500_000  # nanoseconds by one thread from which several are quicker in any case
# Of the time by one thread, in hundredths; for less the other cores are left in peace. A choice,
# beyond the spread of short runs (bench/results/jit.md, "Waking threads").
GAIN: Final = 90
KEPT: Final = 100  # likewise, where several shared it so far: or it would go to and fro
# Nanoseconds by one thread up to which it does not pay to wake one: that takes the waker 40 us on a
# virtual machine, and the sleeper comes later still.
SHORT: Final = 150_000
# Runs from one look to the next: soon at first and after a change, since programs compile at first;
# later four times as many each time, up to the last. So looks cost a hundredth at most.
FIRST: Final = 32
LAST: Final = 2048
# Nanoseconds that a piece takes at least: threads meet at each claim, and a kernel sets up once a
# piece. Rows of 1 MiB summed by two threads (17 us alone): 8.5 us in 2 pieces, 9.3 in 8, 15 in 32.
PIECE: Final = 2_500
FEWEST: Final = 2  # pieces for each thread: one that comes late leaves the rest to the others
MOST: Final = 16  # so that one which is held up costs the others little

# Places in a trial's words. `PIECES`, for each thread; negative: so many, and it is `SHORT`, so
# that no sleeping thread is woken for it after a pause. The rest belongs to the look: which of its
# runs comes next, and the two least times, in nanoseconds, of the way so far and of the other.
SHARES, LEFT, PERIOD, PIECES, STEP, HERE, HERE_SECOND, THERE, THERE_SECOND = range(9)
WORDS: Final = 9
NEVER: Final = (1 << 63) - 1  # longer than any run takes, and than there will be runs

_TEXT: Final = """
def torpor_share_way(state, entry, table, total, threads, helpers, pieces, shares):
    if not shares:
        entry(table, 0, total)
        return
    parts = threads * (-pieces if pieces < 0 else pieces)
    chunk = (total + parts - 1) // parts
    torpor_pool_run(state, entry, table, total, -chunk if pieces < 0 else chunk, helpers)


def torpor_share_pieces(alone, threads):
    pieces = min(max(alone // (threads * PIECE), FEWEST), MOST)
    return -pieces if alone < SHORT else pieces


def torpor_share_settle(trial, shares, pieces):
    same = shares == trial[SHARES]
    trial[LEFT] = trial[PERIOD] = min(trial[PERIOD] * 4, LAST) if same else FIRST
    trial[SHARES], trial[PIECES], trial[STEP] = shares, pieces, 0
    trial[HERE] = trial[HERE_SECOND] = trial[THERE] = trial[THERE_SECOND] = NEVER


def torpor_share_weigh(trial, steps, threads):
    shares, here, there = trial[SHARES], trial[HERE_SECOND], trial[THERE_SECOND]
    alone, shared = there if shares else here, here if shares else there
    pieces = torpor_share_pieces(alone, threads)
    if not shares:
        if steps == 2 and trial[HERE] > LONG:
            torpor_share_settle(trial, 1, pieces)
            return
        if steps == BEFORE:
            trial[PIECES] = pieces
    if steps >= BEFORE + OTHER + AFTER:
        gains = shared * 100 < alone * (KEPT if shares else GAIN)
        torpor_share_settle(trial, gains, pieces)


def torpor_share(state, entry, table, total, allowed, helpers, trial):
    threads, shares, pieces = min(total, allowed), trial[SHARES], trial[PIECES]
    if threads <= 1:
        entry(table, 0, total)
        return
    if trial[LEFT] > 0:
        trial[LEFT] -= 1
        torpor_share_way(state, entry, table, total, threads, helpers, pieces, shares)
        return
    step = trial[STEP]
    other = step < BEFORE + OTHER if step >= BEFORE else 0
    way = 1 - shares if other else shares
    started = torpor_now(state)
    torpor_share_way(state, entry, table, total, threads, helpers, pieces, way)
    taken = torpor_now(state) - started
    times = at(trial, THERE if other else HERE)
    least, second = times[0], times[1]
    times[0] = min(least, taken)
    times[1] = min(second, max(least, taken))
    trial[STEP] = step + 1
    torpor_share_weigh(trial, step + 1, threads)
"""


def pool_text(architecture: str, windows: bool = False) -> Text:
    """The pool (see `worker_text`), with `torpor_share`, which runs a kernel by the way that is
    quicker or that has to be looked at; only one thread at a time may do so with one trial.
    """
    pool = worker_text(architecture, windows, _TEXT)
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    return pool._replace(numbers={**places, **pool.numbers})


class Trial:
    """What is known of a kernel: the words that native code has. `address`: where they are.

    `shares`: several threads always share it, in so many `pieces`, and nothing is tried.
    """

    def __init__(self, shares: bool = False, pieces: int = MOST):
        self._words = np.full(WORDS, NEVER, np.int64)
        left = NEVER if shares else 0
        self._words[:HERE] = shares, left, FIRST, pieces, 0
        self.address: int = self._words.ctypes.data

    @property
    def shares(self) -> bool:
        """Whether several threads share it at present."""
        return bool(self._words[SHARES])

    @property
    def pieces(self) -> int:
        """Into how many pieces for each thread it is cut (see `PIECES`)."""
        return int(self._words[PIECES])


SURE: Final = Trial(shares=True)  # for kernels that always pay
