"""Groups of a recipe's launches that threads share, by one native call (see `Section`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torpor.base.locks import taken
from torpor.device import Buffer
from torpor.device.commands import FAIR_OF, FAIR_PARTS
from torpor.device.executor import Bounds, Executor, Given, Own, Step
from torpor.device.pool import thread_count
from torpor.pipeline.arena import lives, scratch_for, sections_of
from torpor.pipeline.run import Prepared


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
