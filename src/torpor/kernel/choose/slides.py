"""Opts for sums over short windows, whose products are all written out.

Where windows have many places, or results others between them, what they slide over is copied first
(STAGE): register tiles of some rows by a vector then ask no condition. Likewise sums over
images for each place of a window, where windows are some places apart.

Of others (depthwise convolutions, pools) whole rows of results are written out: every condition at
the edges of a row is then known for each lane, so that only the vectors at its ends are masked, and
memory is read and written in its order. Rows beside each other share the rows of the window in
which they overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses, strides_of
from torpor.kernel.choose.registers import cut_apart
from torpor.kernel.choose.reuse import COPIES, overlap, reuse_axes
from torpor.kernel.choose.roles import axes_of_results
from torpor.kernel.choose.vectors import (
    SPARE,
    WOVEN,
    Facts,
    attempt,
    attempt_all,
    copies_of,
    pad_lane,
    paddable,
    thread_rest,
    tile_axis,
)
from torpor.kernel.cost import SUMS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import Window, windows_along
from torpor.kernel.opts.stage import direct_loads, reach
from torpor.kernel.ranges import (
    OUTPUTS,
    find_loops,
    has_few_rounds,
    iterations,
    kind_of,
    number_of,
    size_of,
)

PRODUCTS_WRITTEN: Final = 400  # products of vectors that are written out, at most, of a tile
ROWS_WRITTEN: Final = 256  # and of rows that are not copied, whose ends are masked
TAPS: Final = 12  # places of a window from which copying what it slides over pays
VECTORS_COPIED: Final = 16  # vectors of a row that is copied by code for the whole of it
ROWS_LEAST: Final = 4  # of a sum over images: fewer than that written out together gain nothing


class Windowed(NamedTuple):
    """Load number `number`: where it can be copied, its windows, those along rows that lie far
    apart first, and the summed axes that run over no window.
    """

    number: int
    value: UOp
    level: int
    windows: list[Window]
    others: list[UOp]


# --- rows that are copied -------------------------------------------------------------------------
def slide(kernel: Kernel) -> bool:
    """Choose opts for a sum over windows whose rows are copied, or for sums over images; says
    whether the kernel is one.
    """
    for suits, apply in ((suits_tiles, apply_tiles), (suits_sums, apply_sums)):
        found = next((load for load in windowed_loads(kernel) if suits(kernel, load)), None)
        if found is not None and attempt_all(kernel, kernel, apply, found):
            return True
    return False


def windowed_loads(kernel: Kernel) -> Iterator[Windowed]:
    """The loads of a kernel's one reduction that windows slide over inside some loop."""
    loops = find_loops(kernel.ast)
    outputs = axes_of_results(kernel, loops)
    if outputs is None or not kernel.target.threads:
        return
    fresh = 1 + max(number_of(r) for r in kernel.axes)
    for number, value in enumerate(direct_loads(kernel.ast)):
        along = [r for r in outputs if r in loops.free[value]]
        windows, _, others = windows_along(value, along, kernel.reduce_axes, fresh)
        windows.sort(key=partial(span, value))
        level = min((kernel.axes.index(w.one) for w in windows), default=0) - 1
        if level >= 0:
            yield Windowed(number, value, level, windows, others)


def span(value: UOp, window: Window) -> int:
    """Sort key of windows: those along rows that lie far apart first."""
    return -reach(value, window.one)


def suits_tiles(kernel: Kernel, load: Windowed) -> bool:
    """Whether nothing but windows is summed, copying pays, results lie in a row along the last
    window that fills most of a vector, and all other loads are the same there. Copying pays for
    windows of many places, and where elements have others between them, so that no vector reads
    them.
    """
    lane, taps = load.windows[-1].one, iterations(kernel.reduce_axes)
    if load.others or taps > PRODUCTS_WRITTEN or not fills_vector(kernel, lane):
        return False
    if taps < TAPS and strides_of(load.value.src[0].src[1]).get(lane, 0) is not None:
        return False
    found = accesses(find_loops(kernel.ast))
    read = [a for a in found if not a.is_store and a.stride(lane) != 0]
    return len(read) == 1 and all(a.stride(lane) == 1 for a in found if a.is_store)


def suits_sums(kernel: Kernel, load: Windowed) -> bool:
    """Whether these are sums over images for each place of a window that read every s-th element,
    few of them, and of an image of its own for each result, which share nothing else.
    """
    last, free = load.windows[-1], find_loops(kernel.ast).free[load.value]
    if not free.issuperset(kernel.axes) or not fills_vector(kernel, last.summed):
        return False
    lane, places = size_of(last.summed) or 1, size_of(last.one) or 1
    vectors = -(-lane // kernel.target.lanes(4))
    return last.along > 1 and places < lane and vectors * places <= PRODUCTS_WRITTEN // 4


def fills_vector(kernel: Kernel, lane: UOp) -> bool:
    """Whether an axis is as long as most of a vector: else what is copied is mostly padding."""
    return (size_of(lane) or 1) >= kernel.target.lanes(4) * (1 - SPARE)


def apply_sums(kernel: Kernel, load: Windowed) -> bool:
    """Rows copied; then vectors along them, and all places of a window. Always suits, but may not
    fit.
    """
    copy_rows(kernel, load.level, load.number)
    width, last = kernel.target.lanes(4), load.windows[-1]
    lane = kernel.axes.index(last.summed)
    if (size_of(last.summed) or 1) % width:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, width))
    kernel.apply_opt(Opt(OptOps.UNROLL, kernel.reduce_axes.index(kernel.axes[lane]), 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, kernel.axes.index(last.one), 0))
    return True


def apply_tiles(kernel: Kernel, load: Windowed) -> bool:
    """Rows copied; then the register tiles: a vector of as many rows as are added side by side.
    Always suits, but may not fit.
    """
    *rows, lane = [kernel.axes.index(window.one) for window in load.windows[-2:]]
    copy_rows(kernel, load.level, load.number)
    write_tiles(kernel, lane, kernel.target.lanes(4))
    taps = iterations(kernel.reduce_axes)
    for number in reversed(range(len(kernel.reduce_axes))):
        kernel.apply_opt(Opt(OptOps.UNROLL, number, 0))
    for row in rows:
        most = min(SUMS, PRODUCTS_WRITTEN // taps, size_of(kernel.axes[row]) or 1)
        write_tiles(kernel, row, most)
    thread_rest(kernel)
    return True


def write_tiles(kernel: Kernel, axis: int, amount: int) -> None:
    """An axis in tiles of so much, which are written out; the last ones may overlap."""
    size = size_of(kernel.axes[axis]) or 1
    if size < amount:
        kernel.apply_opt(Opt(OptOps.PADTO, axis, amount))
    if amount > 1:
        overlaps = size > amount and size % amount
        kernel.apply_opt(Opt(OptOps.OVERLAP if overlaps else OptOps.UPCAST, axis, amount))


def copy_rows(kernel: Kernel, level: int, number: int) -> None:
    """What windows slide over in load number `number`, copied in the loop at `level`: whole rows of
    vectors written out, or where they are long all but their ends in a loop.
    """
    before = {number_of(r) for r in kernel.axes}
    kernel.apply_opt(Opt(OptOps.STAGE, level, ~number))
    loops = [r for r in kernel.axes if number_of(r) not in before]
    lanes, last = kernel.target.lanes(4), loops[-1]
    if (size_of(last) or 1) <= VECTORS_COPIED * lanes:
        kernel.apply_opt(Opt(OptOps.UPCAST, kernel.axes.index(last), 0))
    else:
        write_ends(kernel, kernel.axes.index(last), lanes)
    for one in loops[:-1]:
        if (size_of(one) or 1) <= WOVEN:
            kernel.apply_opt(Opt(OptOps.UPCAST, kernel.axes.index(one), 0))


def write_ends(kernel: Kernel, position: int, lanes: int) -> None:
    """The first vector and the last two of a long row apart: the others need not ask anything."""
    size = size_of(kernel.axes[position]) or 1
    for end, amount in ((size - 2 * lanes, 0), (lanes, lanes)):
        part = cut_apart(kernel, position, end)
        assert part is not None
        kernel.apply_opt(Opt(OptOps.UPCAST, part, amount))
    kernel.apply_opt(Opt(OptOps.UPCAST, position, 0))


# --- whole rows -----------------------------------------------------------------------------------
def short_rows(facts: Facts) -> bool:
    """Whole rows along the last output axis that suits, where vectors along it would have to ask
    which of their lanes there are; says whether there is one. Without it pools by
    strides of 2 and 3 and their gradients take 5 times as long (mean of 14, AVX2).
    """
    kernel = facts.kernel
    outputs = [r for r in reversed(kernel.axes) if kind_of(r) in OUTPUTS[1:]]
    lane = next((r for r in outputs if paddable(facts, r, whole_rows=True)), None)
    if lane is None or not kernel.has_reduce:
        return False
    return tile_windows(facts, lane, reuse_axes(kernel, facts.accesses, lane))


def tile_windows(facts: Facts, lane: UOp, reused: list[UOp]) -> bool:
    """Whole rows along `lane`, a few at a time, and their sums written out; says whether that suits
    the kernel: the first of the `reused` axes is one along which windows overlap, and the products
    of a row are few.
    """
    kernel = facts.kernel
    if not any(overlap(kernel, a, one) for one in reused[:1] for a in facts.accesses):
        return False
    if not all(map(has_few_rounds, kernel.reduce_axes)):
        return False
    vectors = -(-(size_of(lane) or ROWS_WRITTEN) // facts.lanes)
    written = [r for r in kernel.axes if kind_of(r) is AxisType.UPCAST]
    products = vectors * iterations((*kernel.reduce_axes, *written))
    if products > ROWS_WRITTEN:
        return False
    row = pad_lane(facts, lane, whole_rows=True)
    write_sums(kernel, row, reused[0], ROWS_WRITTEN // products)
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
    copies = copies_of(loops[-1], min(COPIES, ROWS_WRITTEN // 2 // max(1, products)))
    if copies >= ROWS_LEAST:
        attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(loops[-1]), copies))


def slides(kernel: Kernel, row: UOp, places: Sequence[UOp]) -> bool:
    """Whether a step along a row and one to the next place of a window are the same in memory."""
    found = accesses(find_loops(kernel.ast))
    return any(a.stride(row) == a.stride(one) != 0 for a in found for one in places)
