"""LLVM IR of the thread pool: what a worker does, and what the thread that has the work does.

All threads share one `state` of 64-bit words. A job is (entry, table, total, chunk, allowed):
threads claim chunks of [0, total) and call `entry(table, begin, end)`. The chunks lie in as many
parts as there are threads. Each thread claims those of its own part first, by adding to a number on
a line of its own, and then those of the next parts: so what a thread read or wrote in one job is in
its own cache for the next, and threads meet only where one has to help another.

A worker counts itself in `active` before it looks whether a job is `open`, and the owner closes the
job before it waits for `active` to be 0 (all in one total order): so the owner waits only for
threads that are at work, never for one that is still waking up, and writes the next job only when
nobody reads the last.

A worker that finds no job looks at `generation` for a while, then sleeps: on Linux in a futex on
that word; elsewhere it returns to Python, which waits on a condition. While others are still at the
job that it has shared it stays awake: the next one often follows at once. Whoever waits offers its
core to others now and then, which may be the threads of another process.

Waking a sleeper takes the owner as long as a short job. So after a pause (no job has ended `RECENT`
ticks ago or later) it does one that is marked as short, by a negative chunk, alone. If another
follows at once, it wakes the others for that.
"""

from __future__ import annotations

from typing import Final

from torpor.device.words import written_out

# Places in `state`, in words of 8 bytes; words that different threads write lie on different lines.
GENERATION: Final = 0
SLEEPERS: Final = 8
ENTRY, TABLE, TOTAL, CHUNK, ALLOWED, PARTS, ENDED = 16, 17, 18, 19, 20, 21, 22
ACTIVE: Final = 32
OPEN: Final = 40
STOP: Final = 48
SYSCALL, YIELD, FUTEX, SPINS = 49, 50, 51, 52  # addresses (0: none), system call number, count
CLOCK, CLOCK_WORD, SHARE = 53, 54, 55  # an address, what goes with it (see `_NOW`), `torpor_share`
TAKEN: Final = 64  # how many chunks of the first part are claimed; of each further part, a line on
LINE: Final = 8
MOST_PARTS: Final = 64
WORDS: Final = TAKEN + LINE * MOST_PARTS

# Pauses of the owner before it offers its core to others, and looks of an idle worker after each of
# which it does. With 4096, and never, two processes with two threads each took half as long again
# for a product of 512 as with one each.
OWNER_SPINS: Final = 1024
WORKER_OFFERS: Final = 256
RECENT: Final = 1 << 18  # ticks of the processor's clock: about as long as workers stay awake
FUTEX_WAIT: Final = 128  # FUTEX_WAIT | FUTEX_PRIVATE_FLAG, from linux/futex.h
FUTEX_WAKE: Final = 129

_PAUSES: Final = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "arm": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "": ("", ""),
}
# What reads the clock that counts ticks; where none is known no time passes, and all is recent.
_TICKS: Final = {
    "x86": ("declare i64 @llvm.readcyclecounter()", "call i64 @llvm.readcyclecounter()"),
    "": ("", "add i64 0, 0"),
}

# The time in nanoseconds: by `clock_gettime`, which is given the number of the clock; on Windows by
# `QueryPerformanceCounter`, of whose ticks each takes so many nanoseconds.
_NOW: Final = {
    False: """
  %id = trunc i64 %word to i32
  %ignored = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %rest = i64 %time[1]
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest""",
    True: """
  %ignored = call i32 %clock(ptr %time)
  %ticks = load i64, ptr %time
  %now = mul i64 %ticks, %word""",
}

_TEXT: Final = """
{declare_pause}
{declare_ticks}
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define i64 @torpor_now(ptr %state) {{
  %clock = ptr %state[{CLOCK}]
  %word = i64 %state[{CLOCK_WORD}]
  %time = alloca [2 x i64], align 8{now}
  ret i64 %now
}}

define void @torpor_pool_work(ptr %state, i64 %thread) {{
start:
  %entry = ptr %state[{ENTRY}]
  %table = ptr %state[{TABLE}]
  %total = i64 %state[{TOTAL}]
  %chunk = i64 %state[{CHUNK}]
  %parts = i64 %state[{PARTS}]
  %less = sub i64 %chunk, 1
  %rounded = add i64 %total, %less
  %chunks = udiv i64 %rounded, %chunk
  %own = urem i64 %thread, %parts
  br label %visit
visit:
  %visits = phi i64 [1, %start], [%visits.next, %next]
  %part = phi i64 [%own, %start], [%part.next, %next]
  %part.after = add i64 %part, 1
  %first.wide = mul i64 %part, %chunks
  %first = udiv i64 %first.wide, %parts
  %end.wide = mul i64 %part.after, %chunks
  %end.chunk = udiv i64 %end.wide, %parts
  %line = mul i64 %part, {LINE}
  %place = add i64 %line, {TAKEN}
  %taken.p = at %state[%place]
  br label %claim
claim:
  %taken = atomicrmw add ptr %taken.p, i64 1 seq_cst
  %mine = add i64 %first, %taken
  if slt i64 %mine, %end.chunk then %call else %next
call:
  %begin = mul i64 %mine, %chunk
  %far = add i64 %begin, %chunk
  %past = icmp sgt i64 %far, %total
  %end = select i1 %past, i64 %total, i64 %far
  call void %entry(ptr %table, i64 %begin, i64 %end)
  br label %claim
next:
  %visits.next = add i64 %visits, 1
  %is.last = icmp eq i64 %part.after, %parts
  %part.next = select i1 %is.last, i64 0, i64 %part.after
  if slt i64 %visits, %parts then %visit else %done
done:
  ret void
}}

define i64 @torpor_pool_worker(ptr %state, i64 %index) {{
start:
  %generation.p = at %state[{GENERATION}]
  %sleepers.p = at %state[{SLEEPERS}]
  %active.p = at %state[{ACTIVE}]
  %open.p = at %state[{OPEN}]
  %stop.p = at %state[{STOP}]
  %syscall = ptr %state[{SYSCALL}]
  %futex = i64 %state[{FUTEX}]
  %spins = i64 %state[{SPINS}]
  %here = ptrtoint ptr %generation.p to i64
  %yield = ptr %state[{YIELD}]
  %can.yield = icmp ne ptr %yield, null
  br label %look
look:
  %generation = load atomic i64, ptr %generation.p seq_cst, align 8
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  if ne i64 %stop, 0 then %leave else %enter
enter:
  %before = atomicrmw add ptr %active.p, i64 1 seq_cst
  %open = load atomic i64, ptr %open.p seq_cst, align 8
  if ne i64 %open, 0 then %ask else %exit
ask:
  %allowed = i64 %state[{ALLOWED}]
  if slt i64 %index, %allowed then %work else %exit
work:
  %thread = add i64 %index, 1
  call void @torpor_pool_work(ptr %state, i64 %thread)
  br label %exit
exit:
  %after = atomicrmw sub ptr %active.p, i64 1 seq_cst
  br label %spin
spin:
  %count = phi i64 [0, %exit], [%more, %again], [%more, %yielding]
  %looks = phi i64 [0, %exit], [%looks.more, %again], [%looks.more, %yielding]
  %now = load atomic i64, ptr %generation.p seq_cst, align 8
  if ne i64 %now, %generation then %look else %wait
wait:
  if sge i64 %count, %spins then %tired else %again
again:
  {pause}
  %still.open = load atomic i64, ptr %open.p seq_cst, align 8
  %still.allowed = i64 %state[{ALLOWED}]
  %is.still.open = icmp ne i64 %still.open, 0
  %is.still.mine = icmp slt i64 %index, %still.allowed
  %others.work = and i1 %is.still.open, %is.still.mine
  %step = select i1 %others.work, i64 0, i64 1
  %more = add i64 %count, %step
  %looks.more = add i64 %looks, 1
  %turn = urem i64 %looks.more, {WORKER_OFFERS}
  %is.turn = icmp eq i64 %turn, 0
  %offer = and i1 %is.turn, %can.yield
  br i1 %offer, label %yielding, label %spin
yielding:
  %result = call i32 %yield()
  br label %spin
tired:
  if ne ptr %syscall, null then %sleep else %leave
sleep:
  %slept = atomicrmw add ptr %sleepers.p, i64 1 seq_cst
  %expected = and i64 %generation, 4294967295
  %woken = call i64 (i64, ...) %syscall(i64 %futex, i64 %here, i64 {FUTEX_WAIT}, i64 %expected,
                                         i64 0, i64 0, i64 0)
  %awake = atomicrmw sub ptr %sleepers.p, i64 1 seq_cst
  br label %look
leave:
  ret i64 %generation
}}

define void @torpor_pool_publish(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %chunk,
                                 i64 %allowed) {{
start:
  %generation.p = at %state[{GENERATION}]
  %open.p = at %state[{OPEN}]
  %state[{ENTRY}] = ptr %entry
  %state[{TABLE}] = ptr %table
  %state[{TOTAL}] = i64 %total
  %state[{CHUNK}] = i64 %chunk
  %state[{ALLOWED}] = i64 %allowed
  %threads = add i64 %allowed, 1
  %many = icmp sgt i64 %threads, {MOST_PARTS}
  %parts = select i1 %many, i64 {MOST_PARTS}, i64 %threads
  %state[{PARTS}] = i64 %parts
  br label %clear
clear:
  %part = phi i64 [0, %start], [%part.next, %clear]
  %line = mul i64 %part, {LINE}
  %place = add i64 %line, {TAKEN}
  %state[%place] = i64 0
  %part.next = add i64 %part, 1
  if slt i64 %part.next, %parts then %clear else %open
open:
  store atomic i64 1, ptr %open.p seq_cst, align 8
  %old = atomicrmw add ptr %generation.p, i64 1 seq_cst
  call void @torpor_pool_wake(ptr %state)
  ret void
}}

define void @torpor_pool_wake(ptr %state) {{
start:
  %sleepers.p = at %state[{SLEEPERS}]
  %here = ptrtoint ptr %state to i64
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  if sgt i64 %sleepers, 0 then %wake else %done
wake:
  %syscall = ptr %state[{SYSCALL}]
  %futex = i64 %state[{FUTEX}]
  %woken = call i64 (i64, ...) %syscall(i64 %futex, i64 %here, i64 {FUTEX_WAKE}, i64 2147483647,
                                         i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}}

define void @torpor_pool_finish(ptr %state) {{
start:
  %active.p = at %state[{ACTIVE}]
  %open.p = at %state[{OPEN}]
  %yield = ptr %state[{YIELD}]
  %can.yield = icmp ne ptr %yield, null
  call void @torpor_pool_work(ptr %state, i64 0)
  store atomic i64 0, ptr %open.p seq_cst, align 8
  br label %look
look:
  %count = phi i64 [0, %start], [%more, %again]
  %active = load atomic i64, ptr %active.p seq_cst, align 8
  if ne i64 %active, 0 then %wait else %done
wait:
  %long = icmp sgt i64 %count, {OWNER_SPINS}
  %offer = and i1 %long, %can.yield
  br i1 %offer, label %yielding, label %again
yielding:
  %result = call i32 %yield()
  br label %again
again:
  {pause}
  %more = add i64 %count, 1
  br label %look
done:
  ret void
}}

define void @torpor_pool_run(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %chunk,
                             i64 %allowed) {{
start:
  %sleepers.p = at %state[{SLEEPERS}]
  %size = call i64 @llvm.abs.i64(i64 %chunk, i1 false)
  %is.short = icmp slt i64 %chunk, 0
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %some = icmp sgt i64 %sleepers, 0
  %dear = and i1 %is.short, %some
  br i1 %dear, label %ask, label %share
ask:
  %now = {ticks}
  %ended = i64 %state[{ENDED}]
  %pause = sub i64 %now, %ended
  if sgt i64 %pause, {RECENT} then %alone else %share
alone:
  call void %entry(ptr %table, i64 0, i64 %total)
  br label %done
share:
  call void @torpor_pool_publish(ptr %state, ptr %entry, ptr %table, i64 %total, i64 %size,
                                 i64 %allowed)
  call void @torpor_pool_finish(ptr %state)
  br label %done
done:
  %end = {ticks}
  %state[{ENDED}] = i64 %end
  ret void
}}
"""


def worker_text(architecture: str, windows: bool = False) -> str:
    """The pool's IR for "x86", "arm", or any other (which has no pause instruction)."""
    declare, pause = _PAUSES.get(architecture, _PAUSES[""])
    declare_ticks, ticks = _TICKS.get(architecture, _TICKS[""])
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    clock = {"declare_ticks": declare_ticks, "ticks": ticks, "now": _NOW[windows]}
    return written_out(_TEXT.format(declare_pause=declare, pause=pause, **clock, **places))
