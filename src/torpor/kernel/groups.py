"""Targets with groups: output axes as work items, reductions shared by a group."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.ranges import closed_by, find_loops, kind_of, nesting, replace_ranges, size_of

GRID: Final = 3  # dimensions of a grid


def share_reductions(root: UOp) -> UOp:
    """reduce(x, loops, group): each work item reduces its loops, the group's results meet in local
    memory, and after a barrier every item reduces those. Only the first item of a group stores.
    """
    groups = [r for r in root.ranges() if kind_of(r) is AxisType.GROUP]
    if not groups:
        return root
    slots: dict[UOp, int] = {}
    fresh = 1 + max(r.arg[0] for r in root.ranges())
    done: dict[UOp, UOp] = {}
    first_item = UOp.const(dtypes.bool, True)
    for one in groups:
        first_item = first_item & one.eq(0)
    order = find_loops(root)
    local = [r for r in sorted(root.ranges(), key=nesting) if kind_of(r) is AxisType.LOCAL]
    for node in order.order:
        source = tuple(done[s] for s in node.src)
        made = node if source == node.src else node.replace(src=source)
        if node.op is Ops.REDUCE and any(r in closed_by(node) for r in groups):
            slot = slots.setdefault(node, len(slots))
            made = shared(made, groups, local, slot, fresh)
        elif node.op is Ops.STORE:
            place = made.src[0]
            condition = place.src[2] & first_item if len(place.src) > 2 else first_item
            gated = place.replace(src=(*place.src[:2], condition))
            kept = tuple(s for s in made.src[2:] if s not in groups)
            made = made.replace(src=(gated, made.src[1], *kept))
        done[node] = made
    return done[root]


def shared(node: UOp, groups: list[UOp], local: list[UOp], slot: int, fresh: int) -> UOp:
    """One reduction over group axes, through local memory number `slot`."""
    mine = [r for r in groups if r in node.src]
    values = node.src[: len(node.src) - len(closed_by(node))]
    kept = tuple(r for r in closed_by(node) if r not in mine)
    partial = node.replace(src=(*values, *kept)) if kept else values[0]
    for value in () if kept else values[1:]:
        partial = partial.alu(node.arg, value)
    position: UOp = UOp.index_const(0)
    total = 1
    for one in (*local, *mine):
        size = size_of(one) or 1
        position = position * size + one
        total *= size
    memory = UOp(Ops.DEFINE_LOCAL, node.dtype, (), ParamArg(slot, total))
    place = UOp(Ops.INDEX, node.dtype, (memory, position.simplify()))
    barrier = UOp(Ops.BARRIER, dtypes.void, (UOp(Ops.STORE, dtypes.void, (place, partial)),))
    again = [
        UOp.range(size_of(r) or 1, fresh + slot * len(groups) + n, AxisType.REDUCE)
        for n, r in enumerate(mine)
    ]
    elsewhere = position.substitute(dict(zip(mine, again, strict=True))).simplify()
    read = UOp(Ops.INDEX, node.dtype, (memory, elsewhere))
    value = UOp(Ops.LOAD, node.dtype, (read, barrier))
    return UOp(Ops.REDUCE, node.dtype, (value, *again), node.arg)


def to_items(root: UOp) -> tuple[UOp, tuple[UOp | int, ...], tuple[int, ...]]:
    """GLOBAL axes as group numbers, LOCAL and GROUP axes as item numbers.

    Gives the kernel, the grid in groups, and a group's shape. The fastest axis is dimension 0. More
    than three GLOBAL axes share a dimension.
    """
    ranges = sorted(root.ranges(), key=nesting)
    grid = [r for r in ranges if kind_of(r) in (AxisType.GLOBAL, AxisType.THREAD)]
    items = [r for r in ranges if kind_of(r) in (AxisType.LOCAL, AxisType.GROUP)]
    changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = {}
    global_size = assign(grid, "gidx", changes)
    local_size = assign(items, "lidx", changes)
    replaced = replace_ranges(root, changes) if changes else root
    return replaced, global_size, tuple(int(s) for s in local_size)  # type: ignore[arg-type]


def assign(
    axes: list[UOp], name: str, changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]]
) -> tuple[UOp | int, ...]:
    """Numbers of dimensions for the axes, the last axis first; gives the sizes."""
    sizes: list[UOp | int] = [1, 1, 1]
    dimensions: list[list[UOp]] = [[one] for one in reversed(axes)]
    while len(dimensions) > GRID:
        dimensions[-2:] = [dimensions[-2] + dimensions[-1]]
    for number, group in enumerate(dimensions):
        bound = group[0].src[0]
        for one in group[1:]:
            bound = (bound * one.src[0]).simplify()
        item = UOp(Ops.SPECIAL, dtypes.index, (bound,), f"{name}{number}")
        sizes[number] = int(bound.arg) if bound.op is Ops.CONST else bound
        rest = item
        for one in group[:-1]:
            changes[one] = (rest % one.src[0], ())
            rest = rest // one.src[0]
        changes[group[-1]] = (rest, ())
    return tuple(sizes)
