"""Opts for products of two operands that are summed: cache blocks, register tiles, packed tiles.

The constants are from products of 64 to 2048, with short, long and transposed sums, on one thread
of Zen 3 (16 registers of 32 bytes, caches of 32 and 512 KB): `bench/results/kernels.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf
from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.columns import find_columns
from torpor.kernel.contraction import LINE, Contraction, find_contraction, order_axes
from torpor.kernel.depth import tile_depth
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import iterations, kind_of, number_of, size_of
from torpor.kernel.registers import (
    ROWS_PACKED,
    Plan,
    block_rows,
    pack,
    stage_over,
    tile_rows,
    write_rows,
)
from torpor.kernel.strips import Shapes, Strip, cut_lanes, shapes_of, strip_of, strips_of
from torpor.kernel.vectors import attempt, attempt_all

STREAM: Final = 6.0  # elements of a block that are computed while a row's element is read again
FEW: Final = 2.0  # blocks that a thread may wait for at the end
PANELS: Final = 8  # most panels of a block: what stays in the second cache with the other operand
TOGETHER: Final = 64  # elements along the vectors that should share rows which are packed
BESIDE: Final = 3  # panels of a matrix for which rows are read, below which sums go by blocks
APART: Final = 64  # rows that pay for packing all panels anew
SHARED: Final = 256  # rows that share panels for which these may be packed again
ROWS: Final = 48  # rows of a thread's block where nothing is packed
PIECES: Final = 4  # loops that threads can share, below which rows are cut into so many blocks
REUSE: Final = 16  # rows that must share a packed tile before packing it pays
PAIRED: Final = 0.8  # the same and padding for words of two terms, beyond which they are no gain
IN_WORDS: Final = (OptOps.PAIR, OptOps.QUAD)  # few of these products wait to be added
WORDS: Final = 48  # products that must share a word before putting it together pays


def tile_contraction(kernel: Kernel, most: float = inf) -> bool:
    """Choose opts for a kernel that is a large enough contraction, in which packing takes at most
    `most` times as long as the products; says whether it was one.
    """
    found = find_contraction(kernel, most=most)
    if found is None or found.shared < REUSE:
        return False
    ordered = kernel.copy()
    plan = plan_of(ordered, found)
    if found.in_place and attempt_all(kernel, ordered, tile_in_place, plan):
        return True
    room = kernel.target.stage_bytes * 2 // 3
    reach = room // (found.length * found.packed.dtype.itemsize * plan.panel)
    lanes = size_of(found.lane) or 1
    wanted = min(lanes, TOGETHER if found.packs else plan.panel)
    nowhere = plan.around == 0 and lanes <= plan.panel
    scarce = reach * plan.panel < wanted or nowhere
    if scarce and find_columns(kernel):
        return False  # few rows: packing costs more than sums that grow in memory
    if scarce or (reach < BESIDE and is_plain(kernel, plan)):
        if attempt_all(kernel, ordered, tile_depth, plan):
            return True
    narrow = lanes <= min(reach, PANELS) * plan.panel
    return (
        attempt_all(kernel, ordered, tile_strips, plan, reach)
        or (narrow and attempt_all(kernel, ordered, tile_rounds, plan))
        or (narrow and attempt_all(kernel, ordered, tile_narrow, plan))
        or (not nowhere and reach > 0 and attempt_all(kernel, ordered, tile_panels, plan, reach))
    )


def is_plain(kernel: Kernel, plan: Plan) -> bool:
    """Whether the contraction is a product of two matrices, of many columns."""
    lanes = size_of(plan.found.lane) or 1
    return plan.row == 0 and len(kernel.reduce_axes) == 1 and lanes > PANELS * plan.panel


def tile_words(kernel: Kernel) -> bool:
    """A contraction of small integers several terms at a time, along the first reduce axis that
    suits: worth it where both operands are packed, so that many products share a word.
    """
    ways = [OptOps.QUAD] * bool(kernel.target.quads) + [OptOps.PAIR] * kernel.target.pairs
    for op, position in product(ways, range(len(kernel.reduce_axes))):
        trial = kernel.copy()
        if not attempt(trial, Opt(op, position)):
            continue
        found = find_contraction(trial, most=PAIRED)
        if found is None or min(found.shared, size_of(found.lane) or 1) < WORDS:
            continue
        if tile_contraction(trial, PAIRED):
            kernel.become(trial)
            return True
    return False


def plan_of(kernel: Kernel, found: Contraction) -> Plan:
    """The contraction with its axes put in order, and its register tile."""
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    around, row = order_axes(kernel, found)
    lanes = size_of(found.lane) or 1
    most = inf if around else max(lanes - 1, 2 * width)  # a loop over panels, to pack them in
    tiles = strip_of(lanes, width, shapes_for(kernel, found), most)
    return Plan(found, around, row, tiles.panel, tiles.rows)


def shapes_for(kernel: Kernel, found: Contraction) -> Shapes:
    """The register tiles that suit the target and the format of the products."""
    fused = found.packed.dtype.is_float or any(opt.op in IN_WORDS for opt in kernel.opts)
    return shapes_of(kernel.target.registers, fused)


def tile_in_place(kernel: Kernel, plan: Plan) -> bool:
    """Nothing packed: panels are read where they are, all of them for each register tile's rows.
    Threads share blocks of the rows, where there are no other loops enough.
    """
    row, lanes, height = plan.row, size_of(plan.found.lane) or 1, size_of(plan.found.row) or 1
    width = kernel.target.lanes(max(plan.found.packed.dtype.itemsize, 4))
    if plan.around and lanes % LINE and plan.found.shared > APART:
        return False  # vectors that cross lines in each of many rows
    strips = strips_of(lanes, width, shapes_for(kernel, plan.found))
    others = iterations(kernel.axes[:row])
    most = height if others >= PIECES else min(ROWS, height // PIECES)
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


def tile_strips(kernel: Kernel, plan: Plan, reach: int) -> bool:
    """Two kinds of register tiles side by side, where the whole axis along the vectors is packed at
    once inside of some loop, and the rows are read where they are.
    """
    found = plan.found
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    strips = strips_of(size_of(found.lane) or 1, width, shapes_for(kernel, found))
    beside = 0 < plan.around == plan.row and not found.packs
    if len(strips) == 1 or not (beside and reach) or not strips_pay(kernel, plan, strips, reach):
        return False
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


def strips_pay(kernel: Kernel, plan: Plan, strips: Sequence[Strip], reach: int) -> bool:
    """Whether packed strips have room together, and save more padding than threads may wait longer
    at the end, since there are half as many blocks.
    """
    padded = sum(strip.padded for strip in strips)
    packed = padded * plan.found.length * plan.found.packed.dtype.itemsize
    around = iterations(kernel.axes[: plan.row])
    block, lanes = lanes_of_block(kernel, plan, reach), size_of(plan.found.lane) or 1
    blocks = -(-lanes // block)
    waiting = (1 + FEW / around) / (1 + FEW / (around * blocks))
    saved = blocks * block / padded
    return packed <= kernel.target.stage_bytes * 2 // 3 and saved >= waiting


def tile_rounds(kernel: Kernel, plan: Plan) -> bool:
    """All panels at once in each round of the first loop, which threads share, where they are the
    same in all of them, and enough rows in each: so rows are read once, not for each few panels.
    """
    rounds, panels = size_of(kernel.axes[0]) or 1, -(-(size_of(plan.found.lane) or 1) // plan.panel)
    enough = rounds >= panels and plan.found.shared // rounds >= SHARED
    if plan.around or not plan.row or plan.found.packs or not enough:
        return False
    if (size_of(plan.found.lane) or 1) % plan.panel:
        kernel.apply_opt(Opt(OptOps.PADTO, plan.row + 1, plan.panel))
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, plan.row + 1, plan.panel))
    if not stage_over(kernel, 0, kernel.axes[-1], kernel.target.stage_bytes):
        return False
    tile_rows(kernel, plan, plan.row)
    return True


def tile_narrow(kernel: Kernel, plan: Plan) -> bool:
    """All panels at once, where these are few: rows in blocks, so that there is a loop to pack them
    in. Else rows that are packed too would be so for each few panels.
    """
    height, lanes = size_of(plan.found.row) or 1, size_of(plan.found.lane) or 1
    block = min(n for n in range(1, height + 1) if height % n == 0 and n >= min(APART, height))
    if plan.row or not plan.found.packs or block == height:
        return False
    if lanes % plan.panel:
        kernel.apply_opt(Opt(OptOps.PADTO, 1, plan.panel))
    kernel.apply_opt(Opt(OptOps.TILE, 0, block))
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, 2, plan.panel))
    if not stage_over(kernel, 0, kernel.axes[-1], kernel.target.stage_bytes):
        return False
    tile_rows(kernel, plan, block_rows(kernel, 1, together(kernel, plan)))
    return True


def tile_panels(kernel: Kernel, plan: Plan, reach: int) -> bool:
    """Panels as long as the sum, `reach` of which have room."""
    found, lane, row = plan.found, plan.row + 1, plan.row
    lanes, height = size_of(found.lane) or 1, size_of(found.row) or 1
    block = lanes_of_block(kernel, plan, reach)
    if lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, block))
    tiled = lanes > block
    if tiled:
        kernel.apply_opt(Opt(OptOps.TILE, lane, block))
        lane, row = lane + 1, row + 1
    joined = thread_blocks(kernel, threaded(plan), tiled)
    lane, row = lane - joined, row - joined
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, plan.panel))
    if not pack(kernel):
        return False
    if found.packs and height >= ROWS_PACKED:
        row = block_rows(kernel, row, together(kernel, plan))
    tile_rows(kernel, plan, row)
    return True


def lanes_of_block(kernel: Kernel, plan: Plan, reach: int) -> int:
    """How many elements of the vectors' axis share the rows that are read, a whole number of
    panels.
    """
    lanes = size_of(plan.found.lane) or 1
    panels = -(-lanes // plan.panel)
    near = max(PANELS, reach // 2)  # more of them only where the sum is short
    most = min(reach, near, panels if plan.around else panels - 1)  # packed inside some loop
    stream = STREAM * (4 if plan.found.scattered else 2 if plan.found.packs else 1)
    around = iterations(kernel.axes[: threaded(plan)])
    return plan.panel * panels_of(panels, most, plan.panel, around, stream)


def threaded(plan: Plan) -> int:
    """How many axes threads share besides blocks: not those that share rows which are packed."""
    return min(plan.around, 1) if plan.found.packs else plan.around


def thread_blocks(kernel: Kernel, around: int, tiled: bool) -> int:
    """The first `around` axes for the threads, and then the blocks, if the vectors' axis is `tiled`
    in them: what a thread does one after the other lies side by side. Gives how many axes joined
    others.
    """
    if kind_of(kernel.axes[0]) is not AxisType.GLOBAL:
        return 0
    places = [tiled + (number > 0) for number in range(around)] + [min(around, 1)] * tiled
    for place in places:
        kernel.apply_opt(Opt(OptOps.THREAD, place, 0))
    return max(len(places) - 1, 0)


def together(kernel: Kernel, plan: Plan) -> int:
    """How many rows may be packed together: two cache lines, as long as there is room."""
    room = kernel.target.stage_bytes // 3
    fit = room // (plan.found.length * plan.found.other.dtype.itemsize)
    return min(2 * ROWS_PACKED, fit)


def panels_of(panels: int, most: int, panel: int, around: int, stream: float) -> int:
    """How many of an axis' panels a block has, where other loops run `around` times: weighs padding
    against reading the rows again for each block, and against too few blocks for the threads.
    """

    def cost(count: int) -> float:
        blocks = -(-panels // count)
        padding = blocks * count / panels
        return padding * (1 + stream / (count * panel)) * (1 + FEW / (blocks * around))

    return min(range(1, min(most, panels) + 1), key=cost)
