"""Gradients of what tensors of indices read and write: each other's, since both move values.

Each rule takes a node and the gradient g of it, and gives the gradient of each operand; r is the
node's own result, n the operand `values`, index how both lie in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import GradientError
from torpor.graph.elementwise import cast, check, constant, elementwise
from torpor.graph.gradient_elementwise import Gradients, like
from torpor.graph.indexed import gather, scatter
from torpor.graph.movement import expand, pad, reshape, shrink
from torpor.graph.reduce import function
from torpor.graph.sizes import describe
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.ir.uop import UOp


def positions(length: int, dtype: DType) -> UOp:
    """0, 1, ..., length-1: the sum of their binary digits, which are made of movements."""
    bits = max(length - 1, 0).bit_length()
    whole = (2,) * bits
    total = constant(0, dtype, whole)
    for place in range(bits):
        digit = pad(constant(1 << (bits - 1 - place), dtype, (1,)), ((1, 0),))
        around = (1,) * place + (2,) + (1,) * (bits - 1 - place)
        total = elementwise(Ops.ADD, total, reshape(digit, around))
    return shrink(reshape(total, (1 << bits,)), ((0, length),))


def numbered(shape: Shape, axis: int, dtype: DType = dtypes.int64) -> UOp:
    """Integers of a shape, each element its own place along the axis."""
    length = shape[axis]
    assert isinstance(length, int), "places are counted along axes of known length"
    alone = [length if a == axis else 1 for a in range(len(shape))]
    return expand(reshape(positions(length, dtype), alone), shape)


def summed_at(shape: Shape, index: UOp, values: UOp, axis: int) -> UOp:
    """Zeros of a shape with the values added where the index says; half formats in float32."""
    wide = dtypes.float32 if values.dtype.is_float and values.dtype.bits < 32 else values.dtype
    zeros = constant(0, wide, shape)
    return cast(scatter(zeros, index, cast(values, wide), axis, Ops.ADD), values.dtype)


def within(index: UOp, length: int, axis: int) -> UOp:
    """The index, which raises outside of the axis, in the words of the index if it has some."""
    text = f"an index is out of bounds for axis {axis} of length {length}"
    words = index.arg if index.op is Ops.CHECK else Requirement("index", text)
    low = elementwise(Ops.CMPLT, like(index, -1), index)
    high = elementwise(Ops.CMPLT, index, like(index, length))
    return check(index, elementwise(Ops.AND, low, high), words)


def chosen_at(shape: Shape, index: UOp, g: UOp, axis: int) -> UOp:
    """g where the one place that the index names is, 0 elsewhere: it fuses with what it adds to."""
    length = shape[axis]
    assert isinstance(length, int), "places are counted along axes of known length"
    narrow = dtypes.int32 if length < 1 << 31 else dtypes.int64
    chosen = expand(cast(within(index, length, axis), narrow), shape)
    here = elementwise(Ops.CMPEQ, numbered(shape, axis, narrow), chosen)
    g = expand(g, shape)
    return elementwise(Ops.WHERE, here, g, like(g, 0))


def gather_gradient(node: UOp, g: UOp) -> Gradients:
    """d x[index] at j: the sum of g over the places whose index is j; none for the index."""
    x, index = node.src
    shape = shape_of(x)
    if shape_of(index)[node.arg] == 1 and isinstance(shape[node.arg], int):
        return chosen_at(shape, index, g, node.arg), None
    return summed_at(shape, index, g, node.arg), None


def scatter_gradient(node: UOp, g: UOp) -> Gradients:
    """d scatter(base, index, values): by the operation's own rule; none for the index."""
    base, values = UPDATE_GRADIENTS[node.arg[0]](node, g)
    return base, None, values


def stored_gradient(node: UOp, g: UOp) -> Gradients:
    """d of stores: g for the base where nothing is stored, for a value where it is the last."""
    base, index, values = node.src
    _, axis, distinct = node.arg
    found = gather(g, index, axis)
    if distinct:
        return None, found
    order = numbered(shape_of(index), axis)
    none = constant(-1, dtypes.int64, shape_of(base))
    last = scatter(none, index, order, axis)
    won = elementwise(Ops.CMPEQ, gather(last, index, axis), order)
    untouched = elementwise(Ops.CMPEQ, last, none)
    return (
        elementwise(Ops.WHERE, untouched, g, like(g, 0)),
        elementwise(Ops.WHERE, won, found, like(found, 0)),
    )


def added_gradient(node: UOp, g: UOp) -> Gradients:
    """d (base + values): g for all."""
    return g, gather(g, node.src[1], node.arg[1])


def extreme_gradient(node: UOp, g: UOp) -> Gradients:
    """d max: g where it is r, in equal parts where several are; min likewise."""
    base, index, values = node.src
    axis = node.arg[1]
    wide = dtypes.float32 if base.dtype.bits < 32 else base.dtype  # half formats cannot count far
    hit = elementwise(Ops.CMPEQ, base, node)
    other = elementwise(Ops.CMPEQ, values, gather(node, index, axis))
    count = scatter(cast(hit, wide), index, cast(other, wide), axis, Ops.ADD)
    count = elementwise(Ops.MAX, cast(count, g.dtype), like(g, 1))
    part = elementwise(Ops.FDIV, g, count)
    found = gather(part, index, axis)
    return (
        elementwise(Ops.WHERE, hit, part, like(part, 0)),
        elementwise(Ops.WHERE, other, found, like(found, 0)),
    )


def multiplied_gradient(node: UOp, g: UOp) -> Gradients:
    """d (base * values): g times the product of the other factors, right where some are 0.

    p is the product of the factors that are not 0, z the number of the others, s their sum: 0, with
    a gradient.
    """
    base, index, values = node.src
    axis = node.arg[1]
    zeros, ones = (_zero_and_rest(x) for x in (base, values))
    p = scatter(zeros[1], index, ones[1], axis, Ops.MUL)
    z = scatter(zeros[0], index, ones[0], axis, Ops.ADD)
    s = scatter(_only_zero(base), index, _only_zero(values), axis, Ops.ADD)
    at_values = (gather(x, index, axis) for x in (g, p, z, s))
    return _others(base, g, p, z, s), _others(values, *at_values)


def _zero_and_rest(x: UOp) -> tuple[UOp, UOp]:
    """1 where x is 0 and else 0, as int64; and x with 1 for 0."""
    zero = elementwise(Ops.CMPEQ, x, like(x, 0))
    return cast(zero, dtypes.int64), elementwise(Ops.WHERE, zero, like(x, 1), x)


def _only_zero(x: UOp) -> UOp:
    """0, which is x where that is 0."""
    return elementwise(Ops.WHERE, elementwise(Ops.CMPEQ, x, like(x, 0)), x, like(x, 0))


def _others(x: UOp, g: UOp, p: UOp, z: UOp, s: UOp) -> UOp:
    """Gives g times the product of all factors but x. Where one of these is 0 that is a multiple of
    it, as which it has a gradient.
    """
    zero, rest = _zero_and_rest(x)
    others_zero = elementwise(Ops.SUB, z, zero)
    found = elementwise(Ops.FDIV, elementwise(Ops.MUL, g, p), rest)
    clean = elementwise(Ops.CMPEQ, others_zero, like(z, 0))
    made = elementwise(Ops.WHERE, clean, found, like(found, 0))
    one = elementwise(Ops.CMPEQ, others_zero, like(z, 1))
    beside = elementwise(Ops.MUL, found, elementwise(Ops.SUB, s, _only_zero(x)))
    multiple = elementwise(Ops.WHERE, one, beside, made)
    return function(made, (multiple,), "same")


def prior_gradient(node: UOp, g: UOp) -> Gradients:
    """PRIOR is for counters, which are integers; of floats it is a `GradientError`."""
    raise GradientError(f"there is no gradient of what stood before updates: {describe(node)}")


UPDATE_GRADIENTS: Final[dict[Ops, Callable[[UOp, UOp], Gradients]]] = {
    Ops.STORE: stored_gradient,
    Ops.ADD: added_gradient,
    Ops.MUL: multiplied_gradient,
    Ops.MAX: extreme_gradient,
    Ops.MIN: extreme_gradient,
}
INDEXED: Final[dict[Ops, Callable[[UOp, UOp], Gradients]]] = {
    Ops.GATHER: gather_gradient,
    Ops.SCATTER: scatter_gradient,
    Ops.PRIOR: prior_gradient,
}
