"""Graph nodes that have been computed, and what stands for their values.

before  a + b, where b is a graph that has been computed
after   a + the memory that holds the value of b, for who asks: the graph stays as it is
"""

from __future__ import annotations

from typing import Final

from torpor.graph.reduce import AGAIN
from torpor.ir.ops import Ops
from torpor.ir.uop import Known, UOp

_FUNCTION: Final = Ops.FUNCTION  # an enumeration is slow to ask for its members


def note(node: UOp, value: UOp, age: int = 0) -> None:
    """Note that `value` stands for what `node` computes, as long as `node` lives."""
    node.known = Known(value, age)


def is_noted(node: UOp, value: UOp) -> bool:
    """Whether that is known already."""
    return node.known is not None and node.known.value is value


def shown(node: UOp) -> UOp:
    """What stands for the value of a node: the node itself, if it has not been computed."""
    while node.known is None:
        if node.op is not _FUNCTION or node.arg[0] != AGAIN:
            return node
        node = node.src[0]
    return node.known.value
