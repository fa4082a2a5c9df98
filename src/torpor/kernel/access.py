"""How the memory accesses of a kernel move with each axis: what the heuristics decide on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import ALU, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import (
    WRITTEN,
    Loops,
    Ranges,
    find_loops,
    has_few_rounds,
    iterations,
    kind_of,
    size_of,
)
from torpor.kernel.shuffles import SOURCES
from torpor.rules import conjuncts
from torpor.rules.affine import Strides, affine
from torpor.rules.affine import strides_of as strides_of
from torpor.rules.linear import build
from torpor.rules.movement import flat

LANES_SEEN: Final = 8  # iterations that are looked at as the lanes of a vector
ANSWERS_KEPT: Final = 64  # answers about positions that are kept: much is asked of one kernel


@dataclass(frozen=True)
class Access:
    """One INDEX: its elements' size in bytes, whether it is stored to, how often it is made, and
    its stride by each range that it depends on (None where the position is not linear in it).
    """

    node: UOp
    itemsize: int
    is_store: bool
    count: int
    strides: Strides

    def stride(self, one: UOp) -> int | None:
        """Elements between neighbours along a range; 0: it does not matter; None: irregular."""
        return self.strides.get(one, 0)

    def is_near(self, one: UOp) -> bool:
        """Whether neighbours along a range are read from so few elements, all of them in memory,
        that two vectors hold those of one (`interleaved_loads.py`).
        """
        if self.is_store or self.node.src[0].op is not Ops.PARAM:
            return False
        if not all(known_along(condition, one) for condition in self.node.src[2:]):
            return False
        stride = self.stride(one)
        if stride is None:
            return is_short_step(self.node.src[1], one)
        return 0 < abs(stride) <= SOURCES

    def is_interleaved(self, one: UOp) -> bool:
        """Whether what lies between neighbours along a range is stored by copies written out, so
        that vectors of theirs are shuffled into rows (`interleaved_stores.py`).
        """
        beside = (r for r in self.strides if kind_of(r) is AxisType.UPCAST and r is not one)
        reach = 1
        for r in sorted(beside, key=lambda r: self.strides[r] or 0):
            reach *= (size_of(r) or 0) if self.strides[r] == reach else 1
        return self.is_store and reach > 1 and self.stride(one) == reach


def known_along(condition: UOp, one: UOp) -> bool:
    """Whether each part of a condition that depends on a range is known once that range and the
    short or written-out ones of a window are numbers.
    """
    return all(
        one not in part.ranges() or all(r is one or is_window(r) for r in part.ranges())
        for part in conjuncts(condition)
    )


def is_window(one: UOp) -> bool:
    """Whether a range is written out, or a short one of a reduction, which is going to be."""
    if kind_of(one) in (AxisType.UPCAST, AxisType.UNROLL):
        return True
    return kind_of(one) is AxisType.REDUCE and has_few_rounds(one)


@lru_cache(maxsize=ANSWERS_KEPT)
def is_short_step(position: UOp, one: UOp) -> bool:
    """Whether a position that is not linear in a range moves alike in its blocks, and in each of
    them within twice as many elements: `one//2`, `one%2`.
    """
    terms = {t: scale for t, scale in affine(position).terms.items() if one in t.ranges()}
    below = {n for term in terms for n in term.toposort() if n is not one}
    if any(n.op not in ALU and n.op is not Ops.CONST for n in below):
        return False
    moved = [distances(build(terms), one, first) for first in (0, LANES_SEEN)]
    return moved[0] == moved[1] and max(moved[0]) - min(moved[0]) < SOURCES * LANES_SEEN


def distances(moved: UOp, one: UOp, first: int) -> list[int]:
    """How far each iteration of a block, from `first` on, is from its first one."""
    at = [moved.substitute({one: UOp.index_const(first + n)}).simplify() for n in range(LANES_SEEN)]
    return [int(place.arg) - int(at[0].arg) for place in at]


def accesses(loops: Loops) -> list[Access]:
    """Every memory access of the kernel: computed once for each state of it."""
    if loops.accesses is None:
        loops.accesses = find_accesses(loops)
    return loops.accesses


def rounds_of(free: Ranges, loops: Loops) -> Sequence[UOp]:
    """The loops by whose rounds something is computed: copies that are written out lie in those
    that they depend on alone.
    """
    written = [one for one in free if kind_of(one) in WRITTEN]
    around = loops.nest_of(free.difference(written))
    return [*written, *(one for one in around if kind_of(one) not in WRITTEN)]


def find_accesses(loops: Loops) -> list[Access]:
    """Every INDEX of the kernel."""
    stored = {n.src[0] for n in loops.order if n.op is Ops.STORE}
    found = []
    for node in loops.order:
        if node.op is Ops.INDEX:
            strides = dict(strides_of(node.src[1]))
            if len(node.src) > 2:
                for one in loops.free[node.src[2]]:
                    strides.setdefault(one, 0)
            count = iterations(rounds_of(loops.free[node], loops))
            found.append(Access(node, node.dtype.itemsize, node in stored, count, strides))
    return found


def only_where(node: UOp, condition: UOp) -> UOp:
    """An INDEX, or the LOAD or STORE at one, under one more condition, which is of one lane."""
    if node.op is not Ops.INDEX:
        return node.replace(src=(only_where(node.src[0], condition), *node.src[1:]))
    memory, position, *own = node.src
    if own:
        condition = own[0] & condition.broadcast(own[0].dtype.count)
    return node.replace(src=(memory, position, condition))


def place(memory: UOp, axes: Sequence[UOp], at: Sequence[UOp] = ()) -> UOp:
    """Where packed memory holds an element: row by row in the order of the axes, at these places
    along them, or in their rounds. Those of unknown length have room for the most there can be.
    """
    rounds = zip(at or axes, (iterations([one]) for one in axes), strict=True)
    return UOp(Ops.INDEX, memory.dtype, (memory, flat(list(rounds))))


def footprint(access: Access) -> int:
    """How many elements an access touches."""
    return iterations([r for r, stride in access.strides.items() if stride != 0])


def passes_caches(root: UOp, target: Target) -> bool:
    """Whether a kernel stores so much that it pays to store it past the caches."""
    least = target.stream_bytes
    return least is not None and stored_bytes(root) >= least


def stored_bytes(root: UOp) -> int:
    """How much memory a kernel stores to."""
    stores = [a for a in accesses(find_loops(root)) if a.is_store]
    return sum(footprint(a) * a.itemsize for a in stores)
