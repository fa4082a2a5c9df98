"""Many kernels by one call: a table of commands, run by native code.

A command is a kernel's entry (see `llvm.entry_text`) with a pointer table of its own, in which only
what differs from call to call is filled in anew. Commands that are worth several threads run on the
pool. The first check that fails ends the run. A copy is a kernel too, whose entry copies bytes.

Commands in groups of which none needs another are shared by whole groups: threads claim them one by
one, in order, and meet after the last. What a group keeps for itself lies in the scratch memory of
the thread that runs it. A check that fails stops further claims; of several that fail the one of
the first group counts, which is the same for any number of threads: groups before it were claimed
before it, and run to their ends.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.locks import free_after_fork
from torpor.device import resident
from torpor.device.commands import (
    CALL,
    GROUP,
    HEAD,
    LOOP,
    MOVE,
    PATCH,
    PAUSED,
    RECORD,
    SECTION,
    executor_text,
)
from torpor.device.pool import pool
from torpor.device.share import Trial

COPY_THREADS_FROM: Final = 1 << 20  # bytes that two threads copy in 21 us, one in 31 (`share.py`)
ROUNDS_FIRST: Final = 64  # of a loop that may never end, before signals are looked for
PAUSE_AFTER: Final = 0.02  # seconds between two looks, at least: far below what a person notices


class Step(NamedTuple):
    """One command: a kernel's entry and what it takes.

    arguments: for each place of its pointer table a `Given`, an `Own`, a `Row`, or a number that is
               always the same (an address, a variable).
    total:     how many iterations its outermost loop has.
    trial:     whether several threads share these; None: one alone runs it. A `Given` word is the
               trial's address, or 0.
    checked:   whether the table ends with the address of an error word.
    """

    entry: int
    arguments: tuple[int | Given | Own | Row | Count, ...]
    total: int | Given
    trial: Trial | Given | None
    checked: bool


class Given(NamedTuple):
    """The `place`-th word that a call is given; an address: so many bytes behind it."""

    place: int
    offset: int = 0


class Own(NamedTuple):
    """An address in the scratch memory of the thread that runs the command's group, so many bytes
    in.
    """

    offset: int


class Scratch(NamedTuple):
    """Where the threads' scratch memory lies: that of the first, bytes of each, how many there
    are.
    """

    first: Given
    nbytes: int
    threads: int


Bounds = tuple[int, ...]  # of consecutive groups: the first command of each, and the one past all


@lru_cache(maxsize=1)
def _native() -> tuple[Any, int]:
    """The function that runs a program, and the address of the entry that copies."""
    names = ("torpor_execute", "torpor_execute_copy")
    run, copy = resident.addresses(executor_text(), "the executor", names)
    return Call(run), copy


Call: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)


@lru_cache(maxsize=256)
def _trial_of(nbytes: int) -> Trial | None:
    """What is known of copies of so many bytes."""
    return Trial() if nbytes >= COPY_THREADS_FROM else None


def copying(target: int | Given | Own, source: int | Given | Own, nbytes: int) -> Step:
    """The command that copies bytes from one address to another."""
    return Step(_native()[1], (target, source), nbytes, _trial_of(nbytes), False)


class Row(NamedTuple):
    """A number that is `start` in the first of a loop's rounds, and larger `by` in each further
    one.
    """

    start: int
    loop: object
    by: int


class Count(NamedTuple):
    """Where a loop's rounds are counted."""

    loop: object
    rounds: int | Given


def counting(loop: object, rounds: int | Given, by: int) -> Step:
    """The command that begins the rounds of a loop (`by` is 1), or goes back until all are done."""
    return Step(0, (0, Count(loop, rounds), int(by == 1)), by, None, False)


def jumping(flag: int | Given | Own, by: int, holds: bool) -> Step:
    """The command that goes on so many commands further, or back, if a bool in memory is `holds`:
    one without an entry.
    """
    return Step(0, (flag, int(holds)), by, None, False)


def goes_back(step: Step) -> bool:
    """Whether a step is a jump back that depends on data."""
    if step.entry or isinstance(step.arguments[1], Count):
        return False
    return isinstance(step.total, int) and step.total < 0


class Executor:
    """A program of commands that can be run again and again, by one thread at a time.

    `words` is how many words each call is given. Of each of the `sections` any groups may run at
    the same time, on so many threads as have `scratch` memory for what their steps call their own.
    `place` is the first word of a call. `waits`: whether how long it runs depends on data; it is
    paused now and then, so that Ctrl-C ends it.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        words: int,
        sections: Sequence[Bounds] = (),
        scratch: Scratch | None = None,
    ):
        self._table = _Table(steps, sections, scratch or Scratch(Given(0), 0, 1))
        self.place, self.words = self._table.head.ctypes.data, words
        self._lends = bool(sections) or any(step.trial is not None for step in steps)
        self._pack = struct.Struct(f"={CALL + words}q").pack
        call = _native()[0]
        self.call: Callable[[bytes], int] = call
        self.entry = ctypes.cast(call, ctypes.c_void_p).value or 0  # for native callers
        self.waits = any(goes_back(step) for step in steps)
        alone = not (self._lends or self.waits)
        self.packed = partial(self._pack, self.place, 0, 0, 1, 0) if alone else None
        self.lock = free_after_fork(threading.Lock())

    def launch(self, words: Sequence[int]) -> int:
        """Run all commands; 0 if no check failed, else what `split` takes apart. The caller holds
        `lock`.
        """
        if self.packed is not None:
            return self.call(self.packed(*words))
        run = self._in_turns if self.waits else self.call
        lent = pool.lend() if self._lends else None
        if lent is None:
            return run(self._pack(self.place, 0, 0, 1, 0, *words))
        try:
            return run(self._pack(self.place, *lent, *words))
        finally:
            pool.take_back()

    def _in_turns(self, packed: bytes) -> int:
        """A run with pauses, in which Python handles signals."""
        head, rounds = self._table.head, ROUNDS_FIRST
        head[-2] = 0  # a process may fork between two turns
        try:
            while True:
                head[-1], started = rounds, time.perf_counter()
                if (failed := self.call(packed)) != PAUSED:
                    return failed
                rounds *= 1 + (time.perf_counter() - started < PAUSE_AFTER)
        finally:
            head[-2:] = 0


_Words = np.ndarray[Any, np.dtype[np.int64]]


class _Table:
    """A program in words (see `commands`), in arrays whose addresses it holds."""

    def __init__(self, steps: Sequence[Step], sections: Sequence[Bounds], scratch: Scratch):
        tables = [[*step.arguments, *([0] if step.checked else [])] for step in steps]
        starts = np.cumsum([0, *map(len, tables)])
        words = [word for table in tables for word in table]
        self.head = np.zeros(HEAD, np.int64)
        self.tables = np.array([_first_of(word) for word in words], np.int64)
        self._slots = np.zeros(scratch.threads, np.int64)
        self._records = np.zeros((len(steps), RECORD), np.int64)
        self._sections = np.zeros((len(sections), SECTION), np.int64)
        self._groups = [np.zeros((len(bounds) - 1, GROUP), np.int64) for bounds in sections]
        places = _places(self.tables)
        self._rounds: list[tuple[int, ...]] = []  # patches of how many a loop has
        self._loops = list(self._loops_of(steps, starts, places))  # kept alive
        pairs = list(zip(places, words, strict=True))
        own = [(to, word.offset) for to, word in pairs if type(word) is Own]
        self._own = np.array(own, np.int64).reshape(-1, 2)
        own_before = np.cumsum([0, *[type(word) is Own for word in words]])[starts]
        self._given = np.array([
            *[(to, *word) for to, word in pairs if type(word) is Given],
            *[(to, *_behind(scratch.first, offset)) for to, offset in own],  # of the first thread
            *[(to, *_behind(scratch.first, number * scratch.nbytes))
              for number, to in enumerate(_places(self._slots))],
            *self._given_sizes(steps),
            *self._rounds,
        ], np.int64).reshape(-1, PATCH)  # fmt: skip
        for number, bounds in enumerate(sections):
            self._write_section(number, bounds, own_before[list(bounds)])
        self._write_records(steps, starts)
        given, records = self._given.ctypes.data, self._records.ctypes.data
        self.head[:4] = len(self._given), given, len(steps), records

    def _loops_of(self, steps: Sequence[Step], starts: _Words, places: list[int]) -> Iterator[Any]:
        """What counts each loop, and the numbers that move with its rounds."""
        opened: dict[object, tuple[_Words, list[tuple[int, ...]]]] = {}
        for step, start in zip(steps, starts, strict=False):
            for place, word in enumerate(step.arguments, start):
                if type(word) is Row and word.loop in opened:
                    opened[word.loop][1].append((places[place], word.start, word.by))
                elif type(word) is Count:
                    if step.arguments[2]:
                        opened[word.loop] = np.zeros(LOOP, np.int64), []
                    block, found = opened[word.loop]
                    self.tables[place] = block.ctypes.data
                    if not step.arguments[2]:
                        del opened[word.loop]
                        moves = np.array(found, np.int64).reshape(-1, MOVE)
                        block[1:] = _first_of(word.rounds), len(moves), moves.ctypes.data
                        if type(word.rounds) is Given:
                            self._rounds.append((block.ctypes.data + 8, *word.rounds))
                        yield block, moves

    def _given_sizes(self, steps: Sequence[Step]) -> list[tuple[int, ...]]:
        """Patches of records whose totals and trials a call is given."""
        base = self._records.ctypes.data
        return [
            (base + 8 * (RECORD * number + place), *word)
            for number, step in enumerate(steps)
            for place, word in ((2, step.total), (3, step.trial))
            if type(word) is Given
        ]

    def _write_section(self, number: int, bounds: Bounds, own: _Words) -> None:
        """A section and its groups. `own`: how many addresses in scratch memory come before each of
        the commands `bounds`.
        """
        groups, records = self._groups[number], self._records.ctypes.data
        groups[:, 0], groups[:, 1] = bounds[:-1], bounds[1:]
        groups[:, 2], groups[:, 3] = np.diff(own), self._own.ctypes.data + 16 * own[:-1]
        section = self._sections[number]
        section[2:6] = len(groups), groups.ctypes.data, records, bounds[-1]
        section[6:] = self._slots.ctypes.data, len(self._slots)
        self._records[bounds[0], 5] = section.ctypes.data

    def _write_records(self, steps: Sequence[Step], starts: _Words) -> None:
        """The commands. `starts`: where each one's table begins."""
        checked = np.flatnonzero([step.checked for step in steps])
        self.tables[starts[1:][checked] - 1] = self._records.ctypes.data + 8 * (
            RECORD * checked + 4
        )
        self._records[:, 0] = [step.entry for step in steps]
        self._records[:, 1] = self.tables.ctypes.data + 8 * starts[:-1]
        self._records[:, 2] = [0 if type(s.total) is Given else s.total for s in steps]
        self._trials = [s.trial for s in steps if isinstance(s.trial, Trial)]  # kept alive
        self._records[:, 3] = [s.trial.address if isinstance(s.trial, Trial) else 0 for s in steps]


def _first_of(word: Any) -> int:
    """What stands in a table before a run fills it in."""
    return word.start if type(word) is Row else 0 if isinstance(word, tuple) else word


def _places(words: _Words) -> list[int]:
    """The address of each word."""
    places: list[int] = (words.ctypes.data + 8 * np.arange(len(words))).tolist()
    return places


def _behind(given: Given, offset: int) -> Given:
    """The address so many bytes behind another one."""
    return Given(given.place, given.offset + offset)


def split(failed: int) -> tuple[int, int]:
    """The number of the command whose check failed, and its error word."""
    return (failed >> 32) - 1, failed & 0xFFFFFFFF
