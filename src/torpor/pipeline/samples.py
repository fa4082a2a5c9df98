"""What the buffers hold that candidates are timed on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

WHOLE: Final = 100  # integers that are compared with nothing are less than this
POISON: Final = 0xA5  # what lies in outputs before a run that is checked
INTEGERS: Final = ("int", "uint")


def numbers_for(node: UOp, limits: dict[UOp, int], random: np.random.Generator) -> npt.NDArray[Any]:
    """What a buffer that the kernel reads holds: small numbers of either sign; integers less than
    what the kernel compares them with, since they may be indices.
    """
    kind, size = node.dtype, int(node.arg.size)
    if kind is dtypes.bool:
        return random.integers(0, 2, size).astype(kind.numpy)
    if kind.kind in INTEGERS:
        most = min(limits.get(node, WHOLE), int(np.iinfo(kind.numpy).max))
        return random.integers(0, most, size).astype(kind.numpy)
    return random.standard_normal(size, np.float32).astype(kind.numpy)


def limits_of(nodes: Iterable[UOp]) -> dict[UOp, int]:
    """The largest number above 1 that the kernel compares the integers of a parameter with."""
    found: dict[UOp, int] = {}
    for node in nodes:
        if node.op is not Ops.CMPLT or node.src[1].op is not Ops.CONST:
            continue
        if node.src[0].dtype.kind not in INTEGERS or node.src[1].arg < 2:
            continue
        for load in node.src[0].toposort():
            if load.op is Ops.LOAD and load.dtype.kind in INTEGERS:
                memory = load.src[0].src[0]
                found[memory] = max(found.get(memory, 0), int(node.src[1].arg))
    return found


def poison_for(node: UOp) -> npt.NDArray[Any]:
    """What a buffer that the kernel only writes holds: nothing that a kernel would write."""
    size: int = node.arg.size * node.dtype.itemsize
    return np.full(size, POISON, np.uint8).view(node.dtype.numpy)
