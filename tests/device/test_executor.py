"""Many kernels by one native call: the results and errors of calls one by one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, executor
from torpor.device.executor import Executor, Given, Step, copying
from torpor.device.pool import Pool

SIZE = 10_000


def filled(values: Any) -> Buffer:
    return Buffer("CPU", len(values), dtypes.float32).allocate().copyin(values)


def scaling(target: int | Given, source: int | Given, number: int | Given) -> Step:
    entry = programs.load(programs.scale(SIZE)).native([None])
    assert entry is not None
    assert entry.total == SIZE
    return Step(entry.address, (target, source, number), entry.total, entry.big, entry.checked)


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
            assert made.run([source.address, target.address, *numbers]) == (0, 0)
            expected = ((values * 2 + numbers[0]) * 2 + 5) * 2 + numbers[1]
            np.testing.assert_array_equal(target.numpy(), expected)
    assert pool.workers == threads - 1


def test_the_first_check_that_fails_ends_the_run() -> None:
    entry = programs.load(programs.fail()).native([None, None])
    assert entry is not None
    assert entry.checked
    values = np.zeros(SIZE, np.float32)
    after, data = filled(values), filled(values)
    failing = Step(entry.address, (data.address, Given(0), Given(1)), 0, False, True)
    made = Executor([scaling(data.address, data.address, 0), failing,
                     scaling(after.address, data.address, 7)], words=2)  # fmt: skip
    failed, error = made.run([1, 1])
    assert failed == 1
    assert error > 0
    assert not after.numpy().any()
    assert made.run([1, 1]) == (failed, error)


def test_a_large_copy_is_shared() -> None:
    source = np.random.default_rng(1).random(1 << 20).astype(np.float32)
    one, other = filled(source), filled(source * 0)
    made = Executor([copying(other.address, one.address, source.nbytes)], words=0)
    with Context(THREADS=3):
        made.run([])
    np.testing.assert_array_equal(other.numpy(), source)


def test_two_executors_at_once_share_one_pool() -> None:
    values = np.ones(SIZE, np.float32)
    wrong = []

    def work(number: int) -> None:
        buffer = filled(values)
        made = Executor([scaling(Given(0), Given(0), number)] * 3, words=1)
        for _ in range(30):
            buffer.copyin(values)
            made.run([buffer.address])
            if not (buffer.numpy() == 8 + 7 * number).all():
                wrong.append(number)

    with Context(THREADS=2):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
