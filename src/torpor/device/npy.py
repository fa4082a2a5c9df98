"""`NPY`: the memory of NumPy arrays, used in place. Runs no kernels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import dtypes
from torpor.device import memory
from torpor.device.base import Allocator, DeviceBase
from torpor.device.buffer import Buffer


class NpyDevice(DeviceBase):
    """Memory of arrays."""

    kind: ClassVar[str] = "NPY"
    allocator: Allocator = memory.host


def numpy_buffer(array: npt.NDArray[Any], device: str = "NPY") -> Buffer:
    """A buffer over the elements of a C-contiguous array, which it keeps alive and shares.

    `device` may be any whose memory is the host's, such as "CPU".
    """
    dtype = dtypes.from_numpy(array.dtype)
    return Buffer(device, int(np.size(array)), dtype).allocate(array)
