"""Many kernels by one call: a table of commands, run by native code.

A command is a kernel's entry (see `llvm.entry_text`) with a pointer table of its own, in which only
what differs from call to call is filled in anew. Commands that are worth several threads run on the
pool. The first check that fails ends the run. A copy is a kernel too, whose entry copies bytes.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.device import llvm
from torpor.device.machine import machine
from torpor.device.pool import CHUNKS_PER_THREAD, pool

COPY_THREADS_FROM: Final = 1 << 20  # bytes
_RECORD: Final = 5  # words of a command: entry, its table, total, whether it is big, checked
_HEAD: Final = 5  # words of a program: error word, patches, where, commands, where
_CALL: Final = 5  # words of a call before the rest: program, pool, its `run`, threads, helpers

_TEXT: Final = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @torpor_execute_copy(ptr %table, i64 %begin, i64 %end) {{
  %from.p = getelementptr i64, ptr %table, i64 1
  %to.start = load ptr, ptr %table
  %from.start = load ptr, ptr %from.p
  %to = getelementptr i8, ptr %to.start, i64 %begin
  %from = getelementptr i8, ptr %from.start, i64 %begin
  %count = sub i64 %end, %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  ret void
}}

define i64 @torpor_execute(ptr %call) {{
start:
  %pool.p = getelementptr i64, ptr %call, i64 1
  %run.p = getelementptr i64, ptr %call, i64 2
  %threads.p = getelementptr i64, ptr %call, i64 3
  %helpers.p = getelementptr i64, ptr %call, i64 4
  %given = getelementptr i64, ptr %call, i64 5
  %program = load ptr, ptr %call
  %pool = load ptr, ptr %pool.p
  %run = load ptr, ptr %run.p
  %threads = load i64, ptr %threads.p
  %helpers = load i64, ptr %helpers.p
  %patches.p = getelementptr i64, ptr %program, i64 1
  %patch.p = getelementptr i64, ptr %program, i64 2
  %commands.p = getelementptr i64, ptr %program, i64 3
  %command.p = getelementptr i64, ptr %program, i64 4
  %patches = load i64, ptr %patches.p
  %patch = load ptr, ptr %patch.p
  %commands = load i64, ptr %commands.p
  %command = load ptr, ptr %command.p
  br label %filling
filling:
  %p = phi i64 [0, %start], [%p.next, %fill]
  %p.more = icmp slt i64 %p, %patches
  br i1 %p.more, label %fill, label %running
fill:
  %p.twice = shl i64 %p, 1
  %to.p = getelementptr i64, ptr %patch, i64 %p.twice
  %which.p = getelementptr i64, ptr %to.p, i64 1
  %to = load ptr, ptr %to.p
  %which = load i64, ptr %which.p
  %value.p = getelementptr i64, ptr %given, i64 %which
  %value = load i64, ptr %value.p
  store i64 %value, ptr %to
  %p.next = add i64 %p, 1
  br label %filling
running:
  %c = phi i64 [0, %filling], [%c.next, %following]
  %c.more = icmp slt i64 %c, %commands
  br i1 %c.more, label %look, label %done
look:
  %c.place = mul i64 %c, {RECORD}
  %entry.p = getelementptr i64, ptr %command, i64 %c.place
  %table.p = getelementptr i64, ptr %entry.p, i64 1
  %total.p = getelementptr i64, ptr %entry.p, i64 2
  %big.p = getelementptr i64, ptr %entry.p, i64 3
  %checked.p = getelementptr i64, ptr %entry.p, i64 4
  %entry = load ptr, ptr %entry.p
  %table = load ptr, ptr %table.p
  %total = load i64, ptr %total.p
  %big = load i64, ptr %big.p
  %checked = load i64, ptr %checked.p
  %fewer = icmp slt i64 %total, %threads
  %used = select i1 %fewer, i64 %total, i64 %threads
  %several = icmp sgt i64 %used, 1
  %is.big = icmp ne i64 %big, 0
  %shared = and i1 %several, %is.big
  br i1 %shared, label %share, label %alone
share:
  %pieces = mul i64 %used, {CHUNKS_PER_THREAD}
  %rounding = sub i64 %pieces, 1
  %rounded = add i64 %total, %rounding
  %chunk = udiv i64 %rounded, %pieces
  call void %run(ptr %pool, ptr %entry, ptr %table, i64 %total, i64 %chunk, i64 %helpers)
  br label %ran
alone:
  call void %entry(ptr %table, i64 0, i64 %total)
  br label %ran
ran:
  %c.next = add i64 %c, 1
  %has.checks = icmp ne i64 %checked, 0
  br i1 %has.checks, label %check, label %following
check:
  %error = load i64, ptr %program
  %failed = icmp ne i64 %error, 0
  br i1 %failed, label %fail, label %following
following:
  br label %running
fail:
  store i64 0, ptr %program
  %high = shl i64 %c.next, 32
  %both = or i64 %high, %error
  ret i64 %both
done:
  ret i64 0
}}
"""


class Step(NamedTuple):
    """One command: a kernel's entry and what it takes.

    arguments: for each place of its pointer table a `Given`, or a number that is always the same
               (an address, a variable).
    total:     how many iterations its outermost loop has; `big`: whether several threads may share
               them.
    checked:   whether the table ends with the address of an error word.
    """

    entry: int
    arguments: tuple[int | Given, ...]
    total: int
    big: bool
    checked: bool


class Given(NamedTuple):
    """The `place`-th word that a call is given."""

    place: int


@lru_cache(maxsize=1)
def _native() -> tuple[Any, int]:
    """The function that runs a program, and the address of the entry that copies."""
    compiled = llvm.compile_text(
        _TEXT.format(CHUNKS_PER_THREAD=CHUNKS_PER_THREAD, RECORD=_RECORD),
        "the executor",
        machine(""),
    )
    run = llvm.load(compiled, "torpor_execute")
    return Call(run), llvm.load(compiled, "torpor_execute_copy")


Call: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)


def copying(target: int | Given, source: int | Given, nbytes: int) -> Step:
    """The command that copies bytes from one address to another."""
    big = nbytes >= COPY_THREADS_FROM
    return Step(_native()[1], (target, source), nbytes, big, False)


class Executor:
    """A program of commands that can be run again and again, by one thread at a time.

    `words` is how many words each call is given.
    """

    def __init__(self, steps: Sequence[Step], words: int):
        tables = [[*step.arguments, *([0] if step.checked else [])] for step in steps]
        starts = np.cumsum([0, *map(len, tables)])
        patches = sum(type(a) is Given for table in tables for a in table)
        records = _HEAD + 2 * patches
        first = records + _RECORD * len(steps)
        self._memory = memory = np.zeros(first + int(starts[-1]), np.int64)
        here = memory.ctypes.data
        memory[:_HEAD] = 0, patches, here + 8 * _HEAD, len(steps), here + 8 * records
        patch = _HEAD
        for number, (step, table) in enumerate(zip(steps, tables, strict=True)):
            start = first + int(starts[number])
            place = records + _RECORD * number
            memory[place : place + _RECORD] = (
                step.entry, here + 8 * start, step.total, step.big, step.checked,
            )  # fmt: skip
            for offset, argument in enumerate(table, start):
                if type(argument) is Given:
                    memory[patch : patch + 2] = here + 8 * offset, argument.place
                    patch += 2
                else:
                    memory[offset] = argument
            if step.checked:
                memory[start + len(table) - 1] = here
        self._big = any(step.big for step in steps)
        self._here = here
        self._pack = struct.Struct(f"={_CALL + words}q").pack
        self.call: Callable[[bytes], int] = _native()[0]
        self.packed = None if self._big else partial(self._pack, here, 0, 0, 1, 0)
        self.lock = threading.Lock()

    def run(self, words: Sequence[int]) -> tuple[int, int]:
        """Run all commands; the number of the one whose check failed, and its error word.

        The error word is 0 if none failed. The caller holds `lock`.
        """
        failed = self.launch(words)
        return split(failed) if failed else (0, 0)

    def launch(self, words: Sequence[int]) -> int:
        """Run all commands; 0 if no check failed, else what `split` takes apart.

        `call(packed(*words))` is the quick way where no command is worth several threads.
        """
        lent = pool.lend() if self._big else None
        if lent is None:
            return self.call(self._pack(self._here, 0, 0, 1, 0, *words))
        try:
            return self.call(self._pack(self._here, *lent, *words))
        finally:
            pool.take_back()


def split(failed: int) -> tuple[int, int]:
    """The number of the command whose check failed, and its error word."""
    return (failed >> 32) - 1, failed & 0xFFFFFFFF
