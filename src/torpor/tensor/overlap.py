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
    image: UOp,
    weight: UOp,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    padding: Sequence[int],
    beyond: Sequence[int],
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
    for place in reversed(range(len(kernel))):
        step, apart, reach = stride[place], dilation[place], kernel[place] - 1
        rest = apart * reach + 1 + beyond[place] - 2 * padding[place]
        length = add(multiply(subtract(sizes[place], 1), step), rest)
        values = build.overlap_add(values, 4 + place, step, apart, length, padding[place])
    summed = build.reduce(values, Ops.ADD, (2,), False)
    lengths = shape_of(summed)[3:]
    return build.cast(build.reshape(summed, (batch, groups * outputs, *lengths)), dtype)
