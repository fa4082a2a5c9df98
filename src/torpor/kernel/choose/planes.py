"""Opts for sums over short windows (depthwise convolutions): whole rows of results written out.

Every condition at the edges of a row is then known for each lane: only the vectors at its ends are
masked, the rest of a vector that the row does not fill is not stored, and memory is read and
written in its order. Rows beside each other share the rows of the window in which they overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses
from torpor.kernel.choose.reuse import COPIES, overlap, reuse_axes
from torpor.kernel.choose.vectors import (
    SMALL_LOOP,
    Facts,
    attempt,
    copies_of,
    pad_lane,
    thread_rest,
    tile_axis,
    writable,
)
from torpor.kernel.opts.kernel import OUTPUTS, Kernel
from torpor.kernel.ranges import find_loops, iterations, kind_of, size_of

PRODUCTS_WRITTEN: Final = 256  # products of vectors that are written out, at most
SHARE_LOADED: Final = 0.4  # of what rows load, from which it pays to load it once, out of order
ROWS_LEAST: Final = 4  # of a sum over images: fewer than that written out together gain nothing


def short_rows(facts: Facts) -> bool:
    """Whole rows along the last output axis that suits, where vectors along it would have to ask
    which of their lanes there are; says whether there is one. Without it pools by
    strides of 2 and 3 and their gradients take 5 times as long (mean of 14, AVX2).
    """
    kernel = facts.kernel
    lanes = [r for r in kernel.axes if kind_of(r) in OUTPUTS and writable(facts, r)]
    lane = next((r for r in reversed(lanes) if kind_of(r) is not AxisType.THREAD), None)
    if lane is None or not kernel.has_reduce:
        return False
    return tile_windows(facts, lane, reuse_axes(kernel, facts.accesses, lane))


def tile_windows(facts: Facts, lane: UOp, reused: list[UOp]) -> bool:
    """Whole rows along `lane`, a few at a time, and their sums written out; says whether that suits
    the kernel: the first of the `reused` axes is one along which windows overlap, and the products
    of a row are few.
    """
    kernel = facts.kernel
    shared = max((overlap(kernel, a, one) for one in reused[:1] for a in facts.accesses), default=0)
    if not shared:
        return False
    if any((size_of(r) or SMALL_LOOP + 1) > SMALL_LOOP for r in kernel.reduce_axes):
        return False
    vectors = -(-(size_of(lane) or PRODUCTS_WRITTEN) // facts.lanes)
    written = [r for r in kernel.axes if kind_of(r) is AxisType.UPCAST]
    products = vectors * iterations((*kernel.reduce_axes, *written))
    if products > PRODUCTS_WRITTEN:
        return False
    rows = PRODUCTS_WRITTEN // products if shared >= SHARE_LOADED else 1
    write_sums(kernel, pad_lane(facts, lane, whole_rows=True), reused[0], rows)
    return True


def write_sums(kernel: Kernel, lane: UOp, row: UOp, most: int) -> None:
    """The axis along vectors, and all sums written out, of at most so many rows."""
    attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(lane), 0))
    for number in reversed(range(len(kernel.reduce_axes))):
        if kind_of(kernel.reduce_axes[number]) is AxisType.REDUCE:
            attempt(kernel, Opt(OptOps.UNROLL, number, 0))
    tile_axis(kernel, row, most)
    thread_rest(kernel)


def sum_rows(kernel: Kernel, lanes: int) -> None:
    """Some rows of a sum over images for each place of a window (gradients by weights) written out
    where rows are short, so that each is read once for all places, which are written out already.
    """
    loops = [r for r in kernel.reduce_axes if kind_of(r) is AxisType.REDUCE]
    places = [r for r in kernel.axes if kind_of(r) is AxisType.UPCAST]
    if not loops or not slides(kernel, loops[-1], places):
        return
    written = [r for r in kernel.axes if kind_of(r) in (AxisType.UPCAST, AxisType.UNROLL)]
    products = iterations(tuple(written)) // lanes
    copies = copies_of(loops[-1], min(COPIES, PRODUCTS_WRITTEN // 2 // max(1, products)))
    if copies >= ROWS_LEAST:
        attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(loops[-1]), copies))


def slides(kernel: Kernel, row: UOp, places: Sequence[UOp]) -> bool:
    """Whether a step along a row and one to the next place of a window are the same in memory."""
    found = accesses(find_loops(kernel.ast))
    return any(a.stride(row) == a.stride(one) != 0 for a in found for one in places)
