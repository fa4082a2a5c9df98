"""The integers 0, 1, 2, … as a tensor: what ranges, masks, one-hot and random numbers start from.

Two small tables in memory make any length: i = (i // 1024) * 1024 + i % 1024. They are shared, so
that equal work is an equal graph. Where the last row is not whole their number is rounded up to a
power of 1024, so that graphs of other lengths differ in the length alone.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.device.buffer import buffer_node
from torpor.graph import build
from torpor.ir.infer import JOINT, Size, largest
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.host import buffer_from

_TABLE: Final = 1024


@functools.lru_cache(maxsize=256)
def _table(length: int, scale: int, device: str, dtype: DType) -> UOp:
    if JOINT in device:
        devices = tuple(device.split(JOINT))
        parts = tuple(_table(length, scale, one, dtype) for one in devices)
        return UOp(Ops.MULTI, dtype, parts, (None, devices))
    values = np.arange(length, dtype=np.int64) * scale
    return buffer_node(buffer_from(values, device, dtype), (length,))


def _rows_for(count: int) -> int:
    """How many rows of the table so many numbers are taken from."""
    rows, rest = divmod(count, _TABLE)
    if rest:
        rows = _TABLE
        while rows * _TABLE < count:
            rows *= _TABLE
    return rows


def iota(length: Size, device: Any, dtype: DType = dtypes.int64) -> UOp:
    """0 … length-1 of `dtype`, shape (length,)."""
    device = JOINT.join(device) if type(device) is tuple else device
    count = largest(length)
    if count <= _TABLE:
        table = _table(count, 1, device, dtype)
    else:
        rows = _rows_for(count)
        high = build.reshape(iota(rows, device, dtype), (rows, 1))
        scale = build.constant(_TABLE, dtype, (rows, 1))
        high = build.elementwise(Ops.MUL, high, scale)
        low = build.reshape(_table(_TABLE, 1, device, dtype), (1, _TABLE))
        table = build.reshape(build.elementwise(Ops.ADD, high, low), (rows * _TABLE,))
    return build.shrink(table, ((0, length),))
