"""e**x, 2**x, tanh x and erf x for float32 and float64 in basic operations.

Argument reduction with a constant in two parts is W. J. Cody and W. Waite's ("Software Manual for
the Elementary Functions", 1980); coefficients come from `tools/fit_polynomials.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torpor.ir import Ops, UOp
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.words import (
    SINGLE,
    clamp,
    cut,
    fast_two_sum,
    format_of,
    halves_of_power,
    magnitude,
    nearest_integer,
    polynomial,
    polynomial_by_pairs,
    power_of_two,
    scale,
    sign_bit,
    unsigned_bits,
    with_sign,
)

LOG2_E: Final = 1.4426950408889634
LOG_2: Final = 0.6931471805599453


@dataclass(frozen=True)
class Range:
    """Where a function of one format is not yet 0 (or -1) below, nor infinite (or 1) above."""

    low: float
    high: float


# Above `high` the result overflows. At `low`, where it has long been 0, both factors of 2**n have
# the bits of 0: a masked score of -inf becomes 0 without an underflow on the way, for which Intel's
# processors take some 150 cycles.
EXP_RANGE: Final = {32: Range(-176.0, 89.0), 64: Range(-1418.0, 710.0)}
EXP2_RANGE: Final = {32: Range(-254.0, 129.0), 64: Range(-2046.0, 1025.0)}
TANH_SMALL: Final = 0.55  # from here on 1 - 2/(e**(2*x) + 1) is the better formula
ERF_SPLIT: Final = 1.0  # where the far formula of erf begins
ERF_END: Final = {32: 4.0, 64: 6.0}  # from here on erf x rounds to 1
TANH_END: Final = {32: 9.5, 64: 19.5}  # from here on tanh x rounds to 1


def reduced_exp(x: UOp, biases: int = 1) -> tuple[UOp, UOp]:
    """(p, b) with e**x = 2**n * (1 + p), |p| < 0.42, for x within `EXP_RANGE`: the bits of b that
    `power_of_two` reads are n + biases*bias.

    p is rounded to a quarter of what 1 + p can be rounded to, or finer.
    """
    form = format_of(x)
    high, low = table.LOG_2_SINGLE if form is SINGLE else table.LOG_2_DOUBLE
    # Not as a sum with `magic` less `magic`: compilers of shaders take the product itself for it.
    whole = UOp(Ops.RINT, x.dtype, (x * LOG2_E,))
    shifted = whole + (form.magic + biases * x.dtype.bias)
    near, tail = x - whole * high, whole * low  # the difference is exact
    r = near - tail
    square = r * r
    coefficients = table.EXP32 if form is SINGLE else table.EXP64
    rest = square * polynomial_by_pairs(r, square, coefficients)
    return near + (rest - tail), unsigned_bits(shifted)


def exp(x: UOp) -> UOp:
    """e**x = 2**n * (1 + p): 1 ulp (float64: 2).

    2**n is two factors, since it may overflow or be denormal. The product of p with the first one
    is exact.
    """
    limits = EXP_RANGE[x.dtype.bits]
    p, both = reduced_exp(clamp(x, limits.low, limits.high), 2)
    first, second = halves_of_power(both, format_of(x))
    return (p * first + first) * second


def exp2_reduced(r: UOp) -> UOp:
    """2**r for |r| <= 1/2: 1 + r*log 2 with the error of the sum, and the rest of the series."""
    rest = polynomial(r, table.EXP2_32 if format_of(r) is SINGLE else table.EXP2_64)
    total, error = fast_two_sum(r.const_like(1.0), r * LOG_2)
    return total + (error + (r * r) * rest)


def exp2(x: UOp) -> UOp:
    """2**x = 2**n * 2**(x - n) with n = rint(x): 1 ulp (float64: 2)."""
    limits = EXP2_RANGE[x.dtype.bits]
    inside = clamp(x, limits.low, limits.high)
    whole, n = nearest_integer(inside)
    return scale(exp2_reduced(inside - whole), n)


def _tanh_large(t: UOp) -> UOp:
    """1 - 2/(e**(2*t) + 1) for t >= `TANH_SMALL`, the quotient in two parts.

    d = e**(2*t) + 1 is kept as a sum dh + dl, and 2/d as q + (2 - q*d)/dh where q has half the
    bits, so that each product in the remainder is exact.
    """
    p, exponent = reduced_exp(t + t)
    power = power_of_two(exponent, format_of(t))
    dh, dl = fast_two_sum(power + 1.0, power * p)
    inverse = t.const_like(1.0) / dh
    q = cut(inverse + inverse)
    top = cut(dh)
    remainder = ((q * top - 2.0) + q * (dh - top)) + q * dl  # of the other sign
    total, error = fast_two_sum(t.const_like(1.0), q * -1.0)
    return total + (remainder * inverse + error)


def tanh(x: UOp) -> UOp:
    """`tanh x = x + x**3 * P(x**2)` if small, else `1 - 2/(e**(2*x) + 1)`: 1 ulp (float64: 2)."""
    size = magnitude(x)
    square = x * x
    coefficients = table.TANH32 if format_of(x) is SINGLE else table.TANH64
    small = size + (size * square) * polynomial(square, coefficients)
    end = TANH_END[x.dtype.bits]
    large = _tanh_large((size > end).where(end, size))
    return with_sign((size < TANH_SMALL).where(small, large), sign_bit(x))


def _far(size: UOp) -> UOp:
    """`erf t = 1 - e**log(erfc t)` from `ERF_SPLIT` to `ERF_END`; the logarithm is a polynomial."""
    end = ERF_END[size.dtype.bits]
    coefficients = table.ERF_FAR32 if format_of(size) is SINGLE else table.ERF_FAR64
    inside = (size > end).where(end, size)
    p, exponent = reduced_exp(polynomial(inside - ERF_SPLIT, coefficients))
    return (power_of_two(exponent, format_of(size)) * (p + 1.0)) * -1.0 + 1.0


def erf(x: UOp) -> UOp:
    """`erf x = x + x*P(x**2)` below 1, `1 - erfc |x|` beyond: 2 ulp."""
    size = magnitude(x)
    coefficients = table.ERF_NEAR32 if format_of(x) is SINGLE else table.ERF_NEAR64
    near = x + x * polynomial(x * x, coefficients)
    return (size < ERF_SPLIT).where(near, with_sign(_far(size), sign_bit(x)))
