"""OpenCL programs, written by hand and run: groups, local memory, barriers, the error word."""

import builtins
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from tests.devices import needs
from torpor.base.dtypes import dtypes
from torpor.base.errors import CompileError, DeviceError
from torpor.device import Buffer, Device, opencl
from torpor.device.opencl import OpenclDevice
from torpor.ir import Program, UOp

GROUP_SUM = """
__kernel void group_sum(__global float* out, __global const float* in, int n) {
  __local float part[8];
  int group = get_group_id(0), item = get_local_id(0);
  part[item] = in[group * 8 + item] * n;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 7) {
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += part[k];
    out[group] = sum;
  }
}
"""
CHECKED = """
__kernel void checked(__global long* out, long value, __global long* error) {
  if (value < 0 && error[0] == 0) error[0] = 3;
  out[get_global_id(0) + 4 * get_global_id(1)] = value + get_group_id(1);
}
"""


@pytest.fixture
def device():
    return Device[needs("OPENCL")]


def load(device, program):
    return device.executable(program, device.compiler.compile(program))


def group_sum(groups):
    return Program(
        "group_sum", GROUP_SUM, "opencl", global_size=(groups, 1, 1), local_size=(8, 1, 1),
        parameters=("float32", "float32"), variables=(("v0", "int32"),),
    )  # fmt: skip


def test_groups_share_memory_behind_a_barrier(device):
    values = np.arange(32, dtype=np.float32)
    source = Buffer("OPENCL", 32, dtypes.float32).allocate().copyin(values)
    result = Buffer("OPENCL", 4, dtypes.float32).allocate()
    assert load(device, group_sum(4))([result, source], [3]) == 0
    np.testing.assert_array_equal(result.numpy(), values.reshape(4, 8).sum(1) * 3)


def test_a_symbolic_grid_is_worked_out(device):
    source = Buffer("OPENCL", 32, dtypes.float32).allocate().copyin(np.ones(32, np.float32))
    result = Buffer("OPENCL", 4, dtypes.float32).allocate().copyin(np.zeros(4, np.float32))
    run = load(device, group_sum(UOp.variable("v0", 0, 4)))
    run([result, source], [2])
    assert result.numpy().tolist() == [16, 16, 0, 0]
    result.copyin(np.zeros(4, np.float32))
    run([result, source], [0])
    assert result.numpy().tolist() == [0, 0, 0, 0]


def test_two_axes_and_the_error_word(device):
    program = Program(
        "checked", CHECKED, "opencl", global_size=(2, 3, 1), local_size=(2, 1, 1), checks=3,
        parameters=("int64",), variables=(("v0", "int64"),),
    )  # fmt: skip
    result, run = Buffer("OPENCL", 12, dtypes.int64).allocate(), load(device, program)
    assert run([result], [1 << 40]) == 0
    assert run([result], [-1]) == 3
    np.testing.assert_array_equal(result.numpy(), np.repeat([-1, 0, 1], 4))


def test_views_are_parts_of_a_buffer(device):
    align = device.handle.mem_base_addr_align // 8
    arena = Buffer("OPENCL", align + 32, dtypes.uint8).allocate()
    arena.copyin(np.zeros(align + 32, np.uint8))
    program = Program(
        "checked", CHECKED, "opencl", global_size=(4, 1, 1), checks=3,
        parameters=("int64",), variables=(("v0", "int64"),),
    )  # fmt: skip
    view = arena.view(align, 4, dtypes.int64)
    load(device, program)([view], [9])
    assert view.numpy().tolist() == [9, 9, 9, 9]
    assert not arena.numpy()[:align].any()


def test_refused_text_says_why(device):
    with pytest.raises(CompileError, match=r"OpenCL refused bad(.|\n)*error"):
        device.compiler.compile(Program("bad", "__kernel void bad( {", "opencl"))


def test_a_device_that_is_not_there(device):
    with pytest.raises(DeviceError, match="no OPENCL:99"):
        Device["OPENCL:99"]


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "pyopencl":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DeviceError, match=r'pip install "torpor\[opencl\]"'):
        OpenclDevice("OPENCL")


@dataclass(frozen=True)
class Shown:
    """A device of a driver, which has code for it or none; and the one platform that shows it."""

    code: bool
    type: int = 1
    version: str = "OpenCL 1.2 old"

    @property
    def platform(self):
        return self

    def get_devices(self):
        return [self]

    def build(self, options):
        if not self.code:
            raise OldDriver.Error("clBuildProgram failed\n\nerror: unknown target CPU\n(options: )")


class OldDriver:
    """A driver that is older than some of its devices."""

    class Error(Exception):
        pass

    device_type = SimpleNamespace(CPU=1)

    def __init__(self, *shown):
        self.get_platforms = lambda: shown

    def Context(self, devices):
        return devices[0]

    def Program(self, context, text):
        return context


def test_devices_that_no_code_is_made_for_are_left_out():
    old, known, graphics = Shown(False), Shown(True), Shown(True, 4)
    assert opencl._devices(OldDriver(old, known, graphics)) == [graphics, known]
    assert opencl._devices(OldDriver()) == []
    with pytest.raises(DeviceError, match=r"old: error: unknown target CPU$"):
        opencl._devices(OldDriver(old))
