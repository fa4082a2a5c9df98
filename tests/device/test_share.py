"""Whether several threads share a kernel follows from what its runs took."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, cpu, llvm, worker
from torpor.device.machine import machine
from torpor.device.share import (
    AFTER,
    BEFORE,
    FEWEST,
    FIRST,
    LAST,
    LONG,
    MOST,
    OTHER,
    PIECE,
    SHORT,
    SURE,
    Trial,
    pool_text,
)

ALL = BEFORE + OTHER + AFTER
LOOK = (
    ["alone"] * BEFORE + ["shared"] * OTHER + ["alone"] * AFTER
)  # where one thread runs it so far
LOOK_AGAIN = ["shared"] * BEFORE + ["alone"] * OTHER + ["shared"] * AFTER
TOTAL = 10_000


@pytest.fixture(scope="module", params=[False, True], ids=["posix", "windows"])
def share(request: pytest.FixtureRequest) -> tuple[int, bool]:
    """The address of `torpor_share`, and whether it reads the clock as Windows has it."""
    text = pool_text("", request.param).written_out()
    named = text.replace("@torpor_", "@torpor_windows_" if request.param else "@torpor_posix_")
    compiled = llvm.compile_text(named, "the pool", machine(""))
    symbol = "torpor_windows_share" if request.param else "torpor_posix_share"
    return llvm.load(compiled, symbol), request.param


class Kernel:
    """One for which time passes only in its runs; its owner is the only thread that comes.

    ways: how it was run. pieces: into how many for each of 2 threads it was cut when it was shared.
    """

    def __init__(self, share: tuple[int, bool], alone: Iterator[int], shared: Iterator[int]):
        place, windows = share
        self.now, self.ways, self.pieces = 0, list[str](), list[int]()
        self._alone, self._shared, self._spans = alone, shared, list[tuple[int, int]]()
        word, kind = ctypes.c_void_p, ctypes.c_int64
        self._entry = ctypes.CFUNCTYPE(None, word, kind, kind)(self._enter)
        wide, narrow = (word,), (ctypes.c_int32, word)
        self._clock = ctypes.CFUNCTYPE(ctypes.c_int32, *(wide if windows else narrow))(self._tell)
        self._windows = windows
        self._state = np.zeros(worker.WORDS, np.int64)
        self._state[worker.CLOCK] = ctypes.cast(self._clock, word).value
        self._state[worker.CLOCK_WORD] = 100 if windows else 7
        self._function = ctypes.CFUNCTYPE(None, word, word, word, kind, kind, kind, word)(place)

    def _enter(self, _: int, begin: int, end: int) -> None:
        self._spans.append((begin, end))
        if end < TOTAL:
            return
        way, times = ("alone", self._alone) if begin == 0 else ("shared", self._shared)
        self.ways.append(way)
        self.now += next(times)

    def _tell(self, *given: int) -> int:
        time = ctypes.cast(given[-1], ctypes.POINTER(ctypes.c_int64))
        if self._windows:
            time[0] = self.now // 100
            return 1
        assert given[0] == 7
        time[0], time[1] = divmod(self.now, 10**9)
        return 0

    def run(self, trial: Trial, threads: int = 2) -> None:
        """One run, by two threads or one."""
        self._spans.clear()
        entry = ctypes.cast(self._entry, ctypes.c_void_p).value
        self._function(self._state.ctypes.data, entry, None, TOTAL, threads, 0, trial.address)
        starts = [begin for begin, _ in self._spans]
        assert [0, *[end for _, end in self._spans]] == [*starts, TOTAL]
        if len(starts) > 1:
            self.pieces.append(len(starts) // 2)


def ways(share: tuple[int, bool], alone: Iterator[int], shared: Iterator[int]) -> list[str]:
    """How a kernel is run that takes such times one way and the other."""
    kernel, trial = Kernel(share, alone, shared), Trial()
    for _ in range(4 * LAST):
        kernel.run(trial)
    return kernel.ways


US = 1000  # nanoseconds


@pytest.mark.parametrize(
    ("alone", "shared", "wanted"), [(50, 20, "shared"), (20, 50, "alone"), (20, 19, "alone")]
)
def test_the_quicker_way_is_taken_and_looked_at_again(
    share: tuple[int, bool], alone: int, shared: int, wanted: str
) -> None:
    taken = ways(share, repeat(alone * US), repeat(shared * US))
    look, between, place = LOOK, FIRST if wanted == "shared" else 4 * FIRST, 0
    while place + len(look) + between <= len(taken):  # soon at first, then more and more seldom
        assert taken[place : place + len(look)] == look
        place += len(look) + between
        assert set(taken[place - between : place]) == {wanted}
        between = min(4 * between, LAST)
        look = LOOK_AGAIN if wanted == "shared" else LOOK
    assert between == LAST


def test_runs_that_are_disturbed_do_not_count(share: tuple[int, bool]) -> None:
    late = LONG * 100
    shared = chain([late, 20 * US, late, 20 * US, US], repeat(20 * US))
    alone = chain([LONG + 1, 50 * US, late, 5 * US], repeat(50 * US))
    assert ways(share, alone, shared)[ALL] == "shared"


def test_one_lucky_run_does_not_decide(share: tuple[int, bool]) -> None:
    shared = chain([60 * US, 20 * US], repeat(60 * US))
    assert ways(share, repeat(50 * US), shared)[ALL] == "alone"


def test_a_machine_that_got_quicker_meanwhile_does_not_decide(share: tuple[int, bool]) -> None:
    alone = chain(repeat(100 * US, BEFORE), repeat(50 * US))
    assert ways(share, alone, repeat(60 * US))[ALL] == "alone"


@pytest.mark.parametrize(("later", "wanted"), [(49, "shared"), (51, "alone")])
def test_several_go_on_sharing_while_they_are_no_slower(
    share: tuple[int, bool], later: int, wanted: str
) -> None:
    shared = chain(repeat(20 * US, OTHER + FIRST), repeat(later * US))
    taken = ways(share, repeat(50 * US), shared)
    second = ALL + FIRST
    assert taken[second : second + ALL + 1] == [*LOOK_AGAIN, wanted]


def test_after_a_change_it_is_looked_at_again_soon(share: tuple[int, bool]) -> None:
    shared = chain(repeat(20 * US, LAST), repeat(80 * US))
    taken = ways(share, repeat(50 * US), shared)
    letters = "".join(way[0] for way in taken)
    look_again, look = ("".join(way[0] for way in runs) for runs in (LOOK_AGAIN, LOOK))
    assert look_again + "a" * FIRST + look + "a" * 4 * FIRST + look in letters


def test_a_thread_that_shared_the_last_run_is_still_awake(share: tuple[int, bool]) -> None:
    shared = chain([80 * US], repeat(20 * US))  # only the first run of several has to wake it
    assert ways(share, repeat(50 * US), shared)[ALL] == "shared"


def test_threads_have_time_to_fill_their_caches(share: tuple[int, bool]) -> None:
    shared = chain(repeat(50 * US, OTHER - 2), repeat(20 * US))
    assert ways(share, repeat(50 * US), shared)[ALL] == "shared"


def test_long_kernels_are_shared_at_once(share: tuple[int, bool]) -> None:
    taken = ways(share, repeat(LONG + 100), repeat(LONG))
    assert taken[: 2 + FIRST] == ["alone", "alone", *["shared"] * FIRST]


def test_one_long_run_alone_does_not_decide(share: tuple[int, bool]) -> None:
    alone = chain([50 * US, 2 * LONG], repeat(50 * US))  # held up once
    assert ways(share, alone, repeat(60 * US))[ALL] == "alone"


def test_one_thread_tries_nothing(share: tuple[int, bool]) -> None:
    kernel, trial = Kernel(share, repeat(50 * US), repeat(20 * US)), Trial()
    for _ in range(2 * ALL):
        kernel.run(trial, threads=1)
    assert set(kernel.ways) == {"alone"}
    kernel.run(trial)
    assert kernel.ways[-1] == "alone"  # the look begins now


def test_what_surely_pays_is_always_shared(share: tuple[int, bool]) -> None:
    kernel, trial = Kernel(share, repeat(50 * US), repeat(90 * US)), Trial(shares=True)
    for _ in range(2 * LAST):
        kernel.run(trial)
    assert set(kernel.ways) == {"shared"}
    assert set(kernel.pieces) == {MOST}


# --- pieces ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 15, 16, 40])
def test_threads_share_the_pieces_that_the_runs_alone_call_for(
    share: tuple[int, bool], pieces: int
) -> None:
    alone = 2 * pieces * PIECE
    kernel, trial = Kernel(share, repeat(alone), repeat(alone // 2)), Trial()
    for _ in range(ALL + FIRST):
        kernel.run(trial)
    cut = max(FEWEST, min(pieces, MOST))
    assert set(kernel.pieces) == {cut}
    assert abs(trial.pieces) == cut
    assert PIECE * cut * 2 <= alone or cut == FEWEST


@pytest.mark.parametrize(("alone", "pieces"), [(SHORT - 100, -MOST), (SHORT, MOST)])
def test_threads_are_woken_for_what_is_not_short(
    share: tuple[int, bool], alone: int, pieces: int
) -> None:
    kernel, trial = Kernel(share, repeat(alone), repeat(SHORT // 2)), Trial()
    for _ in range(ALL):
        kernel.run(trial)
    assert (trial.pieces, trial.shares) == (pieces, True)


# --- kernels --------------------------------------------------------------------------------------
def run(executable: cpu.CpuExecutable, size: int) -> None:
    source = np.arange(size, dtype=np.float32)
    one, other = (Buffer("CPU", size, dtypes.float32).allocate() for _ in range(2))
    one.copyin(source)
    assert executable([other, one], [3]) == 0
    np.testing.assert_array_equal(other.numpy(), source * 2 + 3)


def test_all_runs_of_a_look_compute_what_they_are_asked_for() -> None:
    size = 1000
    executable = programs.load(programs.scale(size, ops=cpu.THREADS_FROM_OPS))
    with Context(THREADS=2):
        trial = executable.native([None]).trial  # type: ignore[union-attr]
        assert trial is not None
        for _ in range(ALL + FIRST + ALL):
            run(executable, size)
        assert abs(trial.pieces) >= FEWEST
    assert executable.native([None]).trial is trial  # type: ignore[union-attr]


@pytest.mark.parametrize(("ops", "trial"), [(10, None), (cpu.SURELY_FROM_OPS, SURE)])
def test_small_and_surely_big_kernels_are_not_tried(ops: int, trial: Trial | None) -> None:
    executable = programs.load(programs.scale(1000, ops=ops))
    with Context(THREADS=2):
        entry = executable.native([None])
        assert entry is not None
        assert entry.trial is trial
        run(executable, 1000)
