"""A recorded run as a table of commands over numbered buffers, which can be run again.

The table of buffers is: inputs, constants, intermediates, outputs. Outputs are fresh each time,
since whoever called before may still hold the last ones; intermediates are planned once and used
again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from torpor.capture.output import Output, table_of
from torpor.device import Buffer, Device, copy_buffer
from torpor.device.base import Executable
from torpor.device.executor import Bounds, Executor, Given, Own, Step, copying
from torpor.ir.records import Program, ScheduleItem
from torpor.pipeline.arena import arena, sections_of
from torpor.pipeline.inplace import heirs
from torpor.pipeline.report import note_run, stripped, timing
from torpor.pipeline.reuse import Result
from torpor.pipeline.run import Prepared, error_of


class Word(NamedTuple):
    """An integer that is another one at each run: its place among those that a run is given."""

    place: int


@dataclass(frozen=True)
class Command:
    """One kernel (or, without an executable, a copy): what it takes from the table of buffers.

    fixed:  whether `values` hold no `Word`.
    errors: what its error numbers mean.
    item:   as it was recorded, with other buffers of the same sizes: for measurements only.
    """

    executable: Executable | None
    slots: tuple[int, ...]
    values: tuple[int | Word, ...]
    fixed: bool
    errors: tuple[Exception, ...]
    item: ScheduleItem
    program: Program | None


class Plan:
    """The commands in order. Not to be run twice at the same time: intermediates are shared.

    kept:     constants and intermediates, whose memory stays.
    outputs:  buffers that are made anew at each run.
    sections: groups of commands that may run at the same time; `scratch` is the memory, among what
              is kept, that each thread needs for itself then.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        inputs: int,
        kept: Sequence[Buffer],
        outputs: Sequence[Output],
        words: int,
        sections: Sequence[Bounds] = (),
        scratch: Buffer | None = None,
    ):
        self.commands, self.outputs = tuple(commands), tuple(outputs)
        self._sections, self._scratch = tuple(sections), scratch
        self.kept, self._inputs, self.words = tuple(kept), inputs, words
        self.executor: Executor | None = None
        self._prepared = False

    def run(
        self, inputs: Sequence[Buffer], places: Sequence[int], results: Sequence[Result],
        words: Sequence[int],
    ) -> None:  # fmt: skip
        """Run all commands. `places` are the addresses of the inputs, none if one of them has no
        address here; `words` are the values of each `Word`.

        Raises what a kernel raises; nothing but the results has changed then.
        """
        if not self._prepared:
            self._prepare()
        if self.executor is None or len(places) < len(inputs) or timing():
            failed, error = self._one_by_one(table_of(inputs, self.kept, results), words)
        else:
            fresh = [result.address for result in results]
            failed, error = self.executor.run([*places, *fresh, *words])
        if error:
            self.fail(failed, error)

    def fail(self, failed: int, error: int) -> None:
        """Raise what the error word of the command `failed` means."""
        known = self.commands[failed].errors[error - 1]
        raise type(known)(*known.args)

    @property
    def first_output(self) -> int:
        """The slot of the first output in the table."""
        return self._inputs + len(self.kept)

    def _prepare(self) -> None:
        """Have memory for what is kept, and native code if it can be."""
        for buffer in self.kept:
            if not buffer.is_allocated():
                buffer.allocate()
        steps = self._steps()
        if steps is not None:
            given = self._inputs + len(self.outputs) + self.words
            self.executor = Executor(steps, given, self._sections, self._scratch)
        self._prepared = True

    def _one_by_one(self, table: list[Buffer], words: Sequence[int]) -> tuple[int, int]:
        """Run each command by a call of its own, timed where that is asked for."""
        measured = timing()
        for buffer in table:
            if not buffer.is_allocated():
                buffer.allocate()
        for number, command in enumerate(self.commands):
            started = time.perf_counter() if measured else 0.0
            error = execute(command, table, words)
            if measured:
                ended = time.perf_counter()
                note_run(command.item, command.program, started, ended - started)
            if error:
                return number, error
        return 0, 0

    # --- for native code --------------------------------------------------------------------------
    def _steps(self) -> list[Step] | None:
        """The commands as the native executor takes them; None if one of them cannot be."""
        steps = []
        for command in self.commands:
            step = self._copy(command) if command.executable is None else self._kernel(command)
            if step is None:
                return None
            steps.append(step)
        return steps

    def _kernel(self, command: Command) -> Step | None:
        known = [value if isinstance(value, int) else None for value in command.values]
        assert command.executable is not None, "copies are steps of another kind"
        entry = command.executable.native(known)
        if entry is None:
            return None
        arguments = [*map(self._address, command.slots), *map(self._value, command.values)]
        return Step(entry.address, tuple(arguments), entry.total, entry.trial, entry.checked)

    def _copy(self, command: Command) -> Step | None:
        target, source = (node.arg for node in command.item.buffers)
        if not all(Device[buffer.device].kind == "CPU" for buffer in (target, source)):
            return None
        to, origin = map(self._address, command.slots)
        return copying(to, origin, source.nbytes)

    def _address(self, slot: int) -> int | Given | Own:
        if slot < self._inputs:
            return Given(slot)
        if slot < self._inputs + len(self.kept):
            buffer = self.kept[slot - self._inputs]
            if self._scratch is not None and buffer.base is self._scratch:
                return Own(buffer.offset)
            return buffer.address
        return Given(slot - len(self.kept))

    def _value(self, value: int | Word) -> int | Given:
        if isinstance(value, Word):
            return Given(self._inputs + len(self.outputs) + value.place)
        return value


def execute(command: Command, table: list[Buffer], words: Sequence[int]) -> int:
    """Run one command; its error word."""
    buffers = [table[slot] for slot in command.slots]
    if command.executable is None:
        copy_buffer(buffers[0], buffers[1])
        return 0
    values = command.values
    if not command.fixed:
        values = tuple(v if isinstance(v, int) else words[v.place] for v in values)
    return command.executable(buffers, values)  # type: ignore[arg-type]


def plan_of(
    recorded: Sequence[Prepared], inputs: Sequence[Buffer], wanted: Sequence[Buffer],
    words: dict[str, Word],
) -> tuple[Plan, dict[int, int]]:  # fmt: skip
    """The plan of what was recorded, and the table's slot of each buffer (by `id`).

    `wanted` are the buffers that must be there after a run. `words` gives variables by name.
    """
    slots: dict[int, int] = {}
    for number, buffer in enumerate(inputs):
        slots.setdefault(id(buffer), number)
    made = {id(b): b for r in recorded for b in (r.item.buffers[n].arg for n in r.item.outputs)}
    used = {id(b): b for r in recorded for b in (node.arg for node in r.item.buffers)}
    results = {id(b): b for b in wanted if id(b) in made}
    everything = {**used, **{id(b): b for b in wanted}}
    constants = [b for i, b in everything.items() if i not in made and i not in slots]
    between = [b for i, b in made.items() if i not in results]
    items = [prepared.item for prepared in recorded]
    sections = sections_of(items)
    kernels = [(r.program, [id(node.arg) for node in r.item.buffers]) for r in recorded]
    inherits = dict(chain.from_iterable(heirs(kernels, set(map(id, between))).values()))
    found = arena(items, between, sections, inherits)
    kept = [*constants, *found.placed]
    outputs = tuple(Output(b.device, b.size, b.dtype) for b in results.values())
    for number, buffer in enumerate([*constants, *between, *results.values()], len(inputs)):
        slots.setdefault(id(buffer), number)
    commands = tuple(command_of(r, slots, words) for r in recorded)
    plan = Plan(commands, len(inputs), kept, outputs, len(words), sections, found.scratch)
    return plan, slots


def command_of(prepared: Prepared, slots: dict[int, int], words: dict[str, Word]) -> Command:
    """The command that does again what was recorded."""
    item = prepared.item
    bound: dict[str, int | Word] = {}
    for number, (name, value) in enumerate(item.variables):
        named = item.bindings[number].src[0].arg[0] if item.bindings else name
        bound[name] = words.get(named, value)
    program = prepared.program
    values = tuple(bound[name] for name, _ in program.variables) if program is not None else ()
    places = tuple(slots[id(node.arg)] for node in item.buffers)
    plain = all(isinstance(value, int) for value in values)
    errors = tuple(error_of(site) for site in item.checks)
    return Command(prepared.executable, places, values, plain, errors, stripped(item), program)
