"""Checked builders of constants, elementwise operations and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from torpor.base.dtypes import DType, Scalar, dtypes, from_name
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph.movement import broadcast_shapes, expand, pad, reshape, shrink
from torpor.graph.sizes import describe
from torpor.ir.infer import Shape, Size, shape_of, shaped
from torpor.ir.ops import ALU, COMPARE, RARE, ROWS, TRANSCENDENTAL, Ops
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
    if dtype.kind == "packed":
        return cast(constant(value, dtypes.int8, shape), dtype)
    node = UOp(Ops.CONST, dtype, (), dtype.cast_scalar(value))
    if not shape:
        return node
    sizes = tuple(shape)
    ones = (1,) * len(sizes)
    node = shaped(UOp(Ops.RESHAPE, dtype, (node,), ones), ones)
    return node if sizes == ones else expand(node, sizes)


def uniform(node: UOp) -> UOp | None:
    """The CONST that every element of a node is, if it is built like `constant`'s."""
    below = node.below((Ops.RESHAPE, Ops.EXPAND))
    return below if below.op is Ops.CONST else None


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


def choose_rarely(condition: UOp, yes: UOp, no: UOp) -> UOp:
    """`yes` where the condition holds, which is rare: where kernels may branch, it is computed only
    if some lane of a vector needs it.
    """
    node = elementwise(Ops.WHERE, condition, yes, no)
    return shaped(node.replace(arg=RARE), shape_of(node))


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
    elif any(node.dtype.kind == "packed" for node in nodes):
        expected = "numbers to compute with (cast them, to int8 say)"
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
    if node.dtype.kind == "packed":
        return cast(_numbers_of(node), dtype)
    return _packed(node, dtype) if dtype.kind == "packed" else UOp(Ops.CAST, dtype, (node,))


def bitcast(node: UOp, dtype: DType) -> UOp:
    """The same bits read as `dtype`; of another size, of so many more or fewer along the last axis.
    The first element has the lowest bits.
    """
    if dtype is node.dtype:
        return node
    if {dtype.kind, node.dtype.kind} & {"index", "complex", "void"}:
        raise DTypeError(f"bitcast of {describe(node)}: {dtype} has no such bits")
    packed = node.dtype.kind == "packed"
    if dtype.bits == node.dtype.bits:
        return UOp(Ops.BITCAST, dtype, (_bits_of(node) if packed else node,))
    shape = shape_of(node)
    if not shape:
        raise ShapeError(f"bitcast of {describe(node)} to {dtype}: it has no last axis to change")
    into = _split if dtype.bits < node.dtype.bits else _joined
    count = dtype.bits // node.dtype.bits
    if count and (isinstance(shape[-1], UOp) or shape[-1] % count):
        raise ShapeError(
            f"bitcast of {describe(node)} to {dtype}: {count} elements become one, "
            f"and its last axis of {shape[-1]} is no multiple of that"
        )
    word = _bits_of(node) if packed else bitcast(node, _word(node.dtype.bits))
    made = into(word, node.dtype.bits, dtype.bits)
    return _marked(made, dtype) if dtype.kind == "packed" else bitcast(made, dtype)


def _word(bits: int) -> DType:
    """The unsigned integer that holds so many bits."""
    return from_name(f"uint{max(bits, 8)}")


def _split(node: UOp, whole: int, bits: int) -> UOp:
    """Words as their parts, the lowest first: (..., n) as (..., n * parts)."""
    *rows, last = shape_of(node)
    count = whole // bits
    shifts = constant(0, node.dtype, (count,))
    for place in range(1, count):
        shift = constant(place * bits, node.dtype, (1,))
        shifts = elementwise(Ops.OR, shifts, pad(shift, ((place, count - 1 - place),)))
    spread = reshape(node, (*rows, last, 1))
    parts = cast(elementwise(Ops.SHR, spread, shifts), _word(bits))
    return reshape(parts, (*rows, last * count))


def _joined(node: UOp, bits: int, whole: int) -> UOp:
    """Parts as words, the lowest first: (..., n) as (..., n / parts)."""
    *rows, last = shape_of(node)
    count, word = whole // bits, _word(whole)
    parts = cast(reshape(node, (*rows, last // count, count)), word)
    made = constant(0, word, (*rows, last // count))
    for place in range(count):
        boxes = (*((0, size) for size in (*rows, last // count)), (place, place + 1))
        one = reshape(shrink(parts, boxes), (*rows, last // count))
        one = elementwise(Ops.SHL, one, constant(place * bits, word, ()))
        made = elementwise(Ops.OR, made, one)
    return made


# --- numbers of 4 bits ----------------------------------------------------------------------------
# A node of such a format is the mark BITCAST on the bits of each number, in an uint8 of its own,
# with movements above. In memory two are in a byte, which `bitcast` makes of them. Only casts and
# bitcasts look below the mark, so that no target knows of these formats.
def _marked(bits: UOp, dtype: DType) -> UOp:
    kept = elementwise(Ops.AND, bits, constant((1 << dtype.bits) - 1, dtypes.uint8))
    return UOp(Ops.BITCAST, dtype, (kept,))


def _bits_of(node: UOp) -> UOp:
    """The bits of each number, as uint8: below the mark, with the movements that are above it."""
    if node.op is Ops.BITCAST:
        return node.src[0]
    moved = UOp(node.op, dtypes.uint8, (_bits_of(node.src[0]), *node.src[1:]), node.arg)
    return shaped(moved, shape_of(node))


def _numbers_of(node: UOp) -> UOp:
    """The numbers in a format of 8 bits."""
    bits = _bits_of(node)
    if not node.dtype.is_signed:
        return bits
    middle = constant(1 << (node.dtype.bits - 1), dtypes.uint8)
    turned = cast(elementwise(Ops.XOR, bits, middle), dtypes.int8)
    return elementwise(Ops.SUB, turned, cast(middle, dtypes.int8))


def _packed(node: UOp, dtype: DType) -> UOp:
    """Numbers in a format of 4 bits: integers without their high bits, floats held at the ends."""
    if node.dtype.is_float:
        wide = dtypes.int8 if dtype.is_signed else dtypes.uint8
        least, most = (constant(int(end), wide) for end in (dtype.min, dtype.max))
        node = elementwise(Ops.MAX, cast(node, wide), least)
        node = elementwise(Ops.WHERE, elementwise(Ops.CMPLT, node, most), node, most)
    return _marked(cast(node, dtypes.uint8), dtype)
