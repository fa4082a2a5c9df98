"""Long sums of few results in parts, each of which threads read from end to end.

before  out[n] = f(sum(k, x[k] * w[k, n]))
after   v[p, n] = sum(j, x[p*length + j] * w[p*length + j, n]);  out[n] = f(sum(p, v[p, n]))

A large matrix is read at the speed of memory only in long runs: threads that share its columns
would each jump from row to row. How many parts there are follows from the sizes alone.

The constants are from products of 1, 4, 8 and 13 rows with matrices of 4 to 64 MB in turns with
other sizes of parts, one and two threads of Zen 3 (512 KB next to a core, 32 MB shared).
"""

from __future__ import annotations

from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import footprint
from torpor.kernel.choose.columns import Columns, find_columns
from torpor.kernel.cost import WAYS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import find_loops, iterations, nesting, replace_range, size_of
from torpor.kernel.split.several import Parted, parted, stored_apart

PART: Final = 1 << 21  # bytes of a part, at least
PARTS: Final = 16  # most parts
SHARE: Final = 32  # rows that a part has for each result of a column, at least
PRODUCTS_WORTH: Final = 1 << 20  # products from which another kernel pays


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
    part = UOp.range(parts, len(kernel.axes), AxisType.REDUCE)
    length = (size_of(found.down) or 1) // parts
    inner = UOp.range(length, *found.down.arg)
    value = replace_range(reduction, found.down, part * length + inner, [inner])
    sums, read = stored_apart(value, [part, *outputs])
    added = UOp(Ops.REDUCE, reduction.dtype, (read, part), reduction.arg)
    return parted(sums, kernel.ast.substitute({reduction: added}), "parts of a sum")


def parts_of(found: Columns) -> int:
    """How many parts: whole blocks of rows in each, and few results for what is read."""
    down = size_of(found.down) or 1
    most = min(
        PARTS // iterations(found.several),
        down // (SHARE * iterations(found.results)),
        footprint(found.matrix) * found.matrix.itemsize // PART,
    )
    return max((n for n in range(1, most + 1) if down % (n * WAYS) == 0), default=1)
