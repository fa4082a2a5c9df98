"""Vectors put together from lanes of other vectors, by shuffles of two at a time in registers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import without_constant

INNER: Final = 16  # bytes of the parts of a register within which shuffles are cheapest
ITEMSIZES: Final = (4, 8)  # bytes of elements that vectors are shuffled, and masked, one by one of
SOURCES: Final = 2  # vectors that one shuffle picks from: so many elements apart is near enough

Lane = tuple[UOp, int]  # of a vector
Spot = tuple[UOp, UOp, tuple[UOp, ...]]  # memory, the part of a position that is no constant, and
# under which condition it is read


def spot_of(access: UOp) -> tuple[Spot, int]:
    """Where an element is read or stored, as what varies and a constant."""
    memory, position, *condition = access.src[0].src
    rest, shift = without_constant(position)
    return (memory, rest, tuple(condition)), shift


def gathered(lanes: Sequence[Lane]) -> UOp:
    """The vector of these lanes (a power of two of them) of others, which are of one format."""
    vectors = list(dict.fromkeys(vector for vector, _ in lanes))
    if is_column(lanes):
        rows, high = [vector for vector, _ in lanes], vectors[0].dtype.count
        blocks = [rows[n : n + high] for n in range(0, len(rows), high)]
        return side_by_side([across(block, lanes[0][1]) for block in blocks])
    formats = {vector.dtype for vector in vectors}
    if len(vectors) <= 2 and len(formats) == 1:
        return picked_from(lanes)
    if len(vectors) == 2:
        parts = tuple(vector.gep(lane) for vector, lane in lanes)
        return UOp(Ops.VECTORIZE, parts[0].dtype.vec(len(parts)), parts)
    half = len(lanes) // 2
    pairs = tuple(lane for n in range(half) for lane in (n, half + n))
    return gathered(lanes[::2]).shuffle(gathered(lanes[1::2]), pairs)


def is_column(lanes: Sequence[Lane]) -> bool:
    """Whether this is one lane of each of several vectors, of which few are the same."""
    vectors = {vector for vector, _ in lanes}
    alike = len({vector.dtype for vector in vectors}) == len({lane for _, lane in lanes}) == 1
    return alike and 2 * len(vectors) > len(lanes) and lanes[0][0].dtype.count > 1


def side_by_side(vectors: Sequence[UOp]) -> UOp:
    """One vector of several of one format, a power of two of them."""
    while len(vectors) > 1:
        both = range(2 * vectors[0].dtype.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [left.shuffle(right, tuple(both)) for left, right in pairs]
    return vectors[0]


def picked_from(lanes: Sequence[Lane]) -> UOp:
    """The vector of these lanes of one or two vectors of one format, or of scalars."""
    left, *more = dict.fromkeys(vector for vector, _ in lanes)
    count = left.dtype.count
    if count == 1:
        return UOp(Ops.VECTORIZE, left.dtype.vec(len(lanes)), tuple(one for one, _ in lanes))
    chosen = tuple(lane + count * (vector is not left) for vector, lane in lanes)
    return left.shuffle(more[0], chosen) if more else left.gep(*chosen)


def across(vectors: Sequence[UOp], lane: int) -> UOp:
    """One lane of each of several vectors, a power of two and at most as many as they have lanes.

    Rounds merge pairs of them, first inside of parts of `INNER` bytes: whole vectors, which other
    lanes share, so that a block is transposed by log2(width) shuffles a vector.
    """
    width, count = vectors[0].dtype.count, len(vectors)
    inner = min(width, INNER // vectors[0].dtype.scalar().itemsize)
    span, block, place, part = inner, 1, lane % inner, lane // inner * inner
    while len(vectors) > 1:
        if block == inner:
            span, place, part = width, lane // inner, 0
        half, place = divmod(place, span // block // 2)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [merge(a, b, span, block, half) for a, b in pairs]
        block *= 2
    first = part + place * count
    return vectors[0] if count == width else vectors[0].gep(*range(first, first + count))


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
