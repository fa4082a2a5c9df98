"""Gradients of movements: each is the transpose of a map of indices, and made of movements again.

Each rule takes a node and the gradient g of it, and gives the gradient of its operand.
"""

from __future__ import annotations

from typing import Final

from torpor.graph.elementwise import constant, uniform
from torpor.graph.gradient_elementwise import Gradients
from torpor.graph.movement import flip, pad, permute, reshape, shrink
from torpor.graph.reduce import reduce
from torpor.graph.sizes import add, is_plain, multiply, subtract
from torpor.graph.window import shear
from torpor.ir.infer import Shape, Size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def reshape_gradient(node: UOp, g: UOp) -> Gradients:
    """d reshape(x): g in the shape of x."""
    return (reshape(g, shape_of(node.src[0])),)


def permute_gradient(node: UOp, g: UOp) -> Gradients:
    """d permute(x): the inverse permutation of g."""
    order = node.arg
    return (permute(g, sorted(range(len(order)), key=order.__getitem__)),)


def expand_gradient(node: UOp, g: UOp) -> Gradients:
    """d expand(x): g summed over the axes that were repeated."""
    pairs = zip(shape_of(node.src[0]), node.arg)
    axes = [axis for axis, (before, after) in enumerate(pairs) if before != after]
    return (reduce(g, Ops.ADD, axes, keepdims=True),)


def pad_gradient(node: UOp, g: UOp) -> Gradients:
    """d pad(x): the box of g that x came to lie in."""
    sizes = shape_of(node.src[0])
    made = shrink(g, [(before, add(before, s)) for (before, _), s in zip(node.arg, sizes)])
    return (part_of(made) if made.op is Ops.SHRINK else made,)


def part_of(node: UOp) -> UOp:
    """A SHRINK of what it is a part of: of one side of a WHERE, if it lies in that. So what flows
    to each of many tensors that were laid end to end is one box of what flows to all of them.
    """
    source, boxes = node.src[0], node.arg
    while all(map(is_plain, boxes)):
        if source.op is Ops.SHRINK and all(map(is_plain, source.arg)):
            pairs = zip(boxes, source.arg, strict=True)
            boxes = tuple([(first + low, last + low) for (first, last), (low, _) in pairs])
            source = source.src[0]
        elif source.op is Ops.WHERE and (true := box_of(source.src[0])) is not None:
            sides = list(zip(boxes, true, strict=True))
            if all(low <= first and last <= high for (first, last), (low, high) in sides):
                source = source.src[1]
            elif any(last <= low or high <= first for (first, last), (low, high) in sides):
                source = source.src[2]
            else:
                break
        else:
            break
    return node if source is node.src[0] else node.replace(src=(source,), arg=boxes)


def box_of(condition: UOp) -> list[tuple[int, int]] | None:
    """Where a condition holds, if that is one box that its graph says."""
    inside = condition.src[0] if condition.op is Ops.PAD else condition
    number = uniform(inside)
    if condition.op is not Ops.PAD or number is None or number.arg is not True:
        return None
    sizes = shape_of(inside)
    if not (is_plain(sizes) and all(map(is_plain, condition.arg))):
        return None
    pairs = zip(sizes, condition.arg, strict=True)
    return [(before, before + size) for size, (before, _) in pairs]


def shrink_gradient(node: UOp, g: UOp) -> Gradients:
    """d shrink(x): g with zeros where x was cut away."""
    sizes = shape_of(node.src[0])
    return (pad(g, [(start, subtract(s, stop)) for (start, stop), s in zip(node.arg, sizes)]),)


def flip_gradient(node: UOp, g: UOp) -> Gradients:
    """d flip(x): g flipped."""
    return (flip(g, [axis for axis, turned in enumerate(node.arg) if turned]),)


def shear_gradient(node: UOp, g: UOp) -> Gradients:
    """d shear(x) at place i, k: g at o where o*stride + k*step + offset = i, else 0.

    The places o are spread `stride` apart, with zeros between; then i reads place i - k*step -
    offset of them, which is a shear again. A negative stride is that of the flipped g; a stride of
    0 reads one place many times, so its gradients are summed.
    """
    axis, by_axis, length, stride, step, offset = node.arg
    (x,) = node.src
    shape = shape_of(x)
    if length == 0 or 0 in shape:
        return (constant(0, x.dtype, shape),)
    if stride < 0:
        g, offset = flip(g, (axis,)), add(offset, multiply(subtract(length, 1), stride))
    elif stride == 0:
        g = reduce(g, Ops.ADD, (axis,), keepdims=True)
    spread = _spread(g, axis, max(abs(stride), 1))
    reach = multiply(subtract(shape[by_axis], 1), step)
    front = add(offset, reach) if step > 0 else offset
    back = subtract(subtract(shape[axis], offset), shape_of(spread)[axis])
    if step < 0:
        back = subtract(back, reach)
    around: list[tuple[Size, Size]] = [(0, 0)] * len(shape)
    around[axis] = (front, back)
    padded = pad(spread, around)
    start = subtract(front, offset)
    return (shear(padded, axis, by_axis, shape[axis], 1, -step, start),)


def _spread(g: UOp, axis: int, stride: int) -> UOp:
    """Elements along `axis` set `stride` apart, zeros between them: (n-1)*stride + 1 places."""
    if stride == 1:
        return g
    shape: Shape = shape_of(g)
    apart = reshape(g, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    around = [(0, 0)] * len(shape_of(apart))
    around[axis + 1] = (0, stride - 1)
    places = multiply(shape[axis], stride)
    line = reshape(pad(apart, around), (*shape[:axis], places, *shape[axis + 1 :]))
    boxes: list[tuple[Size, Size]] = [(0, size) for size in shape]
    boxes[axis] = (0, subtract(places, stride - 1))
    return shrink(line, boxes)


MOVEMENTS: Final = {
    Ops.RESHAPE: reshape_gradient,
    Ops.PERMUTE: permute_gradient,
    Ops.EXPAND: expand_gradient,
    Ops.PAD: pad_gradient,
    Ops.SHRINK: shrink_gradient,
    Ops.FLIP: flip_gradient,
    Ops.SHEAR: shear_gradient,
}
