"""Native programs on the CPU: calls, variables, the error word."""

import numpy as np
import pytest

from tests.device import programs
from torpor.base.dtypes import dtypes
from torpor.base.errors import DeviceError, MemoryStateError
from torpor.base.settings import Context
from torpor.device import Buffer, Device
from torpor.device.machine import machine
from torpor.ir import UOp


def operands(size, device="CPU"):
    values = np.arange(size, dtype=np.float32)
    source = Buffer(device, size, dtypes.float32).allocate().copyin(values)
    return Buffer(device, size, dtypes.float32).allocate(), source, values


@pytest.mark.parametrize("device", ["CPU", "CPU:1"])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_program_runs(device, size):
    result, source, values = operands(size, device)
    assert programs.load(programs.scale(size), device)([result, source], [7]) == 0
    np.testing.assert_array_equal(result.numpy(), values * 2 + 7)


def test_programs_of_one_name_do_not_meet():
    result, source, values = operands(8)
    program = programs.scale(8)
    triple = programs.scale(8)
    object.__setattr__(triple, "source", program.source.replace("2.0", "3.0"))
    first, second = programs.load(program), programs.load(triple)
    second([result, source], [1])
    np.testing.assert_array_equal(result.numpy(), values * 3 + 1)
    first([result, source], [1])
    np.testing.assert_array_equal(result.numpy(), values * 2 + 1)


def test_the_error_word_and_wide_variables_arrive():
    place = Buffer("CPU", 1, dtypes.int64).allocate()
    run = programs.load(programs.fail())
    assert run([place], [2, 1 << 40]) == 2
    assert place.numpy()[0] == (1 << 40) + 2
    assert run([place], [0, -5]) == 0
    assert place.numpy()[0] == -5


def test_a_symbolic_launch_size_is_worked_out():
    size = UOp.variable("v0", 0, 1000) * 2
    result, source, values = operands(100)
    result.numpy()[:] = -1
    programs.load(programs.scale(size))([result, source], [20])
    np.testing.assert_array_equal(result.numpy()[:40], values[:40] * 2 + 20)
    assert (result.numpy()[40:] == -1).all()


def test_a_call_that_does_not_fit_is_refused():
    run = programs.load(programs.scale(4))
    result, source, _ = operands(4)
    with pytest.raises(DeviceError, match="takes 2 buffers and 1 variables, got 1 and 1"):
        run([result], [1])
    with pytest.raises(DeviceError, match="got 2 and 0"):
        run([result, source])
    with pytest.raises(MemoryStateError, match="not allocated"):
        run([result, Buffer("CPU", 4, dtypes.float32)], [1])


@pytest.mark.parametrize("target", ["another", "+nosuchfeature"])
def test_code_for_another_machine_is_never_run(target):
    if target == "another":
        target = "avx512" if machine("").is_arm else "aarch64"
    with Context(TARGET=target):
        device = Device["CPU"]
        with pytest.raises(DeviceError, match="TARGET"):
            device.executable(programs.scale(4), b"")


def test_the_key_tells_targets_apart():
    keys = set()
    for target in ("", "sse", "avx2", "avx512", "aarch64"):
        with Context(TARGET=target):
            keys.add(Device["CPU"].key)
    assert len(keys) == 5
