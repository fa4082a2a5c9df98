"""What happens to a graph before its kernels are chosen: markers removed, long reductions split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.target import LINE, WORD
from torpor.ir.infer import Shape, count_of, largest, shape_of
from torpor.ir.ops import MOVEMENT, Ops, identity
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.records import Stored
from torpor.ir.uop import UOp
from torpor.schedule.cost import LONG, PARALLEL, SMALL, terms_of
from torpor.schedule.tile_groups import SHARED_FROM

# A reduction to few elements is cut so that the parts run in parallel. The cut depends on the shape
# alone, so results are the same for any number of threads. The numbers are choices; one thread does
# not gain from them (bench/results/constants.md).
LONG_REDUCTION: Final = Stored("long reduction", parts=True)
SPLIT_FROM: Final = 65536  # elements a result from which a reduction is split
SPLIT_RESULTS: Final = 64  # results below which it is
SPLIT_PARTS: Final = 256  # most parts, unless they were longer than PART_MOST
PART_LEAST: Final = 1024  # fewest elements a part
LONG_FROM: Final = 8 * PART_LEAST  # elements in a row from which a reduction or a scan is split
PART_STEP: Final = 64  # parts that do not divide the whole are multiples of it, for vectors
# A sum of n floats, one after the other, is off by up to n / 2 units in the last place, and from
# 2**24 equal numbers on it stands still. Sums of parts of sums are off by the length of a part.
PART_MOST: Final = 4096  # most elements a part
SUM_FROM: Final = 1 << 20  # floats a result from which a sum is split, however many results
STANDS_STILL: Final = 1 << 24  # ones that a register of float32 adds up before it stands still


def strip_marker(node: UOp) -> UOp:
    """leaf(x) = detach(x) = x once gradients are taken."""
    return node.src[0]


def copy_of_movement(node: UOp, moved: UOp) -> UOp | None:
    """copy(move(buffer)) = move(copy(buffer)) where the source device runs no kernels."""
    base = moved.below(MOVEMENT)
    if base.op is not Ops.BUFFER or base.arg.device.split(":")[0] not in ("DISK", "NPY"):
        return None
    if moved.op is Ops.RESHAPE and moved.src[0] is base:
        return None
    copied = node.replace(src=(base,))
    return moved.substitute({base: copied})


def copy_of_number(node: UOp, filled: UOp) -> UOp | None:
    """copy(move(number)) = move(number): a number is in no memory that could be copied."""
    return filled if filled.below(MOVEMENT).op is Ops.CONST else None


def parts_of(length: int) -> tuple[int, int]:
    """Into how many parts a reduction over `length` elements is cut, and how long they are: what
    is left over is less than a part.
    """
    if length > SPLIT_PARTS * PART_MOST:
        sizes = range(PART_MOST, PART_MOST // 2, -PART_STEP)
        size = next((size for size in sizes if length % size == 0), PART_MOST)
        return length // size, size
    most = min(SPLIT_PARTS, length // PART_LEAST)
    least = max(8, -(-length // PART_MOST))
    even = next((parts for parts in range(most, least - 1, -1) if length % parts == 0), 0)
    size = length // even if even else max(1, length // most // PART_STEP) * PART_STEP
    return length // size, size


def along_axes(sizes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Neighbouring axes as axes of the parts that a reduction over them is cut into, and axes of
    a part: whole rows, so that a place needs no division. Nothing where no cut leaves equal ones.
    """
    ways = []
    for axis, size in enumerate(sizes[: len(sizes) if len(sizes) > 1 else 0]):
        before, after = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
        for rows in range(max(1, -(-PART_LEAST // after)), min(size, PART_MOST // after) + 1):
            parts = before * (size // rows)
            if size % rows == 0 and parts >= 8:
                ways.append((parts <= SPLIT_PARTS, -abs(parts - SPLIT_PARTS), axis, rows))
    if not ways:
        return (), ()
    _, _, axis, rows = max(ways)
    return (*sizes[:axis], sizes[axis] // rows), (rows, *sizes[axis + 1 :])


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
    """reduce(x) = op(reduce(contiguous(reduce(parts of x))), reduce(rest of x)) where few results
    take many elements, and where sums are so long that one register would lose what it adds. Axes
    whose sizes vary are as long as they may be.
    """
    op, axes = node.arg
    shape = shape_of(node.src[0])
    sizes = [*map(largest, shape)]
    results = math.prod(s for a, s in enumerate(sizes) if a not in axes)
    if results == 0 or math.prod(sizes) // results < SPLIT_FROM:
        return None
    if results > SPLIT_RESULTS and not is_too_long(node, math.prod(sizes) // results):
        return None
    if goes_by_blocks(node):
        return None
    if any(not isinstance(shape[axis], int) for axis in axes):
        return rows_first(node)
    start, stop = max(neighbours(axes), key=lambda g: (math.prod(sizes[g[0] : g[1]]), -g[0]))
    length = math.prod(sizes[start:stop])
    if length < LONG_FROM:
        return None
    value = apart_if_product(node.src[0])
    outer, inner = along_axes(sizes[start:stop])
    below, ahead = value, value
    if not outer:
        parts, size = parts_of(length)
        outer, inner = (parts,), (size,)
        flat = (*shape[:start], length, *shape[stop:])
        ahead = UOp(Ops.RESHAPE, node.dtype, (value,), flat)
        below = between(ahead, start, 0, parts * size)
    cut = (*shape[:start], *outer, *inner, *shape[stop:])
    below = UOp(Ops.RESHAPE, node.dtype, (below,), cut)
    others = [a for a in axes if not start <= a < stop]
    more, first_inner = len(cut) - len(shape), start + len(outer)
    within = {a + more * (a > start) for a in others} | {first_inner + n for n in range(len(inner))}
    first = UOp(Ops.REDUCE_AXIS, node.dtype, (below,), (op, tuple(sorted(within))))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (first,), LONG_REDUCTION)
    second = UOp(Ops.REDUCE_AXIS, node.dtype, (stored,), (op, tuple(range(start, first_inner))))
    made = UOp(Ops.RESHAPE, node.dtype, (second,), shape_of(node))
    if ahead is value or parts * size == length:
        return made
    rest = between(ahead, start, parts * size, length)
    left = {a + (start + 1 - stop) * (a > start) for a in others} | {start}
    rest = UOp(Ops.REDUCE_AXIS, node.dtype, (rest,), (op, tuple(sorted(left))))
    return made.alu(op, UOp(Ops.RESHAPE, node.dtype, (rest,), shape_of(node)))


def rows_first(node: UOp) -> UOp | None:
    """reduce(x) = reduce(contiguous(reduce(x along axes of known sizes))) where the numbers of
    others vary: parts of equal lengths.
    """
    op, axes = node.arg
    shape = shape_of(node.src[0])
    known = tuple(axis for axis in axes if isinstance(shape[axis], int))
    if math.prod(largest(shape[axis]) for axis in known) < LINE // WORD:  # of memory
        return None
    first = UOp(Ops.REDUCE_AXIS, node.dtype, node.src, (op, known))
    stored = UOp(Ops.CONTIGUOUS, node.dtype, (first,), LONG_REDUCTION)
    rest = tuple(axis for axis in axes if axis not in known)
    return UOp(Ops.REDUCE_AXIS, node.dtype, (stored,), (op, rest))


def is_too_long(node: UOp, terms: int) -> bool:
    """Whether it is a sum of floats in which a term is too small for the sum so far. Products of
    shared operands go block by block.
    """
    return (
        node.arg[0] is Ops.ADD
        and node.dtype.is_float
        and terms >= SUM_FROM
        and not has_shared(node.src[0].below(MOVEMENT))
    )


def goes_by_blocks(node: UOp) -> bool:
    """Whether it reduces rows of a product that are so large that blocks of rows will go from
    kernel to kernel (a softmax of scores): they have room in a cache, and threads share them.
    """
    value = node.src[0]
    if count_of(node) == 1 or count_of(value) * value.dtype.itemsize * 2 < SHARED_FROM:
        return False
    near = value.toposort(lambda n: n.op not in (Ops.REDUCE_AXIS, Ops.CONTIGUOUS))
    return any(
        n.op is Ops.REDUCE_AXIS and count_of(n) == count_of(value) and has_shared(n.src[0])
        for n in near
    )


def has_shared(product: UOp) -> bool:
    """Whether it is a product with an operand that several elements share."""
    return product.op is Ops.MUL and any(operand.op is Ops.EXPAND for operand in product.src)


def between(value: UOp, axis: int, start: int, stop: int) -> UOp:
    """The elements of an axis from start up to stop."""
    ends = tuple((start, stop) if a == axis else (0, s) for a, s in enumerate(shape_of(value)))
    return UOp(Ops.SHRINK, value.dtype, (value,), ends)


def apart_if_product(value: UOp) -> UOp:
    """A product, or what moves one, in a kernel of its own: parts of its sum would have no tiles,
    and a register would sum far too many terms.
    """
    product = value.below(MOVEMENT)
    if product.op is not Ops.REDUCE_AXIS or not has_shared(product.src[0]):
        return value
    long = terms_of(product) >= LONG and count_of(product.src[0]) > SMALL
    if not long or count_of(value) > count_of(product):
        return value
    return UOp(Ops.CONTIGUOUS, value.dtype, (value,), Stored("sum of a product"))


def split_scan(node: UOp) -> UOp | None:
    """scan(x) = scan(parts of x, each from the scan of the parts before) where few rows are long:
    each part is read twice, and the parts run in parallel. Very long ones are scanned from nothing,
    and what was before is added to each element.
    """
    (x, initial), (op, axis) = node.src, node.arg
    shape = shape_of(x)
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape) or sizes[axis] < LONG_FROM:
        return None
    if math.prod(sizes) // sizes[axis] >= PARALLEL or (parts := scan_parts(sizes[axis])) == 1:
        return None
    cut = (*sizes[:axis], parts, sizes[axis] // parts, *sizes[axis + 1 :])
    alone = (*sizes[:axis], parts, 1, *sizes[axis + 1 :])
    below = UOp(Ops.RESHAPE, x.dtype, (x,), cut)
    totals = UOp(Ops.REDUCE_AXIS, x.dtype, (below,), (op, (axis + 1,)))
    first = UOp(Ops.RESHAPE, x.dtype, (initial,), (*alone[:axis], 1, *alone[axis + 1 :]))
    before = scan_before(
        UOp(Ops.CONTIGUOUS, x.dtype, (totals,), Stored("long scan")), first, op, axis
    )
    if sizes[axis] < STANDS_STILL:
        made = UOp(Ops.SCAN_AXIS, x.dtype, (below, before), (op, axis + 1))
    else:
        neutral = filled(UOp.const(x.dtype, identity(op, x.dtype)), alone)
        made = UOp(Ops.SCAN_AXIS, x.dtype, (below, neutral), (op, axis + 1))
        made = made.alu(op, UOp(Ops.EXPAND, x.dtype, (before,), cut))
    return UOp(Ops.RESHAPE, x.dtype, (made,), shape)


def scan_before(x: UOp, first: UOp, op: Ops, axis: int) -> UOp:
    """Op over `first` and all elements of x before each along an axis."""
    shape = shape_of(x)
    ahead = tuple((0, size - (a == axis)) for a, size in enumerate(shape))
    step = tuple((int(a == axis), 0) for a in range(len(shape)))
    rest = UOp(Ops.PAD, x.dtype, (UOp(Ops.SHRINK, x.dtype, (x,), ahead),), step)
    if op is not Ops.ADD:
        true = filled(UOp.const(dtypes.bool, True), tuple(stop for _, stop in ahead))
        inside = UOp(Ops.PAD, dtypes.bool, (true,), step)
        neutral = UOp.const(x.dtype, identity(op, x.dtype))
        rest = UOp(Ops.WHERE, x.dtype, (inside, rest, filled(neutral, shape)))
    return UOp(Ops.SCAN_AXIS, x.dtype, (rest, first), (op, axis))


def filled(value: UOp, shape: Shape) -> UOp:
    """A number in every element of a shape."""
    alone = UOp(Ops.RESHAPE, value.dtype, (value,), (1,) * len(shape))
    return UOp(Ops.EXPAND, value.dtype, (alone,), shape)


def scan_parts(length: int) -> int:
    """Into how many parts a long scan is cut: a divisor, best one of 8 that keep parts from lying a
    multiple of 4 KB apart, where they would contend for one set of the cache.
    """
    fitting = [p for p in range(256, 15, -1) if length % p == 0 and length // p >= PART_LEAST]
    ranked = [(p % 8 == 0, length // p % PART_LEAST != 0, p) for p in fitting]
    return max(ranked)[2] if ranked else 1


prepare_rules = PatternMatcher(
    [
        (UPat((Ops.LEAF, Ops.DETACH), name="node"), strip_marker),
        (UPat(Ops.COPY, src=(UPat(MOVEMENT, name="moved"),), name="node"), copy_of_movement),
        (
            UPat(Ops.COPY, src=(UPat((Ops.CONST, *MOVEMENT), name="filled"),), name="node"),
            copy_of_number,
        ),
        (UPat(Ops.REDUCE_AXIS, name="node"), split_reduction),
        (UPat(Ops.SCAN_AXIS, name="node"), split_scan),
    ]
)
