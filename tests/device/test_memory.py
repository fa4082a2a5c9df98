"""The host allocator: size classes, reuse, limits, threads."""

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.device import Buffer
from torpor.device.memory import PADDING, HostAllocator, size_class
from torpor.ir import BufferSpec

SPEC = BufferSpec()


@given(st.integers(0, 1 << 40))
def test_a_class_holds_its_size_and_reserves_little_more(nbytes):
    capacity = size_class(nbytes)
    assert nbytes + PADDING <= capacity < max(129, 2 * (nbytes + PADDING))
    assert size_class(capacity - PADDING) == capacity


@given(st.integers(0, 4_000_000) | st.integers(1 << 31, 1 << 40))
def test_what_is_small_or_very_large_wastes_at_most_a_quarter(nbytes):
    assert size_class(nbytes) <= max(128, (nbytes + PADDING) * 5 // 4)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the process has in Linux's way")
def test_what_is_reserved_beyond_what_is_used_takes_no_memory():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as counts:
            return int(counts.read().split()[1]) * 4096

    before = resident()
    used = (1 << 26) + 1
    block = HostAllocator().allocate(used, SPEC)
    ctypes.memset(block.address, 1, used)
    taken = resident() - before  # beside what else the process takes or gives back meanwhile
    assert used * 0.95 < taken < used * 1.2
    assert block.capacity == 1 << 27


def test_a_block_that_was_a_little_smaller_serves_again():
    allocator = HostAllocator()
    block = allocator.allocate(99_544_576, SPEC)
    allocator.free(block)
    assert allocator.allocate(103_244_288, SPEC) is block


def test_new_zeros_take_the_place_of_a_freed_block_of_their_class():
    allocator, zeros = HostAllocator(), BufferSpec(zeros=True)
    for _ in range(3):
        block = allocator.allocate(1 << 22, zeros)
        assert not any(ctypes.string_at(block.address, 1 << 22))
        ctypes.memset(block.address, 1, 1 << 22)
        allocator.free(block)
        assert allocator.kept == block.capacity


def test_a_freed_block_is_used_again():
    allocator = HostAllocator()
    block = allocator.allocate(1000, SPEC)
    allocator.free(block)
    assert allocator.kept == block.capacity
    assert allocator.allocate(1010, SPEC) is block
    assert allocator.kept == 0


def test_no_more_is_kept_than_the_limit():
    allocator = HostAllocator()
    allocator.keep_limit = 10_000
    blocks = [allocator.allocate(1000 + 300 * n, SPEC) for n in range(20)]
    for block in blocks:
        allocator.free(block)
    assert 5_000 < allocator.kept <= 10_000
    assert allocator.allocate(1000 + 300 * 19, SPEC) is blocks[19]  # the newest stays
    allocator.drop()
    assert allocator.kept == 0


def test_large_blocks_are_given_back_when_their_like_is_no_longer_freed():
    allocator, now = HostAllocator(), [0.0]
    allocator._clock = lambda: now[0]
    large, small, other = (allocator.allocate(n, SPEC) for n in (1 << 24, 1000, 3 << 24))
    for block in (large, small):
        allocator.free(block)
    for _ in range(100):  # a loop that frees the other one at each turn
        now[0] += 1
        allocator.free(other)
        assert allocator.allocate(3 << 24, SPEC) is other
    assert allocator.kept == small.capacity
    assert allocator.allocate(1000, SPEC) is small


def test_blocks_beyond_what_a_loop_needs_are_given_back():
    allocator, now = HostAllocator(), [0.0]
    allocator._clock = lambda: now[0]
    for block in [allocator.allocate(1 << 24, SPEC) for _ in range(6)]:
        allocator.free(block)
    for _ in range(100):  # a loop that needs two of them at each turn
        now[0] += 1
        for block in [allocator.allocate(1 << 24, SPEC) for _ in range(2)]:
            allocator.free(block)
    assert allocator.kept == 2 * block.capacity


def test_free_works_while_the_lock_is_held():
    allocator = HostAllocator()
    block = allocator.allocate(10, SPEC)
    with allocator._lock:
        allocator.free(block)  # as garbage collection may do in the middle of `allocate`
    assert allocator.allocate(10, SPEC) is block


def test_who_interrupts_the_keeper_of_the_books_is_given_memory():
    """A signal's handler computes something while `allocate` or `free` is halfway."""
    allocator = HostAllocator()
    with allocator._lock:
        block = allocator.allocate(1000, SPEC)
        allocator.drop()
    assert block.capacity >= 1000
    allocator.free(block)
    assert allocator.allocate(1000, SPEC) is block


def test_too_much_memory_is_a_memory_error():
    with pytest.raises(MemoryError, match="bytes"):
        Buffer("CPU", 1 << 60, dtypes.uint8).allocate()


def test_threads_never_share_a_block():
    wrong = []

    def work(number):
        for turn in range(300):
            size = 100 + (turn * 37) % 3000
            array = Buffer("CPU", size, dtypes.int64).allocate().numpy()
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_vector_past_the_end_may_be_read():
    block = HostAllocator().allocate(4096 * 64 - 1, SPEC)
    start = block.address - np.asarray(block.keeper).ctypes.data
    assert start + 4096 * 64 - 1 + PADDING <= np.asarray(block.keeper).nbytes


LATE = """
import sys
import numpy as np
import torpor
from torpor import Tensor
kept = (Tensor([1.0, 2.0]) + 1).realize()
sys.kept = [Tensor(np.ones(n * 1000), device="NPY") for n in range(1, 40)]
sys.kept += [tensor.to("CPU").realize() for tensor in sys.kept]
sys.kept += [Tensor.from_file(sys.argv[1], torpor.dtypes.uint8)]
torpor.device.memory.host.late = (Tensor(np.ones(12345)) + 1).realize()
torpor.device.memory.late = (Tensor(np.ones(123456), device="PYTHON") + 1).realize()
np.late = (Tensor(np.ones(1234567)) * 2).realize()
"""


def test_what_is_freed_as_the_interpreter_ends_says_nothing(tmp_path):
    """Modules have been emptied by then."""
    path = tmp_path / "bytes"
    path.write_bytes(bytes(100))
    command = [sys.executable, "-c", LATE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
