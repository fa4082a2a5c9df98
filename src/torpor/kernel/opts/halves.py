"""Sums of products of small integers two terms at a time, each operand two 16-bit halves of a word.

Processors multiply such halves and add the two products in one instruction.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import closed_by, size_of

HALF: Final = 16  # bits
PAIR: Final = 2  # halves of a word
MASK: Final = (1 << HALF) - 1
SMALL: Final = (dtypes.int8, dtypes.uint8)  # formats that a signed half holds


class Products(NamedTuple):
    """What is replaced, a sum of integer products or the conversion of one to `dtype`; the sum; and
    the two factors, each of a small format.
    """

    whole: UOp
    total: UOp
    factors: tuple[UOp, UOp]


def find_products(root: UOp) -> Products | None:
    """The only reduction of a kernel, if it is sum(a*b) over small integers, taken in int32 (or in
    float32 that holds every partial sum).
    """
    nodes = list(root.toposort())
    sums = [n for n in nodes if n.op is Ops.REDUCE]
    if len(sums) != 1 or sums[0].arg is not Ops.ADD or sums[0].src[0].op is not Ops.MUL:
        return None
    (total,) = sums
    factors = tuple(small_factor(f) for f in total.src[0].src)
    if factors[0] is None or factors[1] is None:
        return None
    if total.dtype is dtypes.int32:
        return Products(total, total, (factors[0], factors[1]))
    users = [n for n in nodes if total in n.src]
    if total.dtype is not dtypes.float32 or len(users) != 1 or not is_conversion(users[0]):
        return None
    return Products(users[0], total, (factors[0], factors[1]))


def is_conversion(node: UOp) -> bool:
    """Whether a float sum is taken for what it is: an integer of at most 25 bits."""
    return node.op is Ops.CAST and node.dtype in (dtypes.int32, dtypes.int64)


def small_factor(factor: UOp) -> UOp | None:
    """The value of a small format that a factor of a product is the conversion of."""
    if factor.op is not Ops.CAST or factor.src[0].dtype not in SMALL:
        return None
    return factor.src[0]


def sum_in_pairs(root: UOp, found: Products, one: UOp) -> UOp:
    """sum(a[k]*b[k], k) = sum(low(x[i])*low(y[i]) + high(x[i])*high(y[i]), i), where x[i] is the
    word of a[2i] and a[2i+1], y[i] that of b: modulo 2**32, as int32 sums are. The axis `one` is k.
    """
    pair = UOp.range((size_of(one) or 0) // PAIR, *one.arg)
    x, y = (word(factor, one, pair) for factor in found.factors)
    product = low(x) * low(y) + high(x) * high(y)
    return with_sum(root, found, one, product, pair, PAIR)


def with_sum(root: UOp, found: Products, one: UOp, product: UOp, words: UOp, terms: int) -> UOp:
    """The kernel with the sum of the products of words of so many terms, along the axis `words`
    instead of `one`, and with the terms added one by one that fill no word.
    """
    ranges = tuple(words if r is one else r for r in closed_by(found.total))
    total = UOp(Ops.REDUCE, dtypes.int32, (product, *ranges), Ops.ADD)
    size = size_of(one) or 0
    a, b = (factor.cast(dtypes.int32) for factor in found.factors)
    for place in range(size - size % terms, size):
        total = total + (a * b).substitute({one: UOp.index_const(place)})
    return root.substitute({found.whole: converted(total, found.whole.dtype)})


def suits(found: Products, one: UOp, terms: int) -> bool:
    """Whether an axis has whole words of so many terms; and nothing but these, if there are other
    axes of the sum.
    """
    size = size_of(one) or 0
    return size >= terms and (size % terms == 0 or len(closed_by(found.total)) == 1)


def converted(value: UOp, dtype: DType) -> UOp:
    """The value in a format."""
    return value if value.dtype is dtype else value.cast(dtype)


def word(value: UOp, one: UOp, pair: UOp) -> UOp:
    """value[2*pair] in the low half of an int32, value[2*pair + 1] in the high one."""
    first, second = (
        value.substitute({one: pair * 2 + half}).cast(dtypes.int32) for half in range(2)
    )
    return (second << shift()) | (first & UOp.const(dtypes.int32, MASK))


def low(x: UOp) -> UOp:
    """The low half of an int32, signed."""
    return (x << shift()) >> shift()


def high(x: UOp) -> UOp:
    """The high half of an int32, signed."""
    return x >> shift()


def shift() -> UOp:
    """The width of a half as an operand of shifts."""
    return UOp.const(dtypes.int32, HALF)
