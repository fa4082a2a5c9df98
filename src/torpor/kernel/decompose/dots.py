"""DOTs in targets and widths that have no instruction for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

from torpor.base.dtypes import dtypes
from torpor.base.target import WORD, Target
from torpor.ir import Ops, PatternMatcher, UOp, UPat
from torpor.kernel.decompose.words import vector_of

BITS = WORD * 8
ITEMSIZES = {"int8": 1, "uint8": 1, "int16": 2, "bfloat16": 2}


def part(x: UOp, number: int, name: str) -> UOp:
    """Part `number` of a word: (x << above) >> (above + below), or the bits of a float32."""
    bits = 8 * ITEMSIZES[name]
    above = BITS - bits * (number + 1)
    top = x << x.const_like(above) if above else x
    if name == "bfloat16":
        high = x & x.const_like(-(1 << bits)) if number else top
        return high.bitcast(vector_of(dtypes.float32, x))
    if name == "uint8":
        return (x >> x.const_like(bits * number) if number else x) & x.const_like(255)
    return top >> x.const_like(BITS - bits)


def write_out(node: UOp) -> UOp:
    """dot(x, y, s) = s + x0*y0 + x1*y1 + ..."""
    (x, y, *total), (left, right) = node.src, node.arg
    count = WORD // ITEMSIZES[left]
    return reduce(add, [*total, *(part(x, n, left) * part(y, n, right) for n in range(count))])


def dot_rules(target: Target) -> PatternMatcher:
    """What a target has no instruction for, written out."""

    def missing(node: UOp) -> UOp | None:
        return None if target.has_dot(node.arg, node.dtype.count) else write_out(node)

    rule: Callable[..., UOp | None] = missing
    return PatternMatcher([(UPat(Ops.DOT, name="node"), rule)])
