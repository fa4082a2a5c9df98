"""Beam search over lists of opts, by time. Whoever calls it says what a list takes.

The search never forgets: what was tried, by digest of the kernel that it makes, and the best few
are its whole state, so that a search which was cut short goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.records import Opt
from torpor.kernel.choose.candidates import (
    WRITTEN_MOST,
    Opts,
    after,
    code_length,
    in_turn,
    neighbours,
)
from torpor.kernel.opts.kernel import Kernel

Timer = Callable[[Opts, float], "float | str"]
Note = Callable[[str], None]

# Choices of how a search spends its time: they decide what it finds, never whether that is right.
# What it finds with them is in bench/results/search.md.
SLOW: Final = 2.0  # a list that takes so many times the best one's time is not worth exact timing
ROUND: Final = 12  # lists that are tried for each member of the beam before the beam is chosen anew
BATCH: Final = 8  # lists that are prepared together: some for each of a few compiling processes
DIGEST: Final = 12  # hexadecimal digits that tell one kernel from another within a search


def unprepared(opts: Opts) -> None:
    """Nothing has to be done before a list is timed."""


@dataclass
class Search:
    """A search for the fastest opts of one kernel.

    timer:   seconds that a list takes, given the seconds past which nobody wants to know exactly;
             or, as a text, why it is out.
    prepare: told of each list that `timer` will soon be asked about, a few at a time.
    over:    whether time is up.
    width:   members of the beam.
    best:    (seconds, list) of the beam, fastest first.
    tried:   digests of the kernels that were timed or found not to work.
    done:    whether every neighbour of the beam has been tried.
    """

    kernel: Kernel
    timer: Timer
    over: Callable[[], bool]
    width: int
    note: Note
    prepare: Callable[[Opts], None] = unprepared
    best: list[tuple[float, Opts]] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    done: bool = False
    _seen: set[Opts] = field(default_factory=set)

    def run(self, starts: Iterable[Sequence[Opt]]) -> None:
        """Try the lists in `starts`, then their neighbours, until the beam has no new ones or time
        is up; one list is tried even then.
        """
        self.attempt(starts)
        while not self.over() and not self.done:
            self.done = not self.round()

    def round(self) -> bool:
        """Try some neighbours of each of the best, but for those that are far from the very best;
        whether there are any left to try.
        """
        far = self.best[0][0] * SLOW
        beam = in_turn(
            neighbours(self.kernel, opts) for seconds, opts in self.best if seconds <= far
        )
        return self.attempt(beam, ROUND * self.width) > 0 or self.over()

    def attempt(self, lists: Iterable[Sequence[Opt]], most: int | None = None) -> int:
        """Time those lists that are new, but no more than `most`, and keep the best ones; how many
        there were. Some are prepared together, before the first of them is timed.
        """
        new, count = self.new(lists), 0
        while batch := list(islice(new, BATCH if most is None else min(BATCH, most - count))):
            for opts, name in batch:
                if self.best and self.over():
                    return count
                self.measure(opts, name)
                count += 1
        return count

    def new(self, lists: Iterable[Sequence[Opt]]) -> Iterator[tuple[Opts, str]]:
        """Lists that fit and make a kernel that has not been tried, with its digest."""
        coming = set()
        for opts in map(tuple, lists):
            if self.best and self.over():
                return
            name = self.digest_of(opts)
            if name is not None and name not in coming:
                coming.add(name)
                self.prepare(opts)
                yield opts, name

    def digest_of(self, opts: Opts) -> str | None:
        """Of the kernel that a list makes; None where it need not be timed."""
        if opts in self._seen:
            return None
        self._seen.add(opts)
        made = after(self.kernel, opts)
        if isinstance(made, OptError):
            self.note(f"refused: {made}")
            return None
        length = code_length(made)
        if self.best and length > WRITTEN_MOST:
            self.note(f"refused: {list(opts)}: its code would be some {length:.0f} vectors long")
            return None
        return None if digest(made) in self.tried else digest(made)

    def measure(self, opts: Opts, name: str) -> None:
        """Time one list, and keep it if it is among the best."""
        limit = self.best[0][0] * SLOW if self.best else float("inf")
        taken = self.timer(opts, limit)
        self.tried.add(name)  # not before: what is interrupted has not been tried
        if isinstance(taken, str):
            self.note(f"out: {taken}: {list(opts)}")
        else:
            self.note(f"{taken * 1e6:.1f} us: {list(opts)}")
            self.keep(taken, opts)

    def admit(self, seconds: float, opts: Opts) -> None:
        """Take a list whose time is known, and which fits."""
        self._seen.add(opts)
        made = after(self.kernel, opts)
        assert isinstance(made, Kernel)
        self.tried.add(digest(made))
        self.keep(seconds, opts)

    def keep(self, seconds: float, opts: Opts) -> None:
        """Note a list that takes so long, if it is among the best; what was said of it before does
        not count.
        """
        others = [timed for timed in self.best if timed[1] != opts]
        self.best = sorted([*others, (seconds, opts)], key=seconds_of)[: self.width]

    def forget(self, opts: Opts) -> None:
        """Let a list be tried again."""
        made = after(self.kernel, opts)
        if isinstance(made, Kernel):
            self.tried.discard(digest(made))


def seconds_of(timed: tuple[float, Opts]) -> float:
    return timed[0]


def digest(kernel: Kernel) -> str:
    """What tells a kernel with its opts applied from others of the same search."""
    return ("n" if kernel.no_locals else "") + kernel.ast.key.hex()[:DIGEST]
