"""Small floats on targets that lack them: arithmetic in float32, memory as integers.

before  store(p, load(q) * c)                                       of bfloat16
after   store(p, encode(decode(load(q)) * c))                       of words, a float32 between

A value of such a format is always rounded: each operation is done in float32 and its result
rounded to the format. That is the correctly rounded result for + - * / and sqrt, since float32 has
more than twice the bits (S. Figueroa, "When is double rounding innocuous?", 1995). What is only
moved keeps its bits. A word is the unsigned integer of as many bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import Final

from torpor.base.dtypes import DType, dtypes, from_name
from torpor.ir import Ops, UOp
from torpor.kernel.decompose.rounding import (
    decode,
    encode,
    round_in_single,
    single_to_odd,
    with_sticky_bits,
)
from torpor.kernel.decompose.words import vector_of

_EXACT_IN_SINGLE: Final = 24  # bits of an integer that float32 holds
_MEMORY: Final = (Ops.PARAM, Ops.DEFINE_LOCAL, Ops.INDEX)


class Small:
    """A value of a small format, as float32 or as a word: each is made when it is asked for."""

    def __init__(self, single: Callable[[], UOp], bits: Callable[[], UOp]):
        self._single, self._bits = single, bits

    @cached_property
    def single(self) -> UOp:
        """The value as float32."""
        return self._single()

    @cached_property
    def bits(self) -> UOp:
        """The value as a word."""
        return self._bits()


def word_of(dtype: DType) -> DType:
    """The unsigned integer of as many bits, and lanes."""
    return from_name(f"uint{dtype.bits}").vec(dtype.count)


def compute_in_single(node: UOp) -> UOp:
    """f(x) = small(f(float32(x)))"""
    single = vector_of(dtypes.float32, node)
    source = tuple(s.cast(single) if s.dtype is node.dtype else s for s in node.src)
    return UOp(node.op, single, source, node.arg).cast(node.dtype)


def rounds_alike(x: UOp) -> UOp:
    """A number as a float32 that is rounded to a small format as it is itself: of float64 by its
    last bit, which says that more would follow, of long integers by collecting their lowest bits.
    """
    kind, single = x.dtype.scalar(), vector_of(dtypes.float32, x)
    bits = kind.bits - (kind.kind == "int") if kind.is_int else 0
    if bits > dtypes.int32.bits:
        x = with_sticky_bits(x, 11, 53).cast(vector_of(dtypes.float64, x))
    elif bits > _EXACT_IN_SINGLE:
        x = with_sticky_bits(x, 8, _EXACT_IN_SINGLE)
    return single_to_odd(x) if x.dtype.scalar() is dtypes.float64 else x.cast(single)


def in_single(root: UOp, small: Collection[DType], native: Collection[DType]) -> UOp:
    """The kernel without the formats `small`, but in conversions of those that are `native`."""
    done: dict[UOp, UOp | Small] = {}
    for node in root.toposort():
        source, form = [done[s] for s in node.src], node.dtype.scalar()
        if form not in small:
            done[node] = used(node, source)
        elif node.op in _MEMORY:
            done[node] = node.replace(dtype=word_of(node.dtype), src=tuple(map(number, source)))
        else:
            done[node] = made(node, source, form in native)
    return number(done[root])


def number(value: UOp | Small) -> UOp:
    """A value to compute with."""
    return value.single if isinstance(value, Small) else value


def word(value: UOp | Small) -> UOp:
    """A value to store, or to see in other bits."""
    return value.bits if isinstance(value, Small) else value


def used(node: UOp, source: Sequence[UOp | Small]) -> UOp:
    """A node of another format, whose operands may be small."""
    if not any(isinstance(s, Small) for s in source):
        return node.over(tuple(map(number, source)))
    if node.op is Ops.CAST:
        return number(source[0]).cast(node.dtype)
    if node.op is Ops.BITCAST:
        return word(source[0]).bitcast(node.dtype)
    return node.over(tuple(map(word if node.op is Ops.STORE else number, source)))


def made(node: UOp, source: Sequence[UOp | Small], converts: bool) -> Small:
    """A small value; `converts`: the target has instructions for its format."""
    dtype, word_type, wide = node.dtype, word_of(node.dtype), vector_of(dtypes.float32, node)
    if node.op is Ops.CONST:
        pattern = int(dtype.array(float(node.arg)).view(word_type.numpy))
        return Small(partial(UOp.const, wide, node.arg), partial(UOp.const, word_type, pattern))
    if node.op in (Ops.VECTORIZE, Ops.GEP):
        return Small(
            partial(of_each, node, wide, number, source),
            partial(of_each, node, word_type, word, source),
        )
    if node.op in (Ops.LOAD, Ops.BITCAST):
        known = of_each(node, word_type, word, source)
        known = known if node.op is Ops.LOAD else known.src[0].bitcast(word_type)
        return Small(partial(decoded, known, dtype, converts), lambda: known)
    if node.op is Ops.CAST:
        exact = rounds_alike(number(source[0]))
    else:
        exact = of_each(node, wide, number, source)
    return Small(partial(rounded, exact, dtype, converts), partial(encoded, exact, dtype, converts))


def of_each(
    node: UOp, dtype: DType, way: Callable[[UOp | Small], UOp], source: Sequence[UOp | Small]
) -> UOp:
    """The operation on its operands, seen in some way."""
    return node.replace(dtype=dtype, src=tuple(map(way, source)))


def decoded(bits: UOp, dtype: DType, converts: bool) -> UOp:
    """The float32 that a word stands for."""
    single = vector_of(dtypes.float32, bits)
    return bits.bitcast(dtype).cast(single) if converts else decode(bits, dtype.scalar())


def rounded(x: UOp, dtype: DType, converts: bool) -> UOp:
    """float32 x rounded to a small format."""
    return x.cast(dtype).cast(x.dtype) if converts else round_in_single(x, dtype.scalar())


def encoded(x: UOp, dtype: DType, converts: bool) -> UOp:
    """The word of float32 x rounded to a small format."""
    return x.cast(dtype).bitcast(word_of(dtype)) if converts else encode(x, dtype.scalar())


__all__ = ["compute_in_single", "in_single"]
