"""Reductions that share a loop but no longer stand in one place, or are made of one another, or
where a STORE runs over it, get loops of their own.

before  for j: sum(r, x[i, j, r]) / sum(r, y[i, r])       one loop over r, in that over j
after   sum(r', y[i, r']), and then for j: sum(r, x[i, j, r])

Written-out copies of one reduction differ where a condition has been decided in some of them (the
border of a window), and then depend on fewer loops than the others. What a CHECK in one reduction
asks may be another one's result: that an index is right, or that nobody wants what is read with it.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The outermost loop that reductions close elsewhere or later than others or a STORE, and those
    in one of the places, which are made of none that is not.
    """
    places: dict[UOp, dict[tuple[Nest, int], list[UOp]]] = {}
    turns = turns_of(loops.order)
    for node in loops.order:
        if node.op is Ops.REDUCE:
            nest = loops.nest(node)
            for one in sorted(closed_by(node), key=nesting):
                turn = turns.get((node, one), 0)
                places.setdefault(one, {}).setdefault((nest, turn), []).append(node)
                nest = (*nest, one)
    shared = [
        one for one, found in places.items()
        if len(found) > 1 or loops.around[one] != frozenset(*(nest for nest, _ in found))
    ]  # fmt: skip
    if not shared:
        return None
    outermost = min(shared, key=lambda one: (len(loops.around[one]), *nesting(one)))
    return outermost, next(iter(places[outermost].values()))


def turns_of(order: Sequence[UOp]) -> dict[tuple[UOp, UOp], int]:
    """For reductions that are made of others that close a loop too, and for the loop: behind how
    many, one after the other, they come.
    """
    bits: dict[UOp, dict[int, UOp]] = {}  # of each loop: its reductions by their bits
    below: dict[UOp, int] = {}  # which reductions a node is made of
    turns: dict[tuple[UOp, UOp], int] = {}
    bit = 1
    for node in order:
        mask = 0
        for source in node.src:
            mask |= below.get(source, 0)
        if node.op is Ops.REDUCE:
            for one in closed_by(node):
                known = bits.setdefault(one, {})
                earlier = [turns.get((other, one), 0) for b, other in known.items() if mask & b]
                if earlier:
                    turns[node, one] = 1 + max(earlier)
                known[bit] = node
            mask |= bit
            bit <<= 1
        below[node] = mask
    return turns


def spaced(root: UOp) -> UOp:
    """The kernel with a free number behind that of each loop."""
    numbers = sorted({number_of(one) for one in root.ranges()})
    return map_nodes(root, partial(moved_to, {n: 2 * rank for rank, n in enumerate(numbers)}))


def moved_to(numbers: dict[int, int], node: UOp) -> UOp:
    """A loop under its new number, everything else as it is."""
    return numbered(node, numbers[number_of(node)]) if node.op is Ops.RANGE else node
