"""Loop fission: loops that do not nest are made apart. Which output ranges a value depends on is
known only when its expression is there: an expanded value does not depend on those that it was
copied along.

before  store(sum[i, j], reduce(x[i, k], k), i, j), store(y[j, i, k], x[i, k], i, j, k)
after   store(sum[i, j], reduce(x[i, k], k), i, j), store(y[j, i, l], x[i, l], i, j, l)

Before, the loop over k is right inside that over i for the sum, and inside that over j for y.
"""

from __future__ import annotations

from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by, free_ranges, number_of
from torpor.schedule.region import Ranges


def loops_around(root: UOp) -> dict[UOp, tuple[Ranges, Ranges]]:
    """For each REDUCE, and each STORE on the way of one: the reduce ranges that it runs over, and
    the ranges around these. Reductions come first.
    """
    order = root.toposort()
    reductions = [node for node in order if node.op is Ops.REDUCE]
    found = {node: (frozenset(closed_by(node)), free_ranges(node)) for node in reductions}
    for node in order:
        reduced = frozenset(r for r in closed_by(node) if r.arg[1] is AxisType.REDUCE)
        if node.op is Ops.STORE and reduced:
            found[node] = reduced, frozenset(closed_by(node)) - reduced
    return found


def separate_loops(root: UOp) -> UOp:
    """The kernel with ranges of its own for what cannot run in a loop that another has."""
    first: dict[UOp, tuple[Ranges, Ranges]] = {}
    apart: dict[UOp, Ranges] = {}
    for node, (closed, around) in loops_around(root).items():
        if node.op is Ops.REDUCE:
            for one in closed:
                first.setdefault(one, (closed, around))
        if any(first.get(one) != (closed, around) for one in closed):
            apart[node] = closed
    if not apart:
        return root
    number = 1 + max(r.arg[0] for r in root.ranges())
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        source = tuple([done[s] for s in node.src])
        made = node.over(source)
        if node in apart:
            own = AxisType.REDUCE if node.op is Ops.REDUCE else AxisType.GLOBAL
            fresh = {}
            for one in sorted(with_inner(made, apart[node]), key=number_of):
                kind = own if one in apart[node] else AxisType.REDUCE
                fresh[one] = one.replace(arg=(number, kind))
                number += 1
            made = made.replace(src=tuple(s.substitute(fresh) for s in made.src))
        done[node] = made
    return done[root]


def with_inner(node: UOp, ranges: Ranges) -> Ranges:
    """The ranges, and those of reductions below the node that run inside of them."""
    for inner, (closed, around) in reversed(loops_around(node).items()):
        if inner is not node and around & ranges:
            ranges |= closed
    return ranges
