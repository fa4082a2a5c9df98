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

from torpor.device.words import written_out

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
define void @torpor_share_way(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %threads,
                              i64 %helpers, i64 %pieces, i1 %shares) {{
start:
  br i1 %shares, label %share, label %alone
share:
  %each = call i64 @llvm.abs.i64(i64 %pieces, i1 false)
  %all = mul i64 %threads, %each
  %less = sub i64 %all, 1
  %rounded = add i64 %total, %less
  %chunk = udiv i64 %rounded, %all
  %is.short = icmp slt i64 %pieces, 0
  %negative = sub i64 0, %chunk
  %signed = select i1 %is.short, i64 %negative, i64 %chunk
  call void @torpor_pool_run(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %signed,
                             i64 %helpers)
  ret void
alone:
  call void %entry(ptr %table, i64 0, i64 %total)
  ret void
}}

define i64 @torpor_share_pieces(i64 %alone, i64 %threads) {{
  %least = mul i64 %threads, {PIECE}
  %many = udiv i64 %alone, %least
  %some = call i64 @llvm.smax.i64(i64 %many, i64 {FEWEST})
  %pieces = call i64 @llvm.smin.i64(i64 %some, i64 {MOST})
  %negative = sub i64 0, %pieces
  %is.short = icmp slt i64 %alone, {SHORT}
  %signed = select i1 %is.short, i64 %negative, i64 %pieces
  ret i64 %signed
}}

define void @torpor_share_note(ptr %times, i64 %taken) {{
  %least = i64 %times[0]
  %second = i64 %times[1]
  %new.least = call i64 @llvm.smin.i64(i64 %least, i64 %taken)
  %later = call i64 @llvm.smax.i64(i64 %least, i64 %taken)
  %new.second = call i64 @llvm.smin.i64(i64 %second, i64 %later)
  %times[0] = i64 %new.least
  %times[1] = i64 %new.second
  ret void
}}

define void @torpor_share_settle(ptr %trial, i1 %shared, i1 %shares, i64 %pieces) {{
  %period = i64 %trial[{PERIOD}]
  %fourfold = mul i64 %period, 4
  %longer = call i64 @llvm.smin.i64(i64 %fourfold, i64 {LAST})
  %same = icmp eq i1 %shares, %shared
  %next = select i1 %same, i64 %longer, i64 {FIRST}
  %shares.word = zext i1 %shares to i64
  %trial[{SHARES}] = i64 %shares.word
  %trial[{LEFT}] = i64 %next
  %trial[{PERIOD}] = i64 %next
  %trial[{PIECES}] = i64 %pieces
  %trial[{STEP}] = i64 0
  %trial[{HERE}] = i64 {NEVER}
  %trial[{HERE_SECOND}] = i64 {NEVER}
  %trial[{THERE}] = i64 {NEVER}
  %trial[{THERE_SECOND}] = i64 {NEVER}
  ret void
}}

define void @torpor_share_weigh(ptr %trial, i1 %shares, i64 %steps, i64 %threads) {{
start:
  %here = i64 %trial[{HERE}]
  %here.second = i64 %trial[{HERE_SECOND}]
  %there.second = i64 %trial[{THERE_SECOND}]
  %alone = select i1 %shares, i64 %there.second, i64 %here.second
  %shared = select i1 %shares, i64 %here.second, i64 %there.second
  %pieces = call i64 @torpor_share_pieces(i64 %alone, i64 %threads)
  br i1 %shares, label %go.on, label %hasten
hasten:
  %is.second = icmp eq i64 %steps, 2
  %is.long = icmp sgt i64 %here, {LONG}
  %surely = and i1 %is.second, %is.long
  br i1 %surely, label %settle, label %cut
cut:
  %turns = icmp eq i64 %steps, {BEFORE}
  br i1 %turns, label %store.pieces, label %go.on
store.pieces:
  %trial[{PIECES}] = i64 %pieces
  br label %go.on
go.on:
  %is.last = icmp sge i64 %steps, {ALL}
  br i1 %is.last, label %decide, label %done
decide:
  %limit = select i1 %shares, i64 {KEPT}, i64 {GAIN}
  %most = mul i64 %alone, %limit
  %hundred = mul i64 %shared, 100
  %gains = icmp slt i64 %hundred, %most
  br label %settle
settle:
  %now.shares = phi i1 [true, %hasten], [%gains, %decide]
  call void @torpor_share_settle(ptr %trial, i1 %shares, i1 %now.shares, i64 %pieces)
  br label %done
done:
  ret void
}}

define void @torpor_share(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %allowed,
                          i64 %helpers, ptr %trial) {{
start:
  %shares.word = i64 %trial[{SHARES}]
  %shares = icmp ne i64 %shares.word, 0
  %left = i64 %trial[{LEFT}]
  %pieces = i64 %trial[{PIECES}]
  %threads = call i64 @llvm.smin.i64(i64 %total, i64 %allowed)
  %is.one = icmp sle i64 %threads, 1
  br i1 %is.one, label %one, label %several
one:
  call void %entry(ptr %table, i64 0, i64 %total)
  ret void
several:
  %is.known = icmp sgt i64 %left, 0
  br i1 %is.known, label %known, label %look
known:
  %left.next = sub i64 %left, 1
  %trial[{LEFT}] = i64 %left.next
  call void @torpor_share_way(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %threads,
                              i64 %helpers, i64 %pieces, i1 %shares)
  ret void
look:
  %step = i64 %trial[{STEP}]
  %is.past = icmp sge i64 %step, {BEFORE}
  %is.before = icmp slt i64 %step, {BACK}
  %is.other = and i1 %is.past, %is.before
  %way = xor i1 %shares, %is.other
  %started = call i64 @torpor_now(ptr %state)
  call void @torpor_share_way(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %threads,
                              i64 %helpers, i64 %pieces, i1 %way)
  %ended = call i64 @torpor_now(ptr %state)
  %taken = sub i64 %ended, %started
  %place = select i1 %is.other, i64 {THERE}, i64 {HERE}
  %times = at %trial[%place]
  call void @torpor_share_note(ptr %times, i64 %taken)
  %step.next = add i64 %step, 1
  %trial[{STEP}] = i64 %step.next
  call void @torpor_share_weigh(ptr %trial, i1 %shares, i64 %step.next, i64 %threads)
  ret void
}}
"""


def share_text() -> str:
    """IR of `torpor_share`, which runs a kernel by the way that is quicker or that has to be looked
    at; only one thread at a time may do so with one trial. It needs `worker_text`.
    """
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    return written_out(_TEXT.format(BACK=BEFORE + OTHER, ALL=BEFORE + OTHER + AFTER, **places))


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
