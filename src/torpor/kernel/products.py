"""Opts for products of two operands that are summed: cache blocks, register tiles, packed tiles."""

from __future__ import annotations

from typing import Final

from torpor.base.errors import OptError
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.contraction import Contraction, find_contraction, order_axes
from torpor.kernel.depth import tile_depth
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import iterations, kind_of, size_of
from torpor.kernel.registers import (
    ROWS_PACKED,
    Plan,
    block_rows,
    pack,
    tile_rows,
    tile_shape,
)

STREAM: Final = 6.0  # elements of a block that are computed while a row's element is read again
FEW: Final = 2.0  # blocks that a thread may wait for at the end
PANELS: Final = 8  # most panels of a block: what stays in the second cache with the other operand
REUSE: Final = 16  # rows that must share a packed tile before packing it pays


def tile_contraction(kernel: Kernel) -> bool:
    """Choose opts for a kernel that is a large enough contraction; says whether it was one."""
    found = find_contraction(kernel)
    if found is None:
        return False
    trial = kernel.copy()
    if not apply_tiles(trial, found):
        return False
    kernel.__dict__.update(trial.__dict__)
    return True


def apply_tiles(kernel: Kernel, found: Contraction) -> bool:
    """Blocks, threads, register tiles, then the packing; False where some size does not suit."""
    if found.shared < REUSE:
        return False
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    vectors, rows = tile_shape(size_of(found.lane) or 1, width, kernel.target.registers)
    plan = Plan(found, *order_axes(kernel, found), vectors * width, rows)
    room = kernel.target.stage_bytes * 2 // 3
    reach = room // (found.length * found.packed.dtype.itemsize * plan.panel)
    nowhere = plan.around == 0 and (size_of(found.lane) or 1) <= plan.panel
    try:
        return (
            tile_depth(kernel, plan) if nowhere or not reach else tile_panels(kernel, plan, reach)
        )
    except OptError:  # more than packed memory holds
        return False


def tile_panels(kernel: Kernel, plan: Plan, reach: int) -> bool:
    """Panels as long as the sum, `reach` of which have room."""
    found, lane, row = plan.found, plan.row + 1, plan.row
    lanes, height = size_of(found.lane) or 1, size_of(found.row) or 1
    stream = STREAM * (4 if found.scattered else 1)
    around = iterations(kernel.axes[:row])
    panels = -(-lanes // plan.panel)
    most = min(reach, PANELS, panels if plan.around else panels - 1)  # packed inside some loop
    block = plan.panel * panels_of(panels, most, plan.panel, around, stream)
    if lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, block))
    if -(-lanes // block) > 1:
        kernel.apply_opt(Opt(OptOps.TILE, lane, block))
        lane, row = lane + 1, row + 1
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL and row > 0 and lane > 0:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, plan.panel))
    if not pack(kernel):
        return False
    if (found.scattered or found.masked) and height >= ROWS_PACKED:
        row = block_rows(kernel, row, together(kernel, plan))
    tile_rows(kernel, plan, row)
    return True


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
