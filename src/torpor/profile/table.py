"""What was heard, by the user's lines: rows for programs, and a table to read."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from torpor.base.phases import PHASES, Event
from torpor.base.site import Place, Site, decode

WIDEST: Final = 60  # characters of a line's text
REASONS: Final = 3  # that are shown of a line
NOWHERE: Final = Place("", 0, "", "(no line of the program)")
FIRST: Final = ("new", "")  # reasons that need no telling


@dataclass
class Row:
    """One line of the user's program: what was asked for there, and what it built.

    calls:   how often something was asked for there.
    seconds: by phase, without what other phases inside of them took. A kernel's launch, and what it
             took to compile, are the line's that built it; all else the line's that asked.
    kernels: how many launches.
    made:    how many kernels were compiled or loaded.
    operations, bytes: of all launches, estimated.
    why:     reasons for what was traced or compiled, and how often each.
    """

    file: str
    line: int
    function: str
    text: str
    calls: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    bytes: int = 0
    why: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> float:
        """Seconds in all phases."""
        return sum(self.seconds.values())

    @property
    def kernels(self) -> int:
        return self.counts.get("kernel", 0)

    @property
    def made(self) -> int:
        return self.counts.get("compile", 0) + self.counts.get("load", 0)

    @property
    def flops(self) -> float:
        """Operations a second while its kernels ran; 0 where none did."""
        return self._rate(self.operations)

    @property
    def bandwidth(self) -> float:
        """Bytes a second while its kernels ran; 0 where none did."""
        return self._rate(self.bytes)

    def _rate(self, amount: int) -> float:
        seconds = self.seconds.get("kernel", 0.0)
        return amount / seconds if seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        derived = ("kernels", "made", "total", "flops", "bandwidth")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    def add(self, event: Event) -> None:
        """Count an event in."""
        phase = event.phase
        self.seconds[phase] = self.seconds.get(phase, 0.0) + event.own
        self.counts[phase] = self.counts.get(phase, 0) + 1
        self.calls += phase in ("launch", "trace")
        self.operations += event.operations
        self.bytes += event.bytes
        if event.why not in FIRST:
            self.why[event.why] += 1


class Rows:
    """Rows that grow as events come: what a program of any length does takes no more memory."""

    def __init__(self) -> None:
        self._by_line: dict[tuple[str, int], Row] = {}
        self._by_site: dict[Site | None, Row] = {}

    def add(self, event: Event) -> None:
        """Count an event in, for the line that it belongs to."""
        site = event.built or event.asked
        row = self._by_site.get(site)
        if row is None:
            row = self._by_site[site] = self._row_at(NOWHERE if site is None else decode(site))
        row.add(event)

    def _row_at(self, place: Place) -> Row:
        file, line, function, text = place
        text = linecache.getline(file, line).strip() if line else text
        return self._by_line.setdefault((file, line), Row(file, line, function, text))

    def sorted(self) -> list[Row]:
        """A row for each line, the longest first."""
        return sorted(self._by_line.values(), key=lambda row: -row.total)


# --- to read --------------------------------------------------------------------------------------
def text_of(rows: Sequence[Row], totals: dict[str, float], seconds: float, top: int) -> str:
    """Totals, the table, and what was made again and why."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.counts)
    parts = [f"{name} {_seconds(spent)}{_counted(name, counts)}" for name, spent in totals.items()
             if spent >= 5e-5]  # fmt: skip
    lines = [f"{_seconds(seconds)}: {', '.join(parts)}"]
    shown = rows[:top]
    if shown:
        lines += ["", *_aligned(_cells(shown))]
    if len(rows) > top:
        rest = sum(row.total for row in rows[top:])
        lines.append(f"and {len(rows) - top} more lines, {_seconds(rest)}")
    again = [line for row in shown for line in _reasons(row)]
    if again:
        lines += ["", "made again, since it differs from what the line had before:", *again]
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


def _counted(phase: str, counts: Counter[str]) -> str:
    names = {"compile": "kernels", "load": "kernels from disk", "kernel": "launches",
             "trace": "traces"}  # fmt: skip
    return f" ({counts[phase]:,} {names[phase]})" if phase in names else ""


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """The table's cells, its head first; phases that took no time are left out."""
    names = [name for name in PHASES if any(row.seconds.get(name) for row in rows)]
    head = ["calls", *(f"{name} ms" for name in names), "kernels", "made", "GFLOP/s", "GB/s"]
    cells = [[*head, "line"]]
    for row in rows:
        spent = [_number(row.seconds.get(name, 0.0) * 1e3) for name in names]
        rates = [_number(row.flops / 1e9), _number(row.bandwidth / 1e9)]
        counts = [f"{count:,}" if count else "" for count in (row.calls, row.kernels, row.made)]
        cells.append([counts[0], *spent, *counts[1:], *rates, _where(row)])
    return cells


def _number(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.005 else ""


def _where(row: Row) -> str:
    """File, number and text of the line."""
    where = f"{_place(row)}: " if row.line else ""
    return where + (row.text if len(row.text) <= WIDEST else row.text[: WIDEST - 3] + "...")


def _place(row: Row) -> str:
    """File and number; a file below the current folder as seen from there."""
    path = Path(row.file)
    below = path.is_relative_to(Path.cwd())
    return f"{path.relative_to(Path.cwd()) if below else path}:{row.line}"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Columns of numbers, and the last one of text."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)] + [row[-1]])
        for row in cells
    ]


def _reasons(row: Row) -> list[str]:
    """What was made again at a line, with the reasons that are most common."""
    if not row.why:
        return []
    first = "; ".join(f"{why}" for why, _ in row.why.most_common(REASONS))
    more = "; ..." if len(row.why) > REASONS else ""
    return [f"  {_place(row)}: {row.why.total()} times: {first}{more}"]
