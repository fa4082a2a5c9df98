"""Opts for products whose sum is too long for packed panels: the sum goes block by block.

Each thread has a block of results, which grow in memory beside the loops. For each block of the sum
panels of one operand are packed, which all rows of the thread's results share.

Times are in products of one thread of Zen 3, from the runs in `bench/results/kernels.md`.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.contraction import stride
from torpor.kernel.choose.registers import Plan, rows_together, stage_over, tile_rows
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import iterations, size_of

DEPTH: Final = 512  # steps of the sum in a block, at most: a panel of them fills a first cache
SHALLOW: Final = 96  # steps that pay for reading and writing the partial results
TIME_PACKED: Final = 32.0  # products that take as long as packing an element of the panels
TIME_COPIED: Final = 10.0  # products that take as long as packing an element of the rows
TIME_READ: Final = 6.0  # products that take as long as reading an element of the rows anew
ROWS_SHARED: Final = 16  # rows, at least, that share panels
BLOCKS_WAITED: Final = 0.5  # blocks that a thread may wait for at the end


class Blocks(NamedTuple):
    """What a thread does at once: results along the vectors, rows, rows that are packed together,
    and rounds of each reduce axis.
    """

    lanes: int
    rows: int
    together: int
    depth: tuple[int, ...]


def tile_depth(kernel: Kernel, plan: Plan) -> bool:
    """Blocks of the results for the threads, blocks of the sum, then packing and register tiles;
    False where some size does not suit.
    """
    blocks = blocks_of(kernel, plan)
    if blocks is None:
        return False
    outer = cut_results(kernel, plan, blocks)
    results = len(kernel.axes) - len(kernel.reduce_axes)
    first = results + cut_sum(kernel, blocks.depth)
    lane = first + results - outer - 1
    row, most = lane - 1, kernel.target.stage_bytes
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, plan.panel))
    if not stage_over(kernel, first - 1, kernel.axes[-1], most):
        return False
    tile_rows(kernel, plan, row)
    return True


def blocks_of(kernel: Kernel, plan: Plan) -> Blocks | None:
    """The sizes that cost least, of those for which packed panels and partial results have room;
    None where there are none.
    """
    vector = plan.panel * plan.found.packed.dtype.itemsize
    room = kernel.target.stage_bytes // 3
    depth = depth_of(kernel, plan.found.packed, min(DEPTH, room // vector))
    if not SHALLOW <= prod(depth) < plan.found.length:
        return None
    height, lanes = size_of(plan.found.row) or 1, size_of(plan.found.lane) or 1
    others, around = plan.found.shared // height, iterations(kernel.axes[: plan.around])
    stream = TIME_COPIED if plan.found.packs else TIME_READ
    best: tuple[float, int, int] | None = None
    for panels in range(1, min(-(-lanes // plan.panel), room // (prod(depth) * vector)) + 1):
        fit = room * 3 // 2 // (panels * vector * others)
        for rows in (n for n in range(1, min(fit, height) + 1) if height % n == 0):
            blocks = -(-lanes // (panels * plan.panel))
            padding = blocks * panels * plan.panel / lanes
            reading = 1 + TIME_PACKED / (rows * others) + stream / (panels * plan.panel)
            waiting = 1 + BLOCKS_WAITED / (blocks * around * height // rows)
            cost = padding * reading * waiting
            if rows * others >= ROWS_SHARED and (best is None or cost < best[0]):
                best = cost, panels, rows
    if best is None:
        return None
    together = rows = best[2]
    if plan.found.packs:
        together = rows_together(rows, 2 * plan.line, plan.line)
        together = together if rows % together == 0 else rows
    return Blocks(best[1] * plan.panel, rows, together, depth)


def depth_of(kernel: Kernel, packed: UOp, most: int) -> tuple[int, ...]:
    """Rounds of each reduce axis in a block: divisors, up to `most` steps in all, and half of the
    sum. Axes go first along which neighbours of what is packed are nearest, and inner ones: lines
    are then read for one block only.
    """
    left = min(most, iterations(kernel.reduce_axes) // 2)
    amounts: dict[UOp, int] = {}
    inner = {one: -place for place, one in enumerate(kernel.reduce_axes)}
    for one in sorted(inner, key=lambda r: (abs(stride(packed, r) or 0), inner[r])):
        size = size_of(one) or 1
        amount = max(n for n in range(1, min(left, size) + 1) if size % n == 0)
        left = left // amount if amount == size else 1
        amounts[one] = amount
    return tuple(amounts[one] for one in kernel.reduce_axes)


def cut_results(kernel: Kernel, plan: Plan, blocks: Blocks) -> int:
    """The results in blocks, all of which threads share; the rows of a block in blocks that are
    packed together. Gives how many axes are outside of a thread's block.
    """
    outer, row = plan.around, plan.row
    if (size_of(plan.found.lane) or 1) % blocks.lanes:
        kernel.apply_opt(Opt(OptOps.PADTO, row + 1, blocks.lanes))
    if (size_of(plan.found.lane) or 1) > blocks.lanes:
        kernel.apply_opt(Opt(OptOps.TILE, row + 1, blocks.lanes))
        outer, row = outer + 1, row + 1
    if (size_of(plan.found.row) or 1) > blocks.rows:
        kernel.apply_opt(Opt(OptOps.TILE, row, blocks.rows))
        outer, row = outer + 1, row + 1
    for count in range(outer):  # the first one becomes the threads' axis, the others join it
        kernel.apply_opt(Opt(OptOps.THREAD, min(count, 1), 0))
    outer, row = min(outer, 1), row - max(outer - 1, 0)
    if blocks.together < blocks.rows:
        kernel.apply_opt(Opt(OptOps.TILE, row, blocks.together))
    return outer


def cut_sum(kernel: Kernel, depth: tuple[int, ...]) -> int:
    """Each reduce axis in blocks of so many rounds; gives how many loops over blocks that makes."""
    number = count = 0
    for amount in depth:
        one = kernel.reduce_axes[number]
        if amount < (size_of(one) or 1):
            kernel.apply_opt(Opt(OptOps.TILE, kernel.axes.index(one), amount))
            count += 1
        number += amount > 1
    return count
