"""In which order kernels run: each after what it reads, and what frees memory as soon as it can.

before  a = ..; b = f(a); c = g(b); .. ; d = h(a)   where d is a result and nobody else reads a
after   a = ..; b = f(a); d = h(a); c = g(b); ..    a's memory is free from there on
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp

SMALL: Final = 4096  # bytes that do not count

# By id of an item: what has to be there before it runs, though it is not read.
Awaited = Mapping[int, UOp | None]


def in_order(
    items: Sequence[ScheduleItem], awaited: Awaited, kept: Collection[UOp]
) -> list[ScheduleItem]:
    """The items in an order to run in; buffers in `kept` stay."""
    return _Order(_small_first(_depth_first(items, awaited), awaited), awaited, kept).run()


def _depth_first(items: Sequence[ScheduleItem], awaited: Awaited) -> list[ScheduleItem]:
    """The items, each after those that it needs; otherwise in order of creation."""
    writer = {item.buffers[number]: item for item in items for number in item.outputs}
    done: dict[int, ScheduleItem] = {}
    stack = [(item, False) for item in items]
    while stack:
        item, ready = stack.pop()
        if id(item) in done:
            continue
        if ready:
            done[id(item)] = item
            continue
        stack.append((item, True))
        for buffer in needed(item, awaited):
            before = writer.get(buffer)
            if before is not None and before is not item and id(before) not in done:
                stack.append((before, False))
    return list(done.values())


def _small_first(items: Sequence[ScheduleItem], awaited: Awaited) -> list[ScheduleItem]:
    """The items in order, but first those that make little of little: a number that many wait for
    must not keep what they could free.
    """
    large: set[UOp] = set()
    for item in items:
        made = _written(item)
        grows = sum(buffer.arg.nbytes for buffer in made) > SMALL
        if grows or not large.isdisjoint(needed(item, awaited)):
            large |= made
    return sorted(items, key=lambda item: not large.isdisjoint(_written(item)))


def needed(item: ScheduleItem, awaited: Awaited) -> list[UOp]:
    """The buffers that have to be there before the item runs, what it awaits last: of several that
    it needs the last one is made first.
    """
    more = awaited.get(id(item))
    return [*item.buffers[len(item.outputs) :], *([] if more is None else [more])]


class _Order:
    """Runs through items in a given order, but takes one that frees more than it makes as soon as
    all that it needs is there. Results have to be made at some time: they count for nothing.
    """

    def __init__(self, items: Sequence[ScheduleItem], awaited: Awaited, kept: Collection[UOp]):
        self.items, self.kept = items, kept
        self.unwritten = {b: 0 for item in items for b in _written(item)}  # kernels that will
        for item in items:
            for buffer in _written(item):
                self.unwritten[buffer] += 1  # several may write parts of one
        self.needs = [
            {b for b in needed(item, awaited) if b in self.unwritten} - _written(item)
            for item in items
        ]
        self.readers: dict[UOp, set[int]] = {buffer: set() for buffer in self.unwritten}  # to come
        for number, buffers in enumerate(self.needs):
            for buffer in buffers:
                self.readers[buffer].add(number)

    def run(self) -> list[ScheduleItem]:
        found: list[ScheduleItem] = []
        done: set[int] = set()
        freeing: list[int] = []  # those that may be taken at once
        for first in range(len(self.items)):
            freeing.append(first)
            while freeing:
                number = heapq.heappop(freeing)
                if number in done:
                    continue
                done.add(number)
                found.append(self.items[number])
                for other in self.after(number):
                    if self.frees(other):
                        heapq.heappush(freeing, other)
        return found

    def after(self, number: int) -> set[int]:
        """An item runs: those that now can, or that are the last to read something."""
        found: set[int] = set()
        for buffer in _written(self.items[number]):
            self.unwritten[buffer] -= 1
            found |= self.readers[buffer] if not self.unwritten[buffer] else set()
        for buffer in self.needs[number]:
            left = self.readers[buffer]
            left.discard(number)
            found |= left if len(left) == 1 else set()
        return found

    def frees(self, number: int) -> bool:
        """Whether the item can run, and memory that only it still needs is larger than what it
        makes.
        """
        needs = self.needs[number]
        if any(self.unwritten[buffer] for buffer in needs):
            return False
        last = {buffer for buffer in needs if len(self.readers[buffer]) == 1}
        return self.bytes_of(last) > self.bytes_of(_written(self.items[number]))

    def bytes_of(self, buffers: Collection[UOp]) -> int:
        """The memory of buffers that are no results."""
        return sum(buffer.arg.nbytes for buffer in buffers if buffer not in self.kept)


def _written(item: ScheduleItem) -> set[UOp]:
    return {item.buffers[n] for n in item.outputs}


def without_copies(items: Sequence[ScheduleItem], kept: Collection[UOp]) -> list[ScheduleItem]:
    """The items without those of AFTER that only copy a buffer: the order is settled, so who reads
    the copy may read the buffer. A copy that is in `kept` stays.
    """
    instead: dict[UOp, UOp] = {}
    found = []
    for item in items:
        if any(buffer in instead for buffer in item.buffers):
            buffers = tuple(instead.get(buffer, buffer) for buffer in item.buffers)
            item = replace(item, buffers=buffers)
        if item.reason == "after" and is_copy(item) and item.buffers[0] not in kept:
            instead[item.buffers[0]] = item.buffers[1]
        else:
            found.append(item)
    return found


def is_copy(item: ScheduleItem) -> bool:
    """Whether a kernel stores each element of a buffer at the same place of another one."""
    if len(item.buffers) != 2 or len(item.ast.src) != 1:
        return False
    store = item.ast.src[0]
    value = store.src[1]
    if value.op is not Ops.LOAD or value.src[0].op is not Ops.INDEX:
        return False
    (_, to), (_, *place) = store.src[0].src, value.src[0].src
    return place == [to] and item.buffers[0].arg.size == item.buffers[1].arg.size
