"""Stores past the caches: the same results wherever memory lies, and only where it can be done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import OptError
from torpor.device import Buffer, Device
from torpor.ir.ops import Ops
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.pipeline import program_for
from torpor.source.llvm_stream import streamed_slots

STREAM = Opt(OptOps.STREAM)


def program_of(result, opts):
    (item,) = result.schedule()
    return item, program_for(item.ast, Device["CPU"].target, opts)


def bound(values, offset):
    """A buffer with these values whose memory begins `offset` bytes past a multiple of 64."""
    space = np.zeros(values.nbytes + 128, np.uint8)
    start = -space.ctypes.data % 64 + offset
    place = space[start : start + values.nbytes].view(values.dtype)
    place[:] = values.reshape(-1)
    return Buffer("CPU", values.size, Tensor(values).dtype).allocate(place), place


@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_any_alignment(offset):
    """Aligned memory is streamed to, other memory stored to: by one kernel, with one result."""
    values = np.random.default_rng(offset).standard_normal(4096).astype(np.float32)
    x = Tensor(values).realize()
    opts = [Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.THREAD, 0, 0), STREAM]
    item, program = program_of(x * 2 + 1, opts)
    assert "!nontemporal" in program.source
    device = Device["CPU"]
    executable = device.executable(program, device.compiler.compile(program))
    out, place = bound(np.zeros(4096, np.float32), offset)
    executable([out, item.buffers[1].arg])
    np.testing.assert_array_equal(place, values * 2 + 1)


def test_rows_that_are_not_aligned_are_stored():
    """Vectors at multiples of 12 bytes: no store of them may go past the caches."""
    x = Tensor(np.arange(48, dtype=np.float32).reshape(3, 16)).realize()
    spread = (x.T + 0).contiguous()
    _, program = program_of(spread, [Opt(OptOps.UPCAST, 1, 0), STREAM])
    stores = [n for n in program.linear if n.op is Ops.STORE]
    assert stores
    assert not streamed_slots(program.linear)
    assert "!nontemporal" not in program.source


def test_what_reads_its_output_is_refused():
    """Each step of a scatter reads what the one before stored."""
    x = Tensor.zeros(64).contiguous().realize()
    index = Tensor(np.arange(64) % 7)
    items = x.scatter_add(0, index, Tensor.ones(64)).schedule()
    kernel = Kernel(items[-1].ast, Device["CPU"].target)
    with pytest.raises(OptError, match="reads what it stores"):
        kernel.apply_opt(STREAM)


@pytest.mark.parametrize(("size", "streams"), [(1 << 14, True), (1 << 13, False)])
def test_only_what_the_caches_cannot_hold(size, streams):
    (item,) = (Tensor.ones(size).contiguous().realize() + 1).schedule()
    target = replace(Device["CPU"].target, stream_bytes=1 << 16)
    assert (STREAM in choose(Kernel(item.ast, target))) is streams


def test_what_is_computed_in_place_is_stored():
    values = np.arange(4096, dtype=np.float32)
    x = Tensor(values.copy()).realize()
    item, program = program_of(x * 2 + 1, [Opt(OptOps.UPCAST, 0, 8), STREAM])
    assert program.shared == ((0, 1),)
    assert "noalias" not in program.source
    assert "icmp eq ptr %data0, %data1" in program.source
    device = Device["CPU"]
    executable = device.executable(program, device.compiler.compile(program))
    buffer = item.buffers[1].arg
    executable([buffer, buffer])
    np.testing.assert_array_equal(buffer.numpy(), values * 2 + 1)
