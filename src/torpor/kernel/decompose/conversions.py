"""Conversions of floats to integers and bool, and shifts, where targets differ from the IR."""

from __future__ import annotations

from typing import Final

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, PatternMatcher, UOp, UPat
from torpor.ir.ops import INSIDE
from torpor.kernel.decompose.words import clamp, vector_of

_WIDE_FLOATS: Final = (dtypes.float32, dtypes.float64)
_INTEGERS: Final = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
)  # fmt: skip


def saturate(node: UOp, x: UOp) -> UOp | None:
    """cast(x) = cast(min(max(x, least), most)), 0 at NaN

    Where the float has no `most`, what is beyond the number before it is chosen after. A format of
    part of a word is reached by way of int32, as vectors of floats are at once.
    """
    integer, kind = node.dtype.scalar(), x.dtype.scalar().numpy.type
    if node.arg == INSIDE:
        return None
    most = kind(integer.max)
    below = most if int(most) == integer.max else np.nextafter(most, kind(0))
    known = clamp(x.eq(x).where(x, 0.0), float(integer.min), float(below))
    word = dtypes.int32 if integer.bits < 32 else integer
    made = UOp(Ops.CAST, word.vec(x.dtype.count), (known,), INSIDE).cast(node.dtype)
    return made if below == most else (x > float(below)).where(integer.max, made)


def cast_to_bool(node: UOp, x: UOp) -> UOp | None:
    """bool(x) = (x != 0); NaN is true"""
    return x.ne(0) if node.arg != INSIDE else None


def truth_of(x: UOp) -> UOp:
    """The bools that bytes of 0 and 1 are."""
    return UOp(Ops.CAST, vector_of(dtypes.bool, x), (x,), INSIDE)


def memory_of_bytes(node: UOp) -> UOp:
    """`memory of bools = memory of bytes`"""
    return node.replace(dtype=dtypes.uint8)


def load_byte(node: UOp) -> UOp:
    """load(p) = bool(load of bytes)"""
    return truth_of(node.replace(dtype=vector_of(dtypes.uint8, node)))


def store_byte(node: UOp, value: UOp) -> UOp:
    """store(p, x) = store(p, uint8(x)), which is the byte that x is of, if any"""
    whole = value.op is Ops.CAST and value.arg == INSIDE
    byte = value.src[0] if whole else value.cast(vector_of(dtypes.uint8, value))
    return node.replace(src=(node.src[0], byte, *node.src[2:]))


def lanes_of_bytes(node: UOp) -> UOp | None:
    """`vector of bool(a), bool(b), ... = bool(vector of a, b, ...)`; likewise for lanes of one"""
    if any(s.op is not Ops.CAST or s.arg != INSIDE for s in node.src):
        return None
    made = node.replace(dtype=vector_of(dtypes.uint8, node), src=tuple(s.src[0] for s in node.src))
    return truth_of(made)


def _in_range(count: UOp, bits: int) -> bool:
    if count.vmin >= 0 and count.vmax < bits:
        return True
    return count.op is Ops.AND and any(s is count.const_like(bits - 1) for s in count.src)


def shift_left(x: UOp, n: UOp) -> UOp | None:
    """`x << n = 0` where n >= width"""
    bits = x.dtype.bits
    if _in_range(n, bits):
        return None
    return (n < bits).where(x << (n & (bits - 1)), 0)


def shift_right(x: UOp, n: UOp) -> UOp | None:
    """`x >> n = x >> (width - 1)` where n >= width, and 0 for unsigned x"""
    bits = x.dtype.bits
    if _in_range(n, bits):
        return None
    beyond = x >> (bits - 1) if x.dtype.kind == "int" else x.const_like(0)
    return (n < bits).where(x >> (n & (bits - 1)), beyond)


def _binary(op: Ops) -> UPat:
    return UPat(op, _INTEGERS, (UPat.var("x"), UPat.var("n")))


SHIFT_RULES: Final = PatternMatcher([
    (_binary(Ops.SHL), shift_left),
    (_binary(Ops.SHR), shift_right),
])  # fmt: skip


def float_of_bits(node: UOp, x: UOp) -> UOp:
    """float(x & y) = float(int32(x) & int32(y)) for unsigned x of 8 or 16 bits; likewise | ^ >>

    A byte that becomes a float passes through 32 bits in any case: once, if several floats are cut
    from the same bytes, as from two codes of 4 bits.
    """
    return widened(x).cast(node.dtype)


def widened(x: UOp) -> UOp:
    """The same number as int32."""
    wide = dtypes.int32.vec(x.dtype.count)
    if x.op is Ops.AND and covers(x.src[1], x.src[0]):
        return widened(x.src[0])
    if x.op in (Ops.AND, Ops.OR, Ops.XOR):
        return UOp(x.op, wide, tuple(widened(s) for s in x.src))
    if x.op is Ops.SHR and _in_range(x.src[1], x.dtype.bits):
        count, value = x.src[1], widened(x.src[0])
        same = count.vmin == count.vmax  # an immediate operand, wherever the constant stands
        return value >> (value.const_like(count.vmin) if same else count.cast(wide))
    return x.cast(wide)


def covers(mask: UOp, x: UOp) -> bool:
    """Whether x & mask = x: a constant 2**k - 1 that x is not beyond."""
    most = mask.vmax
    whole = mask.vmin == most and most & (most + 1) == 0
    return bool(whole and x.vmin >= 0 and x.vmax <= most)


_NUMBERS: Final = (*_INTEGERS, *_WIDE_FLOATS)
BOOL_RULES: Final = PatternMatcher([
    (UPat(Ops.CAST, dtypes.bool, (UPat.var("x", _NUMBERS),), name="node"), cast_to_bool),
])  # fmt: skip
_MEMORY: Final = (Ops.PARAM, Ops.DEFINE_LOCAL, Ops.INDEX)
_STORED: Final = (UPat(), UPat.var("value", dtypes.bool))
BYTE_RULES: Final = PatternMatcher([
    (UPat(_MEMORY, dtypes.bool, name="node"), memory_of_bytes),
    (UPat(Ops.LOAD, dtypes.bool, name="node"), load_byte),
    (UPat(Ops.STORE, None, _STORED, name="node", more=True), store_byte),
    (UPat((Ops.VECTORIZE, Ops.GEP), dtypes.bool, name="node"), lanes_of_bytes),
])  # fmt: skip
_BITS: Final = UPat((Ops.AND, Ops.OR, Ops.XOR, Ops.SHR), (dtypes.uint8, dtypes.uint16), name="x")
BITS_RULES: Final = PatternMatcher([
    (UPat(Ops.CAST, (dtypes.float32, dtypes.float64), (_BITS,), name="node"), float_of_bits),
])  # fmt: skip
SATURATION_RULES: Final = PatternMatcher([
    (UPat(Ops.CAST, _INTEGERS, (UPat.var("x", _WIDE_FLOATS),), name="node"), saturate),
])  # fmt: skip

__all__ = ["BITS_RULES", "BOOL_RULES", "BYTE_RULES", "SATURATION_RULES", "SHIFT_RULES"]
