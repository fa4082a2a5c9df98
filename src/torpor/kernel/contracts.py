"""What is legal between the passes of `kernel/`."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.contract import Contract
from torpor.ir.ops import ALU, COMPARE, GRAPH, AxisType, Ops
from torpor.ir.pattern import UPat
from torpor.ir.uop import UOp

_INDEXABLE: Final = (Ops.PARAM, Ops.DEFINE_LOCAL)


def always(node: UOp) -> bool:
    """No condition beyond the pattern."""
    return True


def lanes_agree(node: UOp) -> bool:
    """Operands have as many lanes as the result."""
    return all(s.dtype.count == node.dtype.count for s in node.src)


def compares_alike(node: UOp) -> bool:
    """A comparison gives bool and compares values of one format."""
    same = node.src[0].dtype is node.src[1].dtype
    return same and node.dtype.kind == "bool" and lanes_agree(node)


def computes_alike(node: UOp) -> bool:
    """Operands have the format of the result (casts, shifts and conditions aside)."""
    if node.op in (Ops.CAST, Ops.BITCAST, Ops.SHL, Ops.SHR):
        return lanes_agree(node)
    values = node.src[1:] if node.op is Ops.WHERE else node.src
    return lanes_agree(node) and all(s.dtype is node.dtype for s in values)


def names_memory(node: UOp) -> bool:
    """An INDEX is of memory, its position an integer, its condition a bool."""
    fits = node.src[0].op in _INDEXABLE and node.src[1].dtype.count == 1
    integral = node.src[1].dtype.kind in ("int", "index")
    return fits and integral and all(s.dtype.kind == "bool" for s in node.src[2:])


def loops_only(node: UOp) -> bool:
    """A RANGE that is still a loop."""
    return node.arg[1] not in (AxisType.UPCAST, AxisType.UNROLL)


def is_known(node: UOp) -> bool:
    """A kernel op that needs no condition of its own."""
    return node.op not in GRAPH and node.op not in ALU and node.op not in (Ops.INDEX, Ops.RANGE)


def has_machine_format(node: UOp) -> bool:
    """No unbounded integers are left."""
    return node.dtype.scalar() is not dtypes.index


_COMPUTE: Final = (
    (UPat(COMPARE), compares_alike),
    (UPat(ALU - COMPARE), computes_alike),
    (UPat(Ops.INDEX), names_memory),
)
WRITTEN_OUT: Final = Contract(
    "written out", (*_COMPUTE, (UPat(Ops.RANGE), loops_only), (UPat(), is_known))
)
_GONE: Final = frozenset({Ops.INDEX, Ops.REDUCE, Ops.SCAN, Ops.SINK, Ops.BIND})
_LINEAR_OPS: Final = frozenset(Ops) - GRAPH - ALU - _GONE
LINEAR: Final = Contract("linear", (*_COMPUTE, (UPat(_LINEAR_OPS), has_machine_format)))
