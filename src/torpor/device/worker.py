"""The thread pool in native code: what a worker does, and what the thread that has the work does.

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

from torpor.device.words import Text

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

# How a thread pauses, and reads the clock that counts ticks, by architecture; where no such clock
# is known no time passes, and all is recent.
_TICKS: Final = """
define internal i64 @pause() {{
  {pause}
  ret i64 0
}}
define internal i64 @ticks() {{
  %now = {ticks}
  ret i64 %now
}}
"""
_INSTRUCTIONS: Final = {
    "x86": ("call void @llvm.x86.sse2.pause()", "call i64 @llvm.readcyclecounter()"),
    "arm": ("call void @llvm.aarch64.hint(i32 1)", "add i64 0, 0"),
    "": ("", "add i64 0, 0"),
}
_DECLARED: Final = {
    "x86": "declare void @llvm.x86.sse2.pause()\ndeclare i64 @llvm.readcyclecounter()",
    "arm": "declare void @llvm.aarch64.hint(i32)",
    "": "",
}

# The time in nanoseconds: by `clock_gettime`, which is given the number of the clock; on Windows by
# `QueryPerformanceCounter`, of whose ticks each takes so many nanoseconds.
_NOW: Final = {
    False: """
def torpor_now(state):
    clock, time = state[CLOCK], room(2)
    clock(state[CLOCK_WORD], time)
    return time[0] * 1000000000 + time[1]
""",
    True: """
def torpor_now(state):
    clock, time = state[CLOCK], room(1)
    clock(time)
    return time[0] * state[CLOCK_WORD]
""",
}

_TEXT: Final = """
def torpor_pool_work(state, thread):
    entry, table, total = state[ENTRY], state[TABLE], state[TOTAL]
    chunk, parts = state[CHUNK], state[PARTS]
    chunks = (total + chunk - 1) // chunk
    part = thread % parts
    for visit in range(parts):
        first, past = part * chunks // parts, (part + 1) * chunks // parts
        taken = at(state, part * LINE + TAKEN)
        while True:
            mine = first + atomic_add(taken, 1)
            if mine >= past:
                break
            entry(table, mine * chunk, min((mine + 1) * chunk, total))
        part = 0 if part + 1 == parts else part + 1


def torpor_pool_worker(state, index):
    active, opened, sleepers = at(state, ACTIVE), at(state, OPEN), at(state, SLEEPERS)
    syscall, give_way = state[SYSCALL], state[YIELD]
    while True:
        generation = atomic_load(at(state, GENERATION))
        if atomic_load(at(state, STOP)):
            return generation
        atomic_add(active, 1)
        if atomic_load(opened) and index < state[ALLOWED]:
            torpor_pool_work(state, index + 1)
        atomic_add(active, -1)
        spins, looks = state[SPINS], 0
        while atomic_load(at(state, GENERATION)) == generation:
            if spins <= 0:
                if not syscall:
                    return generation
                atomic_add(sleepers, 1)
                seen = generation & 0xFFFFFFFF
                syscall(state[FUTEX], at(state, GENERATION), FUTEX_WAIT, seen, 0, 0, 0)
                atomic_add(sleepers, -1)
                break
            pause()
            if not (atomic_load(opened) and index < state[ALLOWED]):  # others are not at work
                spins -= 1
            looks += 1
            if looks % WORKER_OFFERS == 0 and give_way:
                give_way()


def torpor_pool_publish(state, entry, table, total, chunk, allowed):
    state[ENTRY], state[TABLE], state[TOTAL] = entry, table, total
    state[CHUNK], state[ALLOWED] = chunk, allowed
    parts = min(allowed + 1, MOST_PARTS)
    state[PARTS] = parts
    for part in range(parts):
        state[part * LINE + TAKEN] = 0
    atomic_store(at(state, OPEN), 1)
    atomic_add(at(state, GENERATION), 1)
    torpor_pool_wake(state)


def torpor_pool_wake(state):
    if atomic_load(at(state, SLEEPERS)) > 0:
        syscall = state[SYSCALL]
        syscall(state[FUTEX], at(state, GENERATION), FUTEX_WAKE, 2147483647, 0, 0, 0)


def torpor_pool_finish(state):
    torpor_pool_work(state, 0)
    atomic_store(at(state, OPEN), 0)
    count, give_way = 0, state[YIELD]
    while atomic_load(at(state, ACTIVE)):
        if count > OWNER_SPINS and give_way:
            give_way()
        pause()
        count += 1


def torpor_pool_run(state, entry, table, total, chunk, allowed):
    if chunk < 0 and atomic_load(at(state, SLEEPERS)) > 0 and ticks() - state[ENDED] > RECENT:
        entry(table, 0, total)
    else:
        size = -chunk if chunk < 0 else chunk
        torpor_pool_publish(state, entry, table, total, size, allowed)
        torpor_pool_finish(state)
    state[ENDED] = ticks()
"""


def worker_text(architecture: str, windows: bool = False, more: str = "") -> Text:
    """The pool for "x86", "arm", or any other (which has no pause instruction), and `more`."""
    pause, ticks = _INSTRUCTIONS[architecture]
    ir = _DECLARED[architecture] + _TICKS.format(pause=pause, ticks=ticks)
    places = {name: value for name, value in globals().items() if isinstance(value, int)}
    return Text(_NOW[windows] + _TEXT + more, places, ir)
