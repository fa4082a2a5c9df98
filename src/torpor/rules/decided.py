"""Accesses whose condition is a constant, and reductions of values that change nothing.

Copies that are written out, and lanes of vectors, decide conditions that depended on them: the
border of a window or of an image.
"""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import Ops, identity
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by
from torpor.rules.exact import constant_of


def is_never(access: UOp) -> bool:
    """Whether a LOAD or STORE has a condition that has become the constant False."""
    place = access.src[0]
    return place.op is Ops.INDEX and len(place.src) > 2 and constant_of(place.src[2]) is False


def always_there(node: UOp) -> UOp | None:
    """`x[i] if true -> x[i]`."""
    asked = len(node.src) > 2 and constant_of(node.src[2])
    return node.replace(src=node.src[:2]) if asked else None


def never_loaded(node: UOp) -> UOp | None:
    """`load(x[i] if false) -> 0`."""
    return node.const_like(0) if is_never(node) else None


def never_stored(node: UOp) -> UOp | None:
    """`sink(a, store(x[i] if false, y)) -> sink(a)`, unless nothing would be left."""
    kept = tuple([s for s in node.src if s.op is not Ops.STORE or not is_never(s)])
    return node.replace(src=kept) if 0 < len(kept) < len(node.src) else None


def reduce_neutral(node: UOp) -> UOp | None:
    """`reduce(x, neutral, r) -> reduce(x, r)`, and max(c, r) -> c, of loops that surely run."""
    closed = closed_by(node)
    if any(int(r.src[0].vmin) < 1 for r in closed):
        return None
    neutral = UOp.const(node.dtype, identity(node.arg, node.dtype.scalar()))
    values = node.src[: len(node.src) - len(closed)]
    left = tuple([s for s in values if s is not neutral])
    if not left or (node.arg in (Ops.MAX, Ops.MIN) and left[0].op is Ops.CONST and not left[1:]):
        return left[0] if left else neutral
    return node.replace(src=(*left, *closed)) if len(left) < len(values) else None


decided_rules: Final = PatternMatcher([
    (UPat(Ops.INDEX, name="node"), always_there),
    (UPat(Ops.LOAD, name="node"), never_loaded),
    (UPat((Ops.SINK, Ops.BARRIER), name="node"), never_stored),
    (UPat(Ops.REDUCE, name="node"), reduce_neutral),
])  # fmt: skip
