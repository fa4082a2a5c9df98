"""`Command`: what a schedule item becomes in a compiled graph, one of its table of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from torpor.device import Device
from torpor.device.base import Executable
from torpor.device.executor import Row
from torpor.device.host import host_program, is_host
from torpor.ir.records import Program, ScheduleItem
from torpor.ir.uop import UOp
from torpor.ir.variable import above
from torpor.pipeline.arena import Slot
from torpor.pipeline.compile import executable_for, has_kernel
from torpor.pipeline.report import stripped

NONE_YET: Final[Mapping[object, int]] = {}


class Word(NamedTuple):
    """An integer that is another one at each run: its place among those that a run is given, and
    how much more it is.
    """

    place: int
    more: int = 0


@dataclass(frozen=True)
class Prepared:
    """A schedule item that is ready to run; a copy has no program."""

    item: ScheduleItem
    program: Program | None
    executable: Executable | None


def prepare(item: ScheduleItem) -> Prepared:
    """The item with its program compiled and loaded."""
    if is_host(item):
        return Prepared(item, *host_program(item))
    return Prepared(item, *(executable_for(item) if has_kernel(item) else (None, None)))


class Command(NamedTuple):
    """One kernel, or without an executable a copy or a jump: the slots that it takes, and its
    integers.

    nbytes: of a copy both sides of which the host sees.
    item:   what it was made of, without memory: for who wants to see it.
    """

    executable: Executable | None
    program: Program | None
    slots: tuple[Slot, ...]
    values: tuple[int | Word | Row, ...]
    nbytes: int
    item: ScheduleItem

    def values_in(
        self, words: Sequence[int], rounds: Mapping[object, int] = NONE_YET
    ) -> tuple[int, ...]:
        """Its integers in a run that is given these words, after so many rounds of counters."""
        return tuple([
            v if isinstance(v, int)
            else words[v.place] + v.more if isinstance(v, Word)
            else v.start + v.by * rounds.get(v.loop, 0)
            for v in self.values
        ])  # fmt: skip


def command_of(
    one: Prepared, slots: dict[int, Slot], word_of: Callable[[UOp], Word | None]
) -> Command:
    """The command of an item."""
    item, program = one.item, one.program
    places = tuple([slots[id(node.arg)] for node in item.buffers])
    if (jump := item.jump) is not None:
        rounds = () if jump.counter is None else (size_of(jump.counter.rounds, word_of),)
        return Command(None, None, places, rounds, 0, stripped(item))
    if program is None:
        target, source = (node.arg for node in item.buffers)
        seen = all(Device[buffer.device].kind == "CPU" for buffer in (target, source))
        return Command(None, None, places, (), source.nbytes if seen else 0, stripped(item))
    known: dict[str, int | Word | Row] = dict(item.variables)
    for (name, _), binding in zip(item.variables, item.bindings, strict=False):
        known[name] = word_of(binding) or known[name]
    for name, counter, by in item.moves:
        known[name] = Row(dict(item.variables)[name], counter, by)
    values = program.values_of(known.items())
    return Command(one.executable, program, places, values, 0, stripped(item))


def size_of(size: int | UOp, word_of: Callable[[UOp], Word | None]) -> int | Word:
    """A number, or a bound variable with a number added."""
    if isinstance(size, int):
        return size
    bound, more = above(size)
    value, word = int(bound.src[1].arg), word_of(bound)
    return value + more if word is None else Word(word.place, word.more + more)
