"""Checks fail only where their value is wanted: each CHECK's condition is weakened by what stands
between it and the results (branches of WHERE, conditions of loads and stores).

before  where(c, CHECK(x, ok), 0)
after   where(c, CHECK(x, not c or ok), 0)

A condition on the counter of a loop says nothing where the check is wanted outside of that loop,
too: it is then left out, and the check is asked more often.
"""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by, free_ranges
from torpor.schedule.region import Ranges

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


def scopes(order: list[UOp]) -> dict[UOp, Ranges]:
    """For each node, operands first, the loops that all of its uses are in."""
    found: dict[UOp, Ranges] = {order[-1]: frozenset()}
    for node in reversed(order):
        inside = found[node].union(closed_by(node))
        for source in node.src:
            known = found.get(source)
            found[source] = inside if known is None else known & inside
    return found


def within(guard: UOp, scope: Ranges) -> UOp:
    """The guard without those of its conditions that depend on a loop not in `scope`."""
    if free_ranges(guard) <= scope:
        return guard
    made, stack = ALWAYS, [guard]
    while stack:
        condition = stack.pop()
        if condition.op is Ops.AND:
            stack.extend(reversed(condition.src))
        elif free_ranges(condition) <= scope:
            made = both(made, condition)
    return made


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
    scope = scopes(order)
    for node in reversed(order):
        if node in leads:
            for source, wanted in wanted_where(node, guards[node]):
                if source in leads:
                    here = within(wanted, scope[source])
                    guards[source] = either(guards.get(source), here)
    done: dict[UOp, UOp] = {}
    for node in order:
        operands = tuple([done[s] for s in node.src])
        made = node.over(operands)
        if node in checked and guards[node] is not ALWAYS:
            guard = guards[node].substitute(done)
            made = made.replace(src=(made.src[0], ~guard | made.src[1]))
        done[node] = made
    return done[root]
