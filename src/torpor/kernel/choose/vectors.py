"""What choices of opts have in common: vectors along an axis, copies of an axis for registers,
short loops written out, the first axis for the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, passes_caches
from torpor.kernel.choose.reuse import COPIES
from torpor.kernel.estimate import copies
from torpor.kernel.lanes import ITEM_LANES, lane_axes
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    has_few_rounds,
    iterations,
    kind_of,
    size_of,
)
from torpor.kernel.shuffles import ITEMSIZES

COPIES_REPEATED: Final = 4  # of an axis of symbolic length: as many less one may be in vain
SPARE: Final = 0.25  # share of a vector that may be padding where the axis is shorter than one
CODE_LIMIT: Final = 160  # copies of the loop body past which compiling costs more than it gains
WOVEN: Final = 4  # places side by side, at most, of which each is a lane of another vector
NARROW: Final = 4  # lanes of the narrowest vectors: float32 in 128 bits, which all targets have
WRITTEN_OUT: Final = 2048  # vectors: two instructions each, of 8 bytes, fill a cache of 32 KB


@dataclass(frozen=True)
class Facts:
    """What the heuristics look at."""

    kernel: Kernel
    accesses: list[Access]
    lanes: int  # elements in a vector register

    @staticmethod
    def of(kernel: Kernel) -> Facts:
        found = accesses(find_loops(kernel.ast))
        widest = max((a.itemsize for a in found), default=4)
        lanes = kernel.target.lanes(widest)
        return Facts(kernel, found, min(lanes, ITEM_LANES) if kernel.target.groups else lanes)

    def lanes_along(self, one: UOp) -> int:
        """Elements in the widest vectors of which the axis fills most of one: a short axis takes a
        half or a quarter of a register.
        """
        lanes, size = self.lanes, size_of(one) or 0
        while lanes > NARROW and size < lanes * (1 - SPARE):
            lanes //= 2
        return lanes

    def score(self, one: UOp, alone: bool = False) -> float:
        """How well vectors along the axis suit memory: neighbours and broadcasts for, gathers
        against, each weighed by how often it happens. With `alone`, only accesses that depend on
        the axis count.
        """
        most = max((a.count for a in self.accesses), default=1)
        total = 0.0
        for access in self.accesses:
            stride = access.stride(one)
            if alone and stride == 0:
                continue
            if stride == 1 or access.is_interleaved(one):
                points = 2
            elif stride == 0:
                points = 0 if access.is_store else 1
            elif access.is_near(one):
                points = 1
            else:
                points = -4 if access.is_store else -3
            total += points * access.count / most
        return total


def is_short(kernel: Kernel) -> bool:
    """Whether a kernel is not written out too often."""
    target, count = kernel.target, copies(kernel.ast, kernel.target)
    if count <= WRITTEN_OUT:
        return True
    return count <= WRITTEN_OUT * target.lanes(4) and bool(lane_axes(kernel.ast, target))


def attempt(kernel: Kernel, opt: Opt) -> bool:
    """Apply the opt if it fits."""
    try:
        kernel.apply_opt(opt)
    except OptError:
        return False
    return True


def attempt_all(
    kernel: Kernel, trial: Kernel, choose: Callable[..., bool], *arguments: object
) -> bool:
    """Have the kernel become a copy that `choose` applies opts to, if it says that they suit and
    all of them fit: packed memory may turn out too small, or axes may lie in another order.
    """
    trial = trial.copy()
    try:
        done = choose(trial, *arguments)
    except OptError:
        return False
    if done:
        kernel.become(trial)
    return done


def reducible(kernel: Kernel, one: UOp) -> bool:
    """Whether every reduction over the axis may end in a reduction over lanes."""
    loops = find_loops(kernel.ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE and one in closed_by(n)]
    return all(r.dtype.kind != "bool" for r in reductions)


def paddable(facts: Facts, one: UOp, whole_rows: bool = False) -> bool:
    """Whether masks may cover the rest: elements that vector instructions mask, in rows, and most
    of a vector at least. With `whole_rows` the axis, of results, is written out as a whole: which
    lanes are none is then known, so that what is close by is still read in rows.
    """
    filled = (size_of(one) or 0) >= facts.lanes_along(one) * (1 - SPARE)
    return filled and maskable(facts, one, whole_rows)


def maskable(facts: Facts, one: UOp, whole_rows: bool = False) -> bool:
    """Whether vector instructions can mask what moves along an axis; see `paddable`."""
    return all(
        a.itemsize in ITEMSIZES
        and (a.stride(one) == 1 or (whole_rows and (a.is_near(one) or is_stored_apart(a, one))))
        for a in facts.accesses
        if a.stride(one) != 0
    )


def is_stored_apart(access: Access, one: UOp) -> bool:
    """Whether results lie evenly apart along an axis."""
    return access.is_store and access.stride(one) is not None


def vector_amount(facts: Facts, one: UOp, most: int) -> int:
    """A multiple of the lanes, up to `most` vectors, that divides the axis."""
    size, lanes = size_of(one) or 1, facts.lanes_along(one)
    for vectors in range(most, 0, -1):
        if size % (vectors * lanes) == 0:
            return vectors * lanes
    return next((n for n in (8, 4, 2) if n <= lanes and size % n == 0), 1)


def write_lane(facts: Facts, lane: UOp, most: int) -> int:
    """Vectors along an axis, up to `most` of them side by side; gives how many elements that is."""
    lane = pad_lane(facts, lane)
    amount = vector_amount(facts, lane, most)
    attempt(facts.kernel, Opt(OptOps.UPCAST, facts.kernel.axes.index(lane), amount))
    return amount


def pad_lane(facts: Facts, lane: UOp, whole_rows: bool = False) -> UOp:
    """The axis, padded to whole vectors if that wastes fewer lanes than shorter vectors would. With
    `whole_rows` it is going to be written out as a whole.
    """
    kernel = facts.kernel
    size, lanes = size_of(lane) or 1, facts.lanes_along(lane)
    whole = -(-size // lanes) * lanes
    if size == whole or not paddable(facts, lane, whole_rows):
        return lane
    shorter = next((n for n in (8, 4) if n < lanes and size % n == 0), 1)
    if shorter * whole >= size * lanes:
        return lane
    position = kernel.axes.index(lane)
    attempt(kernel, Opt(OptOps.PADTO, position, lanes))
    return kernel.axes[position]


def tile_axis(kernel: Kernel, one: UOp, most: int, limit: int = COPIES) -> int:
    """As many copies of an output axis as divide it and fit the registers (at most `limit`), of one
    of symbolic length so that the last one is repeated; gives how many.
    """
    axes = [r for r in kernel.axes if r is one or r.arg == one.arg]
    if not axes:
        return 1
    copies = copies_of(axes[0], min(most, limit))
    how = OptOps.OVERLAP if size_of(axes[0]) is None else OptOps.UPCAST
    opt = Opt(how, kernel.axes.index(axes[0]), copies)
    return copies if copies > 1 and attempt(kernel, opt) else 1


def copies_of(one: UOp, most: int) -> int:
    """The most copies of an axis that divide it; of one of symbolic length a few."""
    size = size_of(one)
    if size is None:
        return min(most, COPIES_REPEATED)
    return max(n for n in range(1, max(most, 1) + 1) if size % n == 0)


def stream_out(kernel: Kernel) -> None:
    """More output than the caches hold goes past them."""
    if passes_caches(kernel.ast, kernel.target):
        attempt(kernel, Opt(OptOps.STREAM))


def thread_rest(kernel: Kernel) -> None:
    """After vectors were cut off: what is left of the first axis for the threads."""
    axes = kernel.axes
    if axes and kind_of(axes[0]) is AxisType.GLOBAL:
        attempt(kernel, Opt(OptOps.THREAD, 0, 0))


def unroll_short(kernel: Kernel) -> None:
    """Short reduce loops written out, and some rounds of a long one."""
    body = unroll_whole(kernel)
    longest = [r for r in kernel.reduce_axes if kind_of(r) is AxisType.REDUCE]
    if longest and body <= CODE_LIMIT // 8 and len(longest) == 1:
        size = size_of(longest[0])
        if size is not None and size % 4 == 0:
            attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(longest[0]), 4))


def unroll_whole(kernel: Kernel) -> int:
    """Short reduce loops written out, innermost first, as long as the body stays small; gives its
    size in copies.
    """
    copies = iterations(
        tuple(r for r in kernel.axes if kind_of(r) in (AxisType.UPCAST, AxisType.UNROLL))
    )
    body = max(1, copies // 4)
    for one in reversed(kernel.reduce_axes):
        size = size_of(one)
        if kind_of(one) is not AxisType.REDUCE or size is None:
            continue
        if not has_few_rounds(one) or body * size > CODE_LIMIT:
            break  # copies of what is around a loop share nothing
        attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(one), 0))
        body *= size
    return body
