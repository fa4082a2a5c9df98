"""Checks fail only where their value is wanted: each CHECK's condition is weakened by what stands
between it and the results (branches of WHERE, conditions of loads and stores).

before  where(c, CHECK(x, ok), 0)
after   where(c, CHECK(x, not c or ok), 0)

A condition on the counter of a loop says nothing where the check is wanted outside of that loop,
too: it is then left out, and the check is asked more often.
"""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by, free_ranges
from torpor.rules.logic import joined, operands_of
from torpor.schedule.region import Ranges

Literal = tuple[UOp, bool]  # a condition, and whether it holds
Guard = tuple[tuple[Literal, ...], ...]  # some of these conjunctions hold
ALWAYS: Final[Guard] = ((),)
LARGEST: Final = 16  # conjunctions, each of which is compared with all others


def wanted_where(node: UOp, guard: Guard) -> list[tuple[UOp, Guard]]:
    """The operands of a node, each with where it is wanted if the node is wanted where `guard`."""
    if node.op is Ops.WHERE:
        condition, yes, no = node.src
        return [
            (condition, guard),
            (yes, both(guard, condition, True)),
            (no, both(guard, condition, False)),
        ]
    if node.op is Ops.INDEX and len(node.src) > 2:
        memory, position, condition = node.src
        return [(memory, guard), (position, both(guard, condition, True)), (condition, guard)]
    if node.op is Ops.STORE and len(node.src[0].src) > 2:
        here = both(guard, node.src[0].src[2], True)
        return [(node.src[0], guard), (node.src[1], here), *((s, guard) for s in node.src[2:])]
    return [(source, guard) for source in node.src]


def both(guard: Guard, condition: UOp, holds: bool) -> Guard:
    """Where a condition holds (or does not), too."""
    parts = operands_of(condition, Ops.AND) if holds else [condition]
    added, found = [(one, holds) for one in parts], list[tuple[Literal, ...]]()
    for conjunction in guard:
        if not any((one, not so) in conjunction for one, so in added):
            found.append((*conjunction, *(one for one in added if one not in conjunction)))
    return tuple(found)


def either(first: Guard, second: Guard) -> Guard:
    """Where one of two holds, shortly: `a or (a and b) -> a`, (a and b) or (a and not b) -> a."""
    found = list(first)
    new = list(second)
    while new:
        one = new.pop(0)
        literals_of_one = set(one)
        if any(literals_of_one.issuperset(other) for other in found):
            continue
        found = [other for other in found if not literals_of_one.issubset(other)]
        for other in found:
            apart = literals_of_one.symmetric_difference(other)
            if len(apart) == 2 and len({condition for condition, _ in apart}) == 1:
                found.remove(other)
                new.append(tuple(literal for literal in one if literal not in apart))
                break
        else:
            found.append(one)
    if len(found) > LARGEST:
        return (((as_condition(tuple(found)), True),),)
    return tuple(found)


def as_condition(guard: Guard) -> UOp:
    """The bool node of a guard."""
    parts = [[one if holds else ~one for one, holds in conjunction] for conjunction in guard]
    return joined(Ops.OR, [joined(Ops.AND, one) for one in parts])


def scopes(order: list[UOp]) -> dict[UOp, Ranges]:
    """For each node, operands first, the loops that all of its uses are in."""
    found: dict[UOp, Ranges] = {order[-1]: frozenset()}
    for node in reversed(order):
        inside = found[node].union(closed_by(node))
        for source in node.src:
            known = found.get(source)
            found[source] = inside if known is None else known & inside
    return found


def within(guard: Guard, scope: Ranges) -> Guard:
    """The guard without those of its conditions that depend on a loop not in `scope`."""
    kept = [
        tuple(one for one in conjunction if free_ranges(one[0]) <= scope) for conjunction in guard
    ]
    return either((), tuple(kept))


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
    guards: dict[UOp, Guard] = {root: ALWAYS}
    scope = scopes(order)
    for node in reversed(order):
        if node in leads:
            for source, wanted in wanted_where(node, guards[node]):
                if source in leads:
                    here = within(wanted, scope[source])
                    guards[source] = either(guards.get(source, ()), here)
    done: dict[UOp, UOp] = {}
    for node in order:
        operands = tuple([done[s] for s in node.src])
        made = node.over(operands)
        if node in checked and guards[node] != ALWAYS:
            guard = as_condition(guards[node]).substitute(done)
            made = made.replace(src=(made.src[0], ~guard | made.src[1]))
        done[node] = made
    return done[root]
