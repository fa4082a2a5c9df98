"""A limit of memory: values that would be kept from early kernels for late ones are computed afresh
before these, as few as it takes.

Early is what is computed before memory is fullest. A value that is read after that, and that no
result is, may be made anew: of what is still there, as AFTER something that its first late reader
needs besides, so that it is not there before. First values that take no reduction, then all but
each second, third and so on of the others, which leaves so many to begin from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from torpor.base.errors import MemoryLimitError
from torpor.ir.infer import count_of
from torpor.ir.ops import ALU, LOOPED, Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.rewrite import unite_origins
from torpor.ir.uop import UOp
from torpor.schedule.limit import Economy, Limit
from torpor.schedule.region import STEPWISE

EACH: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # one of so many values is kept
_FIXED: Final = STEPWISE | LOOPED | {Ops.COPY, Ops.KERNEL}


class Settled(NamedTuple):
    """A graph's kernels in order, and the buffers of its stored values and of its roots."""

    roots: Sequence[tuple[UOp, str]]
    items: Sequence[ScheduleItem]
    places: dict[UOp, UOp]
    kept: Collection[UOp]


Settle = Callable[[Sequence[tuple[UOp, str]]], Settled]


def within(limit: Limit, settle: Settle, first: Settled) -> Settled:
    """The graph planned within the limit; `MemoryLimitError` says what it takes at least."""
    peak, _ = most(first)
    if peak <= limit.bytes:
        return first
    best = peak
    for chosen in choices(first, peak - limit.bytes):
        made = settle(Afresh(first, chosen).roots())
        now, _ = most(made)
        if now <= limit.bytes:
            before, after = operations(first.roots), operations(made.roots)
            economy = Economy(len(chosen), max(after - before, 0), before, peak, now)
            limit.economies.append(economy)
            return made
        best = min(best, now)
    raise MemoryLimitError(
        f"memory_limit={limit.bytes}: what is computed here takes {peak} bytes, and at least "
        f"{best} where values are computed again instead of being kept"
    )


def operations(roots: Sequence[tuple[UOp, str]]) -> int:
    """Elements that operations of the graph compute or reduce, all told."""
    total = 0
    for node in UOp.sink(*(root for root, _ in roots)).toposort():
        if node.op is Ops.REDUCE_AXIS:
            total += count_of(node.src[0])
        elif node.op in ALU:
            total += count_of(node)
    return total


# --- where memory is fullest ----------------------------------------------------------------------
def spans(settled: Settled) -> dict[UOp, tuple[int, int]]:
    """By buffer that is made: the kernels that make it and that read it last; the memory of results
    is there from the start, and stays.
    """
    found: dict[UOp, tuple[int, int]] = {}
    for number, item in enumerate(settled.items):
        for buffer in (item.buffers[n] for n in item.outputs):
            found.setdefault(buffer, (number, number))
        for buffer in item.buffers:
            if buffer in found:
                found[buffer] = found[buffer][0], number
    return found | {buffer: (0, len(settled.items)) for buffer in found if buffer in settled.kept}


def most(settled: Settled) -> tuple[int, int]:
    """The most bytes that are needed at a time, and the first kernel at which they are."""
    change = [0] * (len(settled.items) + 2)
    for buffer, (birth, last) in spans(settled).items():
        change[birth] += buffer.arg.nbytes
        change[last + 1] -= buffer.arg.nbytes
    now = peak = at = 0
    for number, step in enumerate(change):
        now += step
        if now > peak:
            peak, at = now, number
    return peak, at


def choices(settled: Settled, excess: int) -> Iterator[list[UOp]]:
    """Values to compute afresh, more and more of them: of each choice first as many as might do."""
    _, at = most(settled)
    nodes = {buffer: node for node, buffer in settled.places.items()}
    across = [
        nodes[buffer]
        for buffer, (birth, last) in sorted(spans(settled).items(), key=lambda one: one[1])
        if birth < at < last and buffer in nodes and buffer not in settled.kept
    ]
    across = [node for node in across if node.op not in _FIXED]
    others = [  # that take a reduction
        node for node in across
        if any(below.op is Ops.REDUCE_AXIS for below in expression(node, settled.places))
    ]  # fmt: skip
    for each in (1, *EACH):
        left = {*others[::each]}
        chosen = [node for node in across if node not in left]
        enough, total = 0, 0
        while enough < len(chosen) and total < excess:
            total += settled.places[chosen[enough]].arg.nbytes
            enough += 1
        if 0 < enough < len(chosen):
            yield chosen[:enough]
        if chosen:
            yield chosen


def expression(node: UOp, places: dict[UOp, UOp]) -> list[UOp]:
    """The nodes that a stored value is computed by from other stored ones, operands first."""
    order = node.toposort(lambda below: below is node or below not in places)
    return [below for below in order if below is node or below not in places]


# --- the graph anew -------------------------------------------------------------------------------
class Afresh:
    """A planned graph in which late kernels read copies of some early values.

    birth: by stored value, operands first, the kernel that makes it.
    first: by value to be computed afresh, the first late kernel that needs it, or what is made of
           it afresh.
    """

    def __init__(self, settled: Settled, chosen: Collection[UOp]):
        self.settled, self.chosen = settled, frozenset(chosen)
        _, self.at = most(settled)
        writers = {i.buffers[o]: n for n, i in enumerate(settled.items) for o in i.outputs}
        order = UOp.sink(*(root for root, _ in settled.roots)).toposort()
        stored = [node for node in order if settled.places.get(node) in writers]
        stored.sort(key=lambda node: writers[settled.places[node]])
        self.places = {node: settled.places[node] for node in stored}
        self.birth = {node: writers[buffer] for node, buffer in self.places.items()}
        self.place = {node: number for number, node in enumerate(stored)}
        self.first = self._first_uses()
        self.late: dict[UOp, UOp] = {}  # late values anew
        self.copies: dict[UOp, UOp] = {}  # early ones afresh

    def roots(self) -> list[tuple[UOp, str]]:
        """The roots, of the same values."""
        for node, birth in self.birth.items():
            if birth > self.at:
                self.late[node] = self._made_of(node, self._late_value)
        return [(self.late.get(root, root), device) for root, device in self.settled.roots]

    def _first_uses(self) -> dict[UOp, int]:
        nodes = {buffer: node for node, buffer in self.places.items()}
        found: dict[UOp, int] = {}
        for number, item in enumerate(self.settled.items):
            for buffer in item.buffers if number > self.at else ():
                if nodes.get(buffer) in self.chosen:
                    found.setdefault(nodes[buffer], number)
        for node in reversed(self.birth):
            if node in found:
                for source in self._chosen_for(node):
                    found[source] = min(found.get(source, found[node]), found[node])
        return found

    def _chosen_for(self, node: UOp) -> list[UOp]:
        """The values to be computed afresh that a stored value is made of."""
        below = expression(node, self.places)
        return [source for one in below for source in one.src if source in self.chosen]

    def _late_value(self, node: UOp) -> UOp:
        """A stored value, or a buffer, as late kernels read it."""
        if node in self.late:
            return self.late[node]
        return self._copy(node) if node in self.chosen else node

    def _copy(self, node: UOp) -> UOp:
        """An early value computed afresh, after those that it is made of."""
        needed, stack = set[UOp](), [node]
        while stack:
            one = stack.pop()
            if one not in needed and one not in self.copies:
                needed.add(one)
                stack += self._chosen_for(one)
        for one in sorted(needed, key=self.place.__getitem__):
            awaited = self._awaited(self.first[one])
            self.copies[one] = self._made_of(one, partial(self._early_value, awaited))
        return self.copies[node]

    def _awaited(self, number: int) -> UOp:
        """What is made last before a late kernel, of what it reads if it reads such."""
        read = self.settled.items[number].buffers
        made = [node for node, birth in self.birth.items() if self.at <= birth < number]
        found = ([node for node in made if self.places[node] in read] or made)[-1]
        return self.late.get(found, found)

    def _early_value(self, awaited: UOp, node: UOp) -> UOp:
        """A stored value, or a buffer, as early ones are made of it afresh."""
        return self.copies.get(node) or UOp(Ops.AFTER, node.dtype, (node, awaited))

    def _made_of(self, node: UOp, value: Callable[[UOp], UOp]) -> UOp:
        """A stored value made of `value` of each stored one and of each buffer."""
        known: dict[UOp, UOp] = {}
        for one in expression(node, self.places):
            if one.op is Ops.BUFFER:
                known[one] = value(one)
                continue
            source = tuple(known[s] if s in known else value(s) for s in one.src)
            known[one] = one.over(source)
            unite_origins(one, known[one])
        return known[node]
