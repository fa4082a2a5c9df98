"""What the formulas share: facts about a format, polynomials, exact splits, bits and powers of two.

Every formula here holds whether or not a compiler contracts `a*b + c` into one rounding: where the
error of a step is recovered, the products in it are exact in the first place (factors are cut to
half their bits by masks), so contraction cannot change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir import Ops, UOp


@dataclass(frozen=True)
class Format:
    """A binary floating-point format and the integers of its width.

    magic:     1.5 * 2**fraction: added to a small integer it puts that integer in the low bits.
    half_mask: cuts a significand so that a product of two cut ones is exact.
    """

    real: DType
    signed: DType
    unsigned: DType
    magic: float
    half_mask: int

    @property
    def magic_bits(self) -> int:
        digits = self.real.fraction
        return ((self.real.bias + digits) << digits) | (1 << (digits - 1))


SINGLE: Final = Format(dtypes.float32, dtypes.int32, dtypes.uint32, 1.5 * 2.0**23, 0xFFFFF000)
DOUBLE: Final = Format(
    dtypes.float64, dtypes.int64, dtypes.uint64, 1.5 * 2.0**52, 0xFFFFFFFFF8000000
)


def format_of(node: UOp) -> Format:
    """The format of a float32 or float64 (vector) node."""
    return SINGLE if node.dtype.scalar() is dtypes.float32 else DOUBLE


def vector_of(scalar: DType, like: UOp) -> DType:
    """`scalar` with as many lanes as `like` has."""
    return scalar.vec(like.dtype.count)


def word(node: UOp) -> UOp:
    """An integer or bool as uint32, modulo 2**32."""
    return node.cast(vector_of(dtypes.uint32, node))


def signed_bits(node: UOp) -> UOp:
    """The bits of a float as a signed integer."""
    return node.bitcast(vector_of(format_of(node).signed, node))


def unsigned_bits(node: UOp) -> UOp:
    """The bits of a float as an unsigned integer."""
    return node.bitcast(vector_of(format_of(node).unsigned, node))


def polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """c[0] + c[1]*x + c[2]*x**2 + ... by Horner's rule."""
    total = x.const_like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def polynomial_by_pairs(x: UOp, square: UOp, coefficients: Sequence[float]) -> UOp:
    """The same as (c[0] + c[1]*x) + x**2*((c[2] + c[3]*x) + ...): half as many steps wait for each
    other, for one multiplication more.
    """
    odd = len(coefficients) % 2
    pairs = [x * b + a for a, b in zip(coefficients[::2], coefficients[1::2], strict=False)]
    total = x.const_like(coefficients[-1]) if odd else pairs.pop()
    for pair in reversed(pairs):
        total = total * square + pair
    return total


def nearest_integer(x: UOp) -> tuple[UOp, UOp]:
    """(rint(x) as a float, the same as a signed integer); |x| < 2**(fraction - 1).

    The integer is read from the low bits of the sum with `magic`, which costs less than a
    conversion that must mind NaN (NaN gives some integer).
    """
    form = format_of(x)
    whole = UOp(Ops.RINT, x.dtype, (x,))
    return whole, signed_bits(whole + form.magic) - form.magic_bits


def small_integer_to_float(n: UOp, form: Format) -> UOp:
    """A signed integer of the format's width, |n| < 2**(fraction - 1), as a float, exactly."""
    if form is SINGLE:
        return n.cast(vector_of(form.real, n))
    return (n + form.magic_bits).bitcast(vector_of(form.real, n)) - form.magic


def power_of_two(exponent: UOp, form: Format) -> UOp:
    """2**n for n + bias, a normal number's, in the lowest bits of an integer of the format's width:
    as many as sign and exponent have; what stands above them is shifted out.
    """
    return (exponent << form.real.fraction).bitcast(vector_of(form.real, exponent))


def halves_of_power(both: UOp, form: Format) -> tuple[UOp, UOp]:
    """Two factors of 2**n for n + 2*bias in the lowest bits (see `power_of_two`) of an integer."""
    first = both >> 1
    return power_of_two(first, form), power_of_two(both - first, form)


def scale(x: UOp, n: UOp) -> UOp:
    """`x * 2**n` in two factors, so that 2**n itself may overflow or be denormal."""
    form = format_of(x)
    first, second = halves_of_power(n + 2 * x.dtype.bias, form)
    return x * first * second


def clamp(x: UOp, low: float, high: float) -> UOp:
    """`x` between the bounds; NaN stays (a plain comparison is cheaper than MAX, which cares)."""
    raised = (x < low).where(low, x)
    return (raised > high).where(high, raised)


def cut(x: UOp) -> UOp:
    """`x` with the lower half of its significand zero."""
    form = format_of(x)
    return (unsigned_bits(x) & form.half_mask).bitcast(x.dtype)


def magnitude(x: UOp) -> UOp:
    """|x|, by clearing the sign bit."""
    mask = (1 << (x.dtype.fraction + x.dtype.bias.bit_length() + 1)) - 1
    return (unsigned_bits(x) & mask).bitcast(x.dtype)


def sign_bit(x: UOp) -> UOp:
    """The sign bit of x, alone, as an unsigned integer."""
    form = format_of(x)
    return unsigned_bits(x) & (1 << (form.unsigned.bits - 1))


def with_sign(x: UOp, sign: UOp) -> UOp:
    """`x` with its sign flipped where the bit `sign` is set."""
    return (unsigned_bits(x) ^ sign).bitcast(x.dtype)


def fast_two_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """(s, e) with s = a + b rounded and s + e = a + b exactly, for |a| >= |b| or a = 0.

    T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
    """
    total = a + b
    return total, b - (total - a)
