"""Targets with groups: output axes as work items, reductions shared by a group."""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import OptError
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where
from torpor.kernel.ranges import (
    Changes,
    closed_by,
    iterations,
    kind_of,
    map_nodes,
    nesting,
    replace_ranges,
    size_of,
)
from torpor.rules.movement import flat

GRID: Final = 3  # dimensions of a grid
NEARBY: Final = 4096  # numbers of rows that are tried for a grid of exactly the wanted size


def part_reductions(root: UOp) -> UOp:
    """reduce(x, loops, group) = reduce(reduce(x, loops), group): each item's own share first.

    Done while every axis is whole; what is left of a group's reduction then has one value.
    """

    def part(node: UOp) -> UOp:
        closed = closed_by(node) if node.op is Ops.REDUCE else ()
        mine = tuple(r for r in closed if kind_of(r) is AxisType.GROUP)
        own = tuple(r for r in closed if r not in mine)
        if not mine or not own:
            return node
        inner = UOp(Ops.REDUCE, node.dtype, (node.src[0], *own), node.arg)
        return node.replace(src=(inner, *mine))

    return map_nodes(root, part)


def share_reductions(root: UOp, target: Target) -> UOp:
    """reduce(x, group): the values of a group's items meet in local memory, and after a barrier
    every item reduces them. Only the first item of a group stores what is not stored on the way.
    After axes are written out, so that every copy has memory of its own. An `OptError` says when
    that takes more than there is.
    """
    groups = [r for r in root.ranges() if kind_of(r) is AxisType.GROUP]
    if not groups:
        return root
    slots: dict[UOp, int] = {}
    fresh = 1 + max(r.arg[0] for r in root.ranges())
    done: dict[UOp, UOp] = {}
    local = [r for r in sorted(root.ranges(), key=nesting) if kind_of(r) is AxisType.LOCAL]
    for node in root.toposort():
        source = tuple([done[s] for s in node.src])
        made = node.over(source)
        if node.op is Ops.REDUCE and any(r in closed_by(node) for r in groups):
            slot = slots.setdefault(node, len(slots))
            made = shared(made, groups, local, slot, fresh)
        elif node.op is Ops.STORE:
            made = gated(made, [r for r in groups if r not in closed_by(node)])
        done[node] = made
    check_memory(done[root], target)
    return done[root]


def gated(store: UOp, groups: list[UOp]) -> UOp:
    """The store, done by the first item along these axes of a group only."""
    if not groups:
        return store
    first_item = UOp.const(dtypes.bool, True)
    for one in groups:
        first_item = first_item & one.eq(0)
    return only_where(store, first_item)


def check_memory(root: UOp, target: Target) -> None:
    """The local memory of a group fits the target."""
    memory = [n for n in root.toposort() if n.op is Ops.DEFINE_LOCAL]
    taken = sum(n.arg.size * n.dtype.itemsize for n in memory)
    if taken > target.local_bytes:
        raise OptError(
            f"GROUP does not fit the kernel: its work items would share {taken} bytes of local "
            f"memory, and target {target.name} has {target.local_bytes} for a group"
        )


def shared(node: UOp, groups: list[UOp], local: list[UOp], slot: int, fresh: int) -> UOp:
    """One reduction over group axes, through local memory number `slot`."""
    mine = [r for r in groups if r in node.src]
    axes, count, scalar = (*local, *mine), node.dtype.count, node.dtype.scalar()
    position = (flat([(r, size_of(r) or 1) for r in axes]) * count).simplify()
    memory = UOp(Ops.DEFINE_LOCAL, scalar, (), ParamArg(slot, iterations(axes) * count))
    place = UOp(Ops.INDEX, scalar, (memory, position))
    barrier = UOp(Ops.BARRIER, dtypes.void, (UOp(Ops.STORE, dtypes.void, (place, node.src[0])),))
    again = [
        UOp.range(size_of(r) or 1, fresh + slot * len(groups) + n, AxisType.REDUCE)
        for n, r in enumerate(mine)
    ]
    elsewhere = position.substitute(dict(zip(mine, again, strict=True))).simplify()
    read = UOp(Ops.INDEX, scalar, (memory, elsewhere))
    value = UOp(Ops.LOAD, node.dtype, (read, barrier))
    return UOp(Ops.REDUCE, node.dtype, (value, *again), node.arg)


def to_items(root: UOp, target: Target) -> tuple[UOp, tuple[UOp | int, ...], tuple[int, ...]]:
    """GLOBAL axes as group numbers, LOCAL and GROUP axes as item numbers.

    Gives the kernel, the grid in groups, and a group's shape. The fastest axis is dimension 0. More
    than three GLOBAL axes share a dimension; all share all where one would be longer than the
    target's grid is.
    """
    ranges = sorted(root.ranges(), key=nesting)
    grid = [r for r in ranges if kind_of(r) in (AxisType.GLOBAL, AxisType.THREAD)]
    items = [r for r in ranges if kind_of(r) in (AxisType.LOCAL, AxisType.GROUP)]
    changes: Changes = {}
    global_size = assign(grid, "gidx", changes)
    local_size = assign(items, "lidx", changes)
    if any(isinstance(size, int) and not size for size in global_size):
        global_size = (0,) * GRID  # no group runs, and nothing knows the sizes that vary
    long = target.grid is not None and any(
        isinstance(size, int) and size > most
        for size, most in zip(global_size, target.grid, strict=True)
    )
    exists = None
    if long and target.grid is not None and all(isinstance(size, int) for size in global_size):
        global_size, exists = fold_grid(grid, target.grid, changes)
    replaced = replace_ranges(root, changes) if changes else root
    if exists is not None:
        replaced = stores_only_where(replaced, exists)
    return replaced, global_size, tuple(int(s) for s in local_size)  # type: ignore[arg-type]


def fold_grid(
    axes: list[UOp], most: tuple[int, int, int], changes: Changes
) -> tuple[tuple[int, ...], UOp | None]:
    """One number for all groups, from three that are no larger than `most`; gives the sizes, and
    which groups exist, where there are more than that number has values.
    """
    total = math.prod(size_of(one) or 1 for one in axes)
    sizes = grid_of(total, most)
    number: UOp = UOp.index_const(0)
    for dimension in reversed(range(GRID)):
        bound = UOp.index_const(sizes[dimension])
        number = number * bound + UOp(Ops.SPECIAL, dtypes.index, (bound,), f"gidx{dimension}")
    exists = number < total if math.prod(sizes) > total else None
    # Groups that do not exist read what the last one reads.
    rest = number if exists is None else number.minimum(total - 1)
    for one in reversed(axes):
        changes[one] = (rest % one.src[0], ())
        rest = rest // one.src[0]
    return sizes, exists


def grid_of(total: int, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape of a grid of `total` groups; of a few more where no shape nearby has that many."""
    rows = -(-total // most[0])
    exact = (n for n in range(rows, rows + NEARBY) if total % n == 0)
    rows = next(exact, rows)
    planes = -(-rows // most[1])
    return -(-total // rows), -(-rows // planes), planes


def stores_only_where(root: UOp, exists: UOp) -> UOp:
    """The kernel with every STORE to a parameter under one more condition."""

    def guard(node: UOp) -> UOp:
        if node.op is not Ops.STORE or node.src[0].src[0].op is not Ops.PARAM:
            return node
        return only_where(node, exists)

    return map_nodes(root, guard)


def assign(axes: list[UOp], name: str, changes: Changes) -> tuple[UOp | int, ...]:
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
