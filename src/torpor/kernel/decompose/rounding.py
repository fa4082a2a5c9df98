"""Rounding float32 to a smaller float by integer arithmetic, and reading its bits.

All rounding is to nearest, ties to even; NaN stays NaN (quiet), infinities and denormal numbers are
kept. What is beyond a format without infinities becomes NaN.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from torpor.base.dtypes import DType, dtypes, from_name
from torpor.ir import UOp
from torpor.kernel.decompose.words import magnitude, sign_bit, unsigned_bits, vector_of, with_sign

_SINGLE: Final = dtypes.float32
_QUIET: Final = 0x00400000


def _dropped(small: DType) -> int:
    """Bits of float32's fraction that the format lacks."""
    return _SINGLE.fraction - small.fraction


def _rebias(small: DType) -> int:
    """The difference of the exponents' biases, in place."""
    return (_SINGLE.bias - small.bias) << _SINGLE.fraction


def _special(small: DType) -> int:
    """The least bits, without sign, that are no finite number's."""
    exponents = ((1 << small.exponent) - 1) << small.fraction
    return exponents if small.infinite else (1 << (small.bits - 1)) - 1


def nan_bits(small: DType) -> int:
    """The bits, without sign, of the NaN that a cast makes: the first bit of the fraction, and of 8
    bits all, as processors that have such formats make it (PTX ISA, `cvt`).
    """
    if small.bits == 8:
        return (1 << (small.bits - 1)) - 1
    return _special(small) | (1 << (small.fraction - 1))


def _overflow(small: DType) -> float:
    """The least float32 that rounds to more than the format's largest number."""
    last = 2.0 ** (math.frexp(small.largest)[1] - 1 - small.fraction)
    middle = small.largest + last / 2
    is_even = not small.infinite  # the largest number's last bit is 0, so the middle rounds to it
    return float(np.nextafter(np.float32(middle), np.float32(math.inf))) if is_even else middle


def _anchor(small: DType) -> float:
    """A number of float32 whose last place is that of the format's denormal numbers."""
    return 2.0 ** (_SINGLE.fraction + 1 - small.bias - small.fraction)


def _nearest_even(bits: UOp, dropped: int) -> UOp:
    """Bits with the lowest `dropped` rounded away (they become 0)."""
    last = (bits >> dropped) & 1
    raised = bits + (last + ((1 << (dropped - 1)) - 1))
    return raised & (0xFFFFFFFF ^ ((1 << dropped) - 1))


def _round_fraction(x: UOp, small: DType) -> UOp:
    """The bits of float32 x rounded to a format with as many bits of exponent; a NaN keeps its
    upper payload.
    """
    bits, dropped = unsigned_bits(x), _dropped(small)
    quiet = (bits | _QUIET) & (0xFFFFFFFF ^ ((1 << dropped) - 1))
    return x.ne(x).where(quiet, _nearest_even(bits, dropped))


def _round_size(x: UOp, small: DType) -> UOp:
    """|x| rounded to a number that the format has, as float32."""
    size = magnitude(x)
    normal = _nearest_even(unsigned_bits(size), _dropped(small)).bitcast(x.dtype)
    anchor = _anchor(small)
    denormal = (size + anchor) - anchor
    finite = (size < small.smallest_normal).where(denormal, normal)
    beyond = x.const_like(math.inf if small.infinite else math.nan)
    rounded = (size < _overflow(small)).where(finite, beyond)
    return x.ne(x).where(size, rounded)


def round_in_single(x: UOp, small: DType) -> UOp:
    """float32 x rounded to the format `small`, still as float32."""
    if small.exponent == _SINGLE.exponent:
        return _round_fraction(x, small).bitcast(x.dtype)
    return with_sign(_round_size(x, small), sign_bit(x))


def encode(x: UOp, small: DType) -> UOp:
    """The bits of float32 x in the format `small`, as an unsigned integer."""
    short = vector_of(from_name(f"uint{small.bits}"), x)
    dropped = _dropped(small)
    if small.exponent == _SINGLE.exponent:
        return (_round_fraction(x, small) >> dropped).cast(short)
    size = _round_size(x, small)
    bits = unsigned_bits(size)
    denormal = unsigned_bits(size + _anchor(small)) & ((2 << small.fraction) - 1)
    normal = (bits - _rebias(small)) >> dropped
    finite = (size < small.smallest_normal).where(denormal, normal)
    least = _special(small)
    special = x.ne(x).where(bits.const_like(nan_bits(small)), bits.const_like(least))
    packed = (size < math.inf).where(finite, special)
    return ((sign_bit(x) >> (_SINGLE.bits - small.bits)) | packed).cast(short)


def decode(bits: UOp, small: DType) -> UOp:
    """The float32 that the bits of the format `small` (an unsigned integer) stand for, exactly."""
    word = bits.cast(vector_of(dtypes.uint32, bits))
    single = vector_of(_SINGLE, bits)
    dropped = _dropped(small)
    if small.exponent == _SINGLE.exponent:
        return (word << dropped).bitcast(single)
    sign = 1 << (small.bits - 1)
    size = word & (sign - 1)
    normal = ((size << dropped) + _rebias(small)).bitcast(single)
    special = ((size << dropped) | 0x7F800000).bitcast(single)
    place = 2.0 ** (1 - small.bias - small.fraction)
    whole = size.cast(vector_of(dtypes.int32, bits)).cast(single) * place
    finite = (size < (1 << small.fraction)).where(whole, normal)
    sign_moved = (word & sign) << (_SINGLE.bits - small.bits)
    return with_sign((size < _special(small)).where(finite, special), sign_moved)


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


__all__ = ["decode", "encode", "nan_bits", "round_in_single", "single_to_odd", "with_sticky_bits"]
