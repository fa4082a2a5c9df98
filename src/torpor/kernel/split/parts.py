"""Long sums of few results in parts, each of which threads read from end to end.

before  out[n] = f(sum(k, x[k] * w[k, n]))
after   v[p, n] = sum(j, x[p*length + j] * w[p*length + j, n]);  out[n] = f(sum(p, v[p, n]))

A large matrix is read at the speed of memory only in long runs: threads that share its columns
would each jump from row to row. How many parts there are follows from the sizes alone.

The constants are from products of 1, 4, 8 and 13 rows with matrices of 4 to 64 MB in turns with
other sizes of parts, one and two threads of Zen 3 (512 KB next to a core, 32 MB shared).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.dtypes import DType, dtypes
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import footprint
from torpor.kernel.choose.columns import Columns, find_columns
from torpor.kernel.cost import WAYS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.normalise import renumber
from torpor.kernel.opts.stage import place
from torpor.kernel.ranges import (
    find_loops,
    iterations,
    map_nodes,
    nesting,
    replace_range,
    size_of,
)

PART: Final = 1 << 21  # bytes of a part, at least
PARTS: Final = 16  # most parts
SHARE: Final = 32  # rows that a part has for each result of a column, at least
PRODUCTS_WORTH: Final = 1 << 20  # products from which another kernel pays
MEMORY: Final = -1  # stands for the parameter that the first of two kernels stores


class Parted(NamedTuple):
    """Two kernels in the place of one: the first stores `size` elements (its parameter 0), which
    the rest reads (its last parameter); and which of the whole kernel's parameters are the others
    of each, in order.
    """

    first: UOp
    rest: UOp
    size: int
    dtype: DType
    read: tuple[int, ...]
    kept: tuple[int, ...]


def in_parts(ast: UOp, target: Target) -> Parted | None:
    """A kernel's sum in parts, and what is made of them; None where there is nothing to gain."""
    if not target.threads or len(ast.src) != 1 or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return None
    kernel = Kernel(ast, target)
    found = find_columns(kernel)
    if found is None or len(kernel.reduce_axes) != 1 or (parts := parts_of(found)) < 2:
        return None
    (reduction,) = (n for n in kernel.ast.toposort() if n.op is Ops.REDUCE)
    outputs = sorted(find_loops(kernel.ast).free[reduction], key=nesting)
    memory = memory_between(reduction.dtype, parts * iterations(tuple(outputs)))
    part = UOp.range(parts, len(kernel.axes), AxisType.REDUCE)
    result = UOp(Ops.LOAD, reduction.dtype, (place(memory, [part, *outputs]),))
    added = UOp(Ops.REDUCE, reduction.dtype, (result, part), reduction.arg)
    sums = sums_of(reduction, found.down, memory, [UOp.range(parts, -1, AxisType.GLOBAL), *outputs])
    return parted(sums, kernel.ast.substitute({reduction: added}), memory)


def sums_of(reduction: UOp, down: UOp, memory: UOp, axes: list[UOp]) -> UOp:
    """The kernel that stores the sums of the parts, the first of the axes."""
    length = (size_of(down) or 1) // (size_of(axes[0]) or 1)
    inner = UOp.range(length, *down.arg)
    value = replace_range(reduction, down, axes[0] * length + inner, [inner]).simplify()
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, axes), value, *axes)))


def parts_of(found: Columns) -> int:
    """How many parts: whole blocks of rows in each, and few results for what is read."""
    down = size_of(found.down) or 1
    most = min(
        PARTS // iterations(found.several),
        down // (SHARE * iterations(found.results)),
        footprint(found.matrix) * found.matrix.itemsize // PART,
    )
    return max((n for n in range(1, most + 1) if down % (n * WAYS) == 0), default=1)


def memory_between(dtype: DType, size: int) -> UOp:
    """The parameter by which the first of two kernels hands elements to the other."""
    return UOp(Ops.PARAM, dtype, (), ParamArg(MEMORY, size))


def parted(first: UOp, rest: UOp, memory: UOp) -> Parted:
    """Two kernels, of which the first stores the memory between them and the other reads it."""
    read, kept = slots_of(first), slots_of(rest)
    return Parted(
        renumbered(first, (MEMORY, *read)), renumbered(rest, (*kept, MEMORY)),
        memory.arg.size, memory.dtype, read, kept,
    )  # fmt: skip


def slots_of(root: UOp) -> tuple[int, ...]:
    """The numbers of a kernel's parameters, without the memory between it and another."""
    return tuple(sorted({n.arg.slot for n in root.toposort() if n.op is Ops.PARAM} - {MEMORY}))


def renumbered(root: UOp, slots: tuple[int, ...]) -> UOp:
    """The kernel with its parameters and axes numbered anew, those in the order of `slots`."""

    def numbered(node: UOp) -> UOp:
        if node.op is not Ops.PARAM:
            return node
        return node.replace(arg=ParamArg(slots.index(node.arg.slot), node.arg.size))

    return renumber(map_nodes(root, numbered))
