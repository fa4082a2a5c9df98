"""The remainder of floats with the sign of the divisor, as Python's and NumPy's `%`.

Long division with quotient digits of k bits: r becomes r - rint(r/d)*d for d = b * 2**(k*i), from
the largest i down. Digits have so few bits that each product and each difference is exact; hence
the result is the exact remainder, rounded at most once (where the divisor is added at the end).
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.kernel.decompose.words import (
    cut,
    format_of,
    magnitude,
    sign_bit,
    unsigned_bits,
    vector_of,
    with_sign,
)

# A float32 in float64: 24 bits of divisor and 28 of a digit fit in 53; 277 bits are the most that
# a quotient of float32 numbers has.
WIDE_DIGIT: Final = 28
WIDE_STEPS: Final = 10
# In one format the divisor is cut in halves; |a/b| from 2**(digit * steps) on gives NaN.
DIGIT: Final = {32: 10, 64: 25}
STEPS: Final = {32: 12, 64: 5}


def _nearest(r: UOp, d: UOp) -> UOp:
    return UOp(Ops.RINT, r.dtype, (r / d,))


def _remainder_wide(a: UOp, b: UOp) -> UOp:
    """`a - n*b` with |result| <= |b|/2, exact, for float32 a and b >= 0, by way of float64."""
    double = vector_of(dtypes.float64, a)
    rest, divisor = a.cast(double), b.cast(double)
    for step in reversed(range(WIDE_STEPS)):
        scaled = divisor * 2.0 ** (WIDE_DIGIT * step)
        rest = rest - _nearest(rest, scaled) * scaled
    return rest.cast(a.dtype)


def _remainder_narrow(a: UOp, b: UOp) -> UOp:
    """As `_remainder_wide` in the format itself, exact for a/b < 2**(DIGIT * STEPS), else NaN."""
    form = format_of(a)
    bits = form.real.bits
    digit, steps = DIGIT[bits], STEPS[bits]
    # Numbers near the largest are scaled down, so that no scaled divisor overflows; what the
    # dividend loses by it is below the divisor, which is the caller's case a < b.
    large = b > 2.0 ** (form.bias - digit * steps)
    factor = 2.0 ** -(digit * steps)
    rest, divisor = large.where(a * factor, a), large.where(b * factor, b)
    beyond = rest > divisor * 2.0 ** (digit * steps)
    for step in reversed(range(steps)):
        scaled = divisor * 2.0 ** (digit * step)
        quotient = _nearest(rest, scaled)
        top = cut(scaled)
        rest = (rest - quotient * top) - quotient * (scaled - top)
    rest = beyond.where(rest.const_like(math.nan), rest)
    return large.where(rest * (1.0 / factor), rest)


def remainder(a: UOp, b: UOp, wide: bool) -> UOp:
    """`a - floor(a/b)*b` exactly, then rounded; a zero has the sign of b.

    float32 where the target has float64 (`wide`): every argument. Otherwise NaN from a quotient of
    2**120 (float32) or 2**125 (float64) on. b = 0, infinite a and NaN give NaN.
    """
    size, divisor = magnitude(a), magnitude(b)
    exact = _remainder_wide(size, divisor) if wide else _remainder_narrow(size, divisor)
    near = (size < divisor).where(size, exact)  # of |a|; also for an infinite divisor
    signed = with_sign(near, sign_bit(a))
    differs = (signed < 0.0).ne(b < 0.0)
    shifted = differs.where(signed + b, signed)
    zero = (unsigned_bits(shifted) & 0) | sign_bit(b)
    return signed.eq(0.0).where(zero.bitcast(a.dtype), shifted)
