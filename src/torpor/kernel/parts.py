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
from torpor.kernel.columns import ROWS, Columns, find_columns
from torpor.kernel.kernel import Kernel
from torpor.kernel.normalise import renumber
from torpor.kernel.ranges import (
    find_loops,
    iterations,
    map_nodes,
    nesting,
    replace_range,
    size_of,
)
from torpor.kernel.stage import place

PART: Final = 1 << 21  # bytes of a part, at least
PARTS: Final = 16  # most parts
SHARE: Final = 32  # rows that a part has for each result of a column, at least
WORTH: Final = 1 << 20  # products from which another kernel pays
MEMORY: Final = -1  # stands for the parameter that holds the sums of the parts


class Parted(NamedTuple):
    """The kernel that stores the sums of the parts (`size` of them, as its parameter 0), and the
    kernel that adds them (its last parameter); and which of the whole kernel's parameters are the
    others of each, in order.
    """

    sums: UOp
    rest: UOp
    size: int
    dtype: DType
    read: tuple[int, ...]
    kept: tuple[int, ...]


def in_parts(ast: UOp, target: Target) -> Parted | None:
    """A kernel's sum in parts, and what is made of them; None where there is nothing to gain."""
    if not target.threads or len(ast.src) != 1 or iterations(tuple(ast.ranges())) < WORTH:
        return None
    kernel = Kernel(ast, target)
    found = find_columns(kernel)
    if found is None or len(kernel.reduce_axes) != 1 or (parts := parts_of(found, target)) < 2:
        return None
    (reduction,) = (n for n in kernel.ast.toposort() if n.op is Ops.REDUCE)
    outputs = sorted(find_loops(kernel.ast).free[reduction], key=nesting)
    size = parts * iterations(tuple(outputs))
    memory = UOp(Ops.PARAM, reduction.dtype, (), ParamArg(MEMORY, size))
    part = UOp.range(parts, len(kernel.axes), AxisType.REDUCE)
    result = UOp(Ops.LOAD, reduction.dtype, (place(memory, [part, *outputs]),))
    added = UOp(Ops.REDUCE, reduction.dtype, (result, part), reduction.arg)
    sums = sums_of(reduction, found.down, memory, [UOp.range(parts, -1, AxisType.GLOBAL), *outputs])
    rest = kernel.ast.substitute({reduction: added})
    read, kept = slots_of(sums), slots_of(rest)
    return Parted(
        renumbered(sums, (MEMORY, *read)), renumbered(rest, (*kept, MEMORY)),
        size, reduction.dtype, read, kept,
    )  # fmt: skip


def sums_of(reduction: UOp, down: UOp, memory: UOp, axes: list[UOp]) -> UOp:
    """The kernel that stores the sums of the parts, the first of the axes."""
    length = (size_of(down) or 1) // (size_of(axes[0]) or 1)
    inner = UOp.range(length, *down.arg)
    value = replace_range(reduction, down, axes[0] * length + inner, [inner]).simplify()
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, axes), value, *axes)))


def parts_of(found: Columns, target: Target) -> int:
    """How many parts: whole blocks of rows in each, and few results for what is read."""
    down = size_of(found.down) or 1
    most = min(
        PARTS // iterations(found.several),
        down // (SHARE * iterations(found.results)),
        footprint(found.matrix) * found.matrix.itemsize // PART,
    )
    return max((n for n in range(1, most + 1) if down % (n * ROWS) == 0), default=1)


def slots_of(root: UOp) -> tuple[int, ...]:
    """The numbers of a kernel's parameters, without the memory for the sums of the parts."""
    return tuple(sorted({n.arg.slot for n in root.toposort() if n.op is Ops.PARAM} - {MEMORY}))


def renumbered(root: UOp, slots: tuple[int, ...]) -> UOp:
    """The kernel with its parameters and axes numbered anew, those in the order of `slots`."""

    def numbered(node: UOp) -> UOp:
        if node.op is not Ops.PARAM:
            return node
        return node.replace(arg=ParamArg(slots.index(node.arg.slot), node.arg.size))

    return renumber(map_nodes(root, numbered))
