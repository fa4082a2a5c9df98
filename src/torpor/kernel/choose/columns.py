"""Opts for sums down columns: rows of memory are read a few at a time, from end to end, and the
sums of all columns grow in memory beside them.

One column at a time would jump a whole row for each element: every read another page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, footprint
from torpor.kernel.choose.registers import cut_apart, write_copy, write_rows
from torpor.kernel.choose.roles import RESULTS, axes_of_results, put_in_order
from torpor.kernel.choose.vectors import attempt, attempt_all
from torpor.kernel.cost import WAYS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import operands
from torpor.kernel.ranges import find_loops, iterations, kind_of, number_of, size_of

LANES: Final = 64  # columns from which this pays
FIRST_TIMES: Final = 2  # times what a first cache holds: less than that is not far away anyhow
BLOCKS: Final = ((2048, 8), (1024, 4), (2 * LANES, 2))  # columns from which threads share so many
MOST_TERMS: Final = 4  # of the sum that a word has
FEW_ROWS: Final = 32  # results a column has that may share what is read
WINDOWS: Final = 2  # times that a matrix is read by windows, from which it is none


class Columns(NamedTuple):
    """Sums down the columns of `matrix`: the axis of the columns, the axis of the sum, axes along
    which there are several matrices, axes of the results that a column has; and how many rows of
    memory a step of the sum reads, as many as a word has terms.
    """

    matrix: Access
    lane: UOp
    down: UOp
    several: tuple[UOp, ...]
    results: tuple[UOp, ...]
    terms: int


def tile_columns(kernel: Kernel) -> bool:
    """Choose opts for a kernel that sums down columns; says whether it was one."""
    found = find_columns(kernel)
    return found is not None and attempt_all(kernel, kernel, apply_tiles, found)


def find_columns(kernel: Kernel) -> Columns | None:
    """The sums down columns that the kernel is, if its one reduction is that."""
    loops = find_loops(kernel.ast)
    outputs = axes_of_results(kernel, loops)
    if outputs is None or not kernel.reduce_axes:
        return None
    found = accesses(loops)
    most = max(found, key=lambda a: footprint(a) * (not a.is_store))
    lanes = [r for r in outputs if most.stride(r) == 1]
    down = kernel.reduce_axes[-1]
    apart = most.stride(down)
    if not lanes or len(most.node.src) > 2 or apart is None or apart * most.itemsize < LANES * 4:
        return None
    results = tuple(r for r in outputs if most.stride(r) == 0)
    least = FIRST_TIMES * kernel.target.first_bytes
    if iterations(results) > FEW_ROWS or footprint(most) * most.itemsize < least:
        return None
    size = most.node.src[0].arg.size
    if size is not None and footprint(most) > WINDOWS * size:
        return None
    several = tuple(r for r in outputs if r not in results and r is not lanes[0])
    terms = sum(a.node.src[0] is most.node.src[0] and a.stride(down) != 0 for a in found)
    if terms > MOST_TERMS:
        return None
    return Columns(most, lanes[0], down, several, results, terms)


def apply_tiles(kernel: Kernel, found: Columns) -> bool:
    """Blocks of columns for the threads, blocks of rows, then the vectors."""
    lanes, down = size_of(found.lane) or 1, size_of(found.down) or 1
    most = WAYS // found.terms  # as many rows as a first cache keeps at equal distances
    rows = next((n for n in range(most, max(1, most // 2 - 1), -1) if down % n == 0), most)
    if lanes < LANES or down < 2 * rows:
        return False
    rest = None
    if down % rows:
        rest = cut_apart(kernel, kernel.axes.index(found.down), down - down % rows)
    wide = kernel.target.lanes(max(4, found.matrix.itemsize))
    copies, vectors = register_tile(found.results, kernel.target)
    panel = vectors * wide
    cut_columns(kernel, found, panel)
    last = len(kernel.axes) - (1 if rest is None else 2)
    if not attempt(kernel, Opt(OptOps.TILE, last, rows)):
        return False  # more columns than memory for their sums
    if rest is not None:
        kernel.apply_opt(Opt(OptOps.UNROLL, len(kernel.reduce_axes) - 1, 0))
    write_tiles(kernel, found, panel, copies)
    return True


def register_tile(results: Sequence[UOp], target: Target) -> tuple[int, int]:
    """(results of a column, vectors of columns) computed at once: those of which a vector of
    columns takes least time, in products. Additions to the same sum wait for each other.
    """
    height = size_of(results[-1]) or 1 if results else 1
    begun = target.latency * target.multiply_adds  # products, while one of them is added

    def time(shape: tuple[int, int]) -> float:
        (rows, vectors), (whole, rest) = shape, divmod(height, shape[0])
        last = max(rest * vectors, begun) if rest else 0
        return (whole * max(rows * vectors, begun) + last) / vectors

    shapes = ((rows, vectors) for vectors in (2, 4) for rows in range(1, height + 1))
    fitting = (s for s in shapes if s[0] * s[1] + min(s) < target.registers)
    return min(fitting, key=time) if results else (1, 2)


def cut_columns(kernel: Kernel, found: Columns, panel: int) -> None:
    """The axes in order: matrices and blocks of columns, which threads share, panels of columns,
    results, columns.
    """
    outputs = [r for r in kernel.axes if kind_of(r) in RESULTS]
    put_in_order(kernel, outputs, [*found.several, *found.results, found.lane])
    outer, place = len(found.several), len(outputs) - 1
    block = columns_of_block(kernel, found, panel)
    if (size_of(found.lane) or 1) % block:
        kernel.apply_opt(Opt(OptOps.PADTO, place, block))
    if (size_of(kernel.axes[place]) or 1) > block:
        kernel.apply_opt(Opt(OptOps.TILE, place, block))
        outer, place = outer + 1, place + 1
    if found.results and block > panel:
        kernel.apply_opt(Opt(OptOps.TILE, place, panel))
        for position in range(outer):
            kernel.apply_opt(Opt(OptOps.SWAP, position, position + 1))
    for count in range(outer):  # the first one becomes the threads' axis, the others join it
        kernel.apply_opt(Opt(OptOps.THREAD, min(count, 1), 0))


def columns_of_block(kernel: Kernel, found: Columns, panel: int) -> int:
    """How many columns a block has: whole panels; all of them where there are several matrices,
    else equal shares, as long as memory has room for their sums.
    """
    lanes, itemsize = size_of(found.lane) or 1, max(4, found.matrix.itemsize)
    blocks = next((count for least, count in BLOCKS if lanes >= least), 1)
    room = kernel.target.stage_bytes * 2 // 3 // (iterations(found.results) * itemsize)
    least = -(-lanes // max(room, panel))
    blocks = max(1 if found.several else blocks, least)
    return -(-lanes // (blocks * panel)) * panel


def write_tiles(kernel: Kernel, found: Columns, panel: int, copies: int) -> None:
    """Vectors along the columns, where sums grow and where they are stored; a few of the results of
    a column together; the rows of a block written out.
    """
    growing = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.LOOP][1:]
    kernel.apply_opt(Opt(OptOps.UPCAST, growing[-1], panel))
    stage_factors(kernel, found)
    stored = max(n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.GLOBAL)
    if found.results:
        write_rows(kernel, growing[-2], copies)
    kernel.apply_opt(Opt(OptOps.UPCAST, stored, panel))
    if not found.results:
        last = max(n for n, r in enumerate(kernel.reduce_axes) if kind_of(r) is AxisType.REDUCE)
        kernel.apply_opt(Opt(OptOps.UNROLL, last, 0))


def stage_factors(kernel: Kernel, found: Columns) -> None:
    """What columns are multiplied by, where it takes operations to compute, computed once for each
    thread's block: words of small integers.
    """
    if kind_of(kernel.axes[0]) is not AxisType.THREAD:
        return
    matrix = found.matrix.node.src[0]
    for number, value in reversed(list(enumerate(operands(kernel.ast)))):
        if value.op is not Ops.LOAD and matrix not in value.toposort():
            before = {number_of(r) for r in kernel.axes}
            if attempt(kernel, Opt(OptOps.STAGE, 0, number)):
                write_copy(kernel, before)
