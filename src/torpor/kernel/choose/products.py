"""Opts for products of two operands that are summed: cache blocks, register tiles, packed tiles.

The constants are from products of 64 to 2048, with short, long and transposed sums, on one thread
of Zen 3 (16 registers of 32 bytes, caches of 32 and 512 KB): `bench/results/kernels.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf
from typing import Final, NamedTuple

from torpor.base.target import LINE
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel.choose.columns import find_columns, tile_columns
from torpor.kernel.choose.contraction import Contraction, find_contraction, order_axes
from torpor.kernel.choose.depth import tile_depth
from torpor.kernel.choose.registers import (
    Plan,
    block_rows,
    pack,
    stage_over,
    thread_blocks,
    tile_rows,
    write_rows,
)
from torpor.kernel.choose.strips import Shapes, Strip, cut_lanes, shapes_of, strip_of, strips_of
from torpor.kernel.choose.vectors import attempt, attempt_all
from torpor.kernel.choose.windowed import tile_copied_rows, windows_of
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import iterations, kind_of, number_of, size_of

STREAM: Final = 6.0  # elements of a block that are computed while a row's element is read again
BLOCKS_WAITED: Final = 2.0  # blocks that a thread may wait for at the end
PANELS: Final = 8  # most panels of a block: what stays in the second cache with the other operand
TOGETHER: Final = 64  # elements along the vectors that should share rows which are packed
BESIDE: Final = 3  # panels of a matrix for which rows are read, below which sums go by blocks
FAR: Final = 6  # the same where the elements of a row that is read lie rows of memory apart
APART: Final = 64  # rows that pay for packing all panels anew
ROWS_SHARED: Final = 256  # rows that share panels for which these may be packed again
ROWS_OF_THREAD: Final = 48  # rows of a thread's block where nothing is packed
PIECES: Final = 4  # loops that threads can share, below which rows are cut into so many blocks
REUSE: Final = 16  # rows that must share a packed tile before packing it pays
# Rows that must share what wide windows slide over: from these on copying it is up to twice as fast
# as reading the windows where they are (3 x 3 and 5 x 5).
REUSE_WIDE: Final = 3
WIDE: Final = 9  # places of such a window
# Times what a first cache holds, of what passes by for each row: of 147 KB (weights of 3 x 3, 64 to
# 64 channels) rows that are copied took a tenth longer than packed panels.
PASSING: Final = 2
PAIRED: Final = 0.8  # the same and padding for words of two terms, beyond which they are no gain
TERMS: Final = (4, 2)  # of a DOT
WORDS: Final = 8  # products that must share a word before putting it together pays


class Strategy(NamedTuple):
    """A way to tile a contraction whose axes are in order, whether it suits one, and the reason to
    take it then. `tile` says whether it was done, and is tried on a copy; where it is None, the
    kernel is no contraction for this file. `least`: rows that must share what is packed.
    """

    suits: Callable[[Kernel, Plan], bool]
    tile: Callable[[Kernel, Plan], bool] | None
    reason: str
    least: int = REUSE


def tile_contraction(kernel: Kernel, most: float = inf) -> bool:
    """Choose opts for a kernel that is a large enough contraction, in which packing takes at most
    `most` times as long as the products; says whether it was one.
    """
    found = find_contraction(kernel, most=most)
    if found is None or found.shared < REUSE_WIDE:
        return False
    ordered = kernel.copy()
    plan = plan_of(ordered, found)
    for strategy in STRATEGIES:
        if found.shared < strategy.least or not strategy.suits(ordered, plan):
            continue
        if strategy.tile is None:
            return False
        if attempt_all(kernel, ordered, strategy.tile, plan):
            return True
    return False


def tile_words(kernel: Kernel) -> bool:
    """Sums of products of small formats several terms at a time, along the first reduce axis that
    suits: worth it where many products share a word that is put together; where a matrix is read
    down its columns, two of whose rows make words as quickly as they become int32; and always where
    both operands lie in memory as words.
    """
    ways = TERMS if kernel.target.dots else ()
    for terms, position in product(ways, range(len(kernel.reduce_axes))):
        trial = kernel.copy()
        if not attempt(trial, Opt(OptOps.DOT, position, terms)):
            continue
        if terms == min(TERMS) and tile_columns(trial):
            kernel.become(trial)
            return True
        dots = [n for n in trial.ast.toposort() if n.op is Ops.DOT]
        most = inf if all(s.op is Ops.LOAD for n in dots for s in n.src) else PAIRED
        if shares_words(trial, most) and tile_contraction(trial, most):
            kernel.become(trial)
            return True
    return False


def shares_words(kernel: Kernel, most: float) -> bool:
    """Whether so many products share each word that packing both operands pays."""
    found = find_contraction(kernel, most=most)
    return found is not None and min(found.shared, size_of(found.lane) or 1) >= WORDS


def plan_of(kernel: Kernel, found: Contraction) -> Plan:
    """The contraction with its axes put in order, and its register tile."""
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    around, row = order_axes(kernel, found)
    lanes = size_of(found.lane) or 1
    most = inf if around else max(lanes - 1, 2 * width)  # a loop over panels, to pack them in
    tiles = strip_of(lanes, width, shapes_for(kernel, found), most)
    reach = panels_room(kernel) // (found.length * found.packed.dtype.itemsize * tiles.panel)
    return Plan(found, around, row, tiles.panel, tiles.rows, reach)


def panels_room(kernel: Kernel) -> int:
    """Bytes of packed memory that panels may take; the rest is for rows."""
    return kernel.target.stage_bytes * 2 // 3


def shapes_for(kernel: Kernel, found: Contraction) -> Shapes:
    """The register tiles that suit the target and the format of the products."""
    fused = found.packed.dtype.is_float or any(opt.op is OptOps.DOT for opt in kernel.opts)
    return shapes_of(kernel.target.registers, fused)


def strips_for(kernel: Kernel, plan: Plan) -> tuple[Strip, ...]:
    """The register tiles of one or two kinds that cover the vectors' axis."""
    width = kernel.target.lanes(max(plan.found.packed.dtype.itemsize, 4))
    return strips_of(plan.lanes, width, shapes_for(kernel, plan.found))


# --- nothing packed -------------------------------------------------------------------------------
def is_in_place(kernel: Kernel, plan: Plan) -> bool:
    """Whether both operands are read where they are."""
    return plan.found.in_place


def tile_in_place(kernel: Kernel, plan: Plan) -> bool:
    """Nothing packed: panels are read where they are, all of them for each register tile's rows.
    Threads share blocks of the rows, where there are no other loops enough.
    """
    row, height = plan.row, plan.height
    crossing = plan.lanes * plan.found.packed.dtype.itemsize % LINE
    if plan.around and crossing and plan.found.shared > APART:
        return False  # vectors that cross lines in each of many rows
    strips = strips_for(kernel, plan)
    others = iterations(kernel.axes[:row])
    most = height if others >= PIECES else min(ROWS_OF_THREAD, height // PIECES)
    block = max((n for n in range(1, most + 1) if height % n == 0), default=1)
    if block < min(strips[0].rows, height) // 2:
        return False
    if block < height:
        kernel.apply_opt(Opt(OptOps.TILE, row, block))
    row += (block < height) - thread_blocks(kernel, row, block < height)
    rows = cut_lanes(kernel, row, strips)
    for place, strip in reversed(list(zip(rows, strips, strict=True))):
        write_rows(kernel, place, strip.rows)
    return True


# --- panels too long for packed memory ------------------------------------------------------------
def is_scarce(kernel: Kernel, plan: Plan) -> bool:
    """Whether too few panels have room, or there is no loop to pack the only one in."""
    wanted = min(plan.lanes, TOGETHER if plan.found.packs else plan.panel)
    nowhere = has_no_loop(plan) and not has_rounds(kernel, plan)
    return plan.reach * plan.panel < wanted or nowhere


def has_no_loop(plan: Plan) -> bool:
    """Whether there is no loop that panels could be packed in: a single one, and the same for all
    results.
    """
    return plan.around == 0 and plan.lanes <= plan.panel


def sums_columns(kernel: Kernel, plan: Plan) -> bool:
    """Whether panels have no room, and the kernel sums down columns for few rows."""
    return is_scarce(kernel, plan) and find_columns(kernel) is not None


def is_deep(kernel: Kernel, plan: Plan) -> bool:
    """Whether panels have no room; or, for a product of two matrices, where one could be as wide as
    the axis; or room for so few that rows are read too often: of many columns, or from rows of
    memory that lie far apart.
    """
    if is_scarce(kernel, plan) or plan.row or len(kernel.reduce_axes) > 1:
        return is_scarce(kernel, plan)
    many = plan.lanes > PANELS * plan.panel and plan.reach < BESIDE
    single = plan.panel < plan.lanes <= whole_strip(kernel, plan).panel
    return many or single or (plan.found.abreast and plan.reach < FAR)


def whole_strip(kernel: Kernel, plan: Plan) -> Strip:
    """The register tiles that suit best, be one of them as wide as the axis or not."""
    width = kernel.target.lanes(max(plan.found.packed.dtype.itemsize, 4))
    return strip_of(plan.lanes, width, shapes_for(kernel, plan.found))


def tile_deep(kernel: Kernel, plan: Plan) -> bool:
    """Blocks of the sum, which are a loop to pack in: one panel may be as wide as the axis."""
    strip = whole_strip(kernel, plan)
    return tile_depth(kernel, plan._replace(panel=strip.panel, rows=strip.rows))


# --- rows that windows slide over -----------------------------------------------------------------
def has_windows(kernel: Kernel, plan: Plan) -> bool:
    """Whether windows slide along the vectors' axis, as wide as few rows need them, and the other
    operand is read where it is.
    """
    found = plan.found
    if not 0 < plan.around == plan.row or found.packs or found.packed.op is not Ops.LOAD:
        return False
    _, windows = windows_of(kernel, kernel.axes[plan.row + 1])
    taps = iterations([window.summed for window in windows])
    read = found.shared * found.length * found.other.dtype.itemsize  # for each row of results
    wide = found.shared >= REUSE or taps >= WIDE
    return bool(windows) and wide and read <= PASSING * kernel.target.first_bytes


def tile_slid(kernel: Kernel, plan: Plan) -> bool:
    """Register tiles of one or two kinds over the rows that windows slide over, copied once."""
    return tile_copied_rows(kernel, plan, strips_for(kernel, plan))


# --- two kinds of register tiles ------------------------------------------------------------------
def has_strips(kernel: Kernel, plan: Plan) -> bool:
    """Whether two kinds of tiles suit the vectors' axis, all of which has room inside of some loop,
    and save more padding than threads may wait longer at the end, since there are half as many
    blocks.
    """
    strips = strips_for(kernel, plan)
    beside = 0 < plan.around == plan.row and not plan.found.packs
    if len(strips) == 1 or not (beside and plan.reach):
        return False
    padded = sum(strip.padded for strip in strips)
    packed = padded * plan.found.length * plan.found.packed.dtype.itemsize
    around = iterations(kernel.axes[: plan.row])
    block = lanes_of_block(kernel, plan)
    blocks = -(-plan.lanes // block)
    waiting = (1 + BLOCKS_WAITED / around) / (1 + BLOCKS_WAITED / (around * blocks))
    return packed <= panels_room(kernel) and blocks * block / padded >= waiting


def tile_strips(kernel: Kernel, plan: Plan) -> bool:
    """Two kinds of register tiles side by side, where the whole axis along the vectors is packed at
    once inside of some loop, and the rows are read where they are.
    """
    strips = strips_for(kernel, plan)
    rows = cut_lanes(kernel, plan.row, strips)
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    written = [number_of(r) for r in kernel.axes if kind_of(r) is AxisType.UPCAST]
    for number in written:
        one = next(r for r in kernel.axes if number_of(r) == number)
        if not stage_over(kernel, plan.around - 1, one, kernel.target.stage_bytes):
            return False
    for place, strip in reversed(list(zip(rows, strips, strict=True))):
        write_rows(kernel, place, strip.rows)
    return True


# --- few panels -----------------------------------------------------------------------------------
def is_narrow(plan: Plan) -> bool:
    """Whether all panels have room at once."""
    return plan.lanes <= min(plan.reach, PANELS) * plan.panel


def has_rounds(kernel: Kernel, plan: Plan) -> bool:
    """Whether all panels have room, are the same in all rounds of the first loop, and have enough
    rows in each.
    """
    if plan.around or not plan.row or plan.found.packs or not is_narrow(plan):
        return False
    rounds, panels = size_of(kernel.axes[0]) or 1, -(-plan.lanes // plan.panel)
    return rounds >= panels and plan.found.shared // rounds >= ROWS_SHARED


def tile_rounds(kernel: Kernel, plan: Plan) -> bool:
    """All panels at once in each round of the first loop, which threads share, so that rows are
    read once, not for each few panels.
    """
    if plan.lanes % plan.panel:
        kernel.apply_opt(Opt(OptOps.PADTO, plan.row + 1, plan.panel))
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, plan.row + 1, plan.panel))
    if not stage_over(kernel, 0, kernel.axes[-1], kernel.target.stage_bytes):
        return False
    tile_rows(kernel, plan, plan.row)
    return True


def packs_once(kernel: Kernel, plan: Plan) -> bool:
    """Whether all panels have room, and rows are packed that make more than a block."""
    return plan.row == 0 and plan.found.packs and is_narrow(plan) and rows_apart(plan) < plan.height


def rows_apart(plan: Plan) -> int:
    """Rows of a block for which all panels are packed anew."""
    height = plan.height
    return min(n for n in range(1, height + 1) if height % n == 0 and n >= min(APART, height))


def tile_narrow(kernel: Kernel, plan: Plan) -> bool:
    """All panels at once, where these are few: rows in blocks, so that there is a loop to pack them
    in.
    """
    if plan.lanes % plan.panel:
        kernel.apply_opt(Opt(OptOps.PADTO, 1, plan.panel))
    kernel.apply_opt(Opt(OptOps.TILE, 0, rows_apart(plan)))
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, 2, plan.panel))
    if not stage_over(kernel, 0, kernel.axes[-1], kernel.target.stage_bytes):
        return False
    tile_rows(kernel, plan, block_rows(kernel, plan, 1))
    return True


# --- some panels at a time ------------------------------------------------------------------------
def has_room(kernel: Kernel, plan: Plan) -> bool:
    """Whether some panel has room, and there is a loop to pack it in."""
    return plan.reach > 0 and not has_no_loop(plan)


def tile_panels(kernel: Kernel, plan: Plan) -> bool:
    """Panels as long as the sum, as many at a time as pay."""
    lane, row = plan.row + 1, plan.row
    block = lanes_of_block(kernel, plan)
    if plan.lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, block))
    tiled = plan.lanes > block
    if tiled:
        kernel.apply_opt(Opt(OptOps.TILE, lane, block))
        lane, row = lane + 1, row + 1
    joined = thread_blocks(kernel, threaded(plan), tiled)
    lane, row = lane - joined, row - joined
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, plan.panel))
    if not pack(kernel):
        return False
    if plan.found.packs and plan.height >= plan.line:
        row = block_rows(kernel, plan, row)
    tile_rows(kernel, plan, row)
    return True


def lanes_of_block(kernel: Kernel, plan: Plan) -> int:
    """How many elements of the vectors' axis share the rows that are read, a whole number of
    panels.
    """
    panels = -(-plan.lanes // plan.panel)
    near = max(PANELS, plan.reach // 2)  # more of them only where the sum is short
    most = min(plan.reach, near, panels if plan.around else panels - 1)  # packed inside some loop
    stream = STREAM * (4 if plan.found.scattered else 2 if plan.found.packs else 1)
    around = iterations(kernel.axes[: threaded(plan)])
    return plan.panel * panels_of(panels, most, plan.panel, around, stream)


def threaded(plan: Plan) -> int:
    """How many axes threads share besides blocks: not those that share rows which are packed."""
    return min(plan.around, 1) if plan.found.packs else plan.around


def panels_of(panels: int, most: int, panel: int, around: int, stream: float) -> int:
    """How many of an axis' panels a block has, where other loops run `around` times: weighs padding
    against reading the rows again for each block, and against too few blocks for the threads.
    """

    def cost(count: int) -> float:
        blocks = -(-panels // count)
        padding = blocks * count / panels
        return padding * (1 + stream / (count * panel)) * (1 + BLOCKS_WAITED / (blocks * around))

    return min(range(1, min(most, panels) + 1), key=cost)


# In order; the first that suits, and whose opts all fit, is taken.
STRATEGIES: Final = (
    Strategy(is_in_place, tile_in_place, "a first cache holds what all rows share as it is"),
    Strategy(has_windows, tile_slid, "windows share the rows that they overlap on", REUSE_WIDE),
    Strategy(sums_columns, None, "for few rows packing costs more than sums that grow in memory"),
    Strategy(is_deep, tile_deep, "panels as long as the sum would be too few for packed memory"),
    Strategy(has_strips, tile_strips, "a vector that wide tiles leave over is not padded"),
    Strategy(has_rounds, tile_rounds, "rows are read once, and each round packs all panels anew"),
    Strategy(packs_once, tile_narrow, "rows are packed once, and each block packs all panels anew"),
    Strategy(has_room, tile_panels, "panels stay in the second cache while rows pass by"),
)
