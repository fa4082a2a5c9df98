"""STAGE of what windows slide over: copied once, with its borders, beside the loops.

before  out[y, x] = sum(j, i, image[y + j - 1, x*2 + i - 1] * w[j, i])
after   rows[p, k, q] = image[p - 1, q*2 + k - 1]
        out[y, x] = sum(j, i, rows[y + j, i % 2, x + i//2] * w[j, i])

Borders are stored as zeros, so that no sum asks for them. Where windows are some places apart along
the innermost rows, every so many places lie side by side: vectors of results read them in rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, NamedTuple

from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where
from torpor.kernel.opts.stage import Tile, reach
from torpor.kernel.ranges import find_loops, iterations, kind_of, nesting, number_of, size_of
from torpor.rules.affine import strides_of

BEYOND: Final = 2  # rows that may be read past the last one
LOOPS: Final = (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE)


class Window(NamedTuple):
    """A value that depends on an output axis and the axis `summed` only by their place in a row:
    the axis of the row, that place, and the value by the row. Windows along the output axis `one`
    are `step` places apart, neighbours along the longer one of the two axes `along`.
    """

    one: UOp
    summed: UOp
    row: UOp
    place: UOp
    value: UOp
    step: int
    along: int


def windows_along(
    value: UOp, outputs: Sequence[UOp], summed: Sequence[UOp], fresh: int
) -> tuple[list[Window], list[UOp], list[UOp]]:
    """The windows of a value along output axes, in their order, each over one of the axes `summed`;
    and what is left of both. Rows are numbered from `fresh`.
    """
    windows: list[Window] = []
    results: list[UOp] = []
    rest = list(summed)
    for one in outputs:
        number = fresh + len(windows)
        found = next((w for r in rest if (w := window_of(value, one, r, number))), None)
        if found is None:
            results.append(one)
        else:
            windows.append(found)
            rest.remove(found.summed)
            value = found.value
    return windows, results, rest


def window_of(value: UOp, one: UOp, summed: UOp, number: int) -> Window | None:
    """The window of a value along an output axis, if `summed` runs over it. Windows overlap, so
    that each place of the row is in one. The row is axis `number`.
    """
    paces = paces_of(value, one, summed)
    found = (at_pace(value, one, summed, number, *pace) for pace in paces)
    return next((window for window in found if window is not None), None)


def paces_of(value: UOp, one: UOp, summed: UOp) -> list[tuple[int, int]]:
    """By how many places of a row a value may move with each of two axes: where elements of a row
    have others between them, positions do not say.
    """
    strides = strides_of(value.src[0].src[1])
    apart, within = strides.get(one, 0), strides.get(summed, 0)
    if apart is None and within is None:
        return [(1, 1), (1, -1)]
    if not apart or not within:
        return []
    unit = gcd(apart, within) * (1 if apart > 0 else -1)
    return [(apart // unit, within // unit)]


def at_pace(value: UOp, one: UOp, summed: UOp, number: int, step: int, along: int) -> Window | None:
    """The window of a value that moves by `step` and `along` places with the two axes."""
    length, width = size_of(one) or 1, size_of(summed) or 1
    before = max(0, -along) * (width - 1)
    end = step * (length - 1) + abs(along) * (width - 1) + 1
    row = UOp.range(end, number, kind_of(one))
    place = one * step + summed * along + before
    if abs(along) == 1 and step < width:
        moved, gone = value.substitute({summed: (row - before - one * step) * along}), one
    elif step == 1 and abs(along) < length:
        moved, gone = value.substitute({one: row - before - summed * along}), summed
    else:
        return None
    moved = moved.simplify()
    if gone in moved.toposort():
        return None
    pace = step if length >= width else abs(along)
    return Window(one, summed, row, place, moved, step, pace)


def rows_of(root: UOp, load: UOp, level: UOp, fresh: int, lanes: int) -> Tile | None:
    """What of a load one round of the loop `level` reads, each element once; None where there are
    no windows. Rows are whole vectors of `lanes` elements. New axes are numbered from `fresh`.
    """
    inside = sorted((r for r in find_loops(root).free[load] if is_inside(r, level)), key=nesting)
    fixed = all(kind_of(r) in LOOPS and size_of(r) for r in inside)
    if load.op is not Ops.LOAD or not fixed:
        return None
    summed = [r for r in inside if kind_of(r) is AxisType.REDUCE]
    outputs = [r for r in inside if r not in summed]
    windows, results, others = windows_along(load, outputs, summed, fresh)
    if not windows:
        return None
    value = windows[-1].value
    windows.sort(key=lambda window: -reach(value, window.row))
    read, rest = [w.row for w in windows], [*results, *others]
    own = [loop(size_of(r) or 1, fresh + n) for n, r in enumerate([*rest, *read])]
    value = value.substitute(dict(zip([*rest, *read], own, strict=True)))
    places = [*rest, *(w.place for w in windows)]
    return in_vectors(load, value, own, places, windows[-1].along, lanes)


def is_inside(one: UOp, level: UOp) -> bool:
    """Whether a loop runs within another."""
    return nesting(one) > nesting(level)


def loop(size: int, number: int) -> UOp:
    """A loop of the copy."""
    return UOp.range(size, number, AxisType.LOOP)


def in_vectors(
    load: UOp, value: UOp, axes: list[UOp], places: list[UOp], step: int, lanes: int
) -> Tile:
    """The innermost rows as whole vectors; where windows are `step` places apart, as so many rows
    of the places between them.
    """
    *outer, last = axes
    *at_outer, where = places
    size, fresh = size_of(last) or 1, number_of(last) + 1
    row = loop(-(-size // (step * lanes)) * lanes, fresh + 1)
    own, read, at = [*outer, row], [*at_outer, where // step], row
    if step > 1:
        phase = loop(step, fresh)
        own.insert(len(outer), phase)
        read.insert(len(outer), where % step)
        at = row * step + phase
    copy = value.substitute({last: at})
    if (size_of(row) or 1) * step > size:
        copy = only_where(copy, at < UOp.index_const(size))
    count = iterations(own) + BEYOND * (size_of(row) or 1) * step
    found = tuple(place.simplify() for place in read)
    return Tile(load, tuple(own), found, count, copy.simplify(), tuple(own), tuple(own))
