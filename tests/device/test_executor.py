"""Many kernels by one native call: the results and errors of calls one by one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, Executable, executor
from torpor.device.executor import (
    Executor,
    Given,
    Own,
    Row,
    Scratch,
    Step,
    copying,
    counting,
    jumping,
    split,
)
from torpor.device.pool import Pool

SIZE = 10_000


def filled(values: Any) -> Buffer:
    return Buffer("CPU", len(values), dtypes.float32).allocate().copyin(values)


Word = int | Given | Own | Row


@cache
def scale() -> Executable:
    return programs.load(programs.scale(SIZE))


def scaling(target: Word, source: Word, number: Word) -> Step:
    entry = scale().native([None])
    assert entry is not None
    assert entry.total == SIZE
    return Step(entry.address, (target, source, number), entry.total, entry.trial, entry.checked)


def run(made: Executor, words: Sequence[int]) -> tuple[int, int]:
    """Which command failed, and its error word (0: none did)."""
    failed = made.launch(words)
    return split(failed) if failed else (0, 0)


@pytest.fixture(params=[True, False], ids=["futex", "portable"])
def pool(request: Any, monkeypatch: Any) -> Any:
    made = Pool(futex=request.param)
    monkeypatch.setattr(executor, "pool", made)
    yield made
    made.stop()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_chain_of_kernels_and_copies(pool: Pool, threads: int) -> None:
    values = np.random.default_rng(0).random(SIZE, np.float32)
    between = [filled(values * 0) for _ in range(3)]
    first, second, third = (buffer.address for buffer in between)
    made = Executor(
        [
            scaling(first, Given(0), Given(2)),
            copying(second, first, 4 * SIZE),
            scaling(third, second, 5),
            scaling(Given(1), third, Given(3)),
        ],
        words=4,
    )
    with Context(THREADS=threads):
        for numbers in ((1, 2), (3, 4), (1, 2)):
            source, target = filled(values), filled(values * 0)
            assert run(made, [source.address, target.address, *numbers]) == (0, 0)
            expected = ((values * 2 + numbers[0]) * 2 + 5) * 2 + numbers[1]
            np.testing.assert_array_equal(target.numpy(), expected)
    assert pool.workers == threads - 1


def test_the_first_check_that_fails_ends_the_run() -> None:
    entry = programs.load(programs.fail()).native([None, None])
    assert entry is not None
    assert entry.checked
    values = np.zeros(SIZE, np.float32)
    after, data = filled(values), filled(values)
    failing = Step(entry.address, (data.address, Given(0), Given(1)), 0, None, True)
    made = Executor([scaling(data.address, data.address, 0), failing,
                     scaling(after.address, data.address, 7)], words=2)  # fmt: skip
    failed, error = run(made, [1, 1])
    assert failed == 1
    assert error > 0
    assert not after.numpy().any()
    assert run(made, [1, 1]) == (failed, error)


@pytest.mark.parametrize("holds", [False, True])
def test_jumps_are_taken_while_a_bool_is_what_they_ask(holds: bool) -> None:
    """Two scalings, of which the second is left out, then one again until the flag changes."""
    values = np.ones(SIZE, np.float32)
    data, flag = filled(values), Buffer("CPU", 1, dtypes.bool).allocate()
    on, off = (Buffer("CPU", 1, dtypes.bool).allocate() for _ in range(2))
    flag.copyin(np.array([holds]))
    on.copyin(np.array([holds]))
    off.copyin(np.array([not holds]))
    made = Executor(
        [
            scaling(data.address, data.address, 0),
            jumping(Given(0), 2, holds),
            scaling(data.address, data.address, 100),
            scaling(data.address, data.address, 1),
            jumping(flag.address, 3, not holds),
            copying(flag.address, off.address, 1),
            jumping(on.address, -3, holds),
        ],
        words=1,
    )
    assert run(made, [on.address]) == (0, 0)
    np.testing.assert_array_equal(data.numpy(), (values * 2 * 2 + 1) * 2 + 1)


def test_rounds_are_counted_and_numbers_move_with_them() -> None:
    """Three rounds of a loop with two of another one in each; run twice, since all begins anew."""
    outer, inner = object(), object()
    data = filled(np.zeros(SIZE, np.float32))
    add = [
        scaling(data.address, data.address, number)
        for number in (Row(1, outer, 10), Row(100, inner, 1000))
    ]
    made = Executor(
        [
            counting(outer, 3, 1), add[0],
            counting(inner, 2, 1), add[1], counting(inner, 2, -1),
            counting(outer, 3, -4),
        ],
        words=0,
    )  # fmt: skip
    expected = 0
    for _ in range(2):
        for number in (1, 11, 21):
            expected = expected * 2 + number
            for further in (100, 1100):
                expected = expected * 2 + further
        assert run(made, []) == (0, 0)
        np.testing.assert_array_equal(data.numpy(), np.full(SIZE, expected, np.float32))


def test_a_large_copy_is_shared() -> None:
    source = np.random.default_rng(1).random(1 << 20).astype(np.float32)
    one, other = filled(source), filled(source * 0)
    made = Executor([copying(other.address, one.address, source.nbytes)], words=0)
    with Context(THREADS=3):
        assert run(made, []) == (0, 0)
    np.testing.assert_array_equal(other.numpy(), source)


def test_two_executors_at_once_share_one_pool() -> None:
    values = np.ones(SIZE, np.float32)
    wrong = []

    def work(number: int) -> None:
        buffer = filled(values)
        made = Executor([scaling(Given(0), Given(0), number)] * 3, words=1)
        for _ in range(30):
            buffer.copyin(values)
            made.launch([buffer.address])
            if not (buffer.numpy() == 8 + 7 * number).all():
                wrong.append(number)

    with Context(THREADS=2):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


# --- groups that may run at the same time ---------------------------------------------------------
GROUPS = 24


def scratch_of(count: int, threads: int) -> tuple[Buffer, Scratch]:
    """Memory for so many values for each thread, which a call is given as its last word."""
    memory = Buffer("CPU", threads * count * SIZE, dtypes.float32).allocate()
    return memory, Scratch(Given(3), 4 * count * SIZE, threads)


def grouped(results: list[Buffer], threads: int) -> tuple[Executor, Buffer]:
    """A section of a group for each result, between two commands that all need; the first word is
    the source, the second one a result made of the last group's; and its scratch memory.
    """
    memory, scratch = scratch_of(2, threads)
    common = filled(np.zeros(SIZE, np.float32))
    steps = [scaling(common.address, Given(0), 1)]
    bounds = [1]
    for number, result in enumerate(results):
        steps += [
            scaling(Own(0), common.address, number),
            scaling(Own(4 * SIZE), Own(0), Given(2)),
            scaling(Own(0), Own(4 * SIZE), number),
            copying(result.address, Own(0), 4 * SIZE),
        ]
        bounds.append(len(steps))
    steps.append(scaling(Given(1), results[-1].address, 0))
    made = Executor(steps, 4, [tuple(bounds)], scratch)
    made.common = common  # type: ignore[attr-defined] # kept alive
    return made, memory


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_groups_have_scratch_memory_of_their_own(pool: Pool, threads: int) -> None:
    values = np.random.default_rng(0).random(SIZE, np.float32)
    source, last = filled(values), filled(values)
    results = [filled(values * 0) for _ in range(GROUPS)]
    made, scratch = grouped(results, threads)
    with Context(THREADS=threads):
        for more in range(8):
            if more == 4:  # other memory
                scratch = Buffer("CPU", scratch.size, scratch.dtype).allocate()
            for buffer in results:
                buffer.copyin(values * 0)
            words = [source.address, last.address, more, scratch.address]
            assert run(made, words) == (0, 0)
            for number, buffer in enumerate(results):
                expected = (((values * 2 + 1) * 2 + number) * 2 + more) * 2 + number
                np.testing.assert_array_equal(buffer.numpy(), expected)
            np.testing.assert_array_equal(last.numpy(), expected * 2)


def test_no_more_threads_run_groups_than_have_scratch_memory(pool: Pool) -> None:
    """After a fork there may be more cores than there were when native callers asked."""
    values = np.random.default_rng(0).random(SIZE, np.float32)
    source, last = filled(values), filled(values)
    results = [filled(values * 0) for _ in range(GROUPS)]
    made, scratch = grouped(results, 2)
    with Context(THREADS=5):
        assert run(made, [source.address, last.address, 1, scratch.address]) == (0, 0)
    for number, buffer in enumerate(results):
        expected = (((values * 2 + 1) * 2 + number) * 2 + 1) * 2 + number
        np.testing.assert_array_equal(buffer.numpy(), expected)


def test_too_few_groups_run_one_after_the_other(pool: Pool, monkeypatch: Any) -> None:
    """Three threads would wait for one of four groups: the commands are shared instead."""
    values = np.ones(SIZE, np.float32)
    source, last = filled(values), filled(values)
    results = [filled(values * 0) for _ in range(4)]
    made, scratch = grouped(results, 4)
    for threads, shares in ((3, False), (2, True), (4, True), (3, False)):
        made._table._sections[:, 0] = -1
        with Context(THREADS=threads):
            made.launch([source.address, last.address, 1, scratch.address])
        assert (made._table._sections[0, 0] != -1) == shares
        for number, buffer in enumerate(results):
            assert (buffer.numpy() == ((3 * 2 + number) * 2 + 1) * 2 + number).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_first_of_the_groups_that_fail_is_told(pool: Pool, threads: int) -> None:
    entry = programs.load(programs.fail()).native([None, None])
    assert entry is not None
    wrong = {7: 3, 8: 1, 20: 2}
    values = np.zeros(SIZE, np.float32)
    done = [filled(values) for _ in range(GROUPS)]
    steps, bounds = [], [0]
    for number in range(GROUPS):
        arguments = (Own(0), wrong.get(number, 0), Given(0))
        steps.append(Step(entry.address, arguments, 0, None, True))
        steps.append(scaling(done[number].address, done[number].address, 7))
        bounds.append(len(steps))
    memory, scratch = scratch_of(1, threads)
    made = Executor(steps, 4, [tuple(bounds)], scratch)
    with Context(THREADS=threads):
        for _ in range(20):
            for buffer in done:
                buffer.copyin(values)
            assert run(made, [1, 0, 0, memory.address]) == (14, 3)
            ran = [bool(buffer.numpy().any()) for buffer in done]
            assert ran[:8] == [True] * 7 + [False]
            assert not ran[8]
            assert not ran[20]
