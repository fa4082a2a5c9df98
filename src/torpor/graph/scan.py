"""The checked builder of running reductions, and their gradients."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph.elementwise import cast, constant, elementwise
from torpor.graph.gradient_elementwise import Gradients, like
from torpor.graph.gradient_indexed import numbered, summed_at
from torpor.graph.movement import flip, pad, shrink
from torpor.graph.reduce import function, reduce
from torpor.graph.sizes import axis_of, describe
from torpor.ir.infer import Size, shape_of
from torpor.ir.ops import Ops, identity
from torpor.ir.uop import UOp

SCANS: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN})


def scan(node: UOp, op: Ops, axis: int, initial: UOp | None = None) -> UOp:
    """out[.., i, ..] = initial op node[.., 0, ..] op ... op node[.., i, ..] along `axis`.

    initial: of the same shape but for length 1 along the axis; None for what changes nothing.
    """
    axis = axis_of("scan", node, axis)
    shape = shape_of(node)
    alone = (*shape[:axis], 1, *shape[axis + 1 :])
    if op not in SCANS:
        raise DTypeError(f"scan of {describe(node)}: {op} is no reduction")
    if initial is None:
        initial = constant(identity(op, node.dtype), node.dtype, alone)
    if shape_of(initial) != alone or initial.dtype is not node.dtype:
        raise ShapeError(f"scan of {describe(node)}: got {describe(initial)} to start from")
    if 0 in shape:
        return node
    return UOp(Ops.SCAN_AXIS, node.dtype, (node, initial), (op, axis))


def scan_gradient(node: UOp, g: UOp) -> Gradients:
    """d scan(x, initial): by the operation's own rule. The initial value is one more element before
    the others.
    """
    x, initial = node.src
    op, axis = node.arg
    if op is Ops.ADD:
        return _from_the_end(g, axis), reduce(g, Ops.ADD, axis, keepdims=True)
    whole = joined(initial, x, axis)
    result = joined(initial, node, axis)
    padded = pad(g, [(int(a == axis), 0) for a in range(len(shape_of(g)))])
    if op is Ops.MUL:
        made = multiplied(whole, result, padded, axis)
        found = function(made, (without_division(whole, result, padded, axis),), "same")
    else:
        found = extreme(whole, result, padded, axis)
    return part(found, axis, 1, shape_of(whole)[axis]), part(found, axis, 0, 1)


def joined(first: UOp, rest: UOp, axis: int) -> UOp:
    """The first element along an axis, then the rest."""
    rank, length = len(shape_of(rest)), shape_of(rest)[axis]
    assert isinstance(length, int), "running gradients are taken along axes of known length"
    before = [(0, length if a == axis else 0) for a in range(rank)]
    after = [(int(a == axis), 0) for a in range(rank)]
    here = pad(constant(True, dtypes.bool, shape_of(first)), before)
    return elementwise(Ops.WHERE, here, pad(first, before), pad(rest, after))


def part(node: UOp, axis: int, start: Size, stop: Size) -> UOp:
    """From `start` up to `stop` along an axis."""
    return shrink(node, [(start, stop) if a == axis else (0, s)
                         for a, s in enumerate(shape_of(node))])  # fmt: skip


def _from_the_end(x: UOp, axis: int) -> UOp:
    """Sums from each element up to the end of the axis."""
    return flip(scan(flip(x, axis), Ops.ADD, axis), axis)


def multiplied(x: UOp, result: UOp, g: UOp, axis: int) -> UOp:
    """d cumprod(x) at i: the sum over j >= i of g_j * (product up to j, without x_i).

    Before the first zero z that is sum(g_j r_j) / x_i; at z it is sum(g_j p_j), p being the running
    product with 1 for x_z; after z every product contains x_z.
    """
    zero = elementwise(Ops.CMPEQ, x, like(x, 0))
    seen = scan(cast(zero, dtypes.int64), Ops.ADD, axis)
    some = elementwise(Ops.CMPLT, like(seen, 0), seen)
    first = elementwise(Ops.AND, zero, elementwise(Ops.CMPEQ, seen, like(seen, 1)))
    safe = elementwise(Ops.WHERE, zero, like(x, 1), x)
    p = scan(elementwise(Ops.WHERE, first, like(x, 1), x), Ops.MUL, axis)
    later = elementwise(Ops.WHERE, some, elementwise(Ops.MUL, g, p), like(x, 0))
    earlier = _from_the_end(
        elementwise(Ops.WHERE, some, like(x, 0), elementwise(Ops.MUL, g, result)), axis
    )
    before = elementwise(Ops.WHERE, some, like(x, 0), elementwise(Ops.FDIV, earlier, safe))
    return elementwise(Ops.WHERE, first, _from_the_end(later, axis), before)


def without_division(x: UOp, result: UOp, g: UOp, axis: int) -> UOp:
    """What `multiplied` is, by sums and products alone, so that it has a gradient beside zeros:
    p_i b_i, with p_i the product before x_i, and b_i = g_i + x_(i+1) b_(i+1), in steps that double.
    """
    size = shape_of(x)[axis]
    assert isinstance(size, int), "running gradients are taken along axes of known length"

    def later(node: UOp, by: int) -> UOp:
        around = [(0, by if a == axis else 0) for a in range(len(shape_of(x)))]
        return pad(part(node, axis, by, size), around)

    one = like(part(x, axis, 0, 1), 1)
    before = joined(one, part(result, axis, 0, size - 1), axis)
    factor, total, step = later(x, 1), g, 1
    while step < size:
        total = elementwise(Ops.ADD, total, elementwise(Ops.MUL, factor, later(total, step)))
        factor, step = elementwise(Ops.MUL, factor, later(factor, step)), 2 * step
    return elementwise(Ops.MUL, before, total)


def extreme(x: UOp, result: UOp, g: UOp, axis: int) -> UOp:
    """d cummax(x) at i: the sum of g_j over the j whose greatest element so far is x_i, the latest
    of equal ones.
    """
    return summed_at(shape_of(x), latest(x, result, axis), g, axis)


def latest(x: UOp, result: UOp, axis: int) -> UOp:
    """Where the running extremes stand, int64: of equal elements the latest, NaN equal to NaN."""
    there = elementwise(Ops.CMPEQ, x, result)
    if x.dtype.is_float:
        there = elementwise(Ops.OR, there, elementwise(Ops.CMPNE, x, x))
    order = numbered(shape_of(x), axis)
    return scan(elementwise(Ops.WHERE, there, order, like(order, 0)), Ops.MAX, axis)
