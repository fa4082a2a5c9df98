"""Opts for products of two operands that are summed: cache blocks, register tiles, packed tiles.

Of the operands, one runs along the vectors (`lane`) and is the same for many `row`s; it is packed,
block by block, into memory where a register tile reads it in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import strides_of
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import closed_by, find_loops, iterations, kind_of, nesting, size_of
from torpor.kernel.stage import operands, tile_of

BLOCKS: Final = 8  # blocks that threads can share evenly, where the axis is long enough
PANELS: Final = 8  # most panels of a block: what stays in the second cache with the other operand
REUSE: Final = 16  # rows that must share a packed tile before packing it pays
ROWS_PACKED: Final = 16  # elements of a cache line of 64 bytes
UNROLLED: Final = 4  # steps of the sum written out: fewer branches and additions of addresses
WASTE: Final = 0.03  # share of padding that a larger block may cost
OUTPUTS: Final = (AxisType.GLOBAL, AxisType.THREAD)


@dataclass(frozen=True)
class Contraction:
    """What is tiled: the axis of the vectors, the axis of the rows, the operand along the vectors,
    how long the sum is, and whether the other operand has no neighbours along it.
    """

    lane: UOp
    row: UOp
    packed: UOp
    length: int
    scattered: bool


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


def find_contraction(kernel: Kernel) -> Contraction | None:
    """The contraction that the kernel is: one sum over all its reduce axes, of a product."""
    loops = find_loops(kernel.ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    outputs = [r for r in kernel.axes if kind_of(r) in OUTPUTS]
    if len(reductions) != 1 or len(outputs) + len(kernel.reduce_axes) != len(kernel.axes):
        return None
    if any(set(closed_by(s)) != set(outputs) for s in kernel.ast.src):
        return None
    if any(size_of(r) is None for r in kernel.axes):
        return None
    summed = frozenset(kernel.reduce_axes)
    values = [v for v in operands(kernel.ast) if summed <= loops.free[v]]
    if len(values) != 2:
        return None
    stored = strides_of(kernel.ast.src[0].src[0].src[1], loops)
    best: tuple[tuple[bool, bool, int], Contraction] | None = None
    for packed, other in (values, values[::-1]):
        lanes = [r for r in outputs if r in loops.free[packed] and r not in loops.free[other]]
        rows = [r for r in outputs if r in loops.free[other] and r not in loops.free[packed]]
        for lane in lanes:
            if not rows:
                continue
            row = max(rows, key=lambda r: size_of(r) or 0)
            rank = (stored.get(lane) == 1, stride(packed, lane) == 1, size_of(lane) or 0)
            if best is None or rank > best[0]:
                length = iterations(kernel.reduce_axes)
                scattered = all(stride(other, r) != 1 for r in kernel.reduce_axes)
                best = rank, Contraction(lane, row, packed, length, scattered)
    return best[1] if best else None


def stride(value: UOp, one: UOp) -> int | None:
    """Elements between neighbours along an axis in what a value loads; None where they differ."""
    places = [n.src[0] for n in value.toposort() if n.op is Ops.LOAD]
    loops = find_loops(UOp.sink(*places))
    found = {strides_of(p.src[1], loops).get(one, 0) for p in places}
    return found.pop() if len(found) == 1 else None


def apply_tiles(kernel: Kernel, found: Contraction) -> bool:
    """Blocks, threads, register tiles, then the packing; False where some size does not suit."""
    vectors, rows = (2, 4) if kernel.target.registers < 32 else (4, 6)
    itemsize = max(found.packed.dtype.itemsize, 4)
    panel = vectors * kernel.target.lanes(itemsize)
    lanes, height = size_of(found.lane) or 1, size_of(found.row) or 1
    room = kernel.target.stage_bytes * 2 // 3
    reach = room // (found.length * found.packed.dtype.itemsize * panel)
    if lanes < panel or height < REUSE or reach < 1:
        return False
    block = panel * panels_of(-(-lanes // panel), min(reach, PANELS))
    axes = kernel.axes
    lane, row = axes.index(found.lane), axes.index(found.row)
    if lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, block))
    if -(-lanes // block) > 1:
        kernel.apply_opt(Opt(OptOps.TILE, lane, block))
        lane, row = lane + 1, row + 1
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL and row > 0 and lane > 0:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, panel))
    if lane < row and block == panel:
        row -= 1
    if not pack(kernel):
        return False
    if found.scattered and height >= ROWS_PACKED:
        row = block_rows(kernel, row)
    write_rows(kernel, row, rows)
    if found.scattered:
        pack_rows(kernel, row)
    return True


def panels_of(panels: int, most: int) -> int:
    """How many of an axis' panels a block has: as many as leave enough blocks for the threads, and
    little padding.
    """
    most = max(1, min(most, panels // BLOCKS))
    for count in range(most, 1, -1):
        if (-(-panels // count) * count - panels) <= WASTE * panels:
            return count
    return 1


def block_rows(kernel: Kernel, row: int) -> int:
    """Rows in blocks, so that packing them reads whole cache lines; rows that fill no block apart.
    Gives the place of the axis within a block.
    """
    height = size_of(kernel.axes[row]) or 1
    rest = sum(kind_of(r) in OUTPUTS for r in kernel.axes)
    if height % ROWS_PACKED:
        kernel.apply_opt(Opt(OptOps.PARTITION, row, height - height % ROWS_PACKED))
        if height % ROWS_PACKED > 1:
            write_rows(kernel, rest, 4)
    kernel.apply_opt(Opt(OptOps.TILE, row, ROWS_PACKED))
    first = 1 if kind_of(kernel.axes[0]) is AxisType.THREAD else 0
    for position in range(first, row):
        kernel.apply_opt(Opt(OptOps.SWAP, position, position + 1))
    return row + 1


def write_rows(kernel: Kernel, row: int, rows: int) -> None:
    """A register tile has `rows` rows of a panel; the rows that are left over get a smaller one."""
    height = size_of(kernel.axes[row]) or 1
    if height > rows and height % rows:
        rest = sum(kind_of(r) in OUTPUTS for r in kernel.axes)
        kernel.apply_opt(Opt(OptOps.PARTITION, row, height - height % rows))
        if height % rows > 1:
            kernel.apply_opt(Opt(OptOps.UPCAST, rest, 0))
    if height > 1:
        kernel.apply_opt(Opt(OptOps.UPCAST, row, min(rows, height)))
    for number, one in reversed(list(enumerate(kernel.reduce_axes))):
        if (size_of(one) or 1) % UNROLLED == 0 and is_innermost(kernel, one):
            kernel.apply_opt(Opt(OptOps.UNROLL, number, UNROLLED))


def is_innermost(kernel: Kernel, one: UOp) -> bool:
    """Whether a reduce axis is the last of its reductions, and a loop."""
    reductions = [n for n in kernel.ast.toposort() if n.op is Ops.REDUCE and one in closed_by(n)]
    last = all(max(closed_by(n), key=nesting) is one for n in reductions)
    return last and kind_of(one) is AxisType.REDUCE


def pack(kernel: Kernel) -> bool:
    """The operand along the vectors, packed at the innermost loop around all that share it."""
    loops = find_loops(kernel.ast)
    outer = [r for r in kernel.axes if kind_of(r) in OUTPUTS]
    for number, value in enumerate(operands(kernel.ast)):
        free = loops.free[value]
        shared = [n for n, r in enumerate(outer) if r not in free]
        written = [r for r in free if kind_of(r) is AxisType.UPCAST]
        if not shared or shared[0] == 0 or not written:
            continue
        level = outer[shared[0] - 1]
        if tile_of(kernel.ast, value, level).bytes <= kernel.target.stage_bytes:
            kernel.apply_opt(Opt(OptOps.STAGE, shared[0] - 1, number))
            return True
    return False


def pack_rows(kernel: Kernel, row: int) -> None:
    """The rows of a block, packed just before use."""
    loops = find_loops(kernel.ast)
    for number, value in enumerate(operands(kernel.ast)):
        if kernel.axes[row] not in loops.free[value]:
            continue
        if tile_of(kernel.ast, value, kernel.axes[row - 1]).bytes <= kernel.target.stage_bytes // 3:
            kernel.apply_opt(Opt(OptOps.STAGE, row - 1, number))
            return
