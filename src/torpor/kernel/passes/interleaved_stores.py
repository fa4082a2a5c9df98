"""Stores of neighbours, each a lane of some vector, as stores of vectors: shuffled in registers.

before  out[2*i] = a.0;  out[2*i + 1] = b.0;  out[2*i + 2] = a.1;  out[2*i + 3] = b.1;  ...
after   out[2*i ...] = (a.0, b.0, a.1, b.1, ...)

Results that lie one, two or four apart along the vectors have those of other copies between them
(phases, complex numbers, channels of a pixel); where vectors run across what lies in a row, one
lane of each of several vectors lies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import kind_of, map_nodes
from torpor.kernel.shuffles import ITEMSIZES, gathered, spot_of


def interleave_stores(root: UOp, target: Target) -> UOp:
    """The kernel with one store for every row of neighbours that are lanes of vectors, also where
    packed memory is filled.
    """

    def joined_in(node: UOp) -> UOp:
        if node.op not in (Ops.BARRIER, Ops.SINK):
            return node
        return node.over(neighbours_joined(node, target))

    return map_nodes(root, joined_in)


def neighbours_joined(root: UOp, target: Target) -> tuple[UOp, ...]:
    """The stores that are operands of a node, those of neighbours joined. Stores may change places:
    not where what they store is read below, or steps run in order.
    """
    if not any(map(is_lane, root.src)):
        return root.src
    written = {s.src[0].src[0] for s in root.src}
    for node in root.toposort():
        if node.op is Ops.RANGE and kind_of(node) is AxisType.SERIAL:
            return root.src
        if node.op is Ops.LOAD and node.src[0].src[0] in written:
            return root.src
    groups: dict[object, dict[int, UOp]] = {}
    others: list[UOp] = []
    for store in root.src:
        if not is_lane(store):
            others.append(store)
            continue
        spot, shift = spot_of(store)
        group = groups.setdefault((spot, store.src[2:], store.arg), {})
        if shift in group:
            return root.src
        group[shift] = store
    return *others, *(s for group in groups.values() for s in in_vectors(group, target))


def is_lane(store: UOp) -> bool:
    """Whether one lane of a vector is stored, of elements that vectors are shuffled of."""
    place, value = store.src[:2]
    lane = value.op is Ops.GEP and value.dtype.count == 1 and value.src[0].dtype.count > 1
    return lane and place.op is Ops.INDEX and value.dtype.itemsize in ITEMSIZES


def in_vectors(stores: dict[int, UOp], target: Target) -> list[UOp]:
    """Stores of one spot, those of neighbours joined."""
    made = []
    shifts = sorted(stores)
    width = target.lanes(next(iter(stores.values())).src[1].dtype.itemsize)
    start = 0
    while start < len(shifts):
        count = 1
        while count < width and follows(shifts, start, 2 * count):
            count *= 2
        run = [stores[shift] for shift in shifts[start : start + count]]
        made.append(joined(run))
        start += count
    return made


def follows(shifts: Sequence[int], start: int, count: int) -> bool:
    """Whether so many numbers from one on are consecutive."""
    last = start + count - 1
    return last < len(shifts) and shifts[last] == shifts[start] + count - 1


def joined(run: Sequence[UOp]) -> UOp:
    """One store in the place of those of neighbours, in order."""
    first = run[0]
    if len(run) == 1:
        return first
    value = gathered([(lane.src[0], int(lane.arg[0])) for _, lane, *_ in (s.src for s in run)])
    return first.replace(src=(first.src[0], value, *first.src[2:]))
