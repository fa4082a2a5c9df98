"""Index arithmetic gets a machine format: int32 where every intermediate provably fits."""

from __future__ import annotations

from torpor.base.dtypes import DType, dtypes
from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import map_nodes
from torpor.rules import index_dtype


def choose_widths(root: UOp, target: Target) -> tuple[DType, DType]:
    """int32 or int64 for scalars and for vectors. A CPU addresses by 64 bits and has no use for
    less in scalars; vectors of lane numbers are twice as fast in 32 bits.
    """
    found = [n for n in root.toposort() if n.dtype.scalar() is dtypes.index]
    least = index_dtype(found)
    return (dtypes.int64 if target.threads else least), least


def lower_index(root: UOp, target: Target) -> UOp:
    """The kernel without dtype index."""
    scalar, vector = choose_widths(root, target)

    def narrow(node: UOp) -> UOp:
        count = node.dtype.count
        if node.dtype.scalar() is dtypes.index:
            width = scalar if count == 1 else vector
            if node.op is Ops.CAST and node.src[0].dtype.scalar() is width:
                return node.src[0]
            if node.op is Ops.VECTORIZE and width is not scalar:
                parts = tuple(s.cast(width) if s.dtype is scalar else s for s in node.src)
                return UOp(Ops.VECTORIZE, width.vec(count), parts)
            if node.op is Ops.GEP and count == 1 and vector is not scalar:
                return node.replace(dtype=vector).cast(scalar)
            return node.replace(dtype=width.vec(count))
        if node.op is Ops.CAST and node.src[0].dtype is node.dtype:
            return node.src[0]
        return node

    return map_nodes(root, narrow)
