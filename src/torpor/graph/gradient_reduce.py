"""Gradients of reductions, and of what only marks or moves a stored value.

Each rule takes a node and the gradient g of it, and gives the gradient of each operand; r is the
node's own result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import GradientError
from torpor.graph.bare import is_passed
from torpor.graph.elementwise import cast, constant, elementwise
from torpor.graph.gradient_elementwise import Gradients, like
from torpor.graph.movement import expand, flip, pad, permute, reshape, shrink
from torpor.graph.reduce import copy_to, reduce
from torpor.graph.sizes import describe
from torpor.ir.infer import Size, device_of, product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def sum_gradient(node: UOp, g: UOp) -> Gradients:
    """d sum(x): g repeated."""
    return (expand(g, shape_of(node.src[0])),)


def extreme_gradient(node: UOp, g: UOp) -> Gradients:
    """d max(x): g where x = r, in equal parts where several are; NaN for all where r is NaN. Min
    likewise.
    """
    (x,) = node.src
    shape = shape_of(x)
    hit = elementwise(Ops.CMPEQ, x, expand(node, shape))
    wide = dtypes.float32 if x.dtype.bits < 32 else x.dtype  # half formats cannot count far
    count = cast(reduce(cast(hit, wide), Ops.ADD, node.arg[1], keepdims=True), x.dtype)
    part = elementwise(Ops.FDIV, g, count)
    none = elementwise(Ops.MUL, part, like(part, 0))
    return (elementwise(Ops.WHERE, hit, expand(part, shape), expand(none, shape)),)


def product_gradient(node: UOp, g: UOp) -> Gradients:
    """d prod(x) at i: g times the product of the other elements, right where some are 0.

    The product is taken as a tree of pairs, whose gradient at each level is g times the partner:
    no division, n log n multiplications, and gradients of it are right too.
    """
    (x,) = node.src
    axes, shape = node.arg[1], shape_of(x)
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    count = product([shape[axis] for axis in axes])
    if not isinstance(count, int):
        raise GradientError(
            f"gradient of a product over a symbolic number of elements: {describe(x)}, axes {axes}"
        )
    if 0 in shape:
        return (constant(0, x.dtype, shape),)
    order = (*kept, *axes)
    moved = permute(x, order)
    outer: tuple[Size, ...] = tuple(shape[axis] for axis in kept)
    found = _partners(reshape(moved, (*outer, count)), reshape(g, (*outer, 1)))
    back = sorted(range(len(order)), key=order.__getitem__)
    return (permute(reshape(found, shape_of(moved)), back),)


def _partners(values: UOp, g: UOp) -> UOp:
    """The gradient of a product over the last axis, given that of the product."""
    *outer, count = shape_of(values)
    rank = len(outer)
    assert isinstance(count, int), "the caller saw to it"
    width = 1 << (count - 1).bit_length()
    row = _with_ones(values, width - count)
    levels = []
    while width > 1:
        width //= 2
        pairs = reshape(row, (*outer, 2, width))
        levels.append(pairs)
        row = reduce(pairs, Ops.MUL, (rank,))
    for pairs in reversed(levels):
        above = reshape(g, (*outer, 1, shape_of(pairs)[-1]))
        g = reshape(elementwise(Ops.MUL, above, flip(pairs, (rank,))), (*outer, -1))
    return shrink(g, [(0, size) for size in (*outer, count)])


def _with_ones(values: UOp, count: int) -> UOp:
    """`values` with `count` ones after the last axis."""
    if count == 0:
        return values
    around = [(0, 0)] * (len(shape_of(values)) - 1) + [(0, count)]
    inside = pad(constant(True, dtypes.bool, shape_of(values)), around)
    padded = pad(values, around)
    return elementwise(Ops.WHERE, inside, padded, like(padded, 1))


REDUCTION_GRADIENTS: Final[dict[Ops, Callable[[UOp, UOp], Gradients]]] = {
    Ops.ADD: sum_gradient,
    Ops.MUL: product_gradient,
    Ops.MAX: extreme_gradient,
    Ops.MIN: extreme_gradient,
}


def reduce_gradient(node: UOp, g: UOp) -> Gradients:
    """d reduce(x): by the reduction's own rule."""
    return REDUCTION_GRADIENTS[node.arg[0]](node, g)


def pass_gradient(node: UOp, g: UOp) -> Gradients:
    """d same(x) = dx."""
    return (g,)


def after_gradient(node: UOp, g: UOp) -> Gradients:
    """d after(x, when) = dx."""
    return g, None


def copy_gradient(node: UOp, g: UOp) -> Gradients:
    """d copy(x): g copied back to where x is."""
    device = device_of(node.src[0])
    return (g if device is None else copy_to(g, device),)


def multi_gradient(node: UOp, g: UOp) -> Gradients:
    """d multi(parts): each part's piece of g, on its device; of equal parts only the first's."""
    axis, devices = node.arg
    if axis is None:
        return (copy_to(g, devices[0]), *(None for _ in devices[1:]))
    shape = shape_of(node)
    length = shape_of(node.src[0])[axis]
    pieces = []
    for number, device in enumerate(devices):
        start = length * number
        bounds = [(start, start + length) if a == axis else (0, s) for a, s in enumerate(shape)]
        pieces.append(copy_to(shrink(g, tuple(bounds)), device))
    return tuple(pieces)


def detach_gradient(node: UOp, g: UOp) -> Gradients:
    """d detach(x) = 0; where tangents are followed through `no_grad`, dx."""
    return (g if is_passed(node) else None,)


OTHERS: Final = {
    Ops.REDUCE_AXIS: reduce_gradient,
    Ops.CONTIGUOUS: pass_gradient,
    Ops.LEAF: pass_gradient,
    Ops.AFTER: after_gradient,
    Ops.COPY: copy_gradient,
    Ops.MULTI: multi_gradient,
    Ops.DETACH: detach_gradient,
}
