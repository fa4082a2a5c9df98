"""Floor division of integers by what every target has: division of unsigned ones or of vectors of
floats, and shifts.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes, from_name
from torpor.ir import Ops, PatternMatcher, UOp, UPat
from torpor.ir.ops import INSIDE
from torpor.kernel.decompose.words import vector_of
from torpor.rules.exact import constant_of

_SIGNED: Final = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_INTEGERS: Final = (*_SIGNED, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)


def exponent_of(x: UOp) -> int | None:
    """k where the node is the constant 2**k."""
    value = constant_of(x)
    whole = isinstance(value, int) and value > 0 and not value & (value - 1)
    return int(value).bit_length() - 1 if whole and value is not None else None


def divide(x: UOp, y: UOp) -> UOp | None:
    """`x // 2**k = x >> k`; `x // y = ((|x| + d) / |y|) ^ d`, d = -1 where that is below 0, else 0

    Rounding down -n/m is ~((n - 1)/m). What wraps is |x| of the least x, which as an unsigned
    number is right, so the least // -1 is itself. |x| + d = x ^ d where y > 0.
    """
    shift, number = exponent_of(y), constant_of(y)
    if shift is not None:
        return x >> shift
    if x.dtype.kind == "uint" or (x.vmin >= 0 and y.vmin > 0):
        return None
    unsigned, last = vector_of(from_name(f"uint{x.dtype.bits}"), x), x.dtype.bits - 1
    if y.vmin > 0:
        sign = x >> last
        size = x ^ sign
    else:
        sign = x.eq(0).where(0, (x ^ y) >> last)
        size = magnitude(x) + sign
    divisor = magnitude(y).cast(unsigned)
    divisor = divisor if number is None else divisor.const_like(abs(number))
    return (size.cast(unsigned) // divisor).cast(x.dtype) ^ sign


def magnitude(x: UOp) -> UOp:
    """|x|, of the least number itself."""
    return (x < 0).where(x.const_like(0) - x, x)


def remainder(x: UOp, y: UOp) -> UOp | None:
    """`x % 2**k = x & (2**k - 1)`; `x % y = x - (x//y)*y`"""
    shift = exponent_of(y)
    if shift is not None:
        return x & ((1 << shift) - 1)
    quotient = divide(x, y)
    return None if quotient is None else x - quotient * y


def divide_floats(x: UOp, y: UOp) -> UOp | None:
    """x // y = floor(float(x) / float(y)) of vectors, which no machine divides but as floats

    A quotient that is not whole is 1/y or more from the next integer, and rounded by x/y * 2**-24:
    less, since |x| < 2**24 (of float64, 2**53). The least int32 // -1 is no int32: signed ones of
    32 bits are written out before.
    """
    bits, signed = x.dtype.bits, min(x.vmin, y.vmin) < 0
    if x.dtype.count == 1 or constant_of(y) is not None or bits > (16 if signed else 32):
        return None
    wide = vector_of(dtypes.float64 if bits > 16 else dtypes.float32, x)
    whole = x.dtype if bits > 16 else vector_of(dtypes.int32, x)
    quotient = UOp(Ops.FDIV, wide, (x.cast(wide), y.cast(wide)))
    lower = UOp(Ops.FLOOR, wide, (quotient,)) if signed else quotient
    return UOp(Ops.CAST, whole, (lower,), INSIDE).cast(x.dtype)


def remainder_of_floats(x: UOp, y: UOp) -> UOp | None:
    """`x % y = x - (x//y)*y` of vectors"""
    quotient = divide_floats(x, y)
    return None if quotient is None else x - quotient * y


_x, _y = UPat.var("x"), UPat.var("y")
DIVISION_RULES: Final = PatternMatcher([
    (UPat(Ops.IDIV, _INTEGERS, (_x, _y)), divide),
    (UPat(Ops.MOD, _INTEGERS, (_x, _y)), remainder),
])  # fmt: skip
VECTOR_DIVISION_RULES: Final = PatternMatcher([
    (UPat(Ops.IDIV, _INTEGERS, (_x, _y)), divide_floats),
    (UPat(Ops.MOD, _INTEGERS, (_x, _y)), remainder_of_floats),
])  # fmt: skip
