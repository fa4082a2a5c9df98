"""Opts for sums down columns: rows of memory are read a few at a time, from end to end, and the
sums of all columns grow in memory beside them.

One column at a time would jump a whole row for each element: every read another page.
"""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses, footprint
from torpor.kernel.contraction import RESULTS, axes_of_results
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import find_loops, iterations, kind_of, size_of
from torpor.kernel.vectors import attempt

ROWS: Final = 8  # rows read together: as many as a first cache of 8 ways keeps at equal distances
LANES: Final = 64  # columns from which this pays
BYTES: Final = 64 * 1024  # of memory read: less stays in the first caches anyhow
BLOCK: Final = 2048  # columns of a thread's block: shorter rows start too often
BLOCKS: Final = 8  # most blocks that threads share; two from half of `BLOCK` columns in all
FEW_ROWS: Final = 15  # results a column has that may share what is read


def tile_columns(kernel: Kernel) -> bool:
    """Choose opts for a kernel that sums down columns; says whether it was one."""
    found = find_columns(kernel)
    if found is None:
        return False
    trial = kernel.copy()
    if not apply_tiles(trial, *found):
        return False
    kernel.become(trial)
    return True


def find_columns(kernel: Kernel) -> tuple[UOp, UOp, bool] | None:
    """(axis of the columns, axis of the sum, whether there are several matrices of columns) of the
    one reduction that the kernel is.
    """
    loops = find_loops(kernel.ast)
    outputs = axes_of_results(kernel, loops)
    if outputs is None or not kernel.reduce_axes:
        return None
    most = max(accesses(loops), key=lambda a: footprint(a) * (not a.is_store))
    lanes = [r for r in outputs if most.stride(r) == 1]
    down = kernel.reduce_axes[-1]
    apart = most.stride(down)
    if not lanes or len(most.node.src) > 2 or apart is None or apart * most.itemsize < LANES * 4:
        return None
    others = [r for r in outputs if most.stride(r) == 0]
    if iterations(others) > FEW_ROWS or footprint(most) * most.itemsize < BYTES:
        return None
    return lanes[0], down, len(outputs) > len(others) + 1


def apply_tiles(kernel: Kernel, lane: UOp, down: UOp, several: bool) -> bool:
    """Blocks of columns for the threads, blocks of rows, then the vectors."""
    rows = next((n for n in range(ROWS, 3, -1) if (size_of(down) or 1) % n == 0), 0)
    lanes, vectors = size_of(lane) or 1, 2 * kernel.target.lanes(4)
    if lanes < LANES or (size_of(down) or 1) <= max(rows, ROWS):
        return False
    if not rows:
        rows = ROWS
        kernel.apply_opt(Opt(OptOps.PADTO, kernel.axes.index(down), rows))
    outputs = [r for r in kernel.axes if kind_of(r) in RESULTS]
    position = outputs.index(lane)
    block = -(-lanes // vectors) * vectors if several else columns_of(lanes, vectors)
    if lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, position, block))
    if lanes > block:
        kernel.apply_opt(Opt(OptOps.TILE, position, block))
        position += 1
    if several or lanes > block:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    if not attempt(kernel, Opt(OptOps.TILE, len(kernel.axes) - 1, rows)):
        return False  # more columns than memory for their sums
    write_tiles(kernel, position, vectors)
    return True


def columns_of(lanes: int, vectors: int) -> int:
    """How many columns a block has: equal shares of at least `BLOCK`, in whole vectors."""
    blocks = max(min(2, lanes // (BLOCK // 4)), min(BLOCKS, lanes // BLOCK), 1)
    return -(-lanes // (blocks * vectors)) * vectors


def write_tiles(kernel: Kernel, lane: int, vectors: int) -> None:
    """Vectors along the columns, where sums grow and where they are stored; a few of the results of
    a column together; the rows of a block written out.
    """
    outputs = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.GLOBAL]
    growing = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.LOOP][1:]
    place = outputs.index(lane)
    for number in reversed(range(len(growing))):
        size = size_of(kernel.axes[growing[number]]) or 1
        amount = next(n for n in (4, 5, 3, 2, 7, 1) if size % n == 0)
        if number == place:
            amount = vectors
        if amount > 1:
            kernel.apply_opt(Opt(OptOps.UPCAST, growing[number], amount))
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, vectors))
    last = max(n for n, r in enumerate(kernel.reduce_axes) if kind_of(r) is AxisType.REDUCE)
    kernel.apply_opt(Opt(OptOps.UNROLL, last, 0))
