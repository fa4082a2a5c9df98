"""`Program`: steps for the native replayer, put into memory, and what they refer to."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.capture.python import VERSION, is_known, method_of, offset_of
from torpor.capture.replayer import (
    HEAD,
    OPERATIONS,
    OWNING,
    RECORD,
    Objects,
    Offsets,
    number_of,
    replayer_text,
)
from torpor.device.commands import CALL
from torpor.device.resident import addresses, prepare
from torpor.device.words import Text
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline import beside
from torpor.tensor.storage import SEVERED
from torpor.tensor.watch import active

NAME: Final = "the replayer"
_TELL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Known(NamedTuple):
    """An object among the operands of a step."""

    value: Any


class Slot(NamedTuple):
    """The offset of a slot of a class among the operands of a step."""

    kind: type
    name: str


class Step(NamedTuple):
    """One step: an operation of `replayer.py` and its operands: names of registers, numbers,
    objects and slots. `either`: what to try instead if it fails, for a run of steps with the same.
    """

    operation: str
    operands: tuple[Any, ...]
    either: tuple[Step, ...] | None = None


def step(operation: str, *operands: Any) -> Step:
    """A step that nothing is tried instead of."""
    return Step(operation, operands)


Steps = Sequence[Step]


class _Assembler:
    """Puts steps into records, and the registers that they name into numbers."""

    def __init__(self, first: Iterable[str]):
        self.registers = {name: number for number, name in enumerate(first)}
        self.records: list[list[int]] = []
        self.held: list[Any] = []

    def put(self, steps: Steps) -> None:
        place = 0
        while place < len(steps):
            either = steps[place].either
            end = place + 1
            while either is not None and end < len(steps) and steps[end].either is either:
                end += 1
            records = [self._record(*steps[number]) for number in range(place, end)]
            self.records += records
            place = end
            if either is not None:
                jump = self._record("jump", ())
                self.records.append(jump)
                for record in records:
                    record[-1] = len(self.records)
                self.put(either)
                jump[-1] = len(self.records)

    def _record(self, operation: str, operands: Sequence[Any], *_: Any) -> list[int]:
        words = [*map(self._word, operands)]
        return [number_of(operation), *words, *[0] * (RECORD - 1 - len(words))]

    def _word(self, operand: Any) -> int:
        if isinstance(operand, str):
            return self.registers.setdefault(operand, len(self.registers))
        if isinstance(operand, Slot):
            return offset_of(*operand)
        if isinstance(operand, Known):
            self.held.append(operand.value)
            return id(operand.value)
        return int(operand)


class Program:
    """Steps in memory, and the head that says what else native code needs for them.

    `count`: how often they have been run. `runs`: whether they may be.
    """

    def __init__(
        self, steps: Steps, first: Iterable[str], arguments: int, words: int, release: Any
    ):
        assembler = _Assembler(first)
        assembler.put(steps)
        self._held = [*assembler.held, release]
        self._memory = np.zeros(len(HEAD) + RECORD * len(assembler.records), np.int64)
        self.address = self._memory.ctypes.data
        numbers = {*map(number_of, OWNING)}
        self.set(
            release=id(release),
            arguments=arguments,
            registers=len(assembler.registers),
            owned=sum(record[0] in numbers for record in assembler.records),
            words=CALL + words,
        )
        for number, record in enumerate(assembler.records):
            if record[-1]:
                record[-1] = self.address + 8 * (len(HEAD) + RECORD * record[-1])
            place = len(HEAD) + RECORD * number
            self._memory[place : place + RECORD] = record

    def operations(self) -> list[str]:
        """The operations of the steps, in order."""
        return [OPERATIONS[number] for number in self._memory[len(HEAD) :: RECORD]]

    def get(self, name: str) -> int:
        """A word of the head."""
        return int(self._memory[HEAD.index(name)])

    def set(self, **words: int) -> None:
        """Words of the head."""
        for name, value in words.items():
            self._memory[HEAD.index(name)] = value


@lru_cache(maxsize=1)
def make_native(kind: type, general: Any) -> bool:
    """Have calls of the class's instances look for programs first: those of its slot `_programs`, a
    tuple of addresses, each with what keeps it alive behind it. `general` is called where none
    fits. False: this Python is not known well enough, and nothing was changed.
    """
    if not is_known():
        return False
    symbols = ("torpor_replayer", "torpor_replayer_tell")
    entry, tell = addresses(_text(kind), NAME, symbols)
    known = Objects(active, general, Ops.BUFFER, Ops.RESHAPE, Ops.LEAF, SEVERED)
    _TELL(tell)((ctypes.c_int64 * len(known))(*map(id, known)))
    setattr(kind, "__call__", method_of(kind, "__call__", entry))  # noqa: B010 (for mypy)
    return True


@lru_cache(maxsize=1)
def expect_native(kind: type) -> None:
    """Have another process, if one runs, compile what `make_native` will need."""
    if is_known():
        beside.begin(prepare, _text(kind), NAME)


@lru_cache(maxsize=1)
def _text(kind: type) -> Text:
    offsets = Offsets(
        offset_of(kind, "_programs"),
        offset_of(UOp, "op"),
        offset_of(UOp, "src"),
        offset_of(UOp, "arg"),
        VERSION,
    )
    return replayer_text(offsets)
