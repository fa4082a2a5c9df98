"""Transposed convolutions: windows that are added up where they overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.base.promotion import promote
from torpor.graph import build
from torpor.graph.sizes import add, multiply, subtract
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.contraction import accumulator

# Results in a step, up to which a kernel for each is faster than adding up windows of a product of
# matrices: windows of 10x10 are as fast with 25, those of 16x16 ten times slower with 64.
PHASES_FEW: Final = 16


def scatter_windows(
    image: UOp, weight: UOp, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> UOp:
    """Gives image (n, groups*i, O...), weight (groups*i, o, K...) to (n, groups*o, L...): each
    element times the weight is added to the window that a convolution would take it from. No
    element meets what is beside its window.
    """
    dtype = promote(image.dtype, weight.dtype)
    wide = accumulator(dtype)
    batch, channels, *sizes = shape_of(image)
    _, outputs, *kernel = shape_of(weight)
    each, ones = channels // groups, (1,) * len(kernel)
    left = build.reshape(image, (batch, groups, each, 1, *sizes, *ones))
    right = build.reshape(weight, (1, groups, each, outputs, *ones, *kernel))
    values = build.elementwise(Ops.MUL, build.cast(left, wide), build.cast(right, wide))
    if math.prod(stride) > PHASES_FEW:
        values = build.reduce(values, Ops.ADD, (2,), True)
    parts = shape_of(values)[:4]
    lines = build.reshape(values, (batch, math.prod(parts[1:]), *sizes, *kernel))
    lines = _added_up(lines, stride, dilation)
    spread = build.reshape(lines, (*parts, *shape_of(lines)[2:]))
    summed = build.reduce(spread, Ops.ADD, (2,), False)
    return build.cast(build.reshape(summed, (batch, groups * outputs, *shape_of(lines)[2:])), dtype)


def _added_up(values: UOp, stride: Sequence[int], dilation: Sequence[int]) -> UOp:
    """(n, c, O..., K...) to (n, c, L...): the sum of what windows have at a place."""
    dims = len(stride)
    from torpor.graph.gradient_movement import transposed

    batch, channels, *sizes = shape_of(values)
    kernel = [int(size) for size in sizes[dims:] if isinstance(size, int)]
    each = zip(sizes[:dims], stride, kernel, dilation, strict=True)
    lengths = [add(multiply(subtract(n, 1), s), d * (k - 1) + 1) for n, s, k, d in each]
    whole = build.constant(0, values.dtype, (batch, channels, *lengths))
    windows, joined = whole, math.prod(stride) > PHASES_FEW
    for place, size in enumerate(kernel):
        options = size, stride[place], dilation[place]
        if joined:
            windows = build.window(windows, 2 + place, *options)
        else:
            windows = build.overlapping(windows, 2 + place, *options, sizes[place])
    return transposed(windows, whole, build.reshape(values, shape_of(windows)))
