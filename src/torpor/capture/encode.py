"""Numbers as the integers that a kernel's variables are: the bits of a float, an integer itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes, from_name
from torpor.graph import build
from torpor.ir.uop import UOp

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def _float32(value: Any) -> int:
    try:
        packed = _FLOAT.pack(float(value))
    except OverflowError:  # rounds to infinity, or is an int that no float holds
        packed = _FLOAT.pack(dtypes.float32.cast_scalar(value))
    return int.from_bytes(packed, "little")


def _float64(value: Any) -> int:
    return int.from_bytes(_DOUBLE.pack(value), "little", signed=True)


def _small(dtype: DType) -> Callable[[Any], int]:
    def encode(value: Any) -> int:
        return int(dtype.array(dtype.cast_scalar(value)).view(f"u{dtype.itemsize}"))

    return encode


def _integer(dtype: DType) -> Callable[[Any], int]:
    def encode(value: Any) -> int:
        if not dtype.min <= value <= dtype.max:
            raise OverflowError(f"{value} does not fit into {dtype}")
        return int(value)

    return encode


_INTEGERS: Final = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
    dtypes.uint32,
)  # fmt: skip
_CARRIERS: Final[dict[DType, DType]] = {
    **{small: from_name(f"uint{small.bits}") for small in SMALL_FLOATS},
    dtypes.float32: dtypes.uint32,
    dtypes.float64: dtypes.int64,
}
# What is not here (uint64, bool) is guarded by its value instead.
ENCODERS: Final[dict[DType, Callable[[Any], int]]] = {
    **{small: _small(small) for small in SMALL_FLOATS},
    dtypes.float32: _float32,
    dtypes.float64: _float64,
    **{dtype: _integer(dtype) for dtype in _INTEGERS},
}


def integers_of(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer that encodes a number of the format."""
    carrier = _CARRIERS.get(dtype, dtype)
    return int(carrier.min), int(carrier.max)


def shown_as(node: UOp, dtype: DType) -> UOp:
    """What the integer `node` encodes, as a node of the format, shape ()."""
    carrier = _CARRIERS.get(dtype, dtype)
    return build.bitcast(build.cast(node, carrier), dtype)
