"""Which kernels may share a tile: those that hand each other values row by row.

They agree on an axis, the rows: whatever one of them stores and another reads is written and read
at the same row. So a block of rows can go through all of them before the next does. What a kernel
makes of all rows must be a reduction over them, which can accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules.affine import size_of
from torpor.rules.linear import linear
from torpor.rules.validity import bounds_under
from torpor.schedule.reduction_fission import fission, parameter_of

# Bytes handed on: more than a last cache holds beside the rest. Without tiles attention of 1024
# takes a quarter longer with its gradients, and as long without (bench/results/constants.md). A
# smaller cache has less room, down to what was tried; for a larger one memory counts.
SHARED_FROM: Final = 32 << 20
SHARED_LEAST: Final = 8 << 20
BLOCK_NUMBER: Final = "block{}"  # name of a VARIABLE, by level: the blocks of blocks are level 1


class Rows(NamedTuple):
    """How a buffer's elements lie by rows: so many, so many elements apart."""

    total: int
    stride: int


@dataclass
class FusionGroup:
    """Kernels that agree on rows.

    items:  in order.
    rows:   of each buffer that is stored and read inside.
    cut:    for each item, its ranges that count rows.
    inside: buffers that nobody else reads.
    """

    items: list[ScheduleItem]
    rows: dict[UOp, Rows]
    cut: list[frozenset[UOp]] = field(default_factory=list)
    inside: list[UOp] = field(default_factory=list)

    @property
    def handed(self) -> int:
        """Bytes of all rows of everything that is inside."""
        return sum(b.arg.nbytes for b in self.inside)

    @property
    def row_bytes(self) -> int:
        """The most bytes that one row takes of what is inside, at any time."""
        most = 0
        for number in range(len(self.items)):
            written = {b for item in self.items[: number + 1] for b in item.buffers}
            wanted = {b for item in self.items[number:] for b in item.buffers}
            alive = [b for b in self.inside if b in written and b in wanted]
            most = max(most, sum(self.rows[b].stride * b.dtype.itemsize for b in alive))
        return most

    @property
    def shared(self) -> int:
        """Bytes that the kernels read for every row anew."""
        total = 0
        for item, cut in zip(self.items, self.cut, strict=True):
            places = [n for n in item.ast.toposort() if n.op is Ops.INDEX]
            for place in places:
                ranges = set(place.src[1].ranges())
                if cut.isdisjoint(ranges):
                    elements = math.prod(max(int(r.src[0].vmax), 1) for r in ranges)
                    size = place.src[0].arg.size
                    total += min(elements, size or elements) * place.dtype.itemsize
        return total

    @property
    def count(self) -> int:
        """How many rows there are."""
        return next(iter(self.rows.values())).total


# --- which kernels may make one -------------------------------------------------------------------
def shared_from(target: Target) -> int:
    """Bytes that kernels hand on from which they share tiles."""
    return min(max(target.last_bytes, SHARED_LEAST), SHARED_FROM)


def candidates(
    items: Sequence[ScheduleItem], least: int, streaming: bool = False
) -> Iterator[list[ScheduleItem]]:
    """Sets of kernels connected by large values, with whatever lies between them; `least`: bytes of
    what a group hands on. Of `streaming` ones those that reduce nothing and are in no group yet.
    """
    if streaming:
        items = [item for item in items if item.group is None and not reduces(item)]
    large = {b for item in items for b in stored_by(item) if b.arg.nbytes * 2 >= least}
    waiting = [item for item in items if large.intersection(item.buffers)]
    while waiting:
        near = linked(waiting, large)
        waiting = without(waiting, near)
        if len(near) > 1:
            yield between(items, near)


def reduces(item: ScheduleItem) -> bool:
    """Whether a kernel takes several elements for one, or goes step by step."""
    return any(n.op is Ops.REDUCE for n in item.ast.toposort())


def stored_by(item: ScheduleItem) -> list[UOp]:
    """The buffers that an item writes."""
    return [item.buffers[n] for n in item.outputs]


def read_by(item: ScheduleItem) -> list[UOp]:
    """The buffers that an item reads."""
    return [b for n, b in enumerate(item.buffers) if n not in item.outputs]


def without(items: Iterable[ScheduleItem], some: Iterable[ScheduleItem]) -> list[ScheduleItem]:
    """The items that are none of some others."""
    left_out = set(map(id, some))
    return [item for item in items if id(item) not in left_out]


def reached(items: Iterable[ScheduleItem], start: Sequence[ScheduleItem]) -> list[ScheduleItem]:
    """The items in whose order values flow, from `start` on."""
    made, first_ones = {b for item in start for b in stored_by(item)}, set(map(id, start))
    found = []
    for item in items:
        if id(item) in first_ones or not made.isdisjoint(read_by(item)):
            made.update(stored_by(item))
            found.append(item)
    return found


def between(items: Sequence[ScheduleItem], some: Sequence[ScheduleItem]) -> list[ScheduleItem]:
    """The items, and those that need one of them and that another needs."""
    needed, chosen = {b for item in some for b in read_by(item)}, set(map(id, some))
    found = []
    for item in reversed(reached(items, some)):
        if id(item) in chosen or not needed.isdisjoint(stored_by(item)):
            needed.update(read_by(item))
            found.append(item)
    return found[::-1]


def around(
    items: Sequence[ScheduleItem], group: Sequence[ScheduleItem]
) -> tuple[list[ScheduleItem], list[ScheduleItem]]:
    """The items that run before the group, and after it: what needs it, and what comes later."""
    last = max(number for number, item in enumerate(items) if item is group[-1])
    before = without(items[:last], reached(items, group))
    return before, without(items, [*before, *group])


def even_part(count: int, most: int) -> int:
    """How many of a number make a part, `most` of them at most: a divisor, if one is large enough;
    else the last part is smaller, by as little as can be.
    """
    divisor = max(n for n in range(1, min(most, count) + 1) if count % n == 0)
    return divisor if divisor * 2 > most else -(-count // -(-count // most))


# --- whether they agree ---------------------------------------------------------------------------
def group_of(
    items: Sequence[ScheduleItem],
    members: list[ScheduleItem],
    outside: frozenset[UOp],
    least: int,
) -> FusionGroup | None:
    """The group that these items are, without those that do not fit and what comes after them; or
    that which the first of these begins. `least`: bytes that it hands on.
    """
    while len(members) > 1:
        some, later = members, 0
        while len(some) > 1:
            group, misfit = aligned(some)
            if misfit is None and len(some) > len(near := linked(some, group.rows)):
                some = near
                continue
            if misfit is None:
                elsewhere = {b for i in without(items, some) for b in read_by(i)} | outside
                group.inside = [b for b in group.rows if b not in elsewhere]
                if group.handed >= least:
                    return group
                break
            later = later or next(n for n, item in enumerate(members) if item is misfit)
            some = without(some, reached(some, [misfit]))
        members = members[max(later, 1) :]
    return None


def linked(members: list[ScheduleItem], buffers: Iterable[UOp]) -> list[ScheduleItem]:
    """The items that are linked with the first one by some buffers."""
    known, found, grows = set(buffers), members[:1], True
    while grows:
        met = {b for item in found for b in item.buffers if b in known}
        near = [i for i in members if i is members[0] or not met.isdisjoint(i.buffers)]
        grows, found = len(near) > len(found), near
    return found


def aligned(members: list[ScheduleItem]) -> tuple[FusionGroup, ScheduleItem | None]:
    """The items as a group, and one that does not agree with what those before it do."""
    group = FusionGroup(members, {})
    read = {b for item in members for b in read_by(item)}
    for item in members:
        handed = [n for n in item.outputs if item.buffers[n] in read]
        for number in handed:
            rows = rows_of(item, number)
            buffer = item.buffers[number]
            parted = buffer in group.rows  # several kernels each write a part of it
            if rows is None or parted or (group.rows and rows.total != group.count):
                return group, item
            group.rows[buffer] = rows
        cut = cut_ranges(item, group.rows)
        if not cut or not can_share(item, cut, handed):
            return group, item
        group.cut.append(cut)
    return group, None


def rows_of(item: ScheduleItem, number: int) -> Rows | None:
    """The rows that an item stores: those of the axis whose elements are farthest apart."""
    store = store_of(item, number)
    if store is None:
        return None
    terms, _ = linear(store.src[0].src[1])
    found = [
        (scale, r) for r, scale in terms.items() if r.op is Ops.RANGE and (size_of(r) or 0) > 1
    ]
    if not found:
        return None
    scale, one = max(found, key=itemgetter(0))
    return Rows(size_of(one) or 0, scale)


def store_of(item: ScheduleItem, number: int) -> UOp | None:
    """The one STORE of an output; None where it takes several or goes step by step."""
    found = [s for s in item.ast.src if parameter_of(s.src[0]) == number]
    if len(found) != 1 or any(r.arg[1] is AxisType.SERIAL for r in item.ast.ranges()):
        return None
    return found[0] if found[0].src[0].op is Ops.INDEX else None


def cut_ranges(item: ScheduleItem, rows: dict[UOp, Rows]) -> frozenset[UOp]:
    """The ranges by which an item counts rows; none where it accesses some rows otherwise."""
    found: set[UOp] = set()
    for node in item.ast.toposort():
        if node.op is not Ops.INDEX or item.buffers[parameter_of(node)] not in rows:
            continue
        row = row_at(node, rows[item.buffers[parameter_of(node)]])
        if row is None:
            return frozenset()
        found.add(row)
    return frozenset(found)


def row_at(place: UOp, rows: Rows) -> UOp | None:
    """The range that counts rows at an INDEX: all else stays within a row."""
    terms, constant = linear(place.src[1])
    found = [r for r, scale in terms.items() if scale == rows.stride and r.op is Ops.RANGE]
    rest = {t: s for t, s in terms.items() if t not in found and not counts_blocks(t)}
    low, high = bounds_under(rest, constant, place.src[2:])
    if len(found) != 1 or size_of(found[0]) != rows.total or low < 0 or high >= rows.stride:
        return None
    return found[0] if all(t.op is Ops.RANGE for t in rest) else None


def counts_blocks(term: UOp) -> bool:
    """Whether this is the number of a block of larger rows."""
    return term.op is Ops.VARIABLE and term.arg[0].startswith(BLOCK_NUMBER.format(""))


def can_share(item: ScheduleItem, cut: frozenset[UOp], handed: Sequence[int]) -> bool:
    """Whether an item can go block by block: each output is stored row by row, or accumulates over
    the rows where it lies (and nobody among the others may read it before it is complete).
    """
    parts = fission(item, cut)
    if parts is None or not parts.is_simple:
        return False
    for number in item.outputs:
        store = store_of(item, number)
        if store is None:
            return False
        along = parts.is_along(store)
        if len(parts.below[store]) != (not along) or (number in handed and not along):
            return False
    return True
