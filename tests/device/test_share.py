"""Whether several threads share a kernel follows from what its runs took."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, cpu, share
from torpor.device.share import (
    AGAIN_AFTER,
    AGAIN_FIRST,
    FEWEST,
    LONG,
    MOST,
    PIECE,
    RUNS,
    RUNS_AFTER,
    RUNS_MOST,
    SHORT,
    Trial,
    pieces_for,
)

# Where several threads gain at once, and where they never do.
LOOKS = ["alone"] * RUNS + ["shared"] * RUNS + ["alone"] * RUNS_AFTER
LONGER = ["alone"] * RUNS + ["shared"] * RUNS_MOST


class Clock:
    """Time passes only in runs."""

    def __init__(self, alone: Iterator[int], shared: Iterator[int]):
        self.now, self.ways, self.pieces = 0, list[str](), list[int]()
        self._times = {"alone": alone, "shared": shared}

    def run(self, way: str) -> None:
        self.ways.append(way)
        self.now += next(self._times[way])

    def alone(self) -> None:
        self.run("alone")

    def shared(self, pieces: int) -> None:
        self.pieces.append(pieces)
        self.run("shared")


def ways(monkeypatch: pytest.MonkeyPatch, alone: Iterator[int], shared: Iterator[int]) -> list[str]:
    """How a kernel is run that takes such times one way and the other."""
    clock, trial = Clock(alone, shared), Trial(2)
    monkeypatch.setattr(share, "perf_counter_ns", lambda: clock.now)
    for _ in range(2 * AGAIN_AFTER):
        trial.run(clock.alone, clock.shared)
    return clock.ways


def test_the_quicker_way_is_taken_and_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for alone, shared, wanted in ((50, 20, "shared"), (20, 50, "alone"), (20, 19, "alone")):
        taken = ways(monkeypatch, repeat(alone), repeat(shared))
        looks = LOOKS if wanted == "shared" else LONGER
        between, place = AGAIN_FIRST, 0
        while place + len(looks) <= len(taken):  # soon at first, then more and more seldom
            assert taken[place : place + len(looks)] == looks
            place += len(looks) + between
            assert set(taken[place - between : place]) == {wanted}
            between = min(4 * between, AGAIN_AFTER)
        assert between == AGAIN_AFTER


def test_runs_that_are_disturbed_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = iter([LONG * 100, 20, LONG * 9, 20, 1, *repeat(20, 3 * AGAIN_AFTER)])
    alone = iter([LONG, 50, 50, 5, 90, *repeat(50, 3 * AGAIN_AFTER)])
    assert ways(monkeypatch, alone, shared)[len(LOOKS)] == "shared"


def test_one_lucky_run_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = chain([60, 20], repeat(60))
    assert ways(monkeypatch, repeat(50), shared)[len(LONGER)] == "alone"


def test_a_machine_that_got_quicker_meanwhile_does_not_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = chain(repeat(100, RUNS), repeat(50))
    assert ways(monkeypatch, alone, repeat(60))[len(LOOKS)] == "alone"


def test_several_go_on_sharing_while_they_are_no_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    gaining = RUNS + AGAIN_FIRST
    for later, wanted in ((49, "shared"), (51, "alone")):
        shared = chain(repeat(20, gaining), repeat(later))
        taken = ways(monkeypatch, repeat(50), shared)
        second = len(LOOKS) + AGAIN_FIRST
        looks = LOOKS if wanted == "shared" else LONGER
        assert taken[second : second + len(looks) + 1] == [*looks, wanted]


def test_a_thread_that_shared_the_last_run_is_still_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = chain([80], repeat(20))  # only the first run of several has to wake it
    assert ways(monkeypatch, repeat(50), shared)[len(LOOKS)] == "shared"


def test_threads_have_time_to_fill_their_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = chain([80], repeat(50, RUNS - 1), repeat(20))
    taken = ways(monkeypatch, repeat(50), shared)
    runs = taken[RUNS:].index("alone")
    assert RUNS < runs < RUNS_MOST
    assert taken[RUNS + runs : RUNS + runs + RUNS_AFTER + 1] == ["alone"] * RUNS_AFTER + ["shared"]


def test_long_kernels_are_shared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ways(monkeypatch, repeat(LONG + 1), repeat(LONG))[:5] == [
        "alone",
        "alone",
        *["shared"] * 3,
    ]


def test_one_long_run_alone_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = chain([50, LONG + 1], repeat(50))  # held up once
    assert ways(monkeypatch, alone, repeat(60))[len(LONGER)] == "alone"


# --- pieces ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [2, 4, 64])
def test_short_kernels_are_cut_into_few_pieces(threads: int) -> None:
    found = [pieces_for(alone, threads) for alone in range(1, 100 * threads * PIECE, PIECE)]
    assert (found[0], found[-1]) == (FEWEST, MOST)
    assert found == sorted(found)
    for alone, pieces in zip(range(1, 100 * threads * PIECE, PIECE), found, strict=True):
        assert pieces == FEWEST or alone / (pieces * threads) >= PIECE


def test_threads_share_the_pieces_that_the_runs_alone_call_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, trial = Clock(repeat(2 * 3 * PIECE), repeat(3 * PIECE)), Trial(2)
    monkeypatch.setattr(share, "perf_counter_ns", lambda: clock.now)
    for _ in range(len(LOOKS) + RUNS):
        trial.run(clock.alone, clock.shared)
    assert clock.pieces == [-3] * 2 * RUNS
    assert trial.pieces == -3


@pytest.mark.parametrize(("alone", "pieces"), [(SHORT - 1, -MOST), (SHORT, MOST)])
def test_threads_are_woken_for_what_is_not_short(
    monkeypatch: pytest.MonkeyPatch, alone: int, pieces: int
) -> None:
    clock, trial = Clock(repeat(alone), repeat(SHORT // 2)), Trial(2)
    monkeypatch.setattr(share, "perf_counter_ns", lambda: clock.now)
    for _ in range(len(LOOKS)):
        trial.run(clock.alone, clock.shared)
    assert (trial.pieces, trial.shares) == (pieces, True)


# --- kernels --------------------------------------------------------------------------------------
def run(executable: cpu.CpuExecutable, size: int) -> None:
    source = np.arange(size, dtype=np.float32)
    one, other = (Buffer("CPU", size, dtypes.float32).allocate() for _ in range(2))
    one.copyin(source)
    assert executable([other, one], [3]) == 0
    np.testing.assert_array_equal(other.numpy(), source * 2 + 3)


def test_a_kernel_is_tried_before_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "begin", lambda self: setattr(self, "shares", None))
    size = 1000
    executable = programs.load(programs.scale(size, ops=cpu.THREADS_FROM_OPS))
    with Context(THREADS=2):
        for turn in range(len(LONGER) + RUNS_AFTER):
            entry = executable.native([None])
            assert entry is not None
            assert turn >= len(LOOKS) or (entry.big, entry.doubtful) == (True, True)
            run(executable, size)
        entry = executable.native([None])
        assert entry is not None
        assert not entry.doubtful
        run(executable, size)
        executable.look_again()
        assert executable.native([None]).doubtful  # type: ignore[union-attr]
    with Context(THREADS=1):
        assert not executable.native([None]).doubtful  # type: ignore[union-attr]


@pytest.mark.parametrize(("ops", "big"), [(10, False), (cpu.SURELY_FROM_OPS, True)])
def test_small_and_surely_big_kernels_are_not_tried(ops: int, big: bool) -> None:
    executable = programs.load(programs.scale(1000, ops=ops))
    with Context(THREADS=2):
        entry = executable.native([None])
        assert entry is not None
        assert (entry.big, entry.doubtful) == (big, False)
        run(executable, 1000)
