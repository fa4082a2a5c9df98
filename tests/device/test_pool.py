"""The thread pool: the same results with any number of threads, forks, and a clean end."""

import ctypes
import os
import platform as host
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, cpu, worker
from torpor.device.pool import Pool
from torpor.device.share import Trial

SIZE = 10_000
ROOT = Path(__file__).resolve().parent.parent.parent


def operands(size=SIZE):
    values = np.random.default_rng(0).random(size, np.float32)
    source = Buffer("CPU", size, dtypes.float32).allocate().copyin(values)
    return Buffer("CPU", size, dtypes.float32).allocate(), source, values * 2 + 3


def cpu_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def worker_threads(pool):
    return [thread.native_id for thread in pool._workers]


@pytest.fixture(params=[True, False], ids=["futex", "portable"])
def pool(request, monkeypatch):
    made = Pool(futex=request.param)
    monkeypatch.setattr(cpu, "pool", made)
    yield made
    made.stop()
    assert made.workers == 0


@pytest.mark.parametrize("size", [2, 3, 17, SIZE])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_results_do_not_depend_on_threads(pool, threads, size):
    run = programs.load(programs.scale(size))
    with Context(THREADS=threads):
        for turn in range(20):
            result, source, expected = operands(size)
            run([result, source], [3])
            np.testing.assert_array_equal(result.numpy(), expected)
            if turn == 10:
                time.sleep(0.01)  # so that the workers fall asleep
    assert pool.workers == threads - 1


def claims(pool, threads, total, pieces, together):
    """Who ran what: (thread, begin, end) in order. `together`: nobody goes on before all are at
    work.
    """
    found, barrier, met = [], threading.Barrier(threads), set()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def entry(_, begin, end):
        me = threading.get_ident()
        found.append((me, begin, end))
        if together and me not in met:
            met.add(me)
            barrier.wait(20)

    with Context(THREADS=threads):
        place = ctypes.cast(entry, ctypes.c_void_p).value
        pool.run(place, b"", total, Trial(shares=True, pieces=pieces))
    return found


@pytest.mark.parametrize(("threads", "total", "pieces"), [(2, 64, 3), (2, 2, 2), (3, 100, 16)])
def test_each_thread_begins_with_a_part_of_its_own(pool, threads, total, pieces):
    for _ in range(3):
        found = claims(pool, threads, total, pieces, together=True)
        bounds = sorted(span[1:] for span in found)
        assert [0, *[end for _, end in bounds]] == [*[begin for begin, _ in bounds], total]
        chunk = -(-total // (threads * pieces))
        parts = [part * len(bounds) // threads * chunk for part in range(threads)]
        first = {thread: begin for thread, begin, _ in reversed(found)}
        assert sorted(first.values()) == parts
        assert first[threading.get_ident()] == 0


def test_the_owner_does_the_parts_of_workers_that_do_not_come(pool):
    total = 1000
    for _ in range(20):
        found = claims(pool, 3, total, 2, together=False)
        assert sorted(span[1:] for span in found) == [
            (begin, min(begin + 167, total)) for begin in range(0, total, 167)
        ]


def test_more_threads_than_parts_share_all(pool):
    threads = worker.MOST_PARTS + 3
    for _ in range(3):
        found = claims(pool, threads, 1000, 1, together=False)
        assert sorted(begin for _, begin, _ in found) == [*range(0, 1000, -(-1000 // threads))]


def asleep(pool, wanted=1, limit=20.0):
    """Wait until the workers sleep."""
    ends = time.monotonic() + limit
    while pool._state[pool._offset + worker.SLEEPERS] < wanted:
        assert time.monotonic() < ends
        time.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="threads that sleep the portable way are woken")
@pytest.mark.skipif(host.machine().lower() not in ("x86_64", "amd64"), reason="no clock is known")
def test_no_thread_is_woken_for_short_work_after_a_pause():
    pool, total = Pool(), 64
    try:
        claims(pool, 2, total, 4, together=True)
        for _ in range(3):
            asleep(pool)
            time.sleep(0.01)
            found = claims(pool, 2, total, -4, together=False)
            assert [span[1:] for span in found] == [(0, total)]
            assert pool._state[pool._offset + worker.SLEEPERS] == 1
        asleep(pool)
        pool._state[pool._offset + worker.ENDED] += 1 << 60  # as if the last had ended just now
        found = claims(pool, 2, total, -4, together=True)
        assert len({thread for thread, *_ in found}) == 2
        asleep(pool)
        found = claims(pool, 2, total, 4, together=True)  # and for what is not short they are
        assert len({thread for thread, *_ in found}) == 2
    finally:
        pool.stop()


def test_small_programs_start_no_threads(pool):
    result, source, expected = operands()
    with Context(THREADS=2):
        programs.load(programs.scale(SIZE, ops=10))([result, source], [3])
    np.testing.assert_array_equal(result.numpy(), expected)
    assert pool.workers == 0


def test_several_python_threads_run_at_once(pool):
    run, wrong = programs.load(programs.scale(SIZE)), []

    def work():
        with Context(THREADS=3):
            for _ in range(100):
                result, source, expected = operands()
                run([result, source], [3])
                if not np.array_equal(result.numpy(), expected):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_stopped_pool_still_runs_programs():
    made = Pool()
    made.stop()
    result, source, expected = operands()
    run = programs.load(programs.scale(SIZE))
    with Context(THREADS=4), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "pool", made)
        run([result, source], [3])
    np.testing.assert_array_equal(result.numpy(), expected)


SCRIPT = """
import os, sys
import numpy as np
from tests.device.test_pool import operands, programs
from torpor.device.pool import pool

run = programs.load(programs.scale(10_000))
def check():
    result, source, expected = operands()
    run([result, source], [3])
    assert np.array_equal(result.numpy(), expected)
    assert pool.workers == 2, pool.workers
check()
if sys.argv[1] == "fork":
    child = os.fork()
    if not child:
        assert pool.workers == 0
        check()
        print("child done", flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check()
print("done")
"""


@pytest.mark.parametrize("way", ["plain", "fork"])
def test_a_process_forks_and_ends_cleanly(way):
    if way == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, way],  # of fork, by 3.12
        env={**os.environ, "PYTHONPATH": path, "TORPOR_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split("\n")[-2] == "done"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept off cores")
@pytest.mark.skipif(cpu_cores() < 2, reason="there is one core")
def test_workers_keep_off_the_core_of_the_thread_that_has_the_work(pool):
    run = programs.load(programs.scale(SIZE))
    allowed = os.sched_getaffinity(0)
    result, source, expected = operands()
    try:
        for core in sorted(allowed)[:2]:
            os.sched_setaffinity(0, {core})  # the owner moves there, and may go elsewhere again
            os.sched_setaffinity(0, allowed)
            with Context(THREADS=2):
                for _ in range(4):  # by turns with one thread and with two, at first
                    run([result, source], [3])
            (there,) = (os.sched_getaffinity(i) for i in worker_threads(pool))
            assert len(allowed - there) == 1 and there < allowed
        os.sched_setaffinity(0, {core})
        with Context(THREADS=2):
            for _ in range(4):  # no other core to go to: the worker stays where it was
                run([result, source], [3])
        assert [os.sched_getaffinity(i) for i in worker_threads(pool)] == [there]
    finally:
        os.sched_setaffinity(0, allowed)
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.skipif(cpu_cores() < 2, reason="there is one core")
def test_a_process_may_limit_itself_after_it_has_imported_torpor():
    text = """
import os, threading
from torpor.device.pool import thread_count
first = min(os.sched_getaffinity(0))
def pinned():
    os.sched_setaffinity(0, {first})
    print(thread_count(), flush=True)

if os.fork() == 0:
    thread = threading.Thread(target=pinned)
    thread.start()  # one of its threads on one core says nothing of the others
    thread.join()
    os._exit(0)
os.wait()
os.sched_setaffinity(0, {first})
print(thread_count())
"""
    ended = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == [str(cpu_cores()), "1"]
