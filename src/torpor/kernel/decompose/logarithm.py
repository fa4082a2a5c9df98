"""log x and log2 x for float32 and float64 in basic operations.

The argument is 2**e * m with m in [sqrt(1/2), sqrt(2)) (Cody and Waite 1980, chapter 5).
Coefficients come from `tools/fit_polynomials.py`.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.ir import UOp
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.words import (
    SINGLE,
    Format,
    cut,
    fast_two_sum,
    format_of,
    polynomial,
    signed_bits,
    small_integer_to_float,
)

_ROOT_HALF_BITS: Final = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # sqrt(1/2), rounded


def split_exponent(x: UOp) -> tuple[UOp, UOp]:
    """(m - 1, e) with x = 2**e * m, m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    form = format_of(x)
    tiny = x < 2.0 ** (1 - x.dtype.bias)  # denormal numbers have no leading one: scale them first
    shift = x.dtype.fraction + 1
    bits = signed_bits(tiny.where(x * 2.0**shift, x))
    exponent = (bits - _ROOT_HALF_BITS[form.real.bits]) >> x.dtype.fraction
    m = (bits - (exponent << x.dtype.fraction)).bitcast(x.dtype)
    real = exponent - tiny.where(exponent.const_like(shift), exponent.const_like(0))
    return m - 1.0, small_integer_to_float(real, form)


def _with_special_cases(x: UOp, result: UOp) -> UOp:
    """The result; at 0 it is -inf, at inf inf, below 0 and at NaN NaN."""
    outside = x.eq(0.0).where(x.const_like(-math.inf), x.const_like(math.nan))
    return (x > 0.0).where((x < math.inf).where(result, x), outside)


def _log_rest(f: UOp, form: Format) -> tuple[UOp, UOp]:
    """(h, t) with log(1 + f) = f - h + t, where h is about f**2/2 and t is smaller."""
    half_square = (f * 0.5) * f
    if form is SINGLE:
        return half_square, (f * f) * f * polynomial(f, table.LOG32)
    # log(1+f) = 2 atanh(s), s = f/(2+f); 2s = f - s*f, so f - 2s = h - s*h. (Cody and Waite)
    s = f / (f + 2.0)
    z = s * s
    return half_square, s * (half_square + z * polynomial(z, table.LOG64))


def log(x: UOp) -> UOp:
    """`log x = e*log 2 + log m`: 1 ulp (float64: 2)."""
    form = format_of(x)
    high, low = table.LOG_2_SINGLE if form is SINGLE else table.LOG_2_DOUBLE
    f, e = split_exponent(x)
    half_square, rest = _log_rest(f, form)
    total, error = fast_two_sum(e * high, f)
    return _with_special_cases(x, total + (error + ((rest + e * low) - half_square)))


def log2(x: UOp) -> UOp:
    """log2 x = e + log m * log2(e), the product in two parts: 1 ulp (float64: 2)."""
    form = format_of(x)
    high, low = table.LOG2_E_SINGLE if form is SINGLE else table.LOG2_E_DOUBLE
    f, e = split_exponent(x)
    half_square, rest = _log_rest(f, form)
    top = cut(f - half_square)
    bottom = ((f - top) - half_square) + rest
    total, error = fast_two_sum(e, top * high)
    return _with_special_cases(x, total + (error + (bottom * high + (top + bottom) * low)))
