"""Values that are computed again for the gradient instead of being kept.

A checkpoint is FUNCTION(value, inputs...): its value is made of the inputs, each an alias, and of
what else it reads, also among the operands. Its gradient is that of a copy of the value, made of
AFTER(input, g): a node of its own, so that nothing of the copy is shared with the value, which
nobody has to keep; and not computed before the gradient g has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.graph.reduce import leaf
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

RULE: Final = "checkpoint"
Derive = Callable[[Sequence[UOp], Sequence[UOp], Sequence[UOp]], list[UOp | None]]


def checkpoint(value: UOp, inputs: Sequence[UOp], identity: int) -> UOp:
    """The value, computed again from `inputs` (aliases) for its gradient. Values of one `identity`
    are computed again together.
    """
    inside = depending(value, inputs)
    if value not in inside or not value.dtype.is_float:
        return value
    known = frozenset(inputs).union(inside)
    sources = dict.fromkeys(source for node in inside for source in node.src)
    beside = [source for source in sources if source not in known and flows(source)]
    arg = (RULE, identity, len(inputs))
    made = UOp(Ops.FUNCTION, value.dtype, (value, *inputs, *beside), arg)
    return shaped(made, shape_of(value))


def is_checkpoint(node: UOp) -> bool:
    """Whether the node is a value that is computed again for its gradient."""
    return node.op is Ops.FUNCTION and node.arg[0] == RULE


def depending(root: UOp, inputs: Sequence[UOp]) -> dict[UOp, None]:
    """The nodes below `root` that depend on one of the inputs, operands first."""
    ends, found = frozenset(inputs), dict[UOp, None]()
    for node in root.toposort(lambda below: below not in ends):
        if any(source in found or source in ends for source in node.src):
            found[node] = None
    return found


def flows(node: UOp) -> bool:
    """Whether a gradient may be asked for something that this is made of."""
    if not node.dtype.is_float:
        return False
    return any(below.op is Ops.LEAF for below in node.toposort(lambda n: n.op is not Ops.DETACH))


class Copies:
    """Copies of the values of one checkpoint, for one gradient: what several of them share is made
    once.
    """

    def __init__(self) -> None:
        self._copies: dict[UOp, UOp] = {}
        self._after: UOp | None = None

    def gradients(self, node: UOp, g: UOp, derive: Derive) -> list[UOp | None]:
        """The gradient of each operand of a checkpoint but its value, by way of a copy."""
        after = self._after = self._after if self._after is not None else g
        value, *operands = node.src
        inside = depending(value, operands)
        for number, operand in enumerate(operands):
            if operand not in self._copies:
                own = number < node.arg[2]
                again = UOp(Ops.AFTER, operand.dtype, (operand, after)) if own else operand
                self._copies[operand] = leaf(again)
        for one in inside:
            if one not in self._copies:
                source = tuple(self._copies.get(below, below) for below in one.src)
                self._copies[one] = shaped(one.replace(src=source), shape_of(one))
                self._copies[one].origins = one.origins
        targets = [self._copies[operand] for operand in operands]
        return derive([self._copies[value]], [g], targets)
