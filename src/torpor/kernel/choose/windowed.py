"""Register tiles of products over rows that windows slide over.

before  out[o, y, x] = sum(c, j, i, w[o, c, j, i] * image[c, y + j - 1, x + i - 1])
after   rows[c, p, q] = image[c, p - 1, q - 1]      (for some y at a time)
        out[o, y, x] = sum(c, j, i, w[o, c, j, i] * rows[c, y + j, x + i])

Vectors run along `x`, and read the rows from any place on. STAGE would copy each element for every
place of a window, which few channels `o` share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.contraction import RESULTS, stride
from torpor.kernel.choose.registers import Plan, thread_blocks, write_rows
from torpor.kernel.choose.slides import write_copy, write_tiles
from torpor.kernel.choose.strips import Strip, cut_lanes
from torpor.kernel.choose.vectors import attempt_all
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import Window, rows_of, windows_along
from torpor.kernel.opts.stage import direct_loads
from torpor.kernel.ranges import find_loops, kind_of, number_of, size_of

ROWS: Final = 8  # rows of results for which those of the image are copied together, at most
ROOM: Final = 3  # times what they take, by choice, is room for all that is packed


def windows_of(kernel: Kernel, lane: UOp) -> tuple[int, list[Window]]:
    """Which load runs along the vectors' axis, and its windows; none where it has none along that
    axis, or what they slide over lies in no row there.
    """
    loops = find_loops(kernel.ast)
    for number, load in enumerate(direct_loads(kernel.ast)):
        if lane in loops.free[load]:
            outputs = [r for r in kernel.axes if kind_of(r) in RESULTS and r in loops.free[load]]
            windows, _, _ = windows_along(load, outputs, kernel.reduce_axes, kernel.fresh)
            if any(w.one is lane and slides_in_rows(load, w) for w in windows):
                return number, windows
    return 0, []


def slides_in_rows(load: UOp, window: Window) -> bool:
    """Whether there are more windows than places in one, along neighbours in memory."""
    one, summed = window.one, window.summed
    return stride(load, one) == window.step and (size_of(one) or 1) > (size_of(summed) or 1)


def tile_copied_rows(kernel: Kernel, plan: Plan, strips: Sequence[Strip]) -> bool:
    """Rows copied for as many rows of results as there is room for, then the register tiles; says
    whether it was done.
    """
    number, windows = windows_of(kernel, kernel.axes[plan.row + 1])
    rows = kernel.axes[plan.around - 1]
    height = size_of(rows) or 1 if any(w.one is rows for w in windows) else 1
    blocks = [n for n in range(min(height, ROWS), 0, -1) if height % n == 0]
    return any(
        attempt_all(kernel, kernel, tile_block, plan, strips, number, block)
        for block in blocks
        if plan.around > 1 or block < height or block == 1
    )


def tile_block(
    kernel: Kernel, plan: Plan, strips: Sequence[Strip], number: int, block: int
) -> bool:
    """The same for `block` rows of results, by the windows of load `number`; says whether there is
    room.
    """
    level, row = plan.around - 1, plan.row
    height = size_of(kernel.axes[level]) or 1
    if block == height > 1:
        level -= 1
    elif block > 1:
        kernel.apply_opt(Opt(OptOps.TILE, level, block))
        for position in range(level):
            kernel.apply_opt(Opt(OptOps.SWAP, position, position + 1))
        row += 1
    joined = thread_blocks(kernel, level + 1, False)
    level, row = level - joined, row - joined
    before, lanes = {number_of(r) for r in kernel.axes}, kernel.target.lanes(4)
    load = direct_loads(kernel.ast)[number]
    rows = rows_of(kernel.ast, load, kernel.axes[level], kernel.fresh, lanes)
    if rows is None or rows.bytes * ROOM > kernel.target.stage_bytes:
        return False
    kernel.apply_opt(Opt(OptOps.WINDOW, level, number))
    write_copy(kernel, before)
    if len(strips) == 1:
        write_tiles(kernel, row + 1, strips[0].panel)
    places = [row] if len(strips) == 1 else cut_lanes(kernel, row, strips)
    for place, strip in reversed(list(zip(places, strips, strict=True))):
        write_rows(kernel, place, strip.rows)
    return True
