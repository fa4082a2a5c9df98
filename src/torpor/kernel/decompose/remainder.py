"""The remainder of floats with the sign of the divisor, as Python's and NumPy's `%`.

By the remainder of integers, or where a kernel may branch by one division of those that are near:
always exact, and rounded at most once, where the divisor is added at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.ops import RARE
from torpor.kernel.decompose.words import (
    SINGLE,
    Format,
    cut,
    format_of,
    magnitude,
    nearest_integer,
    scale,
    sign_bit,
    signed_bits,
    small_integer_to_float,
    unsigned_bits,
    vector_of,
    with_sign,
)

# Quotients below which a product with the divisor is exact, in parts or in a wider format.
NEAR: Final = {32: 2.0**28, 64: 2.0**25}
# Bits of an exponent for which a power of two is squared; what is above them counts at most 33
# (float64) or 18 (float32), so that the first power is a number below every significand.
SQUARINGS: Final = {32: 4, 64: 6}


def _nearest(r: UOp, d: UOp) -> UOp:
    return UOp(Ops.RINT, r.dtype, (r / d,))


def _remainder_near(a: UOp, b: UOp) -> UOp:
    """`a - n*b` with |result| <= |b|/2 and a little, exact, for 0 <= a < `NEAR` * b: of float32 by
    way of float64; else the product in two parts, of which each is exact and so is each difference:
    of a quotient below 4 the second part is small, of another one a is a multiple of 2 in b's last
    place.
    """
    if format_of(a) is SINGLE:
        double = vector_of(dtypes.float64, a)
        wide, divisor = a.cast(double), b.cast(double)
        return (wide - _nearest(wide, divisor) * divisor).cast(a.dtype)
    whole, top = _nearest(a, b), cut(b)
    return (a - whole * top) - whole * (b - top)


def _remainder_by_branches(a: UOp, b: UOp) -> UOp:
    """As `_remainder_narrow`, which has a branch of its own where the quotient is large."""
    far = ~(a * (1 / NEAR[a.dtype.bits]) < b)  # also NaN, an infinite a and b = 0
    return UOp(Ops.WHERE, a.dtype, (far, _remainder_narrow(a, b), _remainder_near(a, b)), RARE)


def _parts(x: UOp) -> tuple[UOp, UOp]:
    """(significand, exponent) with x = significand * 2**exponent, x > 0: unsigned with its highest
    bit set, and signed. Denormal numbers are made normal before.
    """
    small, shift = x < 2.0 ** (1 - x.dtype.bias), x.dtype.fraction + 1
    normal = small.where(x * 2.0**shift, x)
    exponent = signed_bits(normal) >> x.dtype.fraction
    exponent = small.where(exponent - shift, exponent) - (x.dtype.bias + x.dtype.fraction)
    implicit = 1 << x.dtype.fraction
    return unsigned_bits(normal) & (implicit - 1) | implicit, exponent


class _Residues:
    """Arithmetic modulo a significand m, on integers x as wide as the float, |x| <= m and a little.

    The quotient of a product is off by a few tens as floats give it; the product less the quotient
    times m, modulo the width, is exact all the same, since it is small: below 64*m.
    """

    def __init__(self, modulus: UOp, form: Format):
        self.modulus, self.form = modulus, form
        self.inverse = 1.0 / modulus.cast(vector_of(form.real, modulus))

    def part(self, x: UOp, dropped: int) -> UOp:
        """About x / 2**dropped as a float: without its lowest bits it fits beside `magic`."""
        signed = x.bitcast(vector_of(self.form.signed, x))
        return small_integer_to_float(signed >> dropped, self.form)

    def product(self, x: UOp, y: UOp) -> UOp:
        """`x*y` modulo m, at most m/2 and a little away from 0."""
        _, fourth = nearest_integer(self.part(x, 3) * self.part(y, 3) * (self.inverse * 16.0))
        rest = x * y - (fourth.bitcast(x.dtype) << 2) * self.modulus
        _, whole = nearest_integer(self.part(rest, 8) * (self.inverse * 256.0))
        return rest - whole.bitcast(x.dtype) * self.modulus


def _remainder_narrow(a: UOp, b: UOp) -> UOp:
    """`a - n*b` with |result| < |b|, exact, for a and b >= 0: for a = s * 2**i and b = m * 2**j,
    (s * 2**(i-j) mod m) * 2**j, the power by squaring. NaN for b = 0 and infinite a.
    """
    form = format_of(a)
    (significand, above), (modulus, exponent) = _parts(a), _parts(b)
    apart = above - exponent
    apart = (apart < 0).where(apart.const_like(0), apart)  # where a < b: the caller's case
    residues, count = _Residues(modulus, form), SQUARINGS[form.real.bits]
    power = modulus.const_like(1) << (apart >> count).bitcast(modulus.dtype)
    for place in reversed(range(count)):
        twice = ((apart >> place) & 1).bitcast(modulus.dtype)
        power = residues.product(power, power) << twice
    rest = residues.product(power, significand).bitcast(exponent.dtype).cast(a.dtype)
    valid = (b > 0.0) & (a < math.inf)
    return valid.where(scale(rest, exponent), rest.const_like(math.nan))


def _with_signs(x: UOp, y: UOp, exact: Callable[[UOp, UOp], UOp]) -> UOp:
    """`x - floor(x/y)*y` of the remainder of |x| by |y|; y = 0, infinite x and NaN give NaN."""
    size, divisor = magnitude(x), magnitude(y)
    near = (size < divisor).where(size, exact(size, divisor))  # also for an infinite divisor
    signed = with_sign(near, sign_bit(x))
    differs = (signed < 0.0).ne(y < 0.0)
    shifted = differs.where(signed + y, signed)
    zero = (unsigned_bits(shifted) & 0) | sign_bit(y)
    return signed.eq(0.0).where(zero.bitcast(x.dtype), shifted)


def remainder(x: UOp, y: UOp) -> UOp:
    """`x % y = x - floor(x/y)*y` in the format itself, exactly, then rounded; 0 has y's sign"""
    return _with_signs(x, y, _remainder_narrow)


def remainder_by_branches(x: UOp, y: UOp) -> UOp:
    """As `remainder`; large quotients, which are rare, have a branch of their own."""
    return _with_signs(x, y, _remainder_by_branches)
