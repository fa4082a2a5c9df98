"""Opts for sums over short windows whose rows are copied first (WINDOW): register tiles of some
rows by some vectors of results, with all their products written out and no condition in them.
Likewise sums over images for each place of a window, where windows are some places apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses, strides_of
from torpor.kernel.choose.registers import cut_apart
from torpor.kernel.choose.roles import axes_of_results
from torpor.kernel.choose.vectors import attempt_all, thread_rest
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.partition import boundaries
from torpor.kernel.opts.sliding import Window, rows_of, windows_along
from torpor.kernel.opts.stage import direct_loads, reach
from torpor.kernel.ranges import find_loops, iterations, kind_of, number_of, size_of

PRODUCTS_WRITTEN: Final = 400  # products of vectors that are written out, at most
TAPS: Final = 12  # places of a window from which copying what it slides over pays
VECTORS_COPIED: Final = 16  # vectors of a row that is copied by code for the whole of it
PHASES: Final = 4  # rows of places a step apart that are copied together, at most
FIRST_SHARE: Final = 0.75  # of a first cache that rows stay in; the rest is for what passes by
CROSSING: Final = 1.44  # lines that a vector of half a line lies in: 7 of 16 places are in two
FACTOR: Final = 0.5  # of a read: a factor of the products of a row, taken from memory by them
SHAPES: Final = tuple(product(range(1, 8), range(1, 5)))  # rows by vectors of a register tile


class Sums(NamedTuple):
    """Sums over images for each place of a window (gradients by weights): load number `number` is
    copied in the loop at `level`; the summed axis of the vectors, and the places along it.
    """

    number: int
    level: int
    lane: UOp
    places: UOp


class Slide(NamedTuple):
    """A sum over windows: load number `number` is copied in the loop at `level`; the axis of the
    vectors, that of the rows, if any, how far rows and places of a window are apart in rows, how
    many rows a window has (`high`), and how many places (`taps`).
    """

    number: int
    level: int
    lane: UOp
    row: UOp | None
    steps: tuple[int, int]
    high: int
    taps: int


class Windowed(NamedTuple):
    """Load number `number`: where it can be copied, its windows, those along rows that lie far
    apart first, and the summed axes that run over no window.
    """

    number: int
    value: UOp
    level: int
    windows: list[Window]
    others: list[UOp]


def slide_rows(kernel: Kernel) -> bool:
    """Choose opts for a sum over windows; says whether the kernel is one."""
    found = find_slide(kernel)
    return found is not None and attempt_all(kernel, kernel, apply_tiles, found)


def find_slide(kernel: Kernel) -> Slide | None:
    """The sum over windows that the kernel is, if it is one and copying pays."""
    outputs = axes_of_results(kernel, find_loops(kernel.ast))
    taps = iterations(kernel.reduce_axes)
    if outputs is None or not kernel.target.threads or taps > PRODUCTS_WRITTEN:
        return None
    for load in loads_by_windows(kernel, outputs):
        last = load.windows[-1]
        row = load.windows[-2] if len(load.windows) > 1 else None
        pays = taps >= TAPS or is_sparse(load.value, last.one)
        if not load.others and pays and suits(kernel, last.one):
            return Slide(
                load.number, load.level, last.one, row.one if row else None,
                row_steps(row) if row else (1, 1), size_of(row.summed) or 1 if row else 1, taps,
            )  # fmt: skip
    return None


def slide_sums(kernel: Kernel) -> bool:
    """Choose opts for sums over images for each place of a window that read every s-th element;
    says whether the kernel does that.
    """
    found = find_sums(kernel)
    return found is not None and attempt_all(kernel, kernel, apply_sums, found)


def find_sums(kernel: Kernel) -> Sums | None:
    """The sums over images for each place of a window that the kernel is, if copying pays."""
    outputs = axes_of_results(kernel, find_loops(kernel.ast))
    if outputs is None or not kernel.target.threads:
        return None
    for load in loads_by_windows(kernel, outputs):
        last = load.windows[-1]
        lane, places = size_of(last.summed) or 1, size_of(last.one) or 1
        vectors = -(-lane // kernel.target.lanes(4))
        if last.along > 1 and places < lane and vectors * places <= PRODUCTS_WRITTEN // 4:
            return Sums(load.number, load.level, last.summed, last.one)
    return None


def loads_by_windows(kernel: Kernel, outputs: Sequence[UOp]) -> Iterator[Windowed]:
    """The loads that windows slide over inside some loop."""
    loops, fresh = find_loops(kernel.ast), 1 + max(number_of(r) for r in kernel.axes)
    for number, value in enumerate(direct_loads(kernel.ast)):
        along = [r for r in outputs if r in loops.free[value]]
        windows, _, others = windows_along(value, along, kernel.reduce_axes, fresh)
        windows.sort(key=partial(span, value))
        level = min((kernel.axes.index(w.one) for w in windows), default=0) - 1
        if level >= 0:
            yield Windowed(number, value, level, windows, others)


def is_sparse(value: UOp, one: UOp) -> bool:
    """Whether what is read along an axis has other places between, so that no vector reads it."""
    return strides_of(value.src[0].src[1]).get(one, 0) is None


def span(value: UOp, window: Window) -> int:
    """Sort key of windows: those along rows that lie far apart first."""
    return -reach(value, window.one)


def row_steps(window: Window) -> tuple[int, int]:
    """How many rows windows are apart, and how many the places of a window."""
    strides = strides_of(window.place)
    return strides.get(window.one) or 1, abs(strides.get(window.summed) or 1)


def suits(kernel: Kernel, lane: UOp) -> bool:
    """Whether results lie in a row along the axis, and all loads but one are the same there."""
    found = accesses(find_loops(kernel.ast))
    stored = all(a.stride(lane) == 1 for a in found if a.is_store)
    read = [a for a in found if not a.is_store and a.stride(lane) != 0]
    return stored and len(read) == 1


def apply_sums(kernel: Kernel, found: Sums) -> bool:
    """Rows copied; then vectors along them, and all places of a window. Always suits, but may not
    fit.
    """
    before, width = {number_of(r) for r in kernel.axes}, kernel.target.lanes(4)
    kernel.apply_opt(Opt(OptOps.WINDOW, found.level, found.number))
    write_copy(kernel, before)
    lane = kernel.axes.index(found.lane)
    if (size_of(found.lane) or 1) % width:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, width))
    kernel.apply_opt(Opt(OptOps.UNROLL, kernel.reduce_axes.index(kernel.axes[lane]), 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, kernel.axes.index(found.places), 0))
    return True


def apply_tiles(kernel: Kernel, found: Slide) -> bool:
    """Rows copied, in blocks that stay in the first cache; then the register tiles. Always suits,
    but may not fit.
    """
    row = kernel.axes.index(found.row) if found.row is not None else None
    level, lane = found.level, kernel.axes.index(found.lane)
    if row is not None and (block := block_of(kernel, found)) < (size_of(kernel.axes[row]) or 1):
        kernel.apply_opt(Opt(OptOps.TILE, row, block))
        first = 1 if kind_of(kernel.axes[0]) is AxisType.THREAD else 0
        for position in range(first, level + 1):
            kernel.apply_opt(Opt(OptOps.SWAP, position, position + 1))
        level, row, lane = level + 1, row + 1, lane + 1
    before = {number_of(r) for r in kernel.axes}
    kernel.apply_opt(Opt(OptOps.WINDOW, level, found.number))
    write_copy(kernel, before)
    lanes = kernel.target.lanes(4)
    width = size_of(kernel.axes[lane]) or 1
    height = size_of(kernel.axes[row]) or 1 if row is not None else 1
    rows, vectors = shape_of_tile(kernel, found, height, -(-width // lanes))
    write_tiles(kernel, lane, vectors * lanes)
    for number in reversed(range(len(kernel.reduce_axes))):
        kernel.apply_opt(Opt(OptOps.UNROLL, number, 0))
    if row is not None:
        write_tiles(kernel, row, rows)
    thread_rest(kernel)
    return True


def block_of(kernel: Kernel, found: Slide) -> int:
    """How many rows of results are computed from rows that stay in the first cache."""
    axes = kernel.axes
    lanes, fresh = kernel.target.lanes(4), 1 + max(number_of(r) for r in axes)
    value = direct_loads(kernel.ast)[found.number]
    rows = rows_of(kernel.ast, value, axes[found.level], fresh, lanes)
    assert rows is not None and found.row is not None
    height, (step, apart) = size_of(found.row) or 1, found.steps
    read = step * (height - 1) + apart * (found.high - 1) + 1
    room = int(FIRST_SHARE * kernel.target.first_bytes)
    most = (room * read // rows.bytes - apart * (found.high - 1) - 1) // step + 1
    blocks = [n for n in range(found.high, most + 1) if height % n == 0]
    return max(blocks, default=height)


def shape_of_tile(kernel: Kernel, found: Slide, height: int, width: int) -> tuple[int, int]:
    """(rows, vectors) of the register tiles that take least time."""
    room = kernel.target.registers
    shapes = [
        (rows, vectors)
        for rows, vectors in SHAPES
        if rows <= height and vectors <= width
        and (rows * vectors == 1 or rows * vectors + vectors < room)
        and (rows * vectors == 1 or rows * vectors * found.taps <= PRODUCTS_WRITTEN)
    ]  # fmt: skip
    return min(shapes, key=partial(time_of, found, height, width))


def time_of(found: Slide, height: int, width: int, shape: tuple[int, int]) -> float:
    """Cycles for all tiles of a shape: those of its products or of its reads, two a cycle."""
    (rows, vectors), (step, apart) = shape, found.steps
    read = {n * step + k * apart for n in range(rows) for k in range(found.high)}
    factors = found.taps * rows * FACTOR
    loads = len(read) * found.taps // found.high * vectors * CROSSING + factors
    tile = max(loads, rows * vectors * found.taps) / 2 + rows * vectors
    return tile * -(-height // rows) * -(-width // vectors)


def write_tiles(kernel: Kernel, axis: int, amount: int) -> None:
    """An axis in tiles of so much, which are written out; the last ones may overlap."""
    size = size_of(kernel.axes[axis]) or 1
    if size < amount:
        kernel.apply_opt(Opt(OptOps.PADTO, axis, amount))
    if amount > 1:
        overlaps = size > amount and size % amount
        kernel.apply_opt(Opt(OptOps.OVERLAP if overlaps else OptOps.UPCAST, axis, amount))


def write_copy(kernel: Kernel, before: set[int]) -> None:
    """The loops of the copy: rows beyond the image apart, whole rows of vectors written out, or
    where they are long all but their ends in a loop.
    """
    loops = [r for r in kernel.axes if number_of(r) not in before]
    lanes, last = kernel.target.lanes(4), loops[-1]
    if (size_of(last) or 1) <= VECTORS_COPIED * lanes:
        kernel.apply_opt(Opt(OptOps.UPCAST, kernel.axes.index(last), 0))
    else:
        write_ends(kernel, kernel.axes.index(last), lanes)
    for one in loops[:-1]:
        position = kernel.axes.index(one)
        if (size_of(one) or 1) <= PHASES:
            kernel.apply_opt(Opt(OptOps.UPCAST, position, 0))
            continue
        for end in reversed(boundaries(kernel.ast, one)):
            kernel.apply_opt(Opt(OptOps.PARTITION, position, end))


def write_ends(kernel: Kernel, position: int, lanes: int) -> None:
    """The first vector and the last two of a long row apart: the others need not ask anything."""
    size = size_of(kernel.axes[position]) or 1
    for end, amount in ((size - 2 * lanes, 0), (lanes, lanes)):
        part = cut_apart(kernel, position, end)
        assert part is not None
        kernel.apply_opt(Opt(OptOps.UPCAST, part, amount))
    kernel.apply_opt(Opt(OptOps.UPCAST, position, 0))
