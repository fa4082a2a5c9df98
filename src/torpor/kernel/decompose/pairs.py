"""Integers of 64 bits as pairs of 32-bit words, for targets that have no wider integer.

A pair is (low, high), both uint32 (vectors alike). Everything wraps modulo 2**64.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.kernel.decompose.words import vector_of

Pair = tuple[UOp, UOp]
_SIGN: Final = 0x80000000
_ROUNDS: Final = 4  # of estimates of a quotient, each of which finds 18 bits at least


def word(node: UOp) -> UOp:
    """An integer or bool as uint32, modulo 2**32."""
    return node.cast(vector_of(dtypes.uint32, node))


def constant(like: UOp, value: int) -> Pair:
    """A number as a pair with as many lanes as the word `like`."""
    return like.const_like(value & 0xFFFFFFFF), like.const_like(value >> 32 & 0xFFFFFFFF)


def extended(node: UOp) -> Pair:
    """An integer of 32 bits, or a bool, as a pair."""
    low = word(node)
    if node.dtype.kind == "int":
        return low, word(node >> 31)
    return low, low.const_like(0)


def choose(condition: UOp, yes: Pair, no: Pair) -> Pair:
    """The pair `yes` where the condition holds, else `no`."""
    return condition.where(yes[0], no[0]), condition.where(yes[1], no[1])


def bitwise(op: Ops, a: Pair, b: Pair) -> Pair:
    """And, or and exclusive or, word by word."""
    return a[0].alu(op, b[0]), a[1].alu(op, b[1])


def add(a: Pair, b: Pair) -> Pair:
    """`a + b`, where the low words' sum carries if it is less than one of them"""
    low = a[0] + b[0]
    return low, a[1] + b[1] + word(low < a[0])


def subtract(a: Pair, b: Pair) -> Pair:
    """`a - b`, which borrows where the low word is too small"""
    return a[0] - b[0], a[1] - b[1] - word(a[0] < b[0])


def negate(a: Pair) -> Pair:
    """`-a = 0 - a`"""
    return subtract(constant(a[0], 0), a)


def product_of_words(a: UOp, b: UOp) -> Pair:
    """The whole product of two words, from the four products of their halves."""
    a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    cross = a1 * b0 + (a0 * b0 >> 16)  # at most 2**32 - 2**16: it does not wrap
    middle = a0 * b1 + (cross & 0xFFFF)
    return a * b, a1 * b1 + (cross >> 16) + (middle >> 16)


def multiply(a: Pair, b: Pair) -> Pair:
    """`a * b = a0*b0 + (a0*b1 + a1*b0) * 2**32`"""
    low, high = product_of_words(a[0], b[0])
    return low, high + a[0] * b[1] + a[1] * b[0]


def shift_left(a: Pair, count: UOp) -> Pair:
    """`a << count`, a word below 64."""
    rest = count & 31
    low = a[0] << rest
    high = a[1] << rest | (a[0] >> 1) >> (rest ^ 31)
    return choose(count < 32, (low, high), (low.const_like(0), low))


def shift_right(a: Pair, count: UOp, signed: bool) -> Pair:
    """`a >> count`, a word below 64; the sign moves in where it is signed."""
    rest = count & 31
    high = _shift_word(a[1], rest, signed)
    low = a[0] >> rest | (a[1] << 1) << (rest ^ 31)
    return choose(count < 32, (low, high), (high, _fill(a[1], signed)))


def _shift_word(a: UOp, count: UOp, signed: bool) -> UOp:
    if not signed:
        return a >> count
    number = a.bitcast(vector_of(dtypes.int32, a))
    return word(number >> count.cast(number.dtype))


def _fill(high: UOp, signed: bool) -> UOp:
    """What moves in at the top."""
    return _shift_word(high, high.const_like(31), True) if signed else high.const_like(0)


def equal(a: Pair, b: Pair) -> UOp:
    """a = b, both words"""
    return a[0].eq(b[0]) & a[1].eq(b[1])


def less(a: Pair, b: Pair, signed: bool) -> UOp:
    """a < b by the high words, or by the low ones where those are equal"""
    left, right = (a[1] ^ _SIGN, b[1] ^ _SIGN) if signed else (a[1], b[1])
    return (left < right) | (left.eq(right) & (a[0] < b[0]))


def is_negative(a: Pair) -> UOp:
    """Whether the sign bit is set."""
    return a[1] >= _SIGN


def magnitude(a: Pair) -> Pair:
    """|a|, as an unsigned number."""
    return choose(is_negative(a), negate(a), a)


# --- floats -------------------------------------------------------------------------------------
def to_single(a: Pair, signed: bool) -> UOp:
    """The nearest float32, ties to even.

    Below 2**48 it is one sum of two numbers that float32 holds exactly. Of larger numbers the last
    16 bits only matter by whether any is set, which is left at the end of the rest.
    """
    size = magnitude(a) if signed else a
    large = size[1] >= 0x10000
    sticky = word((size[0] & 0xFFFF).ne(0))
    shortened = shift_right(size, size[0].const_like(16), signed=False)
    low, high = choose(large, (shortened[0] | sticky, shortened[1]), size)
    single = vector_of(dtypes.float32, low)
    top = (high << 8 | low >> 24).cast(single) * 2.0**24
    total = top + (low & 0xFFFFFF).cast(single)
    total = large.where(total * 2.0**16, total)
    return is_negative(a).where(total * -1.0, total) if signed else total


def from_single(x: UOp) -> Pair:
    """The whole number towards 0 from a float32 that lies in the format's range."""
    negative = x < 0.0
    size = negative.where(x * -1.0, x)
    found = _whole(size)
    return choose(negative, negate(found), found)


def _whole(x: UOp) -> Pair:
    """The integer part of 0 <= x < 2**64; what is above 2**32 leaves an exact rest."""
    top = (x * 2.0**-32).alu(Ops.TRUNC)
    rest = x - top * 2.0**32
    whole = vector_of(dtypes.uint32, x)
    return rest.cast(whole), top.cast(whole)


# --- division -----------------------------------------------------------------------------------
def divide_unsigned(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """(a // b, a % b), unsigned, b not 0.

    Each round takes off an estimate of the quotient of what is left: too small by at most one part
    in 2**18 and by less than 2, never too large, since it is made smaller by one part in 2**19,
    which is more than what three roundings and an inexact division may add. After the last
    round the quotient left is at most 2, and is counted.
    """
    divisor = to_single(b, signed=False)
    quotient, rest = constant(a[0], 0), a
    for _ in range(_ROUNDS):
        estimate = to_single(rest, signed=False) / divisor * (1.0 - 2.0**-19)
        part = _whole(estimate)
        quotient, rest = add(quotient, part), subtract(rest, multiply(part, b))
    for _ in range(2):
        enough = less(rest, b, signed=False).ne(True)
        quotient = add(quotient, (word(enough), a[0].const_like(0)))
        rest = choose(enough, subtract(rest, b), rest)
    return quotient, rest


def divide(a: Pair, b: Pair, signed: bool) -> tuple[Pair, Pair]:
    """(a // b, a % b) with the quotient rounded down; the least number // -1 is itself."""
    if not signed:
        return divide_unsigned(a, b)
    quotient, rest = divide_unsigned(magnitude(a), magnitude(b))
    differ = is_negative(a).ne(is_negative(b))
    rest = choose(is_negative(a), negate(rest), rest)
    uneven = differ & (rest[0] | rest[1]).ne(0)
    quotient = choose(differ, negate(quotient), quotient)
    quotient = subtract(quotient, (word(uneven), a[0].const_like(0)))
    return quotient, choose(uneven, add(rest, b), rest)
