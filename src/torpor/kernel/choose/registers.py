"""Register tiles of products that are summed, and the packing of what they read."""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses
from torpor.kernel.choose.tiling import REUSE, UNROLLED
from torpor.kernel.choose.vectors import attempt
from torpor.kernel.cost import SUMS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import coefficients, operands, tile_of
from torpor.kernel.ranges import closed_by, find_loops, kind_of, nesting, number_of, size_of
from torpor.kernel.shuffles import SOURCES

COPY_SHORT: Final = 16  # rounds, by choice, of a copy without whole vectors that are written out


def cut_apart(kernel: Kernel, position: int, first: int) -> int | None:
    """An axis cut in two; gives the place of the second part, None where that is one round."""
    before = {number_of(r) for r in kernel.axes}
    rest = (size_of(kernel.axes[position]) or 1) - first
    kernel.apply_opt(Opt(OptOps.PARTITION, position, first))
    if rest == 1:
        return None
    made = [(number_of(r), n) for n, r in enumerate(kernel.axes) if number_of(r) not in before]
    return min(made)[1]


def write_rows(kernel: Kernel, row: int, rows: int, vectors: int = 1) -> list[UOp]:
    """Register tiles of at most `rows` rows of a panel of so many vectors, some perhaps a row less
    than others: a tile of one or two rows would wait for its sums. Gives the rows of the tiles.
    """
    height, made = size_of(kernel.axes[row]) or 1, []
    count = -(-height // rows)
    rows = -(-height // count)
    rest = cut_apart(kernel, row, (height % count) * rows) if height % count else None
    for place, most in ((rest, rows - 1), (row, rows)):
        if place is not None and most > 1:
            kernel.apply_opt(Opt(OptOps.UPCAST, place, most))
            made.append(kernel.axes[-1])
    if rows * vectors >= SUMS:
        return made  # steps that are written out take as long, and twice as long to compile
    for number, one in reversed(list(enumerate(kernel.reduce_axes))):
        if (size_of(one) or 1) % UNROLLED == 0 and is_innermost(kernel, one):
            kernel.apply_opt(Opt(OptOps.UNROLL, number, UNROLLED))
    return made


def is_innermost(kernel: Kernel, one: UOp) -> bool:
    """Whether a reduce axis is the last of its reductions, and a loop."""
    reductions = [n for n in kernel.ast.toposort() if n.op is Ops.REDUCE and one in closed_by(n)]
    last = all(max(closed_by(n), key=nesting) is one for n in reductions)
    return last and kind_of(one) is AxisType.REDUCE


def stage_over(kernel: Kernel, level: int, one: UOp, most: int) -> bool:
    """The operand that runs over the axis `one`, packed inside the loop at `level` if that takes at
    most `most` bytes; says whether it was.
    """
    loops = find_loops(kernel.ast)
    for number, value in enumerate(operands(kernel.ast)):
        if one not in loops.free[value]:
            continue
        if tile_of(kernel.ast, value, kernel.axes[level]).bytes <= most:
            before = {number_of(r) for r in kernel.axes}
            kernel.apply_opt(Opt(OptOps.STAGE, level, number))
            write_copy(kernel, before)
            return True
    return False


def is_paired(access: Access, one: UOp) -> bool:
    """Whether neighbours along an axis are every second byte, as of pairs that words are of."""
    return access.itemsize == 1 and access.stride(one) == SOURCES and access.is_near(one)


def write_copy(kernel: Kernel, before: set[int]) -> None:
    """The loop of a copy along which it reads neighbours, written out as vectors. `before`: the
    numbers of all other axes.
    """
    fresh = [r for r in kernel.axes if number_of(r) not in before and kind_of(r) is AxisType.LOOP]
    found = [a for a in accesses(find_loops(kernel.ast)) if not a.is_store]
    near = [a for a in found if a.node.src[0].op is Ops.PARAM]
    rows = [r for r in fresh if any(a.stride(r) == 1 or is_paired(a, r) for a in near)]
    if rows:
        size, width = size_of(rows[-1]) or 1, kernel.target.lanes(4)
        even = next(n for n in (width, 4, 2, 1) if size % n == 0)
        amount = size if even < 4 and size <= COPY_SHORT else even
        place = kernel.axes.index(rows[-1])
        if amount < 4 and size > width:  # whole vectors, and the rest one by one
            kernel.apply_opt(Opt(OptOps.PARTITION, place, size - size % width))
            amount = width
        if amount > 1:
            kernel.apply_opt(Opt(OptOps.UPCAST, place, amount))


def stage_coefficients(kernel: Kernel) -> None:
    """Scales and the like, of which a block of codes shares each, computed as vectors before the
    loop over the blocks: in it, each would take several operations that others wait for. Codes of
    4 and 8 bits, 768 by 768, take 2 to 3.6 times as long without; those of memory as long.
    """
    outer = [r for r in kernel.axes if kind_of(r) in (AxisType.THREAD, AxisType.GLOBAL)]
    inner = [r for r in kernel.axes if kind_of(r) is AxisType.REDUCE]
    if len(inner) != 1 or (size_of(inner[0]) or 0) < REUSE or not outer:
        return
    level = kernel.axes.index(outer[-1])
    while any(inner[0] in find_loops(kernel.ast).free[v] for v in coefficients(kernel.ast)):
        before = {number_of(r) for r in kernel.axes}
        if not attempt(kernel, Opt(OptOps.STAGE, level, len(operands(kernel.ast)))):
            return
        write_copy(kernel, before)
