"""Accesses whose condition has been decided: what is always there is not asked for, and what never
is reads as 0.

before  load(x[i] if True) + load(x[j] if False)
after   load(x[i]) + 0.0

Copies that are written out, and lanes of vectors, decide conditions that depended on them: the
border of a window or of an image.
"""

from __future__ import annotations

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import map_nodes
from torpor.rules.exact import constant_of


def settle_accesses(root: UOp) -> UOp:
    """The kernel without conditions that are constants."""
    places = (node for node in root.toposort() if node.op is Ops.INDEX)
    return map_nodes(root, settled) if any(decision(one) is not None for one in places) else root


def decision(place: UOp) -> bool | None:
    """Whether an INDEX is always there, or never; None where a condition says so later."""
    if len(place.src) < 3:
        return None
    found = constant_of(place.src[2])
    return None if found is None else bool(found)


def settled(node: UOp) -> UOp:
    """`load(x[i] if False) -> 0`, x[i] if True -> x[i], and no stores that never are."""
    if node.op is Ops.INDEX and decision(node):
        return node.over(node.src[:2])
    if node.op is Ops.LOAD and is_never(node):
        return node.const_like(0)
    if node.op in (Ops.SINK, Ops.BARRIER):
        kept = tuple([s for s in node.src if not (s.op is Ops.STORE and is_never(s))])
        return node.over(kept or node.src)
    return node


def is_never(access: UOp) -> bool:
    """Whether a LOAD or STORE has a condition that has become the constant False."""
    place = access.src[0]
    return place.op is Ops.INDEX and decision(place) is False
