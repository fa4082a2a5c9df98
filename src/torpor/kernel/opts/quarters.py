"""Sums of products of 8-bit integers four terms at a time, each operand the four bytes of a word.

Some processors multiply such bytes and add the four products to a third word in one instruction.
"""

from __future__ import annotations

from functools import reduce
from operator import add, or_
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.base.target import Target
from torpor.ir.uop import UOp
from torpor.kernel.opts.halves import Products, with_sum
from torpor.kernel.ranges import size_of

BYTE: Final = 8  # bits
QUARTERS: Final = 4  # of a word


def has_quads(target: Target, found: Products) -> bool:
    """Whether the target has the instruction for the formats of the factors."""
    first, second = sorted(factor.dtype.name for factor in found.factors)
    return (first, second) in target.quads


def sum_in_quads(root: UOp, found: Products, one: UOp) -> UOp:
    """sum(a[k]*b[k], k) = sum(sum(byte(x[i], n)*byte(y[i], n), n < 4), i), where the bytes of the
    word x[i] are a[4i] to a[4i+3], those of y[i] are of b: modulo 2**32, as int32 sums are. The
    axis `one` is k.
    """
    quad = UOp.range((size_of(one) or 0) // QUARTERS, *one.arg)
    words = [(word(factor, one, quad), factor.dtype) for factor in found.factors]
    (x, left), (y, right) = words
    product = reduce(add, (byte(x, n, left) * byte(y, n, right) for n in range(QUARTERS)))
    return with_sum(root, found, one, product, quad, QUARTERS)


def word(value: UOp, one: UOp, quad: UOp) -> UOp:
    """value[4*quad] to value[4*quad + 3] in an int32, the first in the lowest byte."""
    parts = []
    for n in range(QUARTERS):
        bits = value.substitute({one: quad * QUARTERS + n}).cast(dtypes.int32)
        if n < QUARTERS - 1:
            bits = bits & ((1 << BYTE) - 1)
        parts.append(bits << (n * BYTE) if n else bits)
    return reduce(or_, parts)


def byte(x: UOp, number: int, dtype: DType) -> UOp:
    """A byte of an int32, of a signed or an unsigned format."""
    above = (QUARTERS - 1 - number) * BYTE
    if dtype is dtypes.int8:
        top = x << above if above else x
        return top >> ((QUARTERS - 1) * BYTE)
    low = x >> (number * BYTE) if number else x
    return low & ((1 << BYTE) - 1)
