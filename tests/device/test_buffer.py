"""Buffers: allocation, views, lifetimes and copies."""

import gc
import weakref

import numpy as np
import pytest

from torpor.base.dtypes import dtypes
from torpor.base.errors import MemoryStateError
from torpor.device import Buffer
from torpor.ir import BufferSpec


def filled(count=16, device="CPU"):
    values = np.arange(count, dtype=np.float32)
    return Buffer(device, count, dtypes.float32).allocate().copyin(values), values


def test_a_buffer_says_what_it_is():
    buffer = Buffer("cpu:0", 16, dtypes.float32)
    assert repr(buffer) == f"Buffer(#{buffer.number}, CPU, 16, float32)"
    assert (buffer.device, buffer.nbytes, buffer.is_allocated()) == ("CPU", 64, False)
    assert Buffer("CPU", 16, dtypes.float32) != buffer
    assert Buffer("CPU", 1, dtypes.int8).number != buffer.number


def test_allocating_twice_is_an_error():
    buffer = Buffer("CPU", 4, dtypes.int8).allocate()
    assert buffer.is_allocated()
    with pytest.raises(MemoryStateError, match="allocat"):
        buffer.allocate()


@pytest.mark.parametrize(
    "use", [lambda b: b.numpy(), lambda b: b.address, lambda b: b.as_buffer(), Buffer.deallocate]
)
def test_memory_is_used_only_after_allocation(use):
    with pytest.raises(MemoryStateError, match="not allocated"):
        use(Buffer("CPU", 4, dtypes.int8))


def test_a_negative_size_is_refused():
    with pytest.raises(MemoryStateError, match="-1"):
        Buffer("CPU", -1, dtypes.int8)


@pytest.mark.parametrize("size", [0, 1, 7, 1 << 18, (1 << 22) + 3])
def test_memory_is_aligned_and_writable(size):
    buffer = Buffer("CPU", size, dtypes.uint8).allocate()
    assert buffer.address % 64 == 0
    array = buffer.numpy()
    assert array.shape == (size,)
    array[:] = 7
    assert bytes(buffer.as_buffer()[-3:]) == b"\7" * min(size, 3)


def test_a_wider_alignment_can_be_asked_for():
    buffer = Buffer("CPU", 10, dtypes.uint8, BufferSpec(alignment=4096)).allocate()
    assert buffer.address % 4096 == 0


def test_numpy_looks_into_the_memory_and_keeps_it():
    buffer, values = filled()
    array = buffer.numpy()
    array[3] = -1
    assert buffer.numpy()[3] == -1
    del buffer
    gc.collect()
    others = [filled()[0].numpy() for _ in range(8)]
    assert array[3] == -1
    assert all(other[3] == values[3] for other in others)


def test_memory_returns_with_the_last_reference():
    buffer, _ = filled(1000)
    place, seen = buffer.address, weakref.ref(buffer)
    array = buffer.numpy()
    del buffer
    assert seen() is None
    assert Buffer("CPU", 1000, dtypes.float32).allocate().address != place
    del array
    assert Buffer("CPU", 1000, dtypes.float32).allocate().address == place


def test_deallocate_lets_go():
    buffer, _ = filled()
    buffer.deallocate()
    assert not buffer.is_allocated()
    buffer.allocate()


def test_views_share_memory_and_keep_the_base():
    base, values = filled()
    view = base.view(4, 8)
    inner = view.view(2, 4, dtypes.uint32)
    np.testing.assert_array_equal(inner.numpy(), values[6:10].view(np.uint32))
    base.numpy()[6] = 99
    assert view.numpy()[2] == 99
    assert inner.address == base.address + 24
    gone = weakref.ref(base)
    del base, view
    gc.collect()
    assert gone() is not None
    assert inner.numpy().view(np.float32)[0] == 99


def test_a_view_counts_its_offset_in_elements_of_its_base():
    arena = Buffer("CPU", 64, dtypes.uint8).allocate()
    part = arena.view(16, 4, dtypes.float32).copyin(np.full(4, 2.5, np.float32))
    assert part.address == arena.address + 16
    np.testing.assert_array_equal(arena.numpy()[16:32].view(np.float32), 2.5)


def test_a_view_allocates_its_base():
    base = Buffer("CPU", 8, dtypes.int32)
    view = base.view(4, 4)
    assert not view.is_allocated()
    view.allocate()
    assert base.is_allocated()
    with pytest.raises(MemoryStateError, match="allocat"):
        base.allocate()
    with pytest.raises(MemoryStateError, match="base"):
        view.deallocate()


@pytest.mark.parametrize(("offset", "size"), [(-1, 2), (10, 7), (17, 0)])
def test_a_view_outside_is_refused(offset, size):
    with pytest.raises(MemoryStateError, match="does not fit"):
        filled()[0].view(offset, size)


def test_copies_go_both_ways():
    buffer, values = filled()
    out = np.empty(16, np.float32)
    buffer.copyout(out)
    np.testing.assert_array_equal(out, values)
    raw = bytearray(64)
    buffer.copyout(memoryview(raw))
    assert raw == values.tobytes()
    buffer.copyin(memoryview(values[::-1].tobytes()))
    np.testing.assert_array_equal(buffer.numpy(), values[::-1])
    buffer.view(12, 4).copyin(np.zeros((2, 2), np.float32))
    assert buffer.numpy()[12:].sum() == 0


def test_small_formats_are_copied_by_their_bits():
    values = np.array([1.5, -2, np.nan], dtypes.bfloat16.numpy)
    buffer = Buffer("CPU", 3, dtypes.bfloat16).allocate().copyin(values)
    assert buffer.numpy().dtype == values.dtype
    assert buffer.numpy().tobytes() == values.tobytes()


def test_copies_of_another_size_or_order_are_refused():
    buffer, values = filled()
    with pytest.raises(MemoryStateError, match="64 bytes"):
        buffer.copyin(values[:-1])
    with pytest.raises(MemoryStateError, match="contiguous"):
        buffer.copyin(np.zeros((8, 4), np.float32)[:, ::2])
    with pytest.raises(MemoryStateError, match="read-only"):
        buffer.copyout(memoryview(bytes(64)))


def test_outside_memory_is_used_in_place():
    values = np.arange(4, dtype=np.int32)
    buffer = Buffer("CPU", 4, dtypes.int32).allocate(values)
    assert buffer.address == values.ctypes.data
    spec = BufferSpec(external_pointer=values.ctypes.data)
    again = Buffer("CPU", 4, dtypes.int32, spec).allocate()
    again.numpy()[0] = 42
    assert values[0] == 42 == buffer.numpy()[0]


def test_outside_memory_that_cannot_be_written_stays_so():
    values = np.arange(4, dtype=np.int32)
    values.flags.writeable = False
    buffer = Buffer("CPU", 4, dtypes.int32).allocate(values)
    assert not buffer.numpy().flags.writeable
    with pytest.raises(MemoryStateError, match="read-only"):
        buffer.copyin(np.zeros(4, np.int32))
