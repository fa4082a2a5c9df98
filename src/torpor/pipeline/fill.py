"""Large tensors of zeros: memory as the system gives it, which takes none until it is written.

What an optimiser keeps of each parameter begins as zeros, and is read once: filled by kernels it
would be in memory beside its first values.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.device import Buffer, Device
from torpor.device.buffer import buffer_node
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import BufferSpec
from torpor.ir.uop import UOp

LEAST: Final = 1 << 20  # bytes; smaller ones are filled quicker than had from the system
_THROUGH: Final = frozenset(
    {Ops.CONTIGUOUS, Ops.FUNCTION, Ops.EXPAND, Ops.RESHAPE, Ops.CONST}
)  # a FUNCTION has a rule for gradients, and the value of what is below


def zeros(node: UOp, device: str) -> UOp | None:
    """The value of a node that is nothing but zeros, in memory of the system; None of others."""
    if node.op not in _THROUGH or JOINT in device or Device[device].kind != "CPU":
        return None
    below, shape = node.below(_THROUGH - {Ops.CONST}), shape_of(node)
    sizes = [size for size in shape if isinstance(size, int)]
    size = math.prod(sizes)
    large = len(sizes) == len(shape) and size * node.dtype.itemsize >= LEAST
    if not large or below.op is not Ops.CONST or not is_zero(below.arg):
        return None
    return buffer_node(Buffer(device, size, node.dtype, BufferSpec(zeros=True)).allocate(), shape)


def is_zero(number: Any) -> bool:
    """Whether all bits of a constant are 0."""
    return bool(number == 0 and math.copysign(1, number) > 0)
