"""Small floats on targets that lack them: arithmetic in float32, memory as integers.

A value of such a format is always rounded: each operation is done in float32 and its result
rounded to the format. That is the correctly rounded result for + - * / and sqrt, since float32 has
more than twice the bits (S. Figueroa, "When is double rounding innocuous?", 1995).

In the end no node has the format: `CAST(float32 -> small)` and `BITCAST(word -> small)` are the
only ones that make such a value, `CAST(small -> float32)` and `BITCAST(small -> word)` the only
ones that use it, and every pair of one of each is an expression of float32 and integers. A word is
the unsigned integer of as many bits.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes, from_name
from torpor.ir import Ops, PatternMatcher, UOp, UPat
from torpor.ir.ops import ALU, COMPARE
from torpor.kernel.decompose.rounding import (
    decode,
    encode,
    round_in_single,
    single_to_odd,
    with_sticky_bits,
)
from torpor.kernel.decompose.words import vector_of

_EXACT_IN_SINGLE: Final = 24  # bits of an integer that float32 holds


def _single(node: UOp) -> DType:
    return vector_of(dtypes.float32, node)


def _word(node: UOp) -> DType:
    return vector_of(from_name(f"uint{node.dtype.bits}"), node)


def compute_in_single(node: UOp) -> UOp:
    """f(x) = small(f(float32(x)))"""
    source = tuple(
        s.cast(_single(s)) if s.dtype.scalar() is node.dtype.scalar() else s for s in node.src
    )
    return UOp(node.op, _single(node), source, node.arg).cast(node.dtype)


def compare_in_single(node: UOp) -> UOp:
    """`x < y = (float32(x) < float32(y))`"""
    return node.replace(src=tuple(s.cast(_single(s)) for s in node.src))


def cast_through_single(node: UOp, x: UOp) -> UOp | None:
    """T(x) = T(float32(x)) for small x"""
    if node.dtype.scalar() is dtypes.float32 or x.dtype.scalar() is node.dtype.scalar():
        return None
    return x.cast(_single(x)).cast(node.dtype)


def cast_from_double(node: UOp, x: UOp) -> UOp:
    """small(x) = small(odd(x)), where odd(x) is x as float32 with its last bit set if inexact"""
    return single_to_odd(x).cast(node.dtype)


def cast_from_integer(node: UOp, x: UOp) -> UOp:
    """small(n) = small(float32(n)), its lowest bits first collected where float32 is too short"""
    bits = x.dtype.bits - (x.dtype.kind == "int")
    if bits <= _EXACT_IN_SINGLE or x.dtype.kind == "bool":
        return x.cast(_single(x)).cast(node.dtype)
    if bits <= 32:
        return with_sticky_bits(x, 8, _EXACT_IN_SINGLE).cast(_single(x)).cast(node.dtype)
    double = vector_of(dtypes.float64, x)
    return with_sticky_bits(x, 11, 53).cast(double).cast(node.dtype)


def cast_from_small(node: UOp, x: UOp) -> UOp:
    """bfloat16(x) = bfloat16(float32(x)) for a float16 that the target has, and the reverse"""
    return x.cast(_single(x)).cast(node.dtype)


def cast_of_cast(node: UOp, x: UOp) -> UOp:
    """float32(small(x)) = x rounded to the bits of `small`"""
    return round_in_single(x.src[0], x.dtype.scalar())


def cast_of_bits(node: UOp, x: UOp) -> UOp:
    """float32(bits of a small number)"""
    return decode(x.src[0], x.dtype.scalar())


def bits_of_cast(node: UOp, x: UOp) -> UOp | None:
    """bits(small(x)) = x rounded, packed"""
    source = x.src[0]
    return encode(source, x.dtype.scalar()) if source.dtype.scalar() is dtypes.float32 else None


def bits_of_bits(node: UOp, x: UOp) -> UOp:
    """bits(small of bits u) = u"""
    return x.src[0].bitcast(node.dtype)


def use_of_constant(node: UOp, x: UOp) -> UOp:
    """T(c) and bits(c) of a constant"""
    if node.op is Ops.CAST:
        return UOp.const(node.dtype, x.arg)
    word = _word(x)
    pattern = x.dtype.scalar().array(float(x.arg)).view(word.numpy)
    return UOp.const(word, int(pattern)).bitcast(node.dtype)


def use_of_lanes(node: UOp, x: UOp) -> UOp:
    """T(vector of a, b, ...) = vector of T(a), T(b), ...; likewise for lanes taken from one"""
    scalar = node.dtype.scalar()
    source = tuple(UOp(node.op, scalar.vec(s.dtype.count), (s,)) for s in x.src)
    return UOp(x.op, node.dtype, source, x.arg)


def bits_of_other_format(node: UOp, x: UOp) -> UOp | None:
    """T(bits of small x) = T(word(x))"""
    if node.dtype.scalar() is _word(x).scalar():
        return None
    return x.bitcast(_word(x)).bitcast(node.dtype)


def small_of_other_bits(node: UOp, x: UOp) -> UOp | None:
    """small(bits of x) = small(word(x))"""
    if x.dtype.scalar() is _word(x).scalar():
        return None
    return x.bitcast(_word(x)).bitcast(node.dtype)


def memory_as_bits(node: UOp) -> UOp:
    """`memory of small numbers = memory of words`"""
    return node.replace(dtype=_word(node))


def load_bits(node: UOp) -> UOp | None:
    """load(p) = small(load of words)"""
    if node.src[0].op is not Ops.INDEX:
        return None
    return node.replace(dtype=_word(node)).bitcast(node.dtype)


def store_bits(node: UOp, value: UOp) -> UOp:
    """store(p, x) = store(p, bits(x))"""
    return node.replace(src=(node.src[0], value.bitcast(_word(value)), *node.src[2:]))


@cache
def small_float_rules(small: tuple[DType, ...], native: tuple[DType, ...] = ()) -> PatternMatcher:
    """Memory of the formats `small` becomes memory of words, with BITCASTs at loads and stores, and
    arithmetic on them float32 arithmetic with rounding; conversions of the formats `native` stay,
    since the target has instructions for them.
    """
    memory = UPat((Ops.PARAM, Ops.DEFINE_LOCAL, Ops.INDEX), small, name="node")
    stored = UPat(Ops.INDEX), UPat.var("value", small)
    soft = tuple(d for d in small if d not in native) or (dtypes.void,)
    value = UPat.var("x", small)
    wide = UPat.var("x", dtypes.float64)
    other = UPat.var("x", [d for d in SMALL_FLOATS if d not in small] or [dtypes.void])
    integers = tuple(
        d for d in vars(dtypes).values() if isinstance(d, DType) and (d.is_int or d.kind == "bool")
    )
    computed = (ALU - COMPARE - {Ops.CAST, Ops.BITCAST}) | {Ops.CHECK, Ops.REDUCE, Ops.SCAN}

    def use(
        op: Ops,
        made_by: Ops | tuple[Ops, ...],
        format: DType | tuple[DType, ...] | None = None,
        of: tuple[DType, ...] = small,
    ) -> UPat:
        return UPat(op, format, (UPat(made_by, of, name="x"),), name="node")

    single, word = dtypes.float32, (dtypes.uint8, dtypes.uint16)
    uses = (Ops.CAST, Ops.BITCAST)
    either: dict[Ops, DType | tuple[DType, ...]] = {Ops.CAST: single, Ops.BITCAST: word}
    return PatternMatcher([
        (memory, memory_as_bits),
        (UPat(Ops.LOAD, small, name="node"), load_bits),
        (UPat(Ops.STORE, None, stored, name="node", more=True), store_bits),
        (UPat(computed, small, name="node"), compute_in_single),
        (UPat(COMPARE, None, UPat(None, small), name="node"), compare_in_single),
        (UPat(Ops.CAST, small, (wide,), name="node"), cast_from_double),
        (UPat(Ops.CAST, small, (UPat.var("x", integers),), name="node"), cast_from_integer),
        (UPat(Ops.CAST, small, (other,), name="node"), cast_from_small),
        (UPat(Ops.CAST, None, (value,), name="node"), cast_through_single),
        (UPat(Ops.BITCAST, None, (value,), name="node"), bits_of_other_format),
        (UPat(Ops.BITCAST, small, (UPat.var("x"),), name="node"), small_of_other_bits),
        (use(Ops.CAST, Ops.CAST, single, soft), cast_of_cast),
        (use(Ops.CAST, Ops.BITCAST, single, soft), cast_of_bits),
        (use(Ops.BITCAST, Ops.CAST, word, soft), bits_of_cast),
        (use(Ops.BITCAST, Ops.BITCAST, word), bits_of_bits),
        *((use(op, Ops.CONST, either[op]), use_of_constant) for op in uses),
        *((use(op, (Ops.VECTORIZE, Ops.GEP), either[op]), use_of_lanes) for op in uses),
    ])  # fmt: skip
