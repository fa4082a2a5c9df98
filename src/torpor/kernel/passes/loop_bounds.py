"""Loops of reductions that end where a condition does, in the place of asking in each round.

before  sum(r < 8, x[8*b + r] * y[8*b + r] where 8*b + r < 129)
after   sum(r < min(8, 129 - 8*b), x[8*b + r] * y[8*b + r])

So an axis that is cut in blocks, and padded to whole ones, costs nothing but its own rounds.
"""

from __future__ import annotations

from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.uop import UOp
from torpor.kernel.access import is_gated, unasked
from torpor.kernel.ranges import (
    WRITTEN,
    Loops,
    closed_by,
    find_loops,
    kind_of,
    map_nodes,
    replace_range,
    size_of,
    values_of,
)
from torpor.rules import conjuncts


def tighten_bounds(root: UOp) -> UOp:
    """The kernel with loops of reductions shortened where that is known to change nothing."""
    loops = find_loops(root)
    closing: dict[UOp, list[UOp]] = {}
    for node in loops.order:
        for one in closed_by(node):
            closing.setdefault(one, []).append(node)
    for one, nodes in closing.items():
        condition = common_end(one, nodes) if kind_of(one) is AxisType.REDUCE else None
        if condition is not None and is_outside(condition, one, loops):
            end = condition.src[1] - condition.src[0].substitute({one: one.const_like(0)})
            shorter = one.replace(src=(one.src[0].minimum(end).simplify(),))
            held = root.substitute({condition: condition.const_like(True)}).simplify()
            return tighten_bounds(replace_range(map_nodes(held, unasked), one, shorter, [shorter]))
    return root


def is_outside(condition: UOp, one: UOp, loops: Loops) -> bool:
    """Whether what a condition depends on besides a loop is loops around it."""
    others = loops.free[condition] - {one}
    return others <= loops.around[one] and all(kind_of(r) not in WRITTEN for r in others)


def common_end(one: UOp, nodes: list[UOp]) -> UOp | None:
    """The condition `one + rest < end`, true in the first round, without which none of the
    reductions that run over a loop changes.
    """
    if size_of(one) is None or any(n.op is not Ops.REDUCE or len(values_of(n)) > 1 for n in nodes):
        return None
    for condition in conditions_of(nodes[0].src[0]):
        if ends(condition, one) and all(is_neutral(n, condition) for n in nodes):
            return condition
    return None


def conditions_of(value: UOp) -> list[UOp]:
    """What a value asks itself, or of the places that its factors are loaded from."""
    if value.op is Ops.WHERE:
        return list(conjuncts(value.src[0]))
    factors = value.src if value.op is Ops.MUL else (value,)
    places = [factor.src[0] for factor in factors if factor.op is Ops.LOAD]
    return [c for place in places if len(place.src) > 2 for c in conjuncts(place.src[2])]


def ends(condition: UOp, one: UOp) -> bool:
    """Whether a condition is `one + rest < end`, and true in the first round."""
    if condition.op is not Ops.CMPLT or condition.src[1].op is not Ops.CONST:
        return False
    terms, end = condition.src
    first = terms.substitute({one: one.const_like(0)}).simplify()
    linear = (terms - first).simplify() is one
    return linear and first.vmax < end.arg


def is_neutral(reduction: UOp, condition: UOp) -> bool:
    """Whether what is combined changes nothing where the condition does not hold: it is the
    identity; or a product of two that are 0, since of one an infinite other makes NaN.
    """
    value, neutral = reduction.src[0], identity(reduction.arg, reduction.dtype)
    if value.op is Ops.WHERE and value.src[2] is UOp.const(reduction.dtype, neutral):
        return condition in conjuncts(value.src[0])
    factors = value.src if value.op is Ops.MUL else (value,)
    return reduction.arg is Ops.ADD and all(is_gated(s, condition) for s in factors)
