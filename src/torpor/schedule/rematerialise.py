"""Rematerialisation: a large value that two groups read is computed again for the later one.

before  s = q @ k.T; p = softmax(s); o = p @ v | all of o | g; d = g @ v.T * p; ...
after   s = q @ k.T; p = softmax(s); o = p @ v | all of o | g; s' = q @ k.T; p' = softmax(s'); ...

What lies between needs all rows, so the kernels cannot share tiles, and the value would be kept
whole: in a training step the weights of attention, as large as the square of its length. Computed
again, it takes memory for one block in either group, and tiles that nobody needs are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by, free_ranges, size_of
from torpor.schedule.reduction_fission import MakeBuffer
from torpor.schedule.tile_groups import (
    FusionGroup,
    around,
    candidates,
    group_of,
    read_by,
    stored_by,
    without,
)

# Terms for each byte that need not be kept, at most: 128 products of a float32, which a processor
# with two ports for vectors of 512 bits does in 4 cycles: to store and to read it takes 2.4 where
# memory gives 10 GB/s.
AGAIN: Final = 32


def rematerialised(
    items: Sequence[ScheduleItem],
    group: FusionGroup,
    outside: frozenset[UOp],
    make: MakeBuffer,
    least: int,
) -> list[ScheduleItem] | None:
    """The schedule in which later kernels have large values of a group of their own, if all of
    these then lie inside of another group; `least`: bytes that a group hands on.
    """
    later = without(items, group.items)
    read = {b for item in later for b in read_by(item)}
    large = {b for b in group.rows if b.arg.nbytes >= least}
    shared = large & read - outside
    if not shared:
        return None
    again = needed_for(group.items, shared, large)
    if sum(map(terms_reduced, again)) > AGAIN * sum(b.arg.nbytes for b in shared):
        return None
    fresh = {b: make(b.arg.device, b.arg.size, b.dtype) for item in again for b in stored_by(item)}
    instead = {b: fresh[b] for b in shared}
    made: list[ScheduleItem] = []
    own = set(map(id, group.items))
    for item in items:
        if id(item) in own or shared.isdisjoint(item.buffers):
            made.append(item)
            continue
        if again:
            made += [renamed(one, fresh) for one in again]
            again = []
        made.append(renamed(item, instead))
    inside = inside_groups(made, outside, least)
    return made if inside.issuperset((*shared, *instead.values())) else None


def terms_reduced(item: ScheduleItem) -> int:
    """How many terms the reductions of a kernel take in all."""
    found = (n for n in item.ast.toposort() if n.op is Ops.REDUCE)
    return sum(prod(size_of(r) or 0 for r in {*closed_by(n), *free_ranges(n)}) for n in found)


def inside_groups(items: Sequence[ScheduleItem], outside: frozenset[UOp], least: int) -> set[UOp]:
    """The buffers that lie inside of groups."""
    rest, found = list(items), set[UOp]()
    sets = candidates(rest, least)
    while (members := next(sets, None)) is not None:
        group = group_of(rest, members, outside, least)
        if group is not None:
            found.update(group.inside)
            _, rest = around(rest, group.items)
            sets = candidates(rest, least)
    return found


def needed_for(
    items: Sequence[ScheduleItem], values: set[UOp], large: set[UOp]
) -> list[ScheduleItem]:
    """The kernels that compute some values from small ones."""
    wanted, found = set(values), list[ScheduleItem]()
    for item in reversed(items):
        if not wanted.isdisjoint(stored_by(item)):
            wanted.update(large.intersection(read_by(item)))
            found.append(item)
    return found[::-1]


def renamed(item: ScheduleItem, instead: dict[UOp, UOp]) -> ScheduleItem:
    """The kernel with other buffers."""
    return replace(item, buffers=tuple(instead.get(b, b) for b in item.buffers))
