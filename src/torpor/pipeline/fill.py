"""Tensors of one number, which need no kernel: one made for a number would be compiled for each.

Large ones of zeros are memory as the system gives it, which takes none until it is written. What an
optimiser keeps of each parameter begins so, and is read once: filled by kernels it would be in
memory beside its first values.
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

LEAST: Final = 1 << 20  # bytes; smaller ones are quicker filled than had from the system
_THROUGH: Final = frozenset(
    {Ops.CONTIGUOUS, Ops.FUNCTION, Ops.EXPAND, Ops.RESHAPE, Ops.CONST}
)  # a FUNCTION has a rule for gradients, and the value of what is below


def filled(node: UOp, device: str) -> UOp | None:
    """The value of a node that is nothing but one number, if that is 0 or there are few; else None,
    since kernels fill by all threads.
    """
    if node.op not in _THROUGH or JOINT in device or Device[device].kind != "CPU":
        return None
    below, shape = node.below(_THROUGH - {Ops.CONST}), shape_of(node)
    sizes = [size for size in shape if isinstance(size, int)]
    size = math.prod(sizes)
    large = size * node.dtype.itemsize >= LEAST
    if len(sizes) < len(shape) or below.op is not Ops.CONST or (large and not is_zero(below.arg)):
        return None
    buffer = Buffer(device, size, node.dtype, BufferSpec(zeros=large)).allocate()
    if not large:
        buffer.numpy()[...] = below.arg
    return buffer_node(buffer, shape)


def is_zero(number: Any) -> bool:
    """Whether all bits of a constant are 0."""
    return bool(number == 0 and math.copysign(1, number) > 0)
