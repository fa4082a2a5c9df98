"""What products read that takes several operations to compute: codes of a few bits, with scales."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import find_loops, kind_of, size_of
from torpor.kernel.stage import operands

DEAR_STEPS: Final = 3  # operations on a loaded value from which it should be computed once
SHORT: Final = 8  # rounds of a loop that may be written out


def dear_operands(kernel: Kernel) -> list[UOp]:
    """What reductions read that takes several operations to compute from what is loaded."""
    return [
        value
        for value in operands(kernel.ast)
        if sum(n.op in ALU and n.dtype is not dtypes.index for n in value.toposort()) >= DEAR_STEPS
    ]


def shares_loads(kernel: Kernel) -> bool:
    """Whether rounds of a short reduce loop share what is loaded, as places within a block do."""
    short = [
        r
        for r in kernel.reduce_axes
        if kind_of(r) is AxisType.REDUCE and (size_of(r) or SHORT + 1) <= SHORT
    ]
    found = [a for a in accesses(find_loops(kernel.ast)) if not a.is_store]
    inside = [a for a in found if any(r in a.strides for r in kernel.reduce_axes)]
    return any(a.stride(r) == 0 for r in short for a in inside)
