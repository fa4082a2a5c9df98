"""sin x and cos x for float32 and float64, of any argument, in basic operations."""

from __future__ import annotations

import math

from torpor.ir import UOp
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.angles import reduce_angle
from torpor.kernel.decompose.words import (
    SINGLE,
    format_of,
    magnitude,
    polynomial,
    sign_bit,
    with_sign,
)


def _near_zero(high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """(sin, cos) of high + low for |high| <= pi/4, `low` at most half an ulp of it."""
    single = format_of(high) is SINGLE
    square = high * high
    half = square * 0.5
    sin_rest = polynomial(square, table.SIN32 if single else table.SIN64)
    sin = high + ((high * square) * sin_rest + (low - low * half))
    top = half * -1.0 + 1.0
    lost = (top * -1.0 + 1.0) - half
    cos_rest = polynomial(square, table.COS32 if single else table.COS64)
    cos = top + (lost + ((square * square) * cos_rest - high * low))
    return sin, cos


def _select(x: UOp, quarter: UOp, sine: UOp, cosine: UOp) -> UOp:
    """The sine (quarter 0, 2) or cosine (1, 3), negative in quarters 2 and 3; NaN at infinity."""
    form = format_of(x)
    value = (quarter & 1).ne(0).where(cosine, sine)
    flip = ((quarter & 2).cast(form.unsigned.vec(x.dtype.count))) << (form.unsigned.bits - 2)
    return (magnitude(x) < math.inf).where(with_sign(value, flip), x.const_like(math.nan))


def sin(x: UOp) -> UOp:
    """`sin x = +-sin r or +-cos r` with r = x - n*pi/2: 1 ulp (float64: 2)."""
    high, low, quarter = reduce_angle(x)
    return with_sign(_select(x, quarter, *_near_zero(high, low)), sign_bit(x))


def cos(x: UOp) -> UOp:
    """`cos x = sin(|x| + pi/2)`: 1 ulp (float64: 2)."""
    high, low, quarter = reduce_angle(x)
    return _select(x, quarter + 1, *_near_zero(high, low))
