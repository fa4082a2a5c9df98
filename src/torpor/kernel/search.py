"""Beam search over lists of opts, by time. Whoever calls it says what a list takes.

The search never forgets: what was tried, by digest of the kernel that it makes, and the best few
are its whole state, so that a search which was cut short goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.records import Opt
from torpor.kernel.candidates import WRITTEN_MOST, Opts, after, code_length, in_turn, neighbours
from torpor.kernel.kernel import Kernel

Timer = Callable[[Opts, float], "float | str"]
Note = Callable[[str], None]

SLOW: Final = 2.0  # a list that takes so many times the best one's time is not worth exact timing
ROUND: Final = 12  # lists that are tried for each member of the beam before the beam is chosen anew
DIGEST: Final = 12  # hexadecimal digits that tell one kernel from another within a search


@dataclass
class Search:
    """A search for the fastest opts of one kernel.

    timer:   seconds that a list takes, given the seconds past which nobody wants to know exactly;
             or, as a text, why it is out.
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
    best: list[tuple[float, Opts]] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    done: bool = False
    _seen: set[Opts] = field(default_factory=set)

    def run(self, starts: Iterable[Sequence[Opt]]) -> None:
        """Try the lists in `starts`, then their neighbours, until the beam has no new ones or time
        is up; one list is tried even then.
        """
        for start in starts:
            if self.best and self.over():
                return
            self.attempt(tuple(start))
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
        count = 0
        for opts in beam:
            if self.over() or count == ROUND * self.width:
                return True
            count += self.attempt(opts)
        return count > 0

    def attempt(self, opts: Opts) -> bool:
        """Time one list, and keep it if it is among the best; whether it was a new one."""
        if opts in self._seen:
            return False
        self._seen.add(opts)
        made = after(self.kernel, opts)
        if isinstance(made, OptError):
            self.note(f"refused: {made}")
            return False
        length = code_length(made)
        if self.best and length > WRITTEN_MOST:
            self.note(f"refused: {list(opts)}: its code would be some {length:.0f} vectors long")
            return False
        if digest(made) in self.tried:
            return False
        limit = self.best[0][0] * SLOW if self.best else float("inf")
        taken = self.timer(opts, limit)
        self.tried.add(digest(made))  # not before: what is interrupted has not been tried
        if isinstance(taken, str):
            self.note(f"out: {taken}: {list(opts)}")
        else:
            self.note(f"{taken * 1e6:.1f} us: {list(opts)}")
            self.keep(taken, opts)
        return True

    def admit(self, seconds: float, opts: Opts) -> None:
        """Take a list whose time is known, and which fits."""
        self._seen.add(opts)
        made = after(self.kernel, opts)
        assert isinstance(made, Kernel)
        self.tried.add(digest(made))
        self.keep(seconds, opts)

    def keep(self, seconds: float, opts: Opts) -> None:
        """Note a list that takes so long, if it is among the best."""
        self.best = sorted([*self.best, (seconds, opts)], key=seconds_of)[: self.width]

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
