"""Profiles in the formats of other tools."""

from __future__ import annotations

import json
import marshal
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torpor.base.phases import Event
from torpor.base.site import Site, decode
from torpor.profile.table import Row


def write_chrome(events: Iterable[Event], started: float, path: Path) -> None:
    """The trace event format: complete events ("X"), in microseconds from the start."""
    process = os.getpid()
    found = [
        {
            "name": event.name or event.phase,
            "cat": event.phase,
            "ph": "X",
            "ts": (event.start - started) * 1e6,
            "dur": event.seconds * 1e6,
            "pid": process,
            "tid": event.thread,
            "args": _facts(event),
        }
        for event in tuple(events)
    ]
    path.write_text(json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}), encoding="utf-8")


def _facts(event: Event) -> dict[str, Any]:
    """What a viewer shows of an event that is chosen."""
    facts = {
        "built at": _text(event.built),
        "asked for at": _text(event.asked),
        "why": event.why,
        "device": event.device,
    }
    if event.phase == "kernel" and event.seconds:
        facts["GFLOP/s"] = f"{event.operations / event.seconds / 1e9:.2f}"
        facts["GB/s"] = f"{event.bytes / event.seconds / 1e9:.2f}"
    return {name: value for name, value in facts.items() if value}


def _text(site: Site | None) -> str:
    return "" if site is None else str(decode(site))


def write_pstats(rows: Iterable[Row], path: Path) -> None:
    """What `pstats.Stats` reads: by function (file, line, name) its calls, own time, time with what
    it calls, and its callers. Lines are functions that call a function for each phase.
    """
    found: dict[Any, Any] = {}
    for row in rows:
        line = (row.file or "~", row.line, row.text)
        found[line] = (max(row.calls, 1), max(row.calls, 1), 0.0, row.total, {})
        for phase, seconds in row.seconds.items():
            count, key = row.counts[phase], ("~", 0, f"<torpor {phase}>")
            calls, _, own, total, callers = found.get(key, (0, 0, 0.0, 0.0, {}))
            callers[line] = (count, count, seconds, seconds)
            found[key] = (calls + count, calls + count, own + seconds, total + seconds, callers)
    path.write_bytes(marshal.dumps(found))
