"""Candidates that are compiled side by side: their order, their faults, their end."""

from __future__ import annotations

import threading

import pytest

from torpor import Tensor
from torpor.kernel import Opt, OptOps
from torpor.pipeline import builders as building
from torpor.pipeline import judge as judging
from torpor.pipeline.builders import Builders
from torpor.pipeline.contest import Contest

LONG = 200.0  # seconds: others may use the machine
SERVER = """
import os, sys, time
from torpor.device.bulk import receive, send
while True:
    settings, (name, *rest) = receive(sys.stdin.buffer)
    opts = rest[2] if name == "build" else name
    if opts == "crash":
        os._exit(3)
    if opts == "hang":
        time.sleep(60)
    send(sys.stdout.buffer, (opts != "refuse", f"{opts} by {settings['THREADS']}"))
"""


@pytest.fixture
def two(monkeypatch):
    """Two processes that only pretend to compile."""
    monkeypatch.setattr(judging, "COMMAND", SERVER)
    monkeypatch.setattr(building, "cores", lambda: 2)
    made = Builders({"THREADS": 5})
    made.start(LONG)
    yield made
    made.close()


def asked(made, *lists, patience=LONG, seconds=LONG):
    for opts in lists:
        made.submit(None, "CPU", opts, patience, seconds)
    return [made.take(opts) for opts in lists]


def test_each_candidate_gets_what_was_made_of_it(two):
    names = [f"list {n}" for n in range(7)]
    assert asked(two, *names) == [f"{name} by 5" for name in names]
    assert two.take("list 3") is None, "it was taken"
    assert two.take("never asked for") is None


def test_nothing_is_compiled_any_more_when_one_is_taken(two):
    """Whoever takes one is about to measure."""
    for n in range(9):
        two.submit(None, "CPU", f"list {n}", LONG, LONG)
    assert two.take("list 0") == "list 0 by 5"
    assert set(two._done) == {f"list {n}" for n in range(1, 9)}


def test_what_crashes_or_hangs_costs_only_itself(two):
    crashed, fine, refused = asked(two, "crash", "fine", "refuse")
    (hung,) = asked(two, "hang", patience=0.5)
    assert "ended its process" in crashed
    assert fine == "fine by 5"
    assert "too long" in hung
    assert refused == "refuse by 5", "the text of the refusal"


def test_what_nobody_has_time_for_is_not_compiled(two):
    assert asked(two, "late", seconds=0.0) == ["there was no time left to compile it"]
    (hung,) = asked(two, "hang", seconds=0.3)
    assert "too long" in hung


def test_what_is_not_wanted_any_more_is_dropped(two):
    for n in range(20):
        two.submit(None, "CPU", f"list {n}", LONG, LONG)
    two.drop()
    assert not two._open
    assert two.take("list 19") is None
    assert asked(two, "next") == ["next by 5"]


def test_closing_ends_what_hangs(two):
    before = threading.active_count()
    two.submit(None, "CPU", "hang", 60.0, 60.0)
    two.close()
    assert threading.active_count() < before


def test_a_single_core_compiles_where_it_measures(monkeypatch):
    monkeypatch.setattr(building, "cores", lambda: 1)
    made = Builders({})
    assert not made.processes
    assert asked(made, ()) == [None]
    made.close()


def test_what_another_process_has_built_runs_here(monkeypatch):
    monkeypatch.setattr(building, "cores", lambda: 2)
    (item,) = (Tensor.empty(64) + 1).schedule()
    upcast = (Opt(OptOps.UPCAST, 0, 4),)
    made = Builders({"BEAM": 0})
    try:
        made.submit(item.ast, "CPU", upcast, LONG, LONG)
        made.submit(item.ast, "CPU", (Opt(OptOps.UPCAST, 0, 7),), LONG, LONG)
        built = made.take(upcast)
        assert "7 does not divide 64" in made.take((Opt(OptOps.UPCAST, 0, 7),))
    finally:
        made.close()
    contest = Contest(item.ast, "CPU", False)
    assert isinstance(contest.measure((), float("inf")), float)
    assert isinstance(contest.measure(upcast, float("inf"), built), float), "with the same results"
