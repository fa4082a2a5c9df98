"""sin x and cos x for float32 and float64 in basic operations: an angle of any size is reduced to a
quarter turn with all its digits.

The method is that of M. Payne and R. Hanek ("Radian Reduction for Trigonometric Functions", 1983):
x = m * 2**k with an integer m, and of the digits of 1/(2*pi) only a window matters, since digits
before it multiply m to whole turns. The window is picked by shifts and selections, so that every
lane of a vector does the same. Where a kernel may branch, only angles beyond `NEAR` (and float64
ones very near a multiple of pi/2) go that way; else one path serves all sizes, which in branch-free
code is cheaper than two.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.ops import RARE
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.words import (
    SINGLE,
    Format,
    cut,
    fast_two_sum,
    format_of,
    magnitude,
    nearest_integer,
    polynomial,
    sign_bit,
    small_integer_to_float,
    unsigned_bits,
    vector_of,
    with_sign,
    word,
)

LIMB: Final = 32
NEAR: Final = {32: 2.0**21, 64: 2.0**20}  # such angles' quarters times a part of pi/2 are exact
UPPER_HALF_PI: Final = 0x6487ED51 / 2**30  # 31 bits of it
LOWER_HALF_PI: Final = 6.077100506506192e-11  # pi/2 less that
CANCELLED: Final = 2.0**-40  # of a float64 angle: its rest is more than this, or needs more of pi/2
_WINDOW: Final = {32: 3, 64: 6}  # limbs of 1/(2*pi) that are multiplied
_POSITIONS: Final = {32: 129, 64: 1025}  # exponents from 1/2 on


def _digits(form: Format) -> list[int]:
    """Limbs of 2**-(fraction+1) / (2*pi), first the most significant: the window for x = 1/2."""
    leading = form.real.fraction + 1
    count = _POSITIONS[form.real.bits] // LIMB + _WINDOW[form.real.bits] + 1
    total = count * LIMB
    number = table.INVERSE_TURN >> (table.INVERSE_TURN_BITS + leading - total)
    return [number >> (LIMB * (count - 1 - k)) & 0xFFFFFFFF for k in range(count)]


def _window(position: UOp, form: Format) -> list[UOp]:
    """The limbs of the digits from bit `position` (a uint32) on."""
    count = _WINDOW[form.real.bits] + 1
    limbs: list[UOp] = [position.const_like(d) for d in _digits(form)]
    most = len(limbs) - count  # the largest number of whole limbs to skip
    step = 1 << (most.bit_length() - 1)
    while step:
        chosen = (position & (step * LIMB)).ne(0)
        needed = min(step - 1, most) + count
        limbs = [
            chosen.where(limbs[k + step], limbs[k]) if k + step < len(limbs) else limbs[k]
            for k in range(min(needed, len(limbs)))
        ]
        step >>= 1
    shift = position & (LIMB - 1)
    rest = position.const_like(LIMB - 1) - shift  # >> (32 - shift) in two shifts, both below 32
    return [
        (limbs[k] << shift) | ((limbs[k + 1] >> 1) >> (rest & (LIMB - 1))) for k in range(count - 1)
    ]


def _widen(limb: UOp) -> UOp:
    return limb.cast(vector_of(dtypes.uint64, limb))


def _fraction(m: UOp, window: list[UOp]) -> list[UOp]:
    """The bits after the point of m (24 bits, or 53) * window: two limbs for each of m's.

    Some units of the last place are lost, since columns below it are not summed.
    """
    wide = _widen(m)
    factors = (wide,) if m.dtype.bits == LIMB else (wide & 0xFFFFFFFF, wide >> LIMB)
    columns: list[list[UOp]] = [[] for _ in range(2 * len(factors))]
    kept = range(len(columns))
    for weight, factor in enumerate(factors):
        for k, limb in enumerate(window):
            place = k - weight  # of the product's lower half
            product = factor * _widen(limb)
            if place in kept:
                columns[place].append(product & 0xFFFFFFFF)
            if place - 1 in kept:
                columns[place - 1].append(product >> LIMB)
    carry = wide.const_like(0)
    result: list[UOp] = []
    for column in reversed(columns):
        total = carry
        for term in column:
            total = total + term
        result.insert(0, word(total))
        carry = total >> LIMB
    return result


def _parts_single(limbs: list[UOp]) -> list[UOp]:
    """The signed fraction of a turn as three floats of at most 24 bits that do not overlap."""
    signed = vector_of(dtypes.int32, limbs[0])
    single = vector_of(dtypes.float32, limbs[0])
    first = (limbs[0].bitcast(signed) >> 12).cast(single)
    second = (((limbs[0] & 0xFFF) << 12) | (limbs[1] >> 20)).bitcast(signed).cast(single)
    third = (limbs[1] & 0xFFFFF).bitcast(signed).cast(single)
    return [first * 2.0**-18, second * 2.0**-42, third * 2.0**-62]


def _parts_double(limbs: list[UOp], form: Format) -> list[UOp]:
    """As `_parts_single`, of at most 48 bits."""
    a, b, c, d = (_widen(limb) for limb in limbs)
    high, low = (a << LIMB) | b, (c << LIMB) | d
    signed = vector_of(dtypes.int64, high)
    first = small_integer_to_float(high.bitcast(signed) >> 20, form)
    second = ((high & 0xFFFFF) << 28) | (low >> 36)
    third = low & ((1 << 36) - 1)
    return [
        first * 2.0**-42,
        small_integer_to_float(second.bitcast(signed), form) * 2.0**-90,
        small_integer_to_float(third.bitcast(signed), form) * 2.0**-126,
    ]


def _times_half_pi(parts: list[UOp]) -> tuple[UOp, UOp]:
    """(high, low) of the sum of parts, quarter turns, times pi/2."""
    first, second, third = parts
    high, low = fast_two_sum(first, second)
    high, low = fast_two_sum(high, low + third)
    top_pi, rest_pi = table.HALF_PI_SINGLE if format_of(first) is SINGLE else table.HALF_PI_DOUBLE
    top = cut(high)
    rest = (high - top) * top_pi + (high * rest_pi + low * top_pi)
    return fast_two_sum(top * top_pi, rest)


def _reduce_near_single(size: UOp) -> tuple[UOp, UOp, UOp]:
    """As `reduce_angle`, of a float32 0 <= x < `NEAR`, by way of float64: the quarters are so few
    that their product with the upper part of pi/2 is exact, and so is the difference.

    W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980).
    """
    double = vector_of(dtypes.float64, size)
    wide = size.cast(double)
    whole, quarter = nearest_integer(wide * (2 / math.pi))
    rest = (wide - whole * UPPER_HALF_PI) - whole * LOWER_HALF_PI
    high = rest.cast(size.dtype)
    return high, (rest - high.cast(double)).cast(size.dtype), word(quarter)


def _reduce_near_double(size: UOp) -> tuple[UOp, UOp, UOp]:
    """As `_reduce_near_single`, of a float64 by pi/2 in three parts: the first two products are
    exact, so is the first difference, and the second one's error is kept. The rest is right to
    2**-97 at least.
    """
    whole, quarter = nearest_integer(size * (2 / math.pi))
    first, second, third = table.HALF_PI_PARTS
    high, error = fast_two_sum(size - whole * first, whole * -second)
    return *fast_two_sum(high, error - whole * third), word(quarter)


def reduce_angle(x: UOp) -> tuple[UOp, UOp, UOp]:
    """(high, low, quarter): |x| = quarter*pi/2 + high + low, |high| <= pi/4; quarter is uint32.

    Only the two lowest bits of `quarter` are right.
    """
    form = format_of(x)
    size = magnitude(x)
    bits = unsigned_bits(size)
    small = size < 0.5
    exponent = word(bits >> x.dtype.fraction)
    first = x.dtype.bias - 1  # the biased exponent of 1/2
    position = small.where(exponent.const_like(0), exponent - first)
    m = (bits & ((1 << x.dtype.fraction) - 1)) | (1 << x.dtype.fraction)
    window = _window(position, form)
    limbs = _fraction(m, window)
    quarter = (limbs[0] + (1 << 29)) >> 30
    limbs = [limbs[0] - (quarter << 30), *limbs[1:]]
    parts = _parts_single(limbs) if form is SINGLE else _parts_double(limbs, form)
    high, low = _times_half_pi(parts)
    return (
        small.where(size, high),
        small.where(low.const_like(0.0), low),
        small.where(quarter.const_like(0), quarter),
    )


def reduce_by_branches(x: UOp) -> tuple[UOp, UOp, UOp]:
    """As `reduce_angle`; large angles, which are rare, have a branch of their own, and so have
    float64 ones that all but cancel with a multiple of pi/2.
    """
    size = magnitude(x)
    far = x.const_like(NEAR[x.dtype.bits]) < size
    if format_of(x) is SINGLE:
        near = _reduce_near_single(size)
    else:
        near = _reduce_near_double(size)
        far = far | (magnitude(near[0]) < size * CANCELLED)
    ways = zip(reduce_angle(x), near, strict=True)
    high, low, quarter = (UOp(Ops.WHERE, a.dtype, (far, a, b), RARE) for a, b in ways)
    return high, low, quarter


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
    return _sine(x, *reduce_angle(x))


def cos(x: UOp) -> UOp:
    """`cos x = sin(|x| + pi/2)`: 1 ulp (float64: 2)."""
    return _cosine(x, *reduce_angle(x))


def sin_by_branches(x: UOp) -> UOp:
    """As `sin`, with `reduce_by_branches`."""
    return _sine(x, *reduce_by_branches(x))


def cos_by_branches(x: UOp) -> UOp:
    """As `cos`, with `reduce_by_branches`."""
    return _cosine(x, *reduce_by_branches(x))


def _sine(x: UOp, high: UOp, low: UOp, quarter: UOp) -> UOp:
    return with_sign(_select(x, quarter, *_near_zero(high, low)), sign_bit(x))


def _cosine(x: UOp, high: UOp, low: UOp, quarter: UOp) -> UOp:
    return _select(x, quarter + 1, *_near_zero(high, low))
