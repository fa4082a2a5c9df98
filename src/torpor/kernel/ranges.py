"""Which loops a value lives in: free ranges, loop nests, and replacing one range by others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final

from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by as closed_by
from torpor.rules.affine import iterations as iterations
from torpor.rules.affine import note_free
from torpor.rules.affine import number_of as number_of
from torpor.rules.affine import size_of as size_of
from torpor.rules.rebuild import Changes as Changes
from torpor.rules.rebuild import map_nodes as map_nodes
from torpor.rules.rebuild import replace_ranges as replace_ranges

Ranges = frozenset[UOp]
_NONE: Ranges = frozenset()
WRITTEN: Final = (AxisType.UPCAST, AxisType.UNROLL)  # axes that become copies
DEPTH: Final = {kind: place for place, kind in enumerate(AxisType)}  # outermost first
OUTPUTS: Final = (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL, AxisType.LOOP)
REDUCES: Final = (AxisType.GROUP, AxisType.REDUCE, AxisType.UNROLL)
CLOSING: Final = (Ops.REDUCE, Ops.STORE)  # what runs over loops of its own
FEW: Final = 8  # rounds of a loop that is written out wherever it stands innermost
RECENT: Final = 32  # kernels whose loops are kept


def kind_of(one: UOp) -> AxisType:
    """The axis type of a RANGE."""
    kind: AxisType = one.arg[1]
    return kind


def nesting(one: UOp) -> tuple[int, int]:
    """Sort key of ranges, outermost first."""
    number, kind = one.arg
    return DEPTH[kind], number


def numbered(one: UOp, number: int) -> UOp:
    """The same axis under another number."""
    return one.replace(arg=(number, kind_of(one)))


def is_no_load(node: UOp) -> bool:
    """Whether a value is computed, and not read."""
    return node.op is not Ops.LOAD


def has_known_lengths(ranges: Sequence[UOp]) -> bool:
    """Whether no number of iterations is symbolic."""
    return all(size_of(one) is not None for one in ranges)


def has_few_rounds(one: UOp) -> bool:
    """Whether a loop is so short that it is written out."""
    size = size_of(one)
    return size is not None and size <= FEW


def values_of(reduction: UOp) -> tuple[UOp, ...]:
    """What one round of a REDUCE's innermost loop combines, in order."""
    return reduction.src[: len(reduction.src) - len(closed_by(reduction))]


class Loops:
    """What is known about the loops of one state of a kernel: all nodes in order, the free ranges
    of each, and around each reduce range the ranges it runs in. What others find out about this
    state is kept here: `nests`, `accesses`.
    """

    def __init__(self, root: UOp):
        self.order = tuple(root.toposort())
        note_free(self.order)
        self.free = {node: node._free for node in self.order}
        self.free.update((r, r._free | {r}) for r in self.axes)
        self.closing = [n for n in self.order if n.op in CLOSING]
        self.around = self.surroundings()
        self.nests: dict[Ranges, tuple[UOp, ...]] = {}
        self.accesses: list[Any] | None = None

    @cached_property
    def axes(self) -> list[UOp]:
        """Every axis, outermost first; written-out ones last."""
        return sorted((n for n in self.order if n.op is Ops.RANGE), key=nesting)

    @cached_property
    def reductions(self) -> list[UOp]:
        """Every REDUCE."""
        return [n for n in self.closing if n.op is Ops.REDUCE]

    @cached_property
    def reduce_axes(self) -> list[UOp]:
        """The axes that some reduction runs over."""
        reduced = {one for node in self.reductions for one in closed_by(node)}
        return [r for r in self.axes if r in reduced and kind_of(r) in REDUCES]

    def nest(self, node: UOp) -> tuple[UOp, ...]:
        """The loops that the node is computed in, outermost first."""
        return self.nest_of(self.free[node])

    def nest_of(self, ranges: Ranges) -> tuple[UOp, ...]:
        """The loops that something depending on `ranges` is computed in, outermost first."""
        if ranges not in self.nests:
            found = ranges.union(*(self.around.get(one, _NONE) for one in ranges))
            self.nests[ranges] = tuple(sorted(found, key=nesting))
        return self.nests[ranges]

    def is_order(self) -> bool:
        """Whether the loops around each loop lie in each other too. If two that lie beside each
        other were both around a third, each would have to come before the other. Loops that are
        written out lie in no order.
        """
        around = self.surroundings(WRITTEN)
        for one, found in around.items():
            nest = sorted((*found, one), key=nesting)
            if any(a not in around.get(b, _NONE) for a, b in pairwise(nest)):
                return False
        return True

    def surroundings(self, but: Sequence[AxisType] = ()) -> dict[UOp, Ranges]:
        """Around each range that a node closes the ranges it runs in, all of other types."""
        around: dict[UOp, Ranges] = {}
        for node in reversed(self.closing):
            closed = [r for r in closed_by(node) if kind_of(r) not in but]
            if closed:
                outer = frozenset(r for r in self.free[node] if kind_of(r) not in but)
                nest_within(closed, outer.union(*(around.get(r, _NONE) for r in outer)), around)
        for one in sorted(around, key=nesting):  # a loop that STOREs share is in all of theirs
            around[one] = around[one].union(*(around.get(outer, _NONE) for outer in around[one]))
        return around


@lru_cache(maxsize=RECENT)
def find_loops(root: UOp) -> Loops:
    """The loops of every node below `root`. The last few are kept: much is asked of one kernel
    before it changes.
    """
    return Loops(root)


def nest_within(closed: Sequence[UOp], outer: Ranges, around: dict[UOp, Ranges]) -> None:
    """Note that the loops `closed`, in nesting order, run within `outer`."""
    for one in sorted(closed, key=nesting):
        around[one] = around.get(one, _NONE) | outer
        outer = outer | {one}


def replace_range(root: UOp, old: UOp, value: UOp, new: Sequence[UOp]) -> UOp:
    """`root` with the range `old` become `value`; what ran over `old` runs over `new`."""
    return replace_ranges(root, {old: (value, tuple(new))})


def rename_ranges(root: UOp, changes: dict[UOp, UOp]) -> UOp:
    """Ranges under other numbers and types, all at once: two may take each other's place."""
    return replace_ranges(root, {old: (new, (new,)) for old, new in changes.items()})
