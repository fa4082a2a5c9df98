"""NumPy arrays as memory."""

import weakref

import numpy as np
import pytest

from torpor.base.errors import DeviceError
from torpor.device import Device, numpy_buffer


@pytest.mark.parametrize("device", ["NPY", "CPU"])
def test_an_array_is_shared_and_kept(device):
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    buffer = numpy_buffer(array, device)
    assert (buffer.device, buffer.size) == (device, 6)
    array[1, 2] = 50
    assert buffer.numpy()[5] == 50
    kept = weakref.ref(array)
    del array
    assert kept() is not None
    del buffer
    assert kept() is None


def test_an_array_that_is_not_contiguous_is_refused():
    with pytest.raises(DeviceError, match="strides"):
        numpy_buffer(np.zeros((4, 4))[:, ::2])


def test_npy_computes_nothing():
    with pytest.raises(DeviceError, match="NPY only holds memory"):
        _ = Device["NPY"].compiler
