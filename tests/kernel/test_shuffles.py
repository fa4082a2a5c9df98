"""Blocks that are turned in registers: the shuffles, and kernels that use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.device import Device
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.shuffles import across, gathered
from torpor.pipeline import program_for


def lanes_of(node):
    """(row, lane) of each lane of a vector that was shuffled together from rows."""
    if node.op is Ops.LOAD:
        return [(node.src[0].arg.slot, n) for n in range(node.dtype.count)]
    return [lanes_of(row)[lane] for row, lane in map(node.lane, range(len(node.arg)))]


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("float32", 4), ("float32", 8), ("float32", 16), ("float64", 2), ("float64", 4), ("int64", 8)],
)
def test_a_column_is_one_lane_of_each_row(dtype, width):
    kind = getattr(dtypes, dtype)
    rows = [
        UOp(Ops.LOAD, kind.vec(width), (UOp(Ops.PARAM, kind, (), ParamArg(n, width)),))
        for n in range(width)
    ]
    for lane in range(width):
        assert lanes_of(across(rows, lane)) == [(n, lane) for n in range(width)]


@pytest.mark.parametrize("width", [2, 4, 8])
def test_a_column_of_more_rows_than_a_row_has_lanes(width):
    kind = dtypes.float32
    rows = [
        UOp(Ops.LOAD, kind.vec(width), (UOp(Ops.PARAM, kind, (), ParamArg(n, width)),))
        for n in range(16)
    ]
    columns = [gathered([(row, lane) for row in rows]) for lane in range(width)]
    assert [lanes_of(column) for column in columns] == [
        [(n, lane) for n in range(16)] for lane in range(width)
    ]
    shuffles = [n for n in UOp.sink(*columns).toposort() if n.op is Ops.GEP]
    assert len(shuffles) < 16 * width  # fewer than there are elements


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("shape", [(64, 48), (33, 64), (3, 24, 40)])
def test_transposes_equal_numpy(dtype, shape):
    """With stores past the caches too, whatever the size."""
    values = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    x = Tensor(values).realize()
    (item,) = x.transpose(-1, -2).contiguous().schedule()
    device = Device["CPU"]
    target = replace(device.target, stream_bytes=1)
    program = program_for(item.ast, target, choose(Kernel(item.ast, target)))
    buffers = [node.arg for node in item.buffers]
    buffers[0].allocate()
    device.executable(program, device.compiler.compile(program))(buffers)
    found = buffers[0].numpy().reshape(np.swapaxes(values, -1, -2).shape)
    np.testing.assert_array_equal(found, np.swapaxes(values, -1, -2))


def test_a_block_takes_one_read_a_row():
    x = Tensor.ones(64, 64).contiguous().realize()
    (item,) = (x.T + 0).contiguous().schedule()
    opts = [Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.UPCAST, 1, 8)]
    program = program_for(item.ast, replace(get_target("cpu"), vector_bytes=32), opts)
    reads = [n for n in program.linear if n.op is Ops.LOAD]
    assert [n.dtype.count for n in reads] == [8] * 8


@pytest.mark.parametrize("columns", [8, 13])
def test_blocks_with_a_border_are_turned(columns):
    """Sixteen lanes, of which four are padding, of rows that are no power of two long."""
    values = np.random.default_rng(0).standard_normal((12, 40)).astype(np.float32)
    x = Tensor(values).realize()[:, 3 : 3 + columns]
    (item,) = x.transpose(0, 1).pad((0, 4)).contiguous().schedule()
    opts = [Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.UPCAST, 0, columns)]
    device = Device["CPU"]
    buffers = [node.arg for node in item.buffers]
    buffers[0].allocate()
    program = program_for(item.ast, device.target, opts)
    assert program.source.count(" load float,") == 0
    device.executable(program, device.compiler.compile(program))(buffers)
    expected = np.pad(values.T[3 : 3 + columns], ((0, 0), (0, 4)))
    np.testing.assert_array_equal(buffers[0].numpy().reshape(expected.shape), expected)
