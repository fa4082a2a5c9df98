"""Files as memory."""

import os

import numpy as np
import pytest

from torpor.base.dtypes import dtypes
from torpor.base.errors import DeviceError, MemoryStateError
from torpor.device import Buffer, Device, disk_buffer


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "some numbers.bin"
    found.write_bytes(np.arange(100, dtype=np.int16).tobytes())
    return found


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [(0, None, range(100)), (20, None, range(10, 100)), (20, 5, range(10, 15)), (200, None, [])],
)
def test_a_file_is_memory(path, offset, size, expected):
    buffer = disk_buffer(path, dtypes.int16, offset, size)
    assert buffer.device == "DISK"
    np.testing.assert_array_equal(buffer.numpy(), np.array(expected, np.int16))


def test_a_view_of_a_file(path):
    view = disk_buffer(str(path), dtypes.int16).view(4, 2)
    assert view.numpy().tolist() == [4, 5]


def test_an_odd_offset_is_fine(path):
    buffer = disk_buffer(path, dtypes.int16, 1, 1)
    assert buffer.numpy()[0] == 256


@pytest.mark.parametrize(
    ("offset", "size", "words"),
    [(1, None, "multiple"), (0, 101, "101 elements"), (-2, 1, "bytes"), (300, None, "-100")],
)
def test_a_file_that_does_not_fit_is_refused(path, offset, size, words):
    with pytest.raises(MemoryStateError, match=words):
        disk_buffer(path, dtypes.int16, offset, size)


def test_what_is_no_file_is_not_taken_for_an_empty_one(tmp_path):
    for place in (tmp_path, os.devnull):
        with pytest.raises(MemoryStateError, match="no ordinary file"):
            disk_buffer(place, dtypes.uint8)


def test_files_are_never_written(path):
    before = path.read_bytes()
    buffer = disk_buffer(path, dtypes.int16)
    assert not buffer.numpy().flags.writeable
    assert buffer.as_buffer().readonly
    with pytest.raises(MemoryStateError, match="read-only"):
        buffer.copyin(np.zeros(100, np.int16))
    assert path.read_bytes() == before


def test_disk_allocates_and_computes_nothing():
    with pytest.raises(DeviceError, match="from_file"):
        Buffer("DISK", 4, dtypes.int8).allocate()
    for ask in ("target", "compiler", "key"):
        with pytest.raises(DeviceError, match="runs no kernels"):
            getattr(Device["DISK"], ask)
