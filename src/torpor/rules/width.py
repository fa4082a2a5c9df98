"""Which machine integer index arithmetic may become: proved bounds decide."""

from __future__ import annotations

from collections.abc import Iterable

from torpor.base.dtypes import DType, dtypes
from torpor.ir.uop import UOp


def fits(expr_nodes: Iterable[UOp], dtype: DType) -> bool:
    """Whether the bounds of every node of dtype index at or below `expr_nodes` fit `dtype`."""
    return all(
        dtype.min <= node.vmin and node.vmax <= dtype.max
        for node in UOp.sink(*expr_nodes).toposort()
        if node.dtype.scalar() is dtypes.index
    )


def index_dtype(expr_nodes: Iterable[UOp]) -> DType:
    """int32 where the bounds of every node of dtype index below `expr_nodes` fit it, else int64.

    Sound: where each operand and the exact result of an operation fit int32, the machine's
    operation gives the exact result, so by induction every node has its unbounded value (a RANGE's
    bound is a node too, so its counter fits when it has passed the last value). Nothing is wider
    than int64: that one is returned unproved where bounds are infinite; `fits` tells.
    """
    return dtypes.int32 if fits(expr_nodes, dtypes.int32) else dtypes.int64
