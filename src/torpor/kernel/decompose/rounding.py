"""Rounding float32 to float16 and bfloat16 by integer arithmetic, and reading their bits.

All rounding is to nearest, ties to even; NaN stays NaN (quiet), infinities and denormal numbers are
kept.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir import UOp
from torpor.kernel.decompose.words import (
    magnitude,
    sign_bit,
    unsigned_bits,
    vector_of,
    with_sign,
)

_HALF_DROPPED: Final = 23 - 10  # fraction bits of float32 that float16 lacks
_HALF_LEAST_NORMAL: Final = 2.0**-14
_HALF_OVERFLOW: Final = 65520.0  # from here on a number rounds to infinity
_HALF_BIAS: Final = (127 - 15) << 23  # difference of the exponents' biases, in place
_BRAIN_QUIET: Final = 0x00400000


def _nearest_even(bits: UOp, dropped: int) -> UOp:
    """Bits with the lowest `dropped` rounded away (they become 0)."""
    last = (bits >> dropped) & 1
    raised = bits + (last + ((1 << (dropped - 1)) - 1))
    return raised & (0xFFFFFFFF ^ ((1 << dropped) - 1))


def _round_to_brain(x: UOp) -> UOp:
    """The bits of float32 x rounded to 8 significant bits; a NaN keeps its upper payload."""
    bits = unsigned_bits(x)
    quiet = (bits | _BRAIN_QUIET) & 0xFFFF0000
    return x.ne(x).where(quiet, _nearest_even(bits, 16))


def _round_to_half(x: UOp) -> UOp:
    """|x| rounded to a number that float16 has, as float32."""
    size = magnitude(x)
    normal = _nearest_even(unsigned_bits(size), _HALF_DROPPED).bitcast(x.dtype)
    # Adding 1/2 leaves bits from 2**-24 on, the last place of float16's denormal numbers.
    denormal = (size + 0.5) - 0.5
    finite = (size < _HALF_LEAST_NORMAL).where(denormal, normal)
    rounded = (size < _HALF_OVERFLOW).where(finite, x.const_like(math.inf))
    return x.ne(x).where(size, rounded)


def round_in_single(x: UOp, small: DType) -> UOp:
    """float32 x rounded to the format `small`, still as float32."""
    if small is dtypes.bfloat16:
        return _round_to_brain(x).bitcast(x.dtype)
    return with_sign(_round_to_half(x), sign_bit(x))


def encode(x: UOp, small: DType) -> UOp:
    """The 16 bits (uint16) of float32 x in the format `small`."""
    short = vector_of(dtypes.uint16, x)
    if small is dtypes.bfloat16:
        return (_round_to_brain(x) >> 16).cast(short)
    size = _round_to_half(x)
    bits = unsigned_bits(size)
    denormal = unsigned_bits(size + 0.5) & 0x7FF  # 1/2 has its last place at 2**-24
    finite = (size < _HALF_LEAST_NORMAL).where(denormal, (bits - _HALF_BIAS) >> _HALF_DROPPED)
    special = x.ne(x).where(bits.const_like(0x7E00), bits.const_like(0x7C00))
    packed = (size < math.inf).where(finite, special)
    return ((sign_bit(x) >> 16) | packed).cast(short)


def decode(bits: UOp, small: DType) -> UOp:
    """The float32 that 16 bits (uint16) of the format `small` stand for, exactly."""
    word = bits.cast(vector_of(dtypes.uint32, bits))
    single = vector_of(dtypes.float32, bits)
    if small is dtypes.bfloat16:
        return (word << 16).bitcast(single)
    size = word & 0x7FFF
    normal = ((size << _HALF_DROPPED) + _HALF_BIAS).bitcast(single)
    special = ((size << _HALF_DROPPED) | 0x7F800000).bitcast(single)
    whole = size.cast(vector_of(dtypes.int32, bits)).cast(single) * 2.0**-24
    finite = (size < 0x400).where(whole, normal)
    return with_sign((size < 0x7C00).where(finite, special), (word & 0x8000) << 16)


def single_to_odd(x: UOp) -> UOp:
    """float64 x as float32, rounded to odd: where inexact, the neighbour whose last bit is 1.

    Rounding that again to fewer bits gives what rounding x at once gives (S. Boldo and
    G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    nearest = x.cast(vector_of(dtypes.float32, x))
    back = nearest.cast(x.dtype)
    bits = unsigned_bits(nearest)
    one = bits.const_like(1)
    # Step back to the number nearer to 0 where rounding went away from it, then set the last bit.
    away = magnitude(x) < magnitude(back)
    toward = bits - away.where(one, one.const_like(0))
    inexact = back.ne(x) & x.eq(x)
    return inexact.where(toward | one, bits).bitcast(nearest.dtype)


def with_sticky_bits(n: UOp, low: int, exact: int) -> UOp:
    """Integer n; where it has more than `exact` bits, its `low` lowest are or-ed into the next one.

    That has at most `exact` significant bits and rounds to much fewer as n does.
    """
    mask = (1 << low) - 1
    dropped = (n & mask).ne(0)
    sticky = dropped.where(n.const_like(1 << low), n.const_like(0))
    short = ((n >> low) << low) | sticky
    limit = 1 << exact
    if n.dtype.kind == "uint":
        return (n < limit).where(n, short)
    return ((n < limit) & (n.const_like(-limit) < n)).where(n, short)


__all__ = ["decode", "encode", "round_in_single", "single_to_odd", "with_sticky_bits"]
