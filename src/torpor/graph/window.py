"""Checked builders of SHEAR, and of the sliding windows and strides that are made of movements."""

from __future__ import annotations

from torpor.base.errors import ShapeError
from torpor.graph.movement import expand, pad, permute, reshape, shrink
from torpor.graph.sizes import (
    add,
    at_most,
    axis_of,
    describe,
    floor_divide,
    least,
    multiply,
    show_shape,
    subtract,
)
from torpor.ir.infer import Size, fold_size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def shear(
    node: UOp, axis: int, by_axis: int, length: Size, stride: int, step: int, offset: Size
) -> UOp:
    """out[.., o, .., k, ..] = x[.., o*stride + k*step + offset, .., k, ..].

    o counts `length` places of `axis`, k those of `by_axis`. Every place that is read must lie in
    the tensor.
    """
    axis, by_axis = axis_of("shear", node, axis), axis_of("shear", node, by_axis)
    if axis == by_axis:
        raise ShapeError(f"shear of {describe(node)}: axis {axis} cannot be sheared by itself")
    shape = shape_of(node)
    if length == shape[axis] and stride == 1 and offset == 0 and (step == 0 or shape[by_axis] == 1):
        return node
    if length != 0 and shape[by_axis] != 0:
        low = high = offset
        for count, factor in ((length, stride), (shape[by_axis], step)):
            reach = multiply(subtract(count, 1), factor)
            low, high = (add(low, reach), high) if factor < 0 else (low, add(high, reach))
        if not (least(low) >= 0 and at_most(add(high, 1), shape[axis])):
            raise ShapeError(
                f"shear of {describe(node)}: expected places within axis {axis}, got those from "
                f"{show_shape((low, high))}"
            )
    return UOp(Ops.SHEAR, node.dtype, (node,), (axis, by_axis, length, stride, step, offset))


def window(node: UOp, axis: int, size: int, stride: int = 1, dilation: int = 1) -> UOp:
    """Sliding windows: `axis` becomes the number of windows, a new last axis has `size` elements.

    out[.., o, .., k] = x[.., o*stride + k*dilation, ..].
    """
    axis = axis_of("window", node, axis)
    shape = shape_of(node)
    if size < 1 or stride < 1 or dilation < 1:
        raise ShapeError(
            f"window of {describe(node)}: expected positive size, stride and dilation, "
            f"got {size}, {stride} and {dilation}"
        )
    reach = (size - 1) * dilation + 1
    if not at_most(reach, shape[axis]):
        raise ShapeError(
            f"window of {describe(node)}: a window of {size} with dilation {dilation} takes "
            f"{reach} elements, got {show_shape((shape[axis],))} at axis {axis}"
        )
    count = add(floor_divide(subtract(shape[axis], reach), stride), 1)
    if size == 1:
        return reshape(
            _strided(node, axis, stride, count), (*shape[:axis], count, *shape[axis + 1 :], 1)
        )
    if stride == reach == size and isinstance(count, int):
        return _side_by_side(node, axis, size, count)
    return overlapping(node, axis, size, stride, dilation, count)


def overlapping(node: UOp, axis: int, size: int, stride: int, dilation: int, count: Size) -> UOp:
    """The first `count` windows, as `window` gives them, whether or not they share elements."""
    shape = shape_of(node)
    rank = len(shape)
    spread = expand(reshape(node, (*shape, 1)), (*shape, size))
    return shear(spread, axis, rank, count, stride, dilation, 0)


def _side_by_side(node: UOp, axis: int, size: int, count: int) -> UOp:
    """Windows that touch without overlap: cut, reshape and permute."""
    shape = shape_of(node)
    rank = len(shape)
    boxes: list[tuple[Size, Size]] = [(0, length) for length in shape]
    boxes[axis] = (0, count * size)
    cut = reshape(shrink(node, boxes), (*shape[:axis], count, size, *shape[axis + 1 :]))
    return permute(cut, (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1))


def stride_axis(node: UOp, axis: int, step: int) -> UOp:
    """Every step-th element along `axis`, from the first on: x[::step]."""
    axis = axis_of("stride", node, axis)
    if step < 1:
        raise ShapeError(f"stride of {describe(node)}: expected a positive step, got {step}")
    count = floor_divide(add(shape_of(node)[axis], step - 1), step)
    return _strided(node, axis, step, count)


def _strided(node: UOp, axis: int, step: int, count: Size) -> UOp:
    """Every step-th element, `count` in all: the others lie in an axis that is cut away."""
    shape = shape_of(node)
    before, after = shape[:axis], shape[axis + 1 :]
    boxes: list[tuple[Size, Size]] = [(0, length) for length in shape]
    if step == 1 or count == 1:
        boxes[axis] = (0, count)
        return shrink(node, boxes)
    size = shape[axis]
    extra = -size % step if isinstance(size, int) else fold_size((size * -1) % step)
    around: list[tuple[Size, Size]] = [(0, 0)] * len(shape)
    around[axis] = (0, extra)
    whole = pad(node, around)
    # as many elements by construction; of a symbolic size that would be hard to prove
    split = UOp(Ops.RESHAPE, node.dtype, (whole,), (*before, count, step, *after))
    boxes = [(0, length) for length in shape_of(split)]
    boxes[axis + 1] = (0, 1)
    return reshape(shrink(split, boxes), (*before, count, *after))
