"""What only gradients need of a graph."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

# The arg of a DETACH by `no_grad`: gradients do not flow through it, but tangents do, which are
# made of gradients while this holds.
UNRECORDED: Final = "no_grad"
following_tangents: Final[ContextVar[bool]] = ContextVar("torpor_tangents", default=False)
UNSEEN: Final = frozenset({Ops.LEAF, Ops.DETACH, Ops.FUNCTION})  # of no meaning for values


def is_passed(node: UOp) -> bool:
    """Whether what flows comes past a node: not past what is detached."""
    return node.op is not Ops.DETACH or (node.arg == UNRECORDED and following_tangents.get())
