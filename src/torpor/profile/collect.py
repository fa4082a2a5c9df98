"""`profile()`: collects what takes time inside a block."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any, Final, final

from torpor.base import phases
from torpor.base.errors import SettingError
from torpor.profile import export, table
from torpor.profile.imports import importing
from torpor.profile.table import Row

SHOWN: Final = 20  # lines that a table shows
MOST_EVENTS: Final = 500_000  # that a timeline has: a hundred megabytes of memory, or of a file


@final
class Profile(phases.Listener):
    """What took time, line by line: `print(p)` is a table, `p.rows` are its lines for programs.

    Times are in seconds; `p.totals` has them by phase, with the program's own Python as "python".
    May be looked at while the block still runs. Rows count everything; `events`, which timelines
    are made of, are the first half million.
    """

    def __init__(self) -> None:
        self.events: list[phases.Event] = []
        self._rows, self._inside = table.Rows(), 0.0
        self._lock = threading.RLock()  # a finaliser may compute something meanwhile
        self._started, self._ended = time.perf_counter(), 0.0
        self._thread = get_ident()

    def hear(self, event: phases.Event) -> None:
        with self._lock:
            self._rows.add(event)
            if event.thread == self._thread:
                self._inside += event.own
            if len(self.events) < MOST_EVENTS:
                self.events.append(replace(event, subject=None))  # it may hold memory

    def close(self) -> None:
        """The block is over."""
        self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the block took, up to now if it still runs."""
        return (self._ended or time.perf_counter()) - self._started

    @property
    def rows(self) -> list[Row]:
        """A row for each of the user's lines, that which took longest first."""
        return self._rows.sorted()

    @property
    def totals(self) -> dict[str, float]:
        """Seconds by phase."""
        rows = self._rows.sorted()
        found = {name: sum(row.seconds.get(name, 0.0) for row in rows) for name in phases.PHASES}
        return found | {"python": max(self.seconds - self._inside, 0.0)}

    def table(self, top: int = SHOWN) -> str:
        """The text of a table with so many lines."""
        return table.text_of(self.rows, self.totals, self.seconds, top)

    def __str__(self) -> str:
        return self.table()

    def as_json(self, top: int | None = None) -> str:
        """The totals and rows as a JSON object; with `top`, the first so many rows."""
        rows = [row.as_dict() for row in self.rows[:top]]
        return json.dumps({"seconds": self.seconds, "totals": self.totals, "rows": rows})

    def chrome_trace(self, path: Any) -> None:
        """Write a trace that chrome://tracing and ui.perfetto.dev show."""
        export.write_chrome(self.events, self._started, Path(path))

    def pstats(self, path: Any) -> None:
        """Write statistics that `pstats` and its viewers read: lines call phases."""
        export.write_pstats(self.rows, Path(path))

    def write(self, path: Any) -> None:
        """Write to a file of the kind that its suffix names: .json a Chrome trace, .pstats (or
        .prof) statistics, .txt the table. `SettingError` for others.
        """
        writer_for(path)(self, path)


def _write_text(profiled: Profile, path: Any) -> None:
    Path(path).write_text(f"{profiled}\n", encoding="utf-8")


WRITERS: Final = {
    ".json": Profile.chrome_trace,
    ".pstats": Profile.pstats,
    ".prof": Profile.pstats,
    ".txt": _write_text,
}


def writer_for(path: Any) -> Any:
    """What writes a file with this suffix."""
    suffix = Path(path).suffix
    if suffix not in WRITERS:
        known = ", ".join(WRITERS)
        raise SettingError(f"profile({str(path)!r}): the file's suffix must be one of {known}")
    return WRITERS[suffix]


@contextmanager
def profile(path: Any = None) -> Iterator[Profile]:
    """Collect what takes time inside the block: imports, traces of the jit, scheduling, compiling,
    launches and kernels, by the user's line, and why it had to be.

    path: where to write it when the block ends, also by an error (see `Profile.write`).

    It hears what its own thread does (a thread or task that it starts, if that runs in a copy of
    the context). Blocks may be nested, each hears all that is inside. Kernels are launched one by
    one there, each timed, so that small ones take somewhat longer than without.

    >>> with profile() as p:
    ...     pass
    >>> p.rows
    []
    """
    if path is not None:
        writer_for(path)
    profiled = Profile()
    try:
        with importing(), phases.listening(profiled):
            yield profiled
    finally:
        profiled.close()
        if path is not None:
            profiled.write(path)
