"""Vectors of elements that lie close together, read as rows and shuffled.

A vector of every second element, of pairs of equal ones or of a row backwards takes a read for each
lane. The one or two vectors from its first element in memory to its last hold them all, and a
shuffle picks them. Nothing outside is touched: what lies between two elements of a memory that are
read under the same condition is in that memory, and the last of the rows ends at the last element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.register_transpose import Spot, is_scattered, picked_from, spot_of
from torpor.kernel.passes.unroll import is_never, shifted

GAP: Final = 2  # elements from one to the next, up to which both are in one row
SOURCES: Final = 2  # vectors that one shuffle picks from
PICKED: Final = (1, 4, 8)  # bytes of elements of which vectors are shuffled

Places = dict[int, tuple[UOp, int]]  # for each shift the row that holds the element, and its lane


def interleave_loads(root: UOp) -> UOp:
    """The kernel with reads of rows wherever vectors are put together of elements close by."""
    vectors = [n for n in root.toposort() if is_scattered(n, PICKED)]
    wanted: dict[tuple[Spot, int], dict[int, UOp]] = {}
    for node in vectors:
        for load in loads_of(node):
            spot, shift = spot_of(load)
            wanted.setdefault((spot, node.dtype.count), {})[shift] = load
    places = {key: in_runs(key[0], loads, key[1]) for key, loads in wanted.items()}
    picked = {}
    for node in vectors:
        found = {}
        for load in loads_of(node):
            spot, shift = spot_of(load)
            found[load] = places[spot, node.dtype.count][shift]
        made = from_rows(node, found) or from_rows(node, own_rows(node))
        if made is not None:
            picked[node] = made
    return root.substitute(picked) if picked else root


def loads_of(node: UOp) -> list[UOp]:
    """The elements of a vector, but those that are never read, which are 0."""
    return [load for load in node.src if not is_never(*load.src[0].src[2:])]


def own_rows(node: UOp) -> dict[UOp, tuple[UOp, int]]:
    """For each element of a vector a row that holds it, of rows read for this vector alone."""
    spots: dict[Spot, dict[int, UOp]] = {}
    for load in loads_of(node):
        spot, shift = spot_of(load)
        spots.setdefault(spot, {})[shift] = load
    found = {}
    for spot, loads in spots.items():
        places = in_runs(spot, loads, node.dtype.count)
        found.update({load: places[shift] for shift, load in loads.items()})
    return found


def from_rows(node: UOp, found: dict[UOp, tuple[UOp, int]]) -> UOp | None:
    """The vector picked from the rows that hold its elements; None where that takes too many."""
    rows = {row for row, _ in found.values()}
    alike = len({row.dtype for row in rows}) == 1
    if not alike or len(rows) > SOURCES or len(rows) >= len(set(node.src)):
        return None
    spare = next(iter(found.values()))
    places = [found.get(load, spare) for load in node.src]
    whole = picked_from(places)
    if all(load in found for load in node.src):
        return whole
    read = tuple(UOp.const(dtypes.bool, load in found) for load in node.src)
    mask = UOp(Ops.VECTORIZE, dtypes.bool.vec(node.dtype.count), read)
    return mask.where(whole, UOp.const(node.dtype, 0))


def in_runs(spot: Spot, loads: dict[int, UOp], width: int) -> Places:
    """Rows of at most `width` elements that hold all of the loads of one spot."""
    found: Places = {}
    like = next(iter(loads.values()))
    for run in runs_of(loads):
        length = run[-1] - run[0] + 1
        count = min(width, 1 << (length.bit_length() - 1))
        start, row = run[0], row_at(spot, run[0], like, count)
        for shift in run:
            if shift >= start + count:  # the last row ends where the run does
                start = min(shift, run[-1] + 1 - count)
                row = row_at(spot, start, like, count)
            found[shift] = row, shift - start
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
    place = UOp(Ops.INDEX, like.src[0].dtype, (memory, shifted(rest, shift), *condition))
    if count == 1:
        return UOp(Ops.LOAD, like.dtype, (place,))
    return UOp(Ops.LOAD, like.dtype.vec(count), (place,))
