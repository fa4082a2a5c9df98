"""What products read that takes several operations to compute: codes of a few bits, with scales."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU
from torpor.ir.uop import UOp
from torpor.kernel.kernel import Kernel
from torpor.kernel.stage import operands

DEAR_STEPS: Final = 3  # operations on a loaded value from which it should be computed once


def dear_operands(kernel: Kernel) -> list[UOp]:
    """What reductions read that takes several operations to compute from what is loaded."""
    return [
        value
        for value in operands(kernel.ast)
        if sum(n.op in ALU and n.dtype is not dtypes.index for n in value.toposort()) >= DEAR_STEPS
    ]
