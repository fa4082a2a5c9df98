"""Checked builders of constants, elementwise operations and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from torpor.base.dtypes import DType, Scalar, dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph.movement import broadcast_shapes, expand
from torpor.graph.sizes import describe
from torpor.ir.infer import Shape, Size, shape_of, shaped
from torpor.ir.ops import ALU, COMPARE, ROWS, TRANSCENDENTAL, Ops
from torpor.ir.records import Requirement
from torpor.ir.uop import UOp

# Kinds of number that an op takes; what is not named takes all.
_FLOATS: Final = frozenset({"float"})
_INTEGERS: Final = frozenset({"int", "uint", "index"})
_KINDS: Final[dict[Ops, frozenset[str]]] = {
    **dict.fromkeys((*TRANSCENDENTAL, Ops.SQRT, Ops.FDIV), _FLOATS),
    **dict.fromkeys((Ops.FLOOR, Ops.TRUNC, Ops.RINT), _FLOATS),
    **dict.fromkeys((Ops.IDIV, Ops.SHL, Ops.SHR), _INTEGERS),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR), _INTEGERS | {"bool"}),
    **dict.fromkeys((Ops.SUB, Ops.MOD), _INTEGERS | _FLOATS),
}
_ALL: Final = _INTEGERS | _FLOATS | {"bool"}
# For each op: the number of its operands, their kinds, and the dtype of the result if not theirs.
_ROWS: Final = {
    op: (ROWS[op].arity, _KINDS.get(op, _ALL), dtypes.bool if op in COMPARE else None)
    for op in ALU - {Ops.CAST, Ops.BITCAST}
}


_common_shape: Final = lru_cache(maxsize=4096)(broadcast_shapes)


def constant(value: Scalar, dtype: DType, shape: Sequence[Size] = ()) -> UOp:
    """The number `value` as `dtype` holds it, in every element of `shape`."""
    node = UOp(Ops.CONST, dtype, (), dtype.cast_scalar(value))
    if not shape:
        return node
    sizes = tuple(shape)
    ones = (1,) * len(sizes)
    node = UOp(Ops.RESHAPE, dtype, (node,), ones)
    return node if sizes == ones else expand(node, sizes)


def elementwise(op: Ops, *nodes: UOp) -> UOp:
    """`op` on operands of one dtype (WHERE: a bool first), which are broadcast to one shape."""
    row = _ROWS.get(op)
    if row is None or len(nodes) != row[0] or nodes[-1].dtype.kind not in row[1]:
        raise DTypeError(_fault(op, nodes))
    last = nodes[-1]
    shape, dtype = shape_of(last), last.dtype
    if row[0] == 3:
        if nodes[0].dtype is not dtypes.bool or nodes[1].dtype is not dtype:
            raise DTypeError(_fault(op, nodes))
        if not (shape_of(nodes[0]) == shape == shape_of(nodes[1])):
            nodes, shape = _broadcast(op, nodes)
    elif row[0] == 2:
        first = nodes[0]
        if first.dtype is not dtype:
            raise DTypeError(_fault(op, nodes))
        if shape_of(first) != shape:
            nodes, shape = _broadcast(op, nodes)
    return shaped(UOp(op, row[2] or dtype, nodes), shape)


def check(value: UOp, condition: UOp, requirement: Requirement) -> UOp:
    """The value; realisation raises what `requirement` says where the condition does not hold."""
    nodes, shape = _broadcast(Ops.CHECK, (value, condition))
    return shaped(UOp(Ops.CHECK, value.dtype, nodes, requirement), shape)


def _broadcast(op: Ops, nodes: tuple[UOp, ...]) -> tuple[tuple[UOp, ...], Shape]:
    try:
        shape = _common_shape(*[shape_of(node) for node in nodes])
    except ShapeError as error:
        texts = ", ".join(describe(node) for node in nodes)
        raise ShapeError(f"{name_of(op)} of {texts}: {error}") from None
    return tuple([expand(node, shape) for node in nodes]), shape


def name_of(op: Ops) -> str:
    """An op's name in an error message."""
    return op.name.lower()


def _fault(op: Ops, nodes: Sequence[UOp]) -> str:
    """What is wrong with these operands."""
    if op not in _ROWS:
        return f"{name_of(op)} is no elementwise operation"
    arity, kinds, _ = _ROWS[op]
    if len(nodes) != arity:
        expected = f"{arity} operands"
    elif op is Ops.WHERE and nodes[0].dtype is not dtypes.bool:
        expected = "a bool condition"
    elif nodes[-1].dtype.kind not in kinds:
        expected = f"operands of kind {' or '.join(sorted(kinds))}"
    else:
        expected = "operands of one dtype"
    return f"{name_of(op)}: expected {expected}, got {', '.join(map(describe, nodes))}"


def cast(node: UOp, dtype: DType) -> UOp:
    """Converted to `dtype`: float to integer truncates, saturates, NaN is 0."""
    if dtype is node.dtype:
        return node
    if dtype is dtypes.void or dtype.count != 1:
        raise DTypeError(f"cast of {describe(node)}: expected a number format, got {dtype}")
    return UOp(Ops.CAST, dtype, (node,))


def bitcast(node: UOp, dtype: DType) -> UOp:
    """The same bits read as `dtype`, which has the same size."""
    if dtype is node.dtype:
        return node
    if dtype.itemsize != node.dtype.itemsize or "index" in (dtype.kind, node.dtype.kind):
        raise DTypeError(
            f"bitcast of {describe(node)}: expected a format of {node.dtype.itemsize} bytes, "
            f"got {dtype} of {dtype.itemsize}"
        )
    return UOp(Ops.BITCAST, dtype, (node,))
