"""What an expression costs, for deciding which of two equal ones to keep."""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp


def _is_negated(node: UOp) -> bool:
    return node.op is Ops.MUL and node.src[1].op is Ops.CONST and node.src[1].arg == -1


def _sum_cost(node: UOp, costs: dict[UOp, int]) -> int:
    """Operators of a sum in which a negated part is a subtraction, if not all are negated."""
    parts: list[UOp] = []
    while node.op is Ops.ADD:
        parts.append(node.src[1])
        node = node.src[0]
    parts.append(node)
    negated = sum(map(_is_negated, parts))
    return sum(costs[p] for p in parts) - negated + len(parts) - 1 + (negated == len(parts))


def cost_of(root: UOp) -> tuple[int, int]:
    """Operators in the written expression, and divisions among its nodes."""
    costs: dict[UOp, int] = {}
    divisions = 0
    for node in root.toposort():
        divisions += node.op in (Ops.IDIV, Ops.MOD)
        if node.op is Ops.ADD and node.dtype is dtypes.index:
            costs[node] = _sum_cost(node, costs)
        else:
            costs[node] = sum(costs[s] for s in node.src) + 1 if node.op in ALU else 0
    return costs[root], divisions
