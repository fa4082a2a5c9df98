"""Reductions that share a loop but no longer stand in one place, or where a STORE runs over it, get
loops of their own.

before  for j: sum(r, x[i, j, r]) / sum(r, y[i, r])       one loop over r, in that over j
after   sum(r', y[i, r']), and then for j: sum(r, x[i, j, r])

Written-out copies of one reduction differ where a condition has been decided in some of them (the
border of a window), and then depend on fewer loops than the others.
"""

from __future__ import annotations

from functools import partial

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import (
    Loops,
    closed_by,
    find_loops,
    map_nodes,
    nesting,
    number_of,
    numbered,
)

Nest = tuple[UOp, ...]


def fission_loops(root: UOp) -> UOp:
    """The kernel with each loop closed by reductions in one place only."""
    while shared_loop(find_loops(root)) is not None:
        root = spaced(root)
        loops = find_loops(root)
        shared = shared_loop(loops)
        assert shared is not None
        one, reductions = shared
        own = {one: numbered(one, number_of(one) + 1)}
        root = root.substitute({node: node.substitute(own) for node in reductions})
    return root


def shared_loop(loops: Loops) -> tuple[UOp, list[UOp]] | None:
    """The outermost loop that reductions close elsewhere than others or a STORE, and those in one
    of the places.
    """
    places: dict[UOp, dict[Nest, list[UOp]]] = {}
    for node in loops.order:
        if node.op is Ops.REDUCE:
            nest = loops.nest(node)
            for one in sorted(closed_by(node), key=nesting):
                places.setdefault(one, {}).setdefault(nest, []).append(node)
                nest = (*nest, one)
    shared = [
        one for one, found in places.items()
        if len(found) > 1 or loops.around[one] != frozenset(*found)
    ]  # fmt: skip
    if not shared:
        return None
    outermost = min(shared, key=lambda one: (len(loops.around[one]), *nesting(one)))
    return outermost, next(iter(places[outermost].values()))


def spaced(root: UOp) -> UOp:
    """The kernel with a free number behind that of each loop."""
    numbers = sorted({number_of(one) for one in root.ranges()})
    return map_nodes(root, partial(moved_to, {n: 2 * rank for rank, n in enumerate(numbers)}))


def moved_to(numbers: dict[int, int], node: UOp) -> UOp:
    """A loop under its new number, everything else as it is."""
    return numbered(node, numbers[number_of(node)]) if node.op is Ops.RANGE else node
