"""Vectors of elements that lie close together, read as rows and shuffled.

A vector of every second element, of pairs of equal ones or of a row backwards takes a read for each
lane. The one or two vectors from its first element in memory to its last hold them all, and a
shuffle picks them. Nothing outside is touched: what lies between two elements of a memory that are
read under the same condition is in that memory, and the last of the rows ends at the last element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.turn import Spot, is_scattered, spot_of

GAP: Final = 2  # elements from one to the next, up to which both are in one row
SOURCES: Final = 2  # vectors that one shuffle picks from

Places = dict[int, tuple[UOp, int]]  # for each shift the row that holds the element, and its lane


def pick_neighbours(root: UOp) -> UOp:
    """The kernel with reads of rows wherever vectors are put together of elements close by."""
    vectors = [n for n in root.toposort() if is_scattered(n)]
    wanted: dict[tuple[Spot, int], dict[int, UOp]] = {}
    for node in vectors:
        for load in node.src:
            spot, shift = spot_of(load)
            wanted.setdefault((spot, node.dtype.count), {})[shift] = load
    places = {key: in_runs(key[0], loads, key[1]) for key, loads in wanted.items()}
    picked = {}
    for node in vectors:
        lanes = []
        for load in node.src:
            spot, shift = spot_of(load)
            lanes.append(places[spot, node.dtype.count][shift])
        rows = {row for row, _ in lanes}
        alike = len({row.dtype for row in rows}) == 1
        if alike and len(rows) <= SOURCES and len(rows) < len(set(node.src)):
            source = tuple(row.gep(lane) for row, lane in lanes)
            picked[node] = UOp(Ops.VECTORIZE, node.dtype, source)
    return root.substitute(picked) if picked else root


def in_runs(spot: Spot, loads: dict[int, UOp], width: int) -> Places:
    """Rows of at most `width` elements that hold all of the loads of one spot."""
    found: Places = {}
    like = next(iter(loads.values()))
    for run in runs_of(loads):
        length = run[-1] - run[0] + 1
        count = min(width, 1 << (length.bit_length() - 1))
        start = run[0]
        for shift in run:
            if shift >= start + count:  # the last row ends where the run does
                start = min(shift, run[-1] + 1 - count)
            found[shift] = row_at(spot, start, like, count), shift - start
    return found


def runs_of(shifts: Iterable[int]) -> list[list[int]]:
    """The numbers in order, cut where neighbours are further apart than GAP."""
    runs: list[list[int]] = []
    for shift in sorted(shifts):
        if runs and shift - runs[-1][-1] <= GAP:
            runs[-1].append(shift)
        else:
            runs.append([shift])
    return runs


def row_at(spot: Spot, shift: int, like: UOp, count: int) -> UOp:
    """A read of `count` elements at a spot, of the format of the load `like`."""
    memory, rest, condition = spot
    place = UOp(Ops.INDEX, like.src[0].dtype, (memory, (rest + shift).simplify(), *condition))
    if count == 1:
        return UOp(Ops.LOAD, like.dtype, (place,))
    return UOp(Ops.LOAD, like.dtype.vec(count), (place,))
