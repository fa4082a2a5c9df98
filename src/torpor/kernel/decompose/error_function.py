"""The error function for float32 and float64 in basic operations."""

from __future__ import annotations

from typing import Final

from torpor.ir import UOp
from torpor.kernel.decompose import coefficients as table
from torpor.kernel.decompose.exponential import reduced_exp
from torpor.kernel.decompose.words import (
    SINGLE,
    format_of,
    magnitude,
    polynomial,
    power_of_two,
    sign_bit,
    with_sign,
)

SPLIT: Final = 1.0  # where the far formula begins
END: Final = {32: 4.0, 64: 6.0}  # from here on erf x rounds to 1


def _far(size: UOp) -> UOp:
    """`erf t = 1 - e**log(erfc t)` for t from `SPLIT` to `END`; the logarithm is a polynomial."""
    end = END[size.dtype.bits]
    coefficients = table.ERF_FAR32 if format_of(size) is SINGLE else table.ERF_FAR64
    inside = (size > end).where(end, size)
    p, exponent = reduced_exp(polynomial(inside - SPLIT, coefficients))
    return (power_of_two(exponent, format_of(size)) * (p + 1.0)) * -1.0 + 1.0


def erf(x: UOp) -> UOp:
    """`erf x = x + x*P(x**2)` below 1, `1 - erfc |x|` beyond: 2 ulp."""
    size = magnitude(x)
    coefficients = table.ERF_NEAR32 if format_of(x) is SINGLE else table.ERF_NEAR64
    near = x + x * polynomial(x * x, coefficients)
    return (size < SPLIT).where(near, with_sign(_far(size), sign_bit(x)))
