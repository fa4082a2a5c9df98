"""Indices that a check finds inside need no clamp: what fails is 0, and of scalars one comparison
tells.

before  min(max(CHECK(i, not i < 0 and i < n), 0), n-1)
after   where(u < n, CHECK(i, u < n), 0)               u: the bits of i as an unsigned number

Where the check is asked less often than the index is used (`schedule/guards.py`), its condition is
another one and the clamp stays.
"""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import map_nodes


def eliminate_bounds_checks(root: UOp, target: Target) -> UOp:
    """The kernel, its checked indices of 64 bits without their clamps."""
    if "int64" in target.missing or not any(n.op is Ops.CHECK for n in root.toposort()):
        return root
    return map_nodes(root, chosen)


def chosen(node: UOp) -> UOp:
    """min(max(CHECK(i, not i < 0 and i < n), 0), n-1) -> where(u < n, CHECK(i, u < n), 0)

    for 0 < n <= 2**63: a negative number has bits of at least 2**63. Vectors, which compare signed
    numbers best, keep their condition.
    """
    checked = clamped(node)
    if checked is None:
        return node
    index, condition = checked.src
    length = (number(node.src[1]) or 0) + 1
    if condition.op is not Ops.AND or {*condition.src} != {~(index < 0), index < length}:
        return node
    if index.dtype.count == 1:
        condition = index.bitcast(dtypes.uint64) < UOp.const(dtypes.uint64, length)
    return condition.where(checked.replace(src=(index, condition)), index.const_like(0))


def clamped(node: UOp) -> UOp | None:
    """The CHECK of an int64 between 0 and a number, if the node is min(max(it, 0), number)."""
    if node.op is not Ops.MIN or node.dtype.scalar() is not dtypes.int64:
        return None
    low, high = node.src
    if number(high) is None or low.op is not Ops.MAX or number(low.src[1]) != 0:
        return None
    return low.src[0] if low.src[0].op is Ops.CHECK else None


def number(node: UOp) -> int | None:
    """What a constant is, the same in all lanes; None for anything else."""
    if node.op is Ops.VECTORIZE and len(set(node.src)) == 1:
        node = node.src[0]
    return int(node.arg) if node.op is Ops.CONST else None
