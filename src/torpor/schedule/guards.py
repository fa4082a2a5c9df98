"""Checks fail only where their value is wanted: each CHECK's condition is weakened by what stands
between it and the results (branches of WHERE, conditions of loads and stores).

before  where(c, CHECK(x, ok), 0)
after   where(c, CHECK(x, not c or ok), 0)
"""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

ALWAYS = UOp.const(dtypes.bool, True)


def wanted_where(node: UOp, guard: UOp) -> list[tuple[UOp, UOp]]:
    """The operands of a node, each with where it is wanted if the node is wanted where `guard`."""
    if node.op is Ops.WHERE:
        condition, yes, no = node.src
        return [(condition, guard), (yes, both(guard, condition)), (no, both(guard, ~condition))]
    if node.op is Ops.INDEX and len(node.src) > 2:
        memory, position, condition = node.src
        return [(memory, guard), (position, both(guard, condition)), (condition, guard)]
    if node.op is Ops.STORE and len(node.src[0].src) > 2:
        here = both(guard, node.src[0].src[2])
        return [(node.src[0], guard), (node.src[1], here), *((s, guard) for s in node.src[2:])]
    return [(source, guard) for source in node.src]


def both(guard: UOp, condition: UOp) -> UOp:
    """Conjunction, without what always holds."""
    return condition if guard is ALWAYS else guard & condition


def either(first: UOp | None, second: UOp) -> UOp:
    """Disjunction; ALWAYS swallows the rest."""
    if first is None or first is second:
        return second
    if first is ALWAYS or second is ALWAYS:
        return ALWAYS
    return first | second


def guard_checks(root: UOp) -> UOp:
    """The kernel with every CHECK asked only where its value is wanted."""
    order = list(root.toposort())
    checked = {node for node in order if node.op is Ops.CHECK}
    if not checked:
        return root
    leads: set[UOp] = set()
    for node in order:
        if node in checked or any(s in leads for s in node.src):
            leads.add(node)
    guards: dict[UOp, UOp] = {root: ALWAYS}
    for node in reversed(order):
        if node in leads:
            for source, wanted in wanted_where(node, guards[node]):
                if source in leads:
                    guards[source] = either(guards.get(source), wanted)
    done: dict[UOp, UOp] = {}
    for node in order:
        operands = tuple(done[s] for s in node.src)
        made = node if operands == node.src else node.replace(src=operands)
        if node in checked and guards[node] is not ALWAYS:
            guard = guards[node].substitute(done)
            made = made.replace(src=(made.src[0], ~guard | made.src[1]))
        done[node] = made
    return done[root]
