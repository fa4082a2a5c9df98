"""What products read that takes several operations to compute: codes of a few bits, with scales."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.registers import write_copy
from torpor.kernel.choose.vectors import attempt
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import coefficients, operands
from torpor.kernel.ranges import find_loops, kind_of, number_of, size_of

ROUNDS_LEAST: Final = 16  # rounds from which a value is worth computing as vectors before them
DEAR_STEPS: Final = 3  # operations on a loaded value from which it should be computed once


def dear_operands(kernel: Kernel) -> list[UOp]:
    """What reductions read that takes several operations to compute from what is loaded."""
    return [
        value
        for value in operands(kernel.ast)
        if sum(n.op in ALU and n.dtype is not dtypes.index for n in value.toposort()) >= DEAR_STEPS
    ]


def stage_coefficients(kernel: Kernel) -> None:
    """Scales and the like, of which a block of codes shares each, computed as vectors before the
    loop over the blocks: in it, each would take several operations that others wait for.
    """
    outer = [r for r in kernel.axes if kind_of(r) in (AxisType.THREAD, AxisType.GLOBAL)]
    inner = [r for r in kernel.axes if kind_of(r) is AxisType.REDUCE]
    if len(inner) != 1 or (size_of(inner[0]) or 0) < ROUNDS_LEAST or not outer:
        return
    level = kernel.axes.index(outer[-1])
    while any(inner[0] in find_loops(kernel.ast).free[v] for v in coefficients(kernel.ast)):
        before = {number_of(r) for r in kernel.axes}
        if not attempt(kernel, Opt(OptOps.STAGE, level, len(operands(kernel.ast)))):
            return
        write_copy(kernel, before)
