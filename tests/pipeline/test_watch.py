"""What is seen of a search."""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.progress import Progress

from torpor import Context
from torpor.kernel import Opt, OptOps
from torpor.pipeline.found import Entry
from torpor.pipeline.watch import Bar, Watch, columns, described, watching

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
    assert "search 1/3 r_8_8" in text
    assert "7 tried, best 2.5 us" in text
    assert "search 2/3 [E_4]" in text


def test_nothing_but_lines_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with watching(1) as watch:
        assert type(watch) is Watch
        watch.begun("r_8_8", 10.0)
        watch.tried(1, [], 1.0)
        watch.settled(ENTRY)
        assert capsys.readouterr() == ("", "")
        with Context(DEBUG=1):
            watch.settled(ENTRY)
    assert capsys.readouterr().err == described(ENTRY) + "\n"


def test_the_line():
    line = described(ENTRY)
    assert line.startswith("search: r_8_8: 1.50 times as fast with [Opt(op=OptOps.UPCAST")
    assert line.endswith("(2.0 us; 2 tried in 10.0 s)")
