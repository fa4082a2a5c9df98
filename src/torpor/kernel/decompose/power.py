"""x**y for float32 and float64 in basic operations, with every special case of C99 (F.10.4.4).

The binary logarithm is needed to about 10 bits more than the format has, since y multiplies its
error by up to 1100; it is computed as a sum of two numbers by T. J. Dekker's arithmetic (1971).
"""

from __future__ import annotations

import math
from typing import Final

from torpor.ir import Ops, UOp
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.exponential import EXP2_RANGE, exp2_reduced
from torpor.kernel.decompose.logarithm import split_exponent
from torpor.kernel.decompose.words import (
    SINGLE,
    clamp,
    cut,
    fast_two_sum,
    format_of,
    magnitude,
    nearest_integer,
    polynomial,
    scale,
    sign_bit,
    with_sign,
)

# |y| beyond this gives 0, 1 or infinity whatever x is: the least |log2 x| > 0 times it is > 1100.
_LARGEST_EXPONENT: Final = {32: 2.0**31, 64: 2.0**63}
Pair = tuple[UOp, UOp]


def _ratio(f: UOp) -> Pair:
    """`s = f/(2 + f)` in two parts, the first of half the bits."""
    dh, dl = fast_two_sum(f.const_like(2.0), f)
    inverse = f.const_like(1.0) / dh
    top, high = cut(dh), cut(f * inverse)
    rest = ((f - high * top) - high * (dh - top)) - high * dl
    return high, rest * inverse


def _third_of_cube(high: UOp, low: UOp) -> Pair:
    """(high + low)**3 / 3 in two parts, for `high` of half the bits."""
    third, third_rest = table.THIRD_SINGLE if format_of(high) is SINGLE else table.THIRD_DOUBLE
    square, square_rest = high * high, low * (high + high + low)
    top = cut(square)
    cube = high * top
    cube_rest = high * ((square - top) + square_rest) + low * (square + square_rest)
    part = cut(cube)
    return part * third, (cube - part) * third + (cube * third_rest + cube_rest * (1.0 / 3.0))


def log2_pair(x: UOp) -> Pair:
    """log2 x in two parts: e + (2/log 2) * atanh(s), s = (m - 1)/(m + 1); x positive, finite."""
    single = format_of(x) is SINGLE
    f, e = split_exponent(x)
    high, low = _ratio(f)
    cube, cube_rest = _third_of_cube(high, low)
    s = high + low
    square = s * s
    terms = table.POW_LOG32 if single else (0.4, *table.POW_LOG64)
    rest = (s * square) * (square * 0.5) * polynomial(square, terms)
    total, error = fast_two_sum(high, cube)
    high, low = fast_two_sum(total, low + (error + (cube_rest + rest)))
    factor, factor_rest = table.TWO_LOG2_E_SINGLE if single else table.TWO_LOG2_E_DOUBLE
    top = cut(high)
    rest = (high - top) * factor + (high * factor_rest + low * factor)
    total, error = fast_two_sum(e, top * factor)
    return fast_two_sum(total, error + rest)


def _positive_power(x: UOp, y: UOp) -> UOp:
    """x**y = 2**(y * log2 x) for positive finite x."""
    bits = x.dtype.bits
    limits = EXP2_RANGE[bits]
    y = clamp(y, -_LARGEST_EXPONENT[bits], _LARGEST_EXPONENT[bits])
    log_high, log_low = log2_pair(x)
    y_top, log_top = cut(y), cut(log_high)
    product = y_top * log_top
    rest = (y - y_top) * log_top + y * ((log_high - log_top) + log_low)
    exponent = product + rest
    inside = clamp(exponent, limits.low, limits.high)
    clamped = inside.ne(exponent)
    product, rest = clamped.where(inside, product), clamped.where(rest.const_like(0.0), rest)
    whole, n = nearest_integer(inside)
    return scale(exp2_reduced((product - whole) + rest), n)


def _is_whole(y: UOp) -> UOp:
    return UOp(Ops.TRUNC, y.dtype, (y,)).eq(y)


def power(x: UOp, y: UOp) -> UOp:
    """x**y = +-2**(y * log2 |x|): 2 ulp."""
    size = magnitude(x)
    zero, one = x.const_like(0.0), x.const_like(1.0)
    infinite, nothing = size.eq(math.inf), size.eq(0.0)
    grows = nothing.ne(y > 0.0)  # 0**-1 and inf**1 are infinite, 0**1 and inf**-1 are 0
    extreme = grows.where(x.const_like(math.inf), zero)
    result = (infinite | nothing).where(extreme, _positive_power(size, y))
    whole = _is_whole(y)
    odd = whole & ~_is_whole(y * 0.5)
    sign = sign_bit(x)
    signed = with_sign(result, odd.where(sign, sign.const_like(0)))
    outside = (x < 0.0) & ~infinite & ~whole
    undefined = outside | x.ne(x) | y.ne(y)
    defined = undefined.where(x.const_like(math.nan), signed)
    return (x.eq(1.0) | y.eq(0.0)).where(one, defined)


def power_of_constant_exponent(x: UOp, y: float) -> UOp | None:
    """x**y for exponents that need no logarithm; None for all others."""
    if y == 1.0:
        return x
    if y == 2.0:
        return x * x
    if y == 3.0:
        return (x * x) * x
    if y == -1.0:
        return x.const_like(1.0) / x
    if y == 0.5:  # C99 has pow(-0, 1/2) = 0 and pow(-inf, 1/2) = inf, unlike sqrt
        root = UOp(Ops.SQRT, x.dtype, (x + 0.0,))
        return x.eq(-math.inf).where(x.const_like(math.inf), root)
    return None
