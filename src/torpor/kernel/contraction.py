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

STREAM: Final = 6.0  # elements of a block that are computed while a row's element is read again
FEW: Final = 2.0  # blocks that a thread may wait for at the end
PANELS: Final = 8  # most panels of a block: what stays in the second cache with the other operand
REUSE: Final = 16  # rows that must share a packed tile before packing it pays
ROWS_PACKED: Final = 16  # elements of a cache line of 64 bytes
UNROLLED: Final = 4  # steps of the sum written out: fewer branches and additions of addresses
WASTE: Final = 0.2  # share of padding that a wider register tile may cost
SPARE: Final = 0.25  # share of a vector that may be padding where the axis is shorter than one
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
    lanes, height = size_of(found.lane) or 1, size_of(found.row) or 1
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    vectors, rows = tile_shape(lanes, width, kernel.target.registers)
    panel = vectors * width
    room = kernel.target.stage_bytes * 2 // 3
    reach = room // (found.length * found.packed.dtype.itemsize * panel)
    if lanes < width * (1 - SPARE) or height < REUSE or reach < 1:
        return False
    lane, row = order_axes(kernel, found)
    stream = STREAM * (4 if found.scattered else 1)
    around = iterations(kernel.axes[: min(lane, row)])
    block = panel * panels_of(-(-lanes // panel), min(reach, PANELS), panel, around, stream)
    if lanes % block:
        kernel.apply_opt(Opt(OptOps.PADTO, lane, block))
    if -(-lanes // block) > 1:
        kernel.apply_opt(Opt(OptOps.TILE, lane, block))
        lane, row = lane + 1, row + 1
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL and row > 0 and lane > 0:
        kernel.apply_opt(Opt(OptOps.THREAD, 0, 0))
    kernel.apply_opt(Opt(OptOps.UPCAST, lane, panel))
    if not pack(kernel):
        return False
    if found.scattered and height >= ROWS_PACKED:
        row = block_rows(kernel, row)
    write_rows(kernel, row, rows)
    if found.scattered:
        pack_rows(kernel, row)
    return True


def tile_shape(lanes: int, width: int, registers: int) -> tuple[int, int]:
    """(vectors, rows) of a register tile for an axis of `lanes` elements: sums in most of the
    registers, a few left for the operands; the widest one that needs little padding.
    """
    shapes = ((2, 4), (1, 8)) if registers < 32 else ((4, 6), (2, 12), (1, 16))
    padded = [-(-lanes // (vectors * width)) * vectors for vectors, _ in shapes]
    return next(s for s, p in zip(shapes, padded, strict=True) if p <= min(padded) * (1 + WASTE))


def order_axes(kernel: Kernel, found: Contraction) -> tuple[int, int]:
    """Output axes in the order: those that the packed operand runs over, the rows, the vectors.
    Gives the places of the vectors and the rows.
    """
    free = find_loops(kernel.ast).free[found.packed]
    outputs = [r for r in kernel.axes if kind_of(r) in OUTPUTS]
    wanted = sorted(outputs, key=lambda r: (r is found.lane, r not in free, outputs.index(r)))
    for place, one in enumerate(wanted):
        current = outputs.index(one)
        while current > place:
            kernel.apply_opt(Opt(OptOps.SWAP, current - 1, current))
            outputs[current - 1 : current + 1] = outputs[current], outputs[current - 1]
            current -= 1
    return wanted.index(found.lane), wanted.index(found.row)


def panels_of(panels: int, most: int, panel: int, around: int, stream: float) -> int:
    """How many of an axis' panels a block has, where other loops run `around` times: weighs padding
    against reading the rows again for each block, and against too few blocks for the threads.
    """

    def cost(count: int) -> float:
        blocks = -(-panels // count)
        padding = blocks * count / panels
        return padding * (1 + stream / (count * panel)) * (1 + FEW / (blocks * around))

    return min(range(1, min(most, panels) + 1), key=cost)


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
