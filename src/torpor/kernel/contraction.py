"""Products of two operands that are summed: which axes run along vectors, which share what is read.

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
from torpor.kernel.ranges import closed_by, find_loops, iterations, kind_of, size_of
from torpor.kernel.stage import operands

OUTPUTS: Final = (AxisType.GLOBAL, AxisType.THREAD)
SPARE: Final = 0.25  # share of a vector that may be padding where the axis is shorter than one


@dataclass(frozen=True)
class Contraction:
    """What is tiled: the axis of the vectors, the axis of the rows, the operand along the vectors,
    how long the sum is, how many rows share what is packed, whether the other operand has no
    neighbours along the sum, and whether it is masked.
    """

    lane: UOp
    row: UOp
    packed: UOp
    length: int
    shared: int
    scattered: bool
    masked: bool


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
    least = kernel.target.lanes(max(values[0].dtype.itemsize, 4)) * (1 - SPARE)
    best: tuple[tuple[bool, bool, int, int], Contraction] | None = None
    for packed, other in (values, values[::-1]):
        lanes = [r for r in outputs if r in loops.free[packed] and r not in loops.free[other]]
        lanes = [r for r in lanes if (size_of(r) or 0) >= least]
        rows = [r for r in outputs if r in loops.free[other] and r not in loops.free[packed]]
        for lane in lanes:
            if not rows:
                continue
            row = max(rows, key=lambda r: size_of(r) or 0)
            shared = iterations(rows)
            aligned = (stored.get(lane) == 1, stride(packed, lane) == 1)
            rank = (*aligned, shared * (not any(aligned)), size_of(lane) or 0)
            if best is None or rank > best[0]:
                length = iterations(kernel.reduce_axes)
                scattered = all(stride(other, r) != 1 for r in kernel.reduce_axes)
                found = Contraction(lane, row, packed, length, shared, scattered, is_masked(other))
                best = rank, found
    return best[1] if best else None


def is_masked(value: UOp) -> bool:
    """Whether some of what a value loads stands under a condition."""
    return any(n.op is Ops.INDEX and len(n.src) > 2 for n in value.toposort())


def stride(value: UOp, one: UOp) -> int | None:
    """Elements between neighbours along an axis in what a value loads; None where they differ."""
    places = [n.src[0] for n in value.toposort() if n.op is Ops.LOAD]
    loops = find_loops(UOp.sink(*places))
    found = {strides_of(p.src[1], loops).get(one, 0) for p in places}
    return found.pop() if len(found) == 1 else None


def order_axes(kernel: Kernel, found: Contraction) -> tuple[int, int]:
    """Output axes in the order: those that the packed operand runs over, those that share what is
    packed, the rows, the vectors. Gives how many the first are, and the place of the rows.
    """
    free = find_loops(kernel.ast).free[found.packed]
    outputs = [r for r in kernel.axes if kind_of(r) in OUTPUTS]
    last = (found.row, found.lane)
    wanted = sorted(outputs, key=lambda r: (last.index(r) + 1 if r in last else 0, r not in free))
    for place, one in enumerate(wanted):
        current = outputs.index(one)
        while current > place:
            kernel.apply_opt(Opt(OptOps.SWAP, current - 1, current))
            outputs[current - 1 : current + 1] = outputs[current], outputs[current - 1]
            current -= 1
    return sum(r in free for r in wanted) - 1, wanted.index(found.row)
