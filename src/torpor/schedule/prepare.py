"""What happens to a graph before its kernels are chosen: markers removed, long reductions split."""

from __future__ import annotations

import math
from typing import Final

from torpor.ir.infer import shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp

# A reduction to few elements is cut so that the parts run in parallel. The cut depends on the shape
# alone, so results are the same for any number of threads.
SPLIT_FROM: Final = 65536  # elements a result from which a reduction is split
SPLIT_RESULTS: Final = 64  # results below which it is
SPLIT_PARTS: Final = 256  # most parts
PART_LEAST: Final = 1024  # fewest elements a part


def strip_marker(node: UOp) -> UOp:
    """leaf(x) = detach(x) = x once gradients are taken."""
    return node.src[0]


def copy_of_movement(node: UOp, moved: UOp) -> UOp | None:
    """copy(move(buffer)) = move(copy(buffer)) where the source device runs no kernels."""
    base = moved
    while base.op in MOVEMENT:
        base = base.src[0]
    if base.op is not Ops.BUFFER or base.arg.device.split(":")[0] not in ("DISK", "NPY"):
        return None
    if moved.op is Ops.RESHAPE and moved.src[0] is base:
        return None
    copied = node.replace(src=(base,))
    return moved.substitute({base: copied})


def parts_of(length: int) -> int:
    """Into how many equal parts a reduction over `length` elements is cut: a divisor, 1 if none."""
    for parts in range(min(SPLIT_PARTS, length // PART_LEAST), 1, -1):
        if length % parts == 0:
            return parts
    return 1


def neighbours(axes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Reduced axes in groups of neighbours, as (first, one past the last)."""
    groups: list[tuple[int, int]] = []
    for axis in sorted(axes):
        if groups and groups[-1][1] == axis:
            groups[-1] = (groups[-1][0], axis + 1)
        else:
            groups.append((axis, axis + 1))
    return groups


def split_reduction(node: UOp) -> UOp | None:
    """reduce(x) = reduce(contiguous(reduce(parts of x))) where few results take many elements."""
    op, axes = node.arg
    shape = shape_of(node.src[0])
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        return None
    results = math.prod(s for a, s in enumerate(sizes) if a not in axes)
    if results == 0 or results > SPLIT_RESULTS or math.prod(sizes) // results < SPLIT_FROM:
        return None
    start, stop = max(neighbours(axes), key=lambda g: (math.prod(sizes[g[0] : g[1]]), -g[0]))
    length = math.prod(sizes[start:stop])
    parts = parts_of(length)
    if parts < 8:
        return None
    cut = (*sizes[:start], parts, length // parts, *sizes[stop:])
    below = UOp(Ops.RESHAPE, node.dtype, (node.src[0],), cut)
    moved = 2 - (stop - start)  # how far the axes behind the cut ones shift
    others = tuple(a if a < start else a + moved for a in axes if not start <= a < stop)
    first = UOp(Ops.REDUCE_AXIS, node.dtype, (below,), (op, tuple(sorted((*others, start + 1)))))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (first,), "long reduction")
    second = UOp(Ops.REDUCE_AXIS, node.dtype, (stored,), (op, (start,)))
    return UOp(Ops.RESHAPE, node.dtype, (second,), shape_of(node))


prepare_rules = PatternMatcher(
    [
        (UPat((Ops.LEAF, Ops.DETACH), name="node"), strip_marker),
        (UPat(Ops.COPY, src=(UPat(MOVEMENT, name="moved"),), name="node"), copy_of_movement),
        (UPat(Ops.REDUCE_AXIS, name="node"), split_reduction),
    ]
)
