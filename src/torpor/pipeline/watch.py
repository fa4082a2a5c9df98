"""What a person sees of a search while it goes on: a bar on a terminal, else a line now and then,
and by DEBUG one for each kernel.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from torpor.base import settings
from torpor.kernel.choose.candidates import Opts
from torpor.pipeline.found import Entry
from torpor.pipeline.report import say

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

EVERY: Final = 10.0  # seconds between lines where there is no terminal


class Watch:
    """Shows nothing but, with DEBUG, a line a kernel."""

    def begun(self, name: str, seconds: float) -> None:
        """The search for a kernel has begun and will take so long at most."""

    def tried(self, count: int, best: list[tuple[float, Opts]], left: float) -> None:
        """A candidate has been timed, `left` seconds before time is up."""

    def settled(self, entry: Entry) -> None:
        """The search for a kernel has ended."""
        if settings.number("DEBUG") >= 1:
            say(described(entry))


class Lines(Watch):
    """A line every few seconds, of a search that takes so long."""

    def __init__(self, kernels: int):
        self.kernels, self.number, self.name = kernels, 0, ""
        self.said = time.monotonic()

    def begun(self, name: str, seconds: float) -> None:
        self.number, self.name = self.number + 1, name

    def tried(self, count: int, best: list[tuple[float, Opts]], left: float) -> None:
        most = seconds_for(self.kernels - self.number) + max(left, 0.0)
        if most >= 1 and time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            say(
                f"search: {self.number} of {self.kernels} kernels, {self.name}: {count} tried; "
                f"{most:.0f} s more at most (BEAM_SECONDS, BEAM_TOTAL)"
            )


def seconds_for(kernels: int) -> float:
    """How long the search for so many kernels takes at most, but for BEAM_TOTAL."""
    return float(min(kernels * settings.number("BEAM_SECONDS"), settings.number("BEAM_TOTAL")))


class Bar(Watch):
    """One line on the terminal, which goes away at the end."""

    def __init__(self, progress: Progress, kernels: int):
        self.progress, self.kernels, self.number, self.seconds = progress, kernels, 0, 1.0
        self.row: TaskID = progress.add_task("search", total=1.0, state="")

    def begun(self, name: str, seconds: float) -> None:
        self.number, self.seconds = self.number + 1, seconds
        which = f"search {self.number}/{self.kernels} {name}"
        if self.number < self.kernels:
            which += f", then {seconds_for(self.kernels - self.number):.0f} s at most"
        self.progress.reset(self.row, total=seconds, description=which)

    def tried(self, count: int, best: list[tuple[float, Opts]], left: float) -> None:
        state = f"{count} tried"
        if best:
            state += f", best {best[0][0] * 1e6:.1f} us"
        self.progress.update(self.row, completed=self.seconds - max(left, 0.0), state=state)


def described(entry: Entry) -> str:
    """One line: the kernel, what was found."""
    if entry.opts is None:
        what = "the heuristics' choice stays"
    else:
        what = f"{entry.gain:.2f} times as fast with {list(entry.opts)}"
    how = f"{len(entry.tried)} tried in {entry.spent:.1f} s"
    return f"search: {entry.name}: {what} ({entry.seconds * 1e6:.1f} us; {how})"


def columns() -> tuple[ProgressColumn, ...]:
    """What a bar consists of."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # slow to import

    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeRemainingColumn(),
    )


@contextmanager
def watching(kernels: int) -> Iterator[Watch]:
    """What shows the search for so many kernels."""
    if not sys.stderr.isatty():
        yield Lines(kernels)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns(), console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, kernels)
