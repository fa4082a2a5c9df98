"""Targets without vector arithmetic: every lane computed on its own, vectors only in memory."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

MEMORY_WIDTHS = (2, 4)  # vectors that such targets load and store


def scalarise(root: UOp) -> UOp:
    """The kernel with arithmetic on scalars only; memory is still moved by vectors of 2 and 4."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        done[node] = scalars(node, tuple([done[s] for s in node.src]))
    return done[root]


def scalars(node: UOp, source: tuple[UOp, ...]) -> UOp:
    """A node of what its operands have become; of a vector a VECTORIZE of its lanes."""
    count, scalar = node.dtype.count, node.dtype.scalar()
    if node.op is Ops.GEP:
        picked = map(node.lane, range(count))
        return joined([lane(source[node.src.index(whole)], number) for whole, number in picked])
    if node.op is Ops.STORE and node.src[1].dtype.count > 1:
        return stored(node, source)
    if node.op is Ops.LANES:
        return joined([UOp.const(scalar, n) for n in range(count)])
    if node.op is Ops.LOAD and count > 1:
        return loaded(node, source)
    if count > 1 and node.op is not Ops.VECTORIZE:
        each = (tuple(lane(s, n) for s in source) for n in range(count))
        return joined([UOp(node.op, scalar, one, node.arg) for one in each])
    if node.op in (Ops.BARRIER, Ops.SINK):  # stores of one vector's lanes, side by side with others
        source = tuple(s for one in source for s in (one.src if one.op is Ops.SINK else (one,)))
    return node.over(source)


def lane(made: UOp, number: int) -> UOp:
    """One lane of what a node has become; a scalar is the same in all."""
    return made.src[number] if made.op is Ops.VECTORIZE else made


def joined(lanes: Sequence[UOp]) -> UOp:
    """The vector of some lanes, or the only one."""
    first, *more = lanes
    return UOp(Ops.VECTORIZE, first.dtype.vec(len(lanes)), tuple(lanes)) if more else first


def is_whole(place: UOp, value: UOp) -> bool:
    """Whether memory is moved by such vectors, none of whose lanes is masked by itself."""
    masked = place.op is Ops.INDEX and len(place.src) > 2 and place.src[2].dtype.count > 1
    return value.dtype.count in MEMORY_WIDTHS and not masked and value.dtype.scalar().bits >= 16


def at_lane(place: UOp, number: int) -> UOp:
    """The INDEX of one element of a vector's."""
    memory, position, *condition = place.src
    moved = (position + number).simplify() if number else position
    return place.replace(src=(memory, moved, *(lane(one, number) for one in condition)))


def loaded(node: UOp, source: tuple[UOp, ...]) -> UOp:
    """A vector that is loaded as such, or lane by lane."""
    place, *rest = source
    lanes = range(node.dtype.count)
    if is_whole(node.src[0], node):
        whole = node.replace(src=source)
        return joined([whole.gep(n) for n in lanes])
    one = node.dtype.scalar()
    return joined([UOp(Ops.LOAD, one, (at_lane(place, n), *rest)) for n in lanes])


def stored(node: UOp, source: tuple[UOp, ...]) -> UOp:
    """A vector that is stored as such, or the stores of its lanes."""
    place, value, *ranges = source
    if is_whole(node.src[0], node.src[1]):
        return node.replace(src=source)
    each = ((at_lane(place, n), lane(value, n)) for n in range(node.src[1].dtype.count))
    return UOp.sink(*(UOp(Ops.STORE, dtypes.void, (*one, *ranges)) for one in each))
