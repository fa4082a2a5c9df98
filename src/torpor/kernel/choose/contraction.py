"""Products of two operands that are summed: which axes run along vectors, which share what is read.

Of the operands, one runs along the vectors (`lane`) and is the same for many `row`s; it is packed,
block by block, into memory where a register tile reads it in a row.

Times are in products of one thread of Zen 3, from the runs in `bench/results/kernels.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from torpor.base.target import LINE
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import NEAR
from torpor.kernel.choose.strips import ALONE
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import loads_of, operands
from torpor.kernel.ranges import Loops, closed_by, find_loops, iterations, kind_of, size_of
from torpor.rules.affine import strides_of, strides_read

RESULTS: Final = (AxisType.GLOBAL, AxisType.THREAD)  # axes of what is stored
LANES_SHARED: Final = 64  # elements along the vectors that share what is packed of the rows
TIME_READ: Final = 2.0  # products that take as long as reading an element in order of its use
TIME_COPIED: Final = 10.0  # products that take as long as packing an element of several in a row
AGAIN: Final = 0.33  # of that, where windows overlap and an element was read before
TIME_TURNED: Final = 36.0  # products that take as long as moving an element between other places
CLOSE: Final = 1.5  # times what a first cache holds: as quick to read in its own order as packed
PAGE: Final = 4096  # bytes between steps of a sum from which memory is slow to follow
STEPS_WHOLE: Final = 192  # steps of a sum that is not cut into blocks
SPARE: Final = 0.25  # share of a vector that may be padding where the axis is shorter than one


@dataclass(frozen=True)
class Contraction:
    """What is tiled: the axis of the vectors, the axis of the rows, the operand along the vectors
    and the other one, how long the sum is, how many rows share what is packed, whether the other
    operand has no neighbours along the sum, whether steps along the sum stay in a page of it,
    whether it is masked, and whether the operand along the vectors lies in a row that is read
    as quickly as packed memory (`CLOSE`).
    """

    lane: UOp
    row: UOp
    packed: UOp
    other: UOp
    length: int
    shared: int
    scattered: bool
    near: bool
    masked: bool
    close: bool

    @property
    def in_place(self) -> bool:
        """Whether both operands are read where they are."""
        return self.close and not self.packs

    @property
    def packs(self) -> bool:
        """Whether the other operand is packed too: else it is read, and computed, where it is."""
        far = self.scattered and not (self.near and self.abreast)
        return far or self.masked or self.other.op is not Ops.LOAD

    @property
    def abreast(self) -> bool:
        """Whether the rows lie side by side, so that the other operand is read across them."""
        return stride(self.other, self.row) == 1


def axes_of_results(kernel: Kernel, loops: Loops) -> list[UOp] | None:
    """The axes of what a kernel stores that is one reduction over all its other axes, where every
    length is known; None if it is anything else.
    """
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    outputs = [r for r in kernel.axes if kind_of(r) in RESULTS]
    if len(reductions) != 1 or len(outputs) + len(kernel.reduce_axes) != len(kernel.axes):
        return None
    if any(set(closed_by(s)) != set(outputs) for s in kernel.ast.src):
        return None
    return None if any(size_of(r) is None for r in kernel.axes) else outputs


def find_contraction(kernel: Kernel, uses: int = 0, most: float = inf) -> Contraction | None:
    """The contraction that the kernel is: one sum over all its reduce axes, of a product. With
    `uses`, an operand whose elements each are in so many products may be put in order before. None
    too where each product would cost `most` times itself and more.
    """
    best = weigh(kernel, uses)
    return best[1] if best and best[0] <= 1 + most else None


def time_of(kernel: Kernel, uses: int = 0) -> float:
    """Time for each product of a contraction, in units of one product alone; infinite if it is
    none. `uses`: as for `find_contraction`.
    """
    best = weigh(kernel, uses)
    return best[0] if best else inf


def weigh(kernel: Kernel, uses: int) -> tuple[float, Contraction] | None:
    """The cheapest way to see the kernel as a contraction, and its cost."""
    loops = find_loops(kernel.ast)
    outputs = axes_of_results(kernel, loops)
    if outputs is None:
        return None
    summed = frozenset(kernel.reduce_axes)
    values = [v for v in operands(kernel.ast) if summed <= loops.free[v]]
    if len(values) != 2:
        return None
    stored = strides_of(kernel.ast.src[0].src[0].src[1])
    best: tuple[float, Contraction] | None = None
    for packed, other in (values, values[::-1]):
        lanes = [r for r in outputs if r in loops.free[packed] and r not in loops.free[other]]
        rows = [r for r in outputs if r in loops.free[other] and r not in loops.free[packed]]
        for lane in lanes if rows else ():
            row = max(rows, key=lambda r: (size_of(r) or 0) * (1 + (stride(other, r) == 1)))
            direct = fills_lines(other, kernel.reduce_axes)
            step = abs(stride(other, kernel.reduce_axes[-1]) or PAGE) * itemsize_of(other)
            found = Contraction(
                lane, row, packed, other, iterations(kernel.reduce_axes), iterations(rows),
                not direct, step < PAGE, is_masked(other), lies_close(packed, lane, kernel),
            )  # fmt: skip
            weighed = cost(kernel, found, stored.get(lane) == 1, is_movable(kernel, found, uses))
            if weighed is not None and (best is None or weighed < best[0]):
                best = weighed, found
    return best


def is_movable(kernel: Kernel, found: Contraction, uses: int) -> bool:
    """Whether the other operand is a load without condition of elements that are in `uses` products
    each; never where `uses` is 0.
    """
    size = iterations(tuple(find_loops(kernel.ast).free[found.other]))
    plain = found.other.op is Ops.LOAD and not found.masked
    return plain and 0 < size * uses <= iterations(tuple(kernel.ast.ranges()))


def cost(kernel: Kernel, found: Contraction, neighbours: bool, movable: bool) -> float | None:
    """Time for each product, in units of one product alone: padding, packing both operands, and
    storing results (`neighbours`: those along the vectors lie in a row). `movable`: the rows may
    be put in order before. None: vectors too empty, or one panel and no loop to pack it in.
    """
    lanes = size_of(found.lane) or 1
    width = kernel.target.lanes(max(found.packed.dtype.itemsize, 4))
    alone = iterations(tuple(closed_by(kernel.ast.src[0]))) == found.shared * lanes
    along = [fills_lines(v, kernel.reduce_axes) for v in (found.packed, found.other)]
    if lanes <= width and all(along) and found.length >= STEPS_WHOLE:
        return None  # sums along the rows of both read each element of the longer one once
    nowhere = alone and lanes <= 2 * width and found.length < STEPS_WHOLE and not found.in_place
    if lanes < width * (1 - SPARE) or nowhere:
        return None
    step = abs(stride(found.packed, found.lane) or 0)
    moving = (
        TIME_COPIED * step * share_of_reading(found.packed) if 0 < step <= NEAR else TIME_TURNED
    )
    packing = 0.0 if found.in_place else moving / found.shared
    reading = TIME_READ if found.other.dtype.is_float or found.other.op is Ops.LOAD else TIME_COPIED
    if (found.masked or found.scattered) and not movable:
        easy = not found.masked and (not found.scattered or found.abreast)
        reading = TIME_COPIED if easy else TIME_TURNED
    storing = 0.0 if neighbours else TIME_TURNED / found.length
    if lanes <= width:
        return width / lanes * ALONE * (1 + packing + reading / lanes + storing)
    fit = kernel.target.stage_bytes * 2 // 3 // (found.length * found.packed.dtype.itemsize)
    return min(
        -(-lanes // n) * n / lanes * (1 + packing + reading / min(n, LANES_SHARED) + storing)
        for n in range(width, min(lanes, max(fit, LANES_SHARED), 4 * LANES_SHARED) + width, width)
    )


def share_of_reading(value: UOp) -> float:
    """What part of the time that reading all elements of a value anew would take it does take:
    where windows overlap, most are in the first cache by then, but still have to be moved.
    """
    sizes = [n.arg.size for n in value.toposort() if n.op is Ops.PARAM]
    read = iterations(tuple(find_loops(value).free[value]))
    first = min(1.0, sum(sizes) / read) if None not in sizes else 1.0
    return first + AGAIN * (1 - first)


def run(value: UOp, axes: Sequence[UOp]) -> int:
    """How many elements that follow each other along some of the axes lie in a row in memory."""
    count = together(value)
    for step, size in sorted((abs(stride(value, r) or 0), size_of(r) or 1) for r in axes):
        count *= size if step == count else 1
    return count


def fills_lines(value: UOp, axes: Sequence[UOp]) -> bool:
    """Whether elements that follow each other along some of the axes fill a cache line."""
    return run(value, axes) * itemsize_of(value) >= LINE


def itemsize_of(value: UOp) -> int:
    """Bytes of an element in memory of what a value loads: of the largest, if formats differ."""
    return max(load.dtype.itemsize for load in loads_of(value))


def lies_close(value: UOp, lane: UOp, kernel: Kernel) -> bool:
    """Whether a value is a load of neighbours along the vectors, which for a whole sum lie in a row
    that is read as quickly as packed memory.
    """
    axes = [lane, *kernel.reduce_axes]
    size = iterations(axes)
    room = CLOSE * kernel.target.first_bytes
    small = size * value.dtype.itemsize <= room and value.op is Ops.LOAD
    return small and stride(value, lane) == 1 and not is_masked(value) and run(value, axes) == size


def together(value: UOp) -> int:
    """How many neighbours in memory each element is made of: the parts of a word."""
    loads = loads_of(value)
    places = {load.src[0].src[1] for load in loads}
    first = min(places, key=size_of_expression)
    row = {first, *((first + n).simplify() for n in range(1, len(places)))}
    return len(places) if places == row and len({n.src[0].src[0] for n in loads}) == 1 else 1


def size_of_expression(position: UOp) -> int:
    """How many nodes a position is computed from: the first of neighbours is the simplest."""
    return len(position.toposort())


def is_masked(value: UOp) -> bool:
    """Whether some of what a value loads stands under a condition."""
    return any(n.op is Ops.INDEX and len(n.src) > 2 for n in value.toposort())


def stride(value: UOp, one: UOp) -> int | None:
    """Elements between neighbours along an axis in what a value loads; None where they differ."""
    found = strides_read(value, one)
    return found.pop() if len(found) == 1 else None


def order_axes(kernel: Kernel, found: Contraction) -> tuple[int, int]:
    """Output axes in the order: those that the packed operand runs over, those that share what is
    packed, the rows, the vectors. Gives how many the first are, and the place of the rows.
    """
    free = find_loops(kernel.ast).free[found.packed]
    outputs = [r for r in kernel.axes if kind_of(r) in RESULTS]
    last = (found.row, found.lane)
    wanted = sorted(outputs, key=lambda r: (last.index(r) + 1 if r in last else 0, r not in free))
    put_in_order(kernel, outputs, wanted)
    return sum(r in free for r in wanted) - 1, wanted.index(found.row)


def put_in_order(kernel: Kernel, axes: Sequence[UOp], wanted: Sequence[UOp]) -> None:
    """The first axes of the kernel, none of them split yet, in another order."""
    current = list(axes)
    for place, one in enumerate(wanted):
        for position in range(current.index(one), place, -1):
            kernel.apply_opt(Opt(OptOps.SWAP, position - 1, position))
            current[position - 1 : position + 1] = current[position], current[position - 1]
