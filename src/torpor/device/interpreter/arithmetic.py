"""What each ALU op means on NumPy arrays, exactly as the op table says. One array, any shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes
from torpor.base.target import Fragment
from torpor.ir.ops import Ops

Array = npt.NDArray[Any]


def to_integer(value: Array, dtype: DType) -> Array:
    """Floats truncated to an integer format, saturating; NaN gives 0."""
    if value.dtype.itemsize < 4:
        value = value.astype(np.float32)  # the limits may lie beyond float16
    low, high = float(dtype.min), float(dtype.max)  # `high` may round up: hence the >= below
    inside = (value > low) & (value < high)
    result = np.where(inside, value, 0).astype(dtype.numpy)
    result[value <= low] = dtype.min
    result[value >= high] = dtype.max
    return result


def to_odd(value: Array) -> Array:
    """float64 as float32, and where that is inexact the neighbour whose last bit is 1: rounding it
    again to fewer bits is rounding once.
    """
    nearest = value.astype(np.float32)
    toward = np.where(np.abs(nearest) > np.abs(value), np.nextafter(nearest, 0), nearest)
    odd = (toward.astype(np.float32).view(np.uint32) | 1).view(np.float32)
    return np.where((toward != value) & (value == value), odd, nearest)


def to_small(value: Array, dtype: DType) -> Array:
    """Integers and float64 rounded to a small float once: `astype` rounds to float32 first."""
    if value.dtype.kind in "iu" and value.dtype.itemsize == 8:
        low = value & 0x7FF  # collected in one bit where float64, which has 53, would round it
        large = np.abs(value.astype(np.float64)) >= 1 << 53
        value = np.where(large & (low != 0), value - low + 0x400, value)
    return dtype.array(to_odd(value.astype(np.float64)))


def cast(value: Array, source: DType, dtype: DType) -> Array:
    """`value` of format `source` converted to `dtype`."""
    if dtype.kind == "bool":
        return np.not_equal(value, 0)
    if source.is_float and dtype.is_int:
        return to_integer(value, dtype)
    if dtype in SMALL_FLOATS and value.dtype.itemsize >= 4 and source is not dtypes.float32:
        return to_small(value, dtype)
    return dtype.array(value)


def bitcast(value: Array, dtype: DType) -> Array:
    """The same bits as `dtype`, of the same size."""
    return np.ascontiguousarray(value).view(dtype.numpy)


def shift_left(value: Array, count: Array) -> Array:
    bits = value.dtype.itemsize * 8
    return np.where(count < bits, np.left_shift(value, np.minimum(count, bits - 1)), 0).astype(
        value.dtype
    )


def shift_right(value: Array, count: Array) -> Array:
    bits = value.dtype.itemsize * 8
    shifted = np.right_shift(value, np.minimum(count, bits - 1))
    beyond = np.where(value < 0, -1, 0).astype(value.dtype)
    return np.where(count < bits, shifted, beyond).astype(value.dtype)


def subtract(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b) if a.dtype == np.bool_ else np.subtract(a, b)


def _through_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """`function` computed in float64 and rounded to the operands' format."""

    def rounded(*operands: Array) -> Array:
        wide = function(*(operand.astype(np.float64) for operand in operands))
        return wide.astype(operands[0].dtype)

    return rounded


def _erf(value: Array) -> Array:
    flat = [math.erf(x) for x in value.ravel().tolist()]
    return np.array(flat, np.float64).reshape(value.shape)


def _where(condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no)


def dot(x: Array, y: Array, *sums: Array, formats: tuple[str, str]) -> Array:
    """The products of the parts of 32-bit words, added from the first on, and a sum if there is."""
    wide = np.float32 if formats[0] == "bfloat16" else np.int32
    left, right = (
        bitcast(word, getattr(dtypes, name)).reshape(*word.shape, -1).astype(wide)
        for word, name in zip((x, y), formats, strict=True)
    )
    products = left * right
    total: Array = np.add.reduce(products, -1, dtype=wide)
    return sum(sums, start=total)


def multiply(x: Array, y: Array, *sums: Array, fragment: Fragment) -> Array:
    """A product of matrices of 32-bit words, whose parts are terms, and a sum if there is."""
    wide = np.float32 if fragment.left == "bfloat16" else np.int32
    left, right = (
        bitcast(words, getattr(dtypes, name)).reshape(len(words), *shape, -1).astype(wide)
        for words, name, shape in (
            (x, fragment.left, (fragment.rows, fragment.words)),
            (y, fragment.right, (fragment.words, fragment.columns)),
        )
    )
    total: Array = np.einsum("imkp,iknp->imn", left, right)
    return sum(sums, start=total.reshape(len(total), -1))


ARITHMETIC: Final[dict[Ops, Callable[..., Array]]] = {
    Ops.EXP: _through_double(np.exp),
    Ops.EXP2: _through_double(np.exp2),
    Ops.LOG: _through_double(np.log),
    Ops.LOG2: _through_double(np.log2),
    Ops.SIN: _through_double(np.sin),
    Ops.COS: _through_double(np.cos),
    Ops.TANH: _through_double(np.tanh),
    Ops.ERF: _through_double(_erf),
    Ops.POW: _through_double(np.power),
    Ops.SQRT: np.sqrt,
    Ops.FLOOR: np.floor,
    Ops.TRUNC: np.trunc,
    Ops.RINT: np.rint,
    Ops.ADD: np.add,
    Ops.SUB: subtract,
    Ops.MUL: np.multiply,
    Ops.FDIV: np.divide,
    Ops.IDIV: np.floor_divide,
    Ops.MOD: np.mod,
    Ops.MAX: np.maximum,
    Ops.MIN: np.minimum,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: shift_left,
    Ops.SHR: shift_right,
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
    Ops.WHERE: _where,
}
