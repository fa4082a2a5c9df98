"""Copies between devices."""

import numpy as np
import pytest

from tests.devices import needs
from torpor.base.dtypes import dtypes
from torpor.base.errors import MemoryStateError
from torpor.device import Buffer, copy_buffer, disk_buffer, numpy_buffer

VALUES = np.arange(10, dtype=np.int32)


def test_the_host_copies_memory(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(VALUES.tobytes())
    for source in (numpy_buffer(VALUES), disk_buffer(path, dtypes.int32)):
        destination = Buffer("CPU", 10, dtypes.int32)
        copy_buffer(destination, source)
        np.testing.assert_array_equal(destination.numpy(), VALUES)
        assert destination.address != source.address


def test_overlapping_views_copy_as_if_there_were_no_overlap():
    base = Buffer("CPU", 10, dtypes.int32).allocate().copyin(VALUES)
    copy_buffer(base.view(2, 8), base.view(0, 8))
    assert base.numpy().tolist() == [0, 1, *range(8)]


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(MemoryStateError, match="40 bytes"):
        copy_buffer(Buffer("CPU", 9, dtypes.int32), numpy_buffer(VALUES))
    (tmp_path / "x").write_bytes(VALUES.tobytes())
    with pytest.raises(MemoryStateError, match="read-only"):
        copy_buffer(disk_buffer(tmp_path / "x", dtypes.int32), numpy_buffer(VALUES))


def test_memory_that_the_host_does_not_see():
    needs("OPENCL")
    there, back = Buffer("OPENCL", 10, dtypes.int32), Buffer("CPU", 10, dtypes.int32)
    again = Buffer("OPENCL", 10, dtypes.int32)
    copy_buffer(there, numpy_buffer(VALUES))
    copy_buffer(again, there)
    copy_buffer(back, again)
    np.testing.assert_array_equal(back.numpy(), VALUES)
