"""PARTITION: an axis cut into two consecutive parts, each with loops of its own."""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    nesting,
    numbered,
    rename_ranges,
    replace_range,
    size_of,
)


def partition(root: UOp, one: UOp, first: int, fresh: int) -> UOp:
    """The kernel with the axis `one` run up to `first`, and from there on by an axis of its own.

    Stores over the axis become two; so do reductions, whose halves are combined. Loops inside the
    axis are made anew for the second part, since they stand elsewhere. New axes are numbered from
    `fresh`.
    """
    size = size_of(one)
    assert size is not None and 0 < first < size
    low = UOp.range(first, *one.arg)
    high = UOp.range(size - first, fresh, kind_of(one))
    loops = find_loops(root)
    inside = {r for r, outer in loops.around.items() if one in outer}
    moved = sorted((r for r in inside if kind_of(r) is not AxisType.UPCAST), key=nesting)
    again = {r: numbered(r, fresh + 1 + n) for n, r in enumerate(moved)}
    done: dict[UOp, UOp] = {}

    def halves(node: UOp) -> tuple[UOp, UOp]:
        later = replace_range(node, one, high + UOp.const(dtypes.index, first), [high])
        return replace_range(node, one, low, [low]), rename_ranges(later, again).simplify()

    for node in loops.order:
        source = tuple(done[s] for s in node.src)
        if node.op in (Ops.SINK, Ops.BARRIER):
            both = [halves(done[s]) if one in closed_by(s) else (done[s],) for s in node.src]
            source = tuple(part for parts in both for part in parts)
        made = node if source == node.src else node.replace(src=source)
        if node.op is Ops.REDUCE and one in closed_by(node):
            before, after = halves(made)
            made = before.alu(node.arg, after)
        done[node] = made
    return done[root]


def boundaries(root: UOp, one: UOp) -> list[int]:
    """Where comparisons of the axis with numbers change, in order."""
    found = set()
    for node in root.toposort():
        if node.op is Ops.CMPLT and node.src[0] is one and node.src[1].op is Ops.CONST:
            found.add(int(node.src[1].arg))
        if node.op is Ops.CMPLT and node.src[1] is one and node.src[0].op is Ops.CONST:
            found.add(int(node.src[0].arg) + 1)
    return sorted(n for n in found if 0 < n < (size_of(one) or 0))
