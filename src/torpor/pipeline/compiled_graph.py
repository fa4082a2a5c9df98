"""`CompiledGraph`: what a schedule becomes, whoever runs it: a table of commands over memory.

Memory goes by slot: what the graph is given (inputs), what is always the same (constants), what it
makes for others (results, for which whoever runs it gives memory), and what lies between. What lies
in the same place, and what may be written over, is decided here, once (see `arena`).

There are two ways to run the table. Where every command is native code it is run by one call of the
executor. Else (other devices, copies from files, somebody who wants to see each command and its
time, another thread that is running the same graph) one command is run after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from torpor.base.dtypes import DType, dtypes
from torpor.base.locks import recursive_lock, taken
from torpor.device import Buffer, Device, copy_buffer
from torpor.device.buffer import BufferMaker
from torpor.device.executor import (
    Bounds,
    Executor,
    Given,
    Own,
    Row,
    Scratch,
    Step,
    copying,
    counting,
    jumping,
    split,
)
from torpor.device.host import raise_held
from torpor.device.launch import launch_value
from torpor.device.pool import pool, thread_count
from torpor.ir.records import Jump, ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import arena
from torpor.pipeline.arena import SCRATCH, Slot
from torpor.pipeline.command import Command, Prepared, Word, command_of
from torpor.pipeline.report import note_run, timing

_making: Final = recursive_lock()
KEPT: Final = 1 << 14  # bytes of an arena that stays with its graph: there may be many graphs


class Kind(NamedTuple):
    """What memory is like."""

    device: str
    size: int
    dtype: DType

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def kind_of(buffer: Buffer) -> Kind:
    """What a buffer is like."""
    return Kind(buffer.device, buffer.size, buffer.dtype)


class Between(NamedTuple):
    """Where something between commands lies: the slot of an arena or a result, and how many bytes
    in.
    """

    kind: Kind
    base: Slot
    offset: int


class Memory(NamedTuple):
    """What a graph's slots are, in order: inputs, and the rest.

    arenas:  memory that is had for a run; `scratch`: bytes of the last of them that each thread has
             for itself (0: there is no such).
    """

    inputs: int
    constants: tuple[Buffer, ...]
    results: tuple[Kind, ...]
    arenas: tuple[Kind, ...]
    between: tuple[Between, ...]
    scratch: int = 0

    @property
    def first_result(self) -> Slot:
        """The slot of the first result."""
        return self.inputs + len(self.constants)

    @property
    def first_arena(self) -> Slot:
        """The slot of the first arena."""
        return self.first_result + len(self.results)


class Failed(Exception):
    """A CHECK in command number `command` failed: `error` is its error word."""

    def __init__(self, command: int, error: int):
        super().__init__(command, error)
        self.command, self.error = command, error


class CompiledGraph:
    """Commands in order, and the memory that they need.

    words:    how many integers a run is given.
    sections: groups of commands that may run at the same time.
    donated:  by number of a result: the input in whose memory it may lie, if nobody else holds
              that; None: in memory that is no input. No check can fail once it is written.
    """

    def __init__(
        self, commands: Sequence[Command], memory: Memory, words: int = 0,
        sections: Sequence[Bounds] = (), donated: dict[int, int | None] | None = None,
    ):  # fmt: skip
        self.commands, self.memory, self.words = tuple(commands), memory, words
        self.sections, self.donated = tuple(sections), donated or {}
        self.takes = [_taking(kind) for kind in memory.arenas]
        self._given = memory.inputs + len(memory.results) + len(memory.arenas)
        self._varying: list[Command] = []  # whose sizes depend on words

    @property
    def peak_bytes(self) -> int:
        """The most memory that a run has at one time besides its inputs and constants."""
        return sum(kind.nbytes for kind in (*self.memory.results, *self.memory.arenas))

    def run(
        self, inputs: Sequence[Buffer], results: Sequence[Buffer], words: Sequence[int] = (),
        items: Sequence[ScheduleItem] = (),
    ) -> None:  # fmt: skip
        """Run all commands; `items`: what to show of them, where they are of another place in the
        program. A `Failed` says which check did not hold: nothing but results has changed then.
        """
        if timing():
            self._one_by_one(inputs, results, words, items)
        else:
            self.launch(inputs, results, words)

    def launch(
        self, inputs: Sequence[Buffer], results: Sequence[Buffer], words: Sequence[int] = ()
    ) -> None:
        """As `run`, where nobody wants to see it."""
        executor = self.executor
        if executor is None or not taken(executor.lock):
            self._one_by_one(inputs, results, words, ())
            return
        try:
            given = [b.place or _place_of(b) for b in (*inputs, *results)]
            if self.takes or words:
                arenas = [take() for take in self.takes]
                given += [b.place or _place_of(b) for b in arenas]
                given += (*words, *self.sizes_in(words))
            failed = executor.launch(given)
        finally:
            executor.lock.release()
        if failed:
            raise_held()
            raise Failed(*split(failed))

    def _one_by_one(
        self, inputs: Sequence[Buffer], results: Sequence[Buffer], words: Sequence[int],
        items: Sequence[ScheduleItem],
    ) -> None:  # fmt: skip
        """Run each command by a call of its own, in memory of its own."""
        measured = timing()
        if measured and any(c.program and c.program.thread_range for c in self.commands):
            pool.get_ready()  # what that takes is no kernel's time
        table = self.table(inputs, results)
        rounds: dict[object, int] = {}
        after = 0
        while (number := after) < len(self.commands):
            command, after = self.commands[number], number + 1
            buffers = [table[slot] for slot in command.slots]
            for buffer in buffers:
                if not buffer.place and not buffer.is_allocated():
                    buffer.allocate()
            values = command.values_in(words, rounds)
            if (jump := command.item.jump) is not None:
                taken = _is_taken(jump, buffers[0], rounds, *values)
                after = number + jump.by if taken else after
                continue
            started, error = time.perf_counter() if measured else 0.0, 0
            if command.executable is None:
                copy_buffer(buffers[0], buffers[1])
            else:
                error = command.executable(buffers, values)
            if measured:
                item, took = items[number] if items else command.item, time.perf_counter() - started
                note_run(item, command.program, values, started, took)
            if error:
                raise Failed(number, error)

    def table(self, inputs: Sequence[Buffer], results: Sequence[Buffer]) -> list[Buffer]:
        """The memory of each slot in one run."""
        memory = self.memory
        arenas = [Buffer(*kind) for kind in memory.arenas]
        table = [*inputs, *memory.constants, *results, *arenas]
        table += [table[base].view(at, kind.size, kind.dtype) for kind, base, at in memory.between]
        return table

    def operations(self, words: Sequence[int]) -> int:
        """The arithmetic operations of one run with these words; a loop comes round once here."""
        total = 0
        for command in self.commands:
            if (program := command.program) is not None:
                values = zip((name for name, _ in program.variables), command.values_in(words, {}))
                total += launch_value(program.ops, dict(values))
        return total

    # --- for native code --------------------------------------------------------------------------
    @cached_property
    def executor(self) -> Executor | None:
        """What runs all commands by one call: of the addresses of inputs, results and arenas, the
        words, and the sizes that depend on them. None if one of the commands is no native code.
        """
        with _making:  # several threads may ask at once; Python has no lock for it from 3.12 on
            if "executor" not in self.__dict__:
                self.__dict__["executor"] = self._made()
            found: Executor | None = self.__dict__["executor"]
            return found

    def _made(self) -> Executor | None:
        self._varying.clear()
        steps = []
        for command in self.commands:
            step = self._step(command)
            if step is None:
                return None
            steps.append(step)
        words = self._given + self.words + 2 * len(self._varying)
        memory, scratch = self.memory, None
        if memory.scratch:
            threads = memory.arenas[-1].nbytes // memory.scratch
            scratch = Scratch(Given(self._given - 1), memory.scratch, threads)
        return Executor(steps, words, self.sections, scratch)

    def sizes_in(self, words: Sequence[int]) -> list[int]:
        """The sizes of launches that depend on these words, as the executor is given them."""
        sizes: list[int] = []
        for command in self._varying:
            assert command.executable is not None, "a copy's size is known"
            total, trial = command.executable.sizes(command.values_in(words))
            sizes += (total, 0 if trial is None else trial.address)
        return sizes

    def _step(self, command: Command) -> Step | None:
        """What native code does for a command, if it can."""
        if (jump := command.item.jump) is not None:
            seen = Device[command.item.buffers[0].arg.device].kind == "CPU"
            if jump.counter is not None:
                rounds = self._rounds(command.values[0])
                return counting(jump.counter, rounds, jump.by) if seen else None
            return jumping(self._address(command.slots[0]), jump.by, jump.holds) if seen else None
        return self._kernel(command) if command.program is not None else self._copy(command)

    def _kernel(self, command: Command) -> Step | None:
        assert command.executable is not None, "copies are steps of another kind"
        known = [value if isinstance(value, int) else None for value in command.values]
        entry = command.executable.native(known)
        if entry is None:
            return None
        values = [self._value(value) for value in command.values]
        arguments = (*map(self._address, command.slots), *values)
        if entry.total is not None:
            return Step(entry.address, arguments, entry.total, entry.trial, entry.checked)
        place = self._given + self.words + 2 * len(self._varying)
        self._varying.append(command)
        return Step(entry.address, arguments, Given(place), Given(place + 1), entry.checked)

    def _value(self, value: int | Word | Row) -> int | Given | Row:
        if isinstance(value, Word):
            return Given(self._given + value.place, value.more)
        return value

    def _rounds(self, value: int | Word | Row) -> int | Given:
        made = self._value(value)
        assert not isinstance(made, Row), "how often a loop is done does not move"
        return made

    def _copy(self, command: Command) -> Step | None:
        if not command.nbytes:
            return None
        to, origin = map(self._address, command.slots)
        return copying(to, origin, command.nbytes)

    def _address(self, slot: Slot) -> int | Given | Own:
        memory = self.memory
        offset = 0
        if slot >= memory.first_arena + len(memory.arenas):
            _, base, offset = memory.between[slot - memory.first_arena - len(memory.arenas)]
            slot = base
            if memory.scratch and slot == memory.first_arena + len(memory.arenas) - 1:
                return Own(offset)
        if memory.inputs <= slot < memory.first_result:
            return _place_of(memory.constants[slot - memory.inputs])
        return Given(slot if slot < memory.inputs else slot - len(memory.constants), offset)


def _taking(kind: Kind) -> Callable[[], Buffer]:
    """A function that gives an arena for a run: a small one is the same each time."""
    make = BufferMaker(*kind)
    if kind.nbytes > KEPT:
        return make
    kept: list[Buffer] = []

    def take() -> Buffer:
        if not kept:
            kept.append(make())
        return kept[0]

    return take


def _is_taken(jump: Jump, flag: Buffer, rounds: dict[object, int], most: int = 0) -> bool:
    """Whether a run goes on where a jump says; rounds are counted, of which there are `most`."""
    if jump.counter is None:
        return bool(flag.numpy()[0]) is jump.holds
    rounds[jump.counter] = 0 if jump.begins else rounds[jump.counter] + 1
    return rounds[jump.counter] < most


def _place_of(buffer: Buffer) -> int:
    """Where the host sees a buffer, which has memory from now on; 0: it does not."""
    if not buffer.is_allocated():
        buffer.allocate()
    address = buffer.memory.address
    return 0 if address is None else address + buffer.offset


# --- making one -----------------------------------------------------------------------------------
def compiled_graph(
    ready: Sequence[Prepared], inputs: Sequence[Buffer], wanted: Sequence[Buffer],
    word_of: Callable[[UOp], Word | None], words: int = 0,
    changes: Iterable[tuple[Slot | None, Buffer]] = (),
) -> tuple[CompiledGraph, dict[int, Slot]]:  # fmt: skip
    """The graph of what is ready to run, and the slot of each buffer by `id`.

    `wanted` are the buffers that must be there after a run; what is neither made nor an input is a
    constant. `word_of` says which of so many `words` a bound variable is, if it is one. `changes`:
    inputs (None: memory that is no input), and what is wanted that may be written over them.
    """
    changes = [*changes]
    ready = updates_last(ready, {id(new) for _, new in changes})
    items = [one.item for one in ready]
    touched = [[id(node.arg) for node in item.buffers] for item in items]
    kernels = [(one.program, places) for one, places in zip(ready, touched, strict=True)]
    known = {id(node.arg): node.arg for item in items for node in item.buffers}
    known |= {id(buffer): buffer for buffer in wanted}
    slots = {id(buffer): number for number, buffer in reversed([*enumerate(inputs)])}
    made = {id(item.buffers[n].arg) for item in items for n in item.outputs}
    kept = {id(buffer) for buffer in wanted}
    constants = [key for key in known if key not in made and key not in slots]
    results = [key for key in dict.fromkeys(map(id, wanted)) if key in made]
    between = [key for key in known if key in made and key not in kept]
    pairs = [(0 if n is None else id(inputs[n]), id(new)) for n, new in changes if id(new) in made]
    sections = arena.sections_of(items)
    donated = arena.donations(kernels, pairs, sections)
    kinds = {key: kind_of(known[key]) for key in (*results, *between)}
    lives = arena.values_of(touched, kinds, sections, _own_of(items, sections))
    lives = arena.throughout(lives, arena.rounds_of(items))
    _, last = arena.uses(touched)
    ending = {key for key in between if lives[key].death == last[key]}
    layout = arena.laid_out(
        {key: lives[key] for key in between},
        {key: lives[key] for key in results if key not in donated},
        arena.heirs(kernels, ending),
    )
    names = sorted(layout.sizes, key=SCRATCH.__eq__)  # the scratch memory last
    order = (*constants, *results, *names, *between)
    slots |= {key: number for number, key in enumerate(order, len(inputs))}  # type: ignore[misc]
    memory = Memory(
        len(inputs),
        tuple(known[key] for key in constants),
        tuple(kinds[key] for key in results),
        tuple(_arena_kind(name, layout.sizes[name], sections, items) for name in names),
        tuple(
            Between(kinds[key], slots[place.base], place.offset)  # type: ignore[index]
            for key, place in ((key, layout.places[key]) for key in between)
        ),
        layout.sizes.get(SCRATCH, 0),
    )
    commands = [command_of(one, slots, word_of) for one in ready]
    number_of = {key: number for number, key in enumerate(results)}
    over = {number_of[new]: slots.get(old) for new, old in donated.items()}
    return CompiledGraph(commands, memory, words, sections, over), slots


def updates_last(ready: Sequence[Prepared], changed: Collection[int]) -> list[Prepared]:
    """The same with commands that make what is `changed` (by `id`) behind the last check where they
    can be there, so that it may be written over what was before it. What comes in rounds stays as
    it is, and so does all where more memory would wait for these commands than it saves.
    """
    if any(one.item.jump is not None for one in ready):
        return [*ready]
    checked = [one.program is not None and one.program.checks > 0 for one in ready]
    end = max((number for number, checks in enumerate(checked) if checks), default=-1) + 1
    late: list[Prepared] = []
    early: list[Prepared] = []
    touched: set[int] = set()  # by commands that come later and stay where they are,
    written: set[int] = set()  # and what these write
    for one, checks in reversed([*zip(ready[:end], checked, strict=False)]):
        item = one.item
        used = {id(node.arg) for node in item.buffers}
        made = {id(item.buffers[n].arg) for n in item.outputs}
        free = not checks and item.group is None and not made.isdisjoint(changed)
        if free and made.isdisjoint(touched) and used.isdisjoint(written):
            late.append(one)
        else:
            early.append(one)
            touched |= used
            written |= made
    moved = [*reversed(early), *reversed(late), *ready[end:]]
    saved = sum(made_by(late).values())
    return moved if handed_on(moved) - handed_on(ready) <= saved else [*ready]


def handed_on(ready: Sequence[Prepared]) -> int:
    """The most bytes at a time of what commands make for later ones."""
    touched = [[id(node.arg) for node in one.item.buffers] for one in ready]
    return arena.most_at_once(touched, made_by(ready))


def made_by(ready: Sequence[Prepared]) -> dict[int, int]:
    """The bytes of what commands make, by `id`."""
    items = [one.item for one in ready]
    return {id(b): b.nbytes for i in items for n in i.outputs for b in (i.buffers[n].arg,)}


def _own_of(items: Sequence[ScheduleItem], sections: Sequence[Bounds]) -> set[int]:
    """What each group has for itself, of those that may run at the same time, by `id`."""
    groups = [group for first, *_ in sections if (group := items[first].group) is not None]
    return {id(node.arg) for section, _ in groups for node in section.own}


def _arena_kind(
    name: str, nbytes: int, sections: Sequence[Bounds], items: Sequence[ScheduleItem]
) -> Kind:
    """The memory of an arena: on a device, or scratch memory for all threads."""
    if name != SCRATCH:
        return Kind(name, nbytes, dtypes.uint8)
    device = items[sections[0][0]].buffers[0].arg.device
    return Kind(device, nbytes * thread_count(), dtypes.uint8)
