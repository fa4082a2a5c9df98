"""The device that does nothing."""

import numpy as np
import pytest

from torpor.base.dtypes import dtypes
from torpor.base.errors import DeviceError, MemoryStateError
from torpor.device import Buffer, Device
from torpor.ir import Program


def test_null_takes_programs_and_memory():
    device = Device["NULL"]
    buffer = Buffer("NULL", 1 << 50, dtypes.float32).allocate()
    program = Program("p", "", "cpu", parameters=("float32",))
    assert device.executable(program, device.compiler.compile(program))([buffer]) == 0
    assert device.target.name == "cpu"


def test_null_has_no_values():
    buffer = Buffer("NULL", 4, dtypes.float32).allocate().copyin(np.zeros(4, np.float32))
    with pytest.raises(DeviceError, match="no values"):
        buffer.numpy()
    with pytest.raises(MemoryStateError, match="host"):
        _ = buffer.address
