"""Launches of a recipe by one native call: groups of them that threads share (see `Section`), or
all of them, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from torpor.base.locks import taken
from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.device.commands import FAIR_OF, FAIR_PARTS
from torpor.device.executor import Bounds, Executor, Given, Own, Step, split
from torpor.device.pool import thread_count
from torpor.pipeline.arena import lives, scratch_for, sections_of
from torpor.pipeline.inplace import heirs
from torpor.pipeline.run import Prepared

MOST_SCRATCH: Final = 1 << 24  # bytes: launches on more take far longer than Python between them


class Wiring(NamedTuple):
    """What a recipe knows of launches: their memory by number, their integers (an int, or which of
    the graph's bound variables it is), and what the recipe makes and gives to nobody.
    """

    memory: Sequence[Sequence[int]]
    numbers: Sequence[Sequence[int | Given]]
    between: Sequence[Buffer]


class Together:
    """Launches from `first` up to `end`, in groups of which none needs another. What a group keeps
    for itself lies in memory of the thread that runs it.

    needs: numbers of all other memory that they touch.
    """

    def __init__(self, bounds: Bounds, steps: Sequence[Step], words: int, needs: Sequence[int],
                 scratch: Buffer | None):  # fmt: skip
        self.first, self.end, self.needs = bounds[0], bounds[-1], needs
        self._groups = len(bounds) - 1
        own = tuple(bound - self.first for bound in bounds)
        self._executor = Executor(steps, words, [own], scratch)
        self._executor.drop_scratch()

    def pays(self) -> bool:
        """Whether threads can share the groups evenly, rather than each launch."""
        threads = thread_count()
        rounds = -(-self._groups // threads)
        return threads > 1 and self._groups * FAIR_OF >= rounds * threads * FAIR_PARTS

    def run(self, memory: Sequence[Buffer], bound: Sequence[int]) -> tuple[int, int] | None:
        """Run all launches: which of them failed, and its error word (0: none did). None if another
        thread is running them.
        """
        executor = self._executor
        if not taken(executor.lock):
            return None
        try:
            failed, error = executor.run([*[memory[n].address for n in self.needs], *bound])
            return self.first + failed, error
        finally:
            executor.drop_scratch()
            executor.lock.release()


def together(ready: Sequence[Prepared], wiring: Wiring, bound: int) -> dict[int, Together]:
    """What can be run together, by its first launch, with so many `bound` variables."""
    items = [one.item for one in ready]
    sections = sections_of(items)
    private = [one for one in lives(items, wiring.between, sections) if one.private]
    scratch, starts = scratch_for(private)
    found = {}
    for bounds in sections:
        launches = range(bounds[0], bounds[-1])
        touched = {
            number: node.arg
            for launch in launches
            for number, node in zip(wiring.memory[launch], items[launch].buffers, strict=True)
        }
        needs = [number for number, buffer in touched.items() if id(buffer) not in starts]
        places: dict[int, Given | Own] = {n: Given(place) for place, n in enumerate(needs)}
        places |= {
            number: Own(starts[id(buffer)])
            for number, buffer in touched.items()
            if id(buffer) in starts
        }
        steps = [_step(ready[n], wiring, n, places, len(needs)) for n in launches]
        able = [step for step in steps if step is not None]
        if len(able) == len(steps):
            words = len(needs) + bound
            found[bounds[0]] = Together(bounds, able, words, needs, scratch)
    return found


class AtOnce:
    """All launches of a recipe. What lies between them is in memory that is had for one run.

    needs: numbers of all other memory that they touch.
    """

    def __init__(
        self, steps: Sequence[Step], words: int, needs: Sequence[int], starts: Sequence[int],
        scratch: Buffer | None,
    ):  # fmt: skip
        self.needs, self._starts = needs, starts
        self._scratch = None
        if scratch is not None:
            self._scratch = BufferMaker(scratch.device, scratch.size, scratch.dtype)
        self._executor = Executor(steps, words)
        self.lock = self._executor.lock

    def run(self, needed: Sequence[Buffer], bound: Sequence[int]) -> tuple[int, int]:
        """Run all launches: which of them failed, and its error word (0: none did). The caller
        holds `lock`.
        """
        words = [buffer.place or buffer.address for buffer in needed]
        if self._scratch is not None:
            scratch = self._scratch()
            words += [scratch.place + start for start in self._starts]
        failed = self._executor.launch([*words, *bound])
        return split(failed) if failed else (0, 0)


def at_once(ready: Sequence[Prepared], wiring: Wiring, bound: int) -> AtOnce | None:
    """All launches, with so many `bound` variables; None for one alone, and where native code
    cannot do it or would need much memory.
    """
    items = [one.item for one in ready]
    if len(items) < 2 or sections_of(items):
        return None
    kernels = [(one.program, [id(node.arg) for node in one.item.buffers]) for one in ready]
    dying = set(map(id, wiring.between))
    inherits = dict(chain.from_iterable(heirs(kernels, dying).values()))
    scratch, starts = scratch_for(lives(items, wiring.between, ()), inherits)
    if scratch is not None and scratch.nbytes > MOST_SCRATCH:
        return None
    touched = {
        number: id(node.arg)
        for item, numbers in zip(items, wiring.memory, strict=True)
        for number, node in zip(numbers, item.buffers, strict=True)
    }
    needs = [number for number, key in touched.items() if key not in starts]
    between = {number: starts[key] for number, key in touched.items() if key in starts}
    places: dict[int, Given | Own] = {n: Given(p) for p, n in enumerate([*needs, *between])}
    steps = [_step(one, wiring, n, places, len(places)) for n, one in enumerate(ready)]
    able = [step for step in steps if step is not None]
    if len(able) < len(steps):
        return None
    return AtOnce(able, len(places) + bound, needs, [*between.values()], scratch)


def _step(
    one: Prepared, wiring: Wiring, number: int, places: Mapping[int, Given | Own], needs: int
) -> Step | None:
    """A launch as the executor takes it; None if it cannot be."""
    values = wiring.numbers[number]
    known = [value if isinstance(value, int) else None for value in values]
    entry = None if one.executable is None else one.executable.native(known)
    if entry is None:
        return None
    words = [v if isinstance(v, int) else Given(needs + v.place) for v in values]
    arguments = (*[places[n] for n in wiring.memory[number]], *words)
    return Step(entry.address, arguments, entry.total, entry.trial, entry.checked)
