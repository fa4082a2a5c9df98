"""Windows added up where they overlap, by polyphase: each of the `stride` phases of a line is a
dense sum, so that no zeros come between elements, and no position is a remainder.

Every k is j*stride + p, and what lies at o*stride + k at (o + j)*stride + p: phase p of the line
is the sum of windows that move by one, over every stride-th element of each window.
"""

from __future__ import annotations

from torpor.graph.movement import pad, permute, reshape, shrink
from torpor.graph.reduce import function, reduce
from torpor.graph.sizes import add, multiply
from torpor.graph.window import shear, window
from torpor.ir.infer import Size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

WINDOWS = "windows"  # the rule of a FUNCTION
Borders = tuple[int, int]


def windows(
    x: UOp, axis: int, size: int, stride: int, dilation: int, borders: Borders = (0, 0)
) -> UOp:
    """Windows of a padded axis, as `window` gives them, with the gradient `overlap_add`."""
    around = [(0, 0)] * len(shape_of(x))
    around[axis] = borders
    made = window(pad(x, around), axis, size, stride, dilation)
    if stride == 1 or made.op is not Ops.SHEAR or not isinstance(shape_of(x)[axis], int):
        return made
    return function(made, (x,), WINDOWS, axis, stride, dilation, borders[0])


def overlap_add(
    g: UOp, axis: int, stride: int, dilation: int, length: Size, before: int = 0
) -> UOp:
    """x[i] = sum(o, k, g[.., o, .., k] where o*stride + k*dilation - before = i), i below `length`:
    the transpose of `windows`. g has the windows along `axis`, their elements along the last one.
    """
    empty = -before % stride  # places in front of each window, so that its phases are the line's
    g = spread(g, dilation, empty, stride)
    *lead, count, phases = shape_of(g)
    rank = len(lead)
    assert isinstance(count, int), "windows have known lengths"
    rows = lead[axis]
    around: list[tuple[Size, Size]] = [(0, 0)] * (rank + 2)
    around[axis] = (count - 1, count - 1)
    line = shear(pad(g, around), axis, rank, add(rows, count - 1), 1, -1, count - 1)
    summed = reduce(line, Ops.ADD, (rank,), False)
    order = (*range(axis + 1), rank, *range(axis + 1, rank))
    joined = multiply(add(rows, count - 1), phases)
    flat = reshape(permute(summed, order), (*lead[:axis], joined, *lead[axis + 1 :]))
    return between(flat, axis, before + empty, length)


def spread(g: UOp, dilation: int, empty: int, stride: int) -> UOp:
    """The last axis, its elements set `dilation` apart behind `empty` places, as (j, stride)."""
    *lead, size = shape_of(g)
    assert isinstance(size, int), "windows have known lengths"
    none = [(0, 0)] * len(lead)
    if dilation > 1:
        g = pad(reshape(g, (*lead, size, 1)), (*none, (0, 0), (0, dilation - 1)))
        size *= dilation
        g = reshape(g, (*lead, size))
        size -= dilation - 1
        g = shrink(g, (*((0, n) for n in lead), (0, size)))
    count = -(-(empty + size) // stride)
    g = pad(g, (*none, (empty, count * stride - empty - size)))
    return reshape(g, (*lead, count, stride))


def between(x: UOp, axis: int, start: int, length: Size) -> UOp:
    """`length` elements of an axis from `start` on, with zeros behind its end."""
    shape = shape_of(x)
    size, stop = shape[axis], add(start, length)
    if isinstance(size, int) and isinstance(stop, int) and stop > size:
        x = pad(x, [(0, stop - size if a == axis else 0) for a in range(len(shape))])
    return shrink(x, [(start, stop) if a == axis else (0, n) for a, n in enumerate(shape)])


def windows_gradient(node: UOp, g: UOp) -> tuple[UOp]:
    """d windows(x): the windows of g added up where they overlap."""
    axis, stride, dilation, before = node.arg[1:]
    return (overlap_add(g, axis, stride, dilation, shape_of(node.src[1])[axis], before),)
