"""Index arithmetic gets a machine format: int32 where every intermediate provably fits."""

from __future__ import annotations

from torpor.base.dtypes import DType, dtypes
from torpor.base.target import Target
from torpor.ir.ops import ALU, COMPARE, Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import map_nodes
from torpor.rules import index_dtype

_COMPUTED = ALU | {Ops.CHECK}


def choose_widths(root: UOp, target: Target) -> tuple[DType, DType]:
    """int32 or int64 for scalars and for vectors. A CPU addresses by 64 bits and has no use for
    less in scalars; vectors of lane numbers are twice as fast in 32 bits.
    """
    found = [n for n in root.toposort() if n.dtype.scalar() is dtypes.index]
    least = index_dtype(found)
    return (dtypes.int64 if target.threads else least), least


def lower_index(root: UOp, target: Target) -> UOp:
    """The kernel without dtype index. Where a group target needs 64 bits somewhere, as a position
    that was read does before it is known to lie inside, what fits 32 bits is computed in these.
    """
    scalar, vector = choose_widths(root, target)

    def width(node: UOp) -> DType:
        """The format of one lane of a node of dtype index."""
        if target.groups and dtypes.int32.min <= node.vmin and node.vmax <= dtypes.int32.max:
            return dtypes.int32
        return scalar if node.dtype.count == 1 else vector

    def narrow(node: UOp) -> UOp:
        op, count = node.op, node.dtype.count
        if node.dtype.scalar() is not dtypes.index:
            if op is Ops.CAST and node.src[0].dtype is node.dtype:
                return node.src[0]
            return in_one_width(node, node.src[0].dtype.scalar()) if op in COMPARE else node
        if op in (Ops.RANGE, Ops.SPECIAL):
            return node.replace(dtype=node.src[0].dtype)
        wanted = width(node)
        if op is Ops.CAST:
            return sized(node.src[0], wanted)
        if op is Ops.VECTORIZE:
            return UOp(op, wanted.vec(count), tuple(sized(s, wanted) for s in node.src))
        if op is Ops.GEP:
            return sized(node.replace(dtype=node.src[0].dtype.scalar().vec(count)), wanted)
        if op in _COMPUTED:
            return sized(in_one_width(node, wanted), wanted)
        return node.replace(dtype=wanted.vec(count))

    return map_nodes(root, narrow)


def sized(node: UOp, width: DType) -> UOp:
    """The same number in another format."""
    if node.op is Ops.CONST and node.dtype.is_int:
        return UOp.const(width, node.arg)
    return node.cast(width.vec(node.dtype.count))


def in_one_width(node: UOp, least: DType) -> UOp:
    """A node with its integers in the widest format of them."""
    formats = [s.dtype.scalar() for s in node.src if s.dtype.is_int]
    widest = max([least, *formats], key=bits_of)
    sources = tuple(sized(s, widest) if s.dtype.is_int else s for s in node.src)
    dtype = node.dtype if node.op in COMPARE else widest.vec(node.dtype.count)
    return node.replace(dtype=dtype, src=sources)


def bits_of(dtype: DType) -> int:
    """The size of a format."""
    return dtype.bits
