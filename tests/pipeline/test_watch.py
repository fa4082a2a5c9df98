"""What is seen of a search."""

from __future__ import annotations

import io
import sys
import time

from rich.console import Console
from rich.progress import Progress

from torpor import Context
from torpor.kernel import Opt, OptOps
from torpor.pipeline.found import Entry
from torpor.pipeline.watch import Bar, columns, described, watching

OPTS = (Opt(OptOps.UPCAST, 0, 4),)
ENTRY = Entry("cpu", "k", "r_8_8", "code", OPTS, 1.5, 2e-6, 2, 10.0, tried=("a", "b"))


def test_a_bar_on_a_terminal():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with Progress(*columns(), console=console, transient=True) as progress:
        bar = Bar(progress, 3)
        bar.begun("r_8_8", 10.0)
        bar.tried(7, [(2.5e-6, OPTS)], 4.0)
        progress.refresh()
        (task,) = progress.tasks
        assert (task.completed, task.total) == (6.0, 10.0)
        bar.begun("[E_4]", 5.0)
        bar.tried(1, [], -1.0)
        progress.refresh()
    text = screen.getvalue()
    assert "search 1/3 r_8_8, then 20 s at most" in text
    assert "7 tried, best 2.5 us" in text
    assert "search 2/3 [E_4]" in text


def test_lines_now_and_then_elsewhere(monkeypatch, capsys):
    """A short search says nothing; one that takes long says how long it may go on."""
    now = 0.0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Context(BEAM_SECONDS=8, BEAM_TOTAL=600), watching(5) as watch:
        watch.begun("r_8_8", 8.0)
        now = 7.0
        watch.tried(1, [], 1.0)
        watch.settled(ENTRY)
        assert capsys.readouterr() == ("", "")
        watch.begun("[E_4]", 8.0)
        now = 12.0
        watch.tried(3, [], 3.0)
        watch.tried(4, [], 3.0)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("search: 2 of 5 kernels, [E_4]: 3 tried; 27 s more at most")
        with Context(DEBUG=1):
            watch.settled(ENTRY)
    assert capsys.readouterr().err == described(ENTRY) + "\n"


def test_the_line():
    line = described(ENTRY)
    assert line.startswith("search: r_8_8: 1.50 times as fast with [Opt(op=OptOps.UPCAST")
    assert line.endswith("(2.0 us; 2 tried in 10.0 s)")
