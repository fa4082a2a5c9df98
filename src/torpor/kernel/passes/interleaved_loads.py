"""Vectors of elements that lie in rows, read as rows and shuffled.

before  (x[0], x[2], x[4], x[6])                     every second element
after   lanes of x[0:4] and x[3:7]

before  (x[0], x[8], x[16], x[24]), (x[1], x[9], x[17], x[25]), ...     columns of a block
after   one lane of each of x[0:4], x[8:12], x[16:20], x[24:28]

A read for each lane is what such a vector takes else. Nothing outside is touched: what lies between
two elements of a memory that are read under the same condition is in that memory, and the last of
the rows ends at the last element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.unroll import shifted
from torpor.kernel.shuffles import ITEMSIZES, SOURCES, Lane, Spot, gathered, is_column, spot_of
from torpor.rules.decided import is_never

PICKED: Final = (1, *ITEMSIZES)  # bytes of elements of which vectors are shuffled

Wanted = dict[tuple[Spot, int], dict[int, UOp]]  # by spot and width the elements, by their shift


def interleave_loads(root: UOp) -> UOp:
    """The kernel with reads of rows wherever vectors are put together of elements in rows."""
    vectors = [n for n in root.toposort() if is_scattered(n)]
    found = rows_for(vectors)
    users = Counter(row for row, _ in found.values())
    whole = {row for row, count in users.items() if 2 * count > row.dtype.count}
    picked = {}
    for node in vectors:
        lanes = {load: found[load, node.dtype.count] for load in loads_of(node)}
        made = from_rows(node, lanes, whole)
        if made is None:
            alone = rows_for([node])
            made = from_rows(node, {load: alone[load, node.dtype.count] for load in lanes})
        if made is not None:
            picked[node] = made
    return root.substitute(picked) if picked else root


def is_scattered(node: UOp) -> bool:
    """A vector of elements of parameters that are read one by one, under no condition of lanes."""
    if node.op is not Ops.VECTORIZE or node.dtype.scalar().itemsize not in PICKED:
        return False
    return all(
        s.op is Ops.LOAD
        and len(s.src) == 1
        and s.src[0].op is Ops.INDEX
        and s.src[0].src[0].op is Ops.PARAM
        and all(condition.dtype.count == 1 for condition in s.src[0].src[2:])
        for s in node.src
    )


def loads_of(node: UOp) -> list[UOp]:
    """The elements of a vector, but those that are never read, which are 0."""
    return [load for load in node.src if not is_never(load)]


def rows_for(vectors: Iterable[UOp]) -> dict[tuple[UOp, int], Lane]:
    """For each element and width of a vector that it is in the row that holds it."""
    wanted: Wanted = {}
    for node in vectors:
        for load in loads_of(node):
            spot, shift = spot_of(load)
            wanted.setdefault((spot, node.dtype.count), {})[shift] = load
    found = {}
    for (spot, width), loads in wanted.items():
        places = in_runs(spot, loads, width)
        found.update({(load, width): places[shift] for shift, load in loads.items()})
    return found


def from_rows(node: UOp, found: dict[UOp, Lane], whole: Collection[UOp] = ()) -> UOp | None:
    """The vector picked from the rows that hold its elements; None where that takes too many, but
    for those of which most lanes are in some vector (`whole`).
    """
    rows = {row for row, _ in found.values()}
    if len({row.dtype for row in rows}) != 1:
        return None
    first, lane = next(iter(found.values()))
    column = [found.get(load, (first.const_like(0), lane)) for load in node.src]
    sized = node.dtype.scalar().itemsize in ITEMSIZES
    if sized and rows.issubset(whole) and is_column(column):
        return gathered(column)
    if len(rows) > SOURCES or len(rows) >= len(set(node.src)):
        return None
    made = gathered([found.get(load, (first, lane)) for load in node.src])
    if all(load in found for load in node.src):
        return made
    read = tuple(UOp.const(dtypes.bool, load in found) for load in node.src)
    mask = UOp(Ops.VECTORIZE, dtypes.bool.vec(node.dtype.count), read)
    return mask.where(made, UOp.const(node.dtype, 0))


def in_runs(spot: Spot, loads: dict[int, UOp], width: int) -> dict[int, Lane]:
    """For each shift a row of at most `width` elements that holds the load of this spot."""
    found: dict[int, Lane] = {}
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
    """The numbers in order, cut where neighbours are too far apart for one row."""
    runs: list[list[int]] = []
    for shift in sorted(shifts):
        if runs and shift - runs[-1][-1] <= SOURCES:
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
