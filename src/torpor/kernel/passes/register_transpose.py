"""Blocks that are read along one axis and used along another: rows, transposed in registers.

A vector whose lanes lie a row apart takes a read for each lane. Where as many neighbours of each of
them are read for other vectors, the rows are read as vectors, and rounds of shuffles of two vectors
make columns of them: log2(width) for each instead of `width` reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import without_constant

INNER: Final = 16  # bytes of the parts of a register within which shuffles are cheapest
ITEMSIZES: Final = (4, 8)  # bytes of elements of which registers are shuffled one by one

Spot = tuple[UOp, UOp, tuple[UOp, ...]]  # memory, the part of a position that is no constant, and
# under which condition it is read


def transpose_blocks(root: UOp, target: Target) -> UOp:
    """The kernel with wide reads wherever vectors are put together of a whole block's elements."""
    vectors = [n for n in root.toposort() if is_scattered(n)]
    rows: dict[Spot, dict[int, UOp]] = {}
    for load in {s for n in vectors for s in n.src}:
        spot, shift = spot_of(load)
        rows.setdefault(spot, {})[shift] = load
    found: dict[UOp, tuple[UOp, int]] = {}
    for loads in rows.values():
        width = target.lanes(next(iter(loads.values())).dtype.itemsize)
        found.update(in_rows(loads, width))
    turned = {}
    for node in vectors:
        places = [found.get(s) for s in node.src]
        lanes = {place[1] for place in places if place is not None}
        if None not in places and len(lanes) == 1:
            read = [place[0] for place in places if place is not None]
            if len(read) == read[0].dtype.count:
                turned[node] = column(read, lanes.pop())
    return root.substitute(turned) if turned else root


def is_scattered(node: UOp, itemsizes: Collection[int] = ITEMSIZES) -> bool:
    """A vector of elements of parameters that are read one by one, under no condition of lanes."""
    if node.op is not Ops.VECTORIZE or node.dtype.scalar().itemsize not in itemsizes:
        return False
    return all(
        s.op is Ops.LOAD
        and len(s.src) == 1
        and s.src[0].op is Ops.INDEX
        and s.src[0].src[0].op is Ops.PARAM
        and all(condition.dtype.count == 1 for condition in s.src[0].src[2:])
        for s in node.src
    )


def spot_of(load: UOp) -> tuple[Spot, int]:
    """Where an element is read, as what varies and a constant."""
    memory, position, *condition = load.src[0].src
    rest, shift = without_constant(position)
    return (memory, rest, tuple(condition)), shift


def in_rows(loads: dict[int, UOp], width: int) -> dict[UOp, tuple[UOp, int]]:
    """For each load that is one of `width` neighbours: the read of all of them, and its lane."""
    found: dict[UOp, tuple[UOp, int]] = {}
    ends = None
    for shift in sorted(loads):
        if ends is not None and shift < ends:
            continue
        if width < 2 or any(shift + n not in loads for n in range(width)):
            continue
        first, ends = loads[shift], shift + width
        whole = UOp(Ops.LOAD, first.dtype.vec(width), first.src)
        found.update({loads[shift + n]: (whole, n) for n in range(width)})
    return found


def column(rows: Sequence[UOp], lane: int) -> UOp:
    """The vector of one lane of each of as many vectors as they have lanes.

    Each round merges pairs of vectors: first inside of parts of `INNER` bytes, then whole parts.
    """
    width = rows[0].dtype.count
    inner = min(width, INNER // rows[0].dtype.scalar().itemsize)
    span, block, place = inner, 1, lane % inner
    while len(rows) > 1:
        if block == inner:
            span, place = width, lane // inner
        half, place = divmod(place, span // block // 2)
        rows = [merge(a, b, span, block, half) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        block *= 2
    return rows[0]


def picked_from(places: Sequence[tuple[UOp, int]]) -> UOp:
    """The vector of these lanes of one or two vectors of one format, or of scalars."""
    left, *more = dict.fromkeys(vector for vector, _ in places)
    count = left.dtype.count
    if count == 1:
        return UOp(Ops.VECTORIZE, left.dtype.vec(len(places)), tuple(one for one, _ in places))
    chosen = tuple(lane + count * (vector is not left) for vector, lane in places)
    return left.shuffle(more[0], chosen) if more else left.gep(*chosen)


def merge(left: UOp, right: UOp, span: int, block: int, half: int) -> UOp:
    """Blocks of two vectors by turns: of each span the blocks in its lower or its upper half."""
    return left.shuffle(right, alternating(left.dtype.count, span, block, half))


@cache
def alternating(count: int, span: int, block: int, half: int) -> tuple[int, ...]:
    """The lanes that `merge` takes of two vectors of `count`."""
    lanes: list[int] = []
    for start in range(half * span // 2, count, span):
        for first in range(start, start + span // 2, block):
            for offset in (first, first + count):
                lanes += range(offset, offset + block)
    return tuple(lanes)
