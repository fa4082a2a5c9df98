"""Opts for loops that follow each other: several passes over a row, steps that run in order."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Final

from torpor.base.target import WORD
from torpor.ir.ops import TRANSCENDENTAL, AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.vectors import (
    Facts,
    attempt,
    maskable,
    pad_lane,
    paddable,
    reducible,
    thread_rest,
    tile_axis,
    unroll_short,
    vector_amount,
    write_lane,
)
from torpor.kernel.cost import SUMS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import operands, tile_of, twins
from torpor.kernel.ranges import find_loops, kind_of, number_of, size_of

STORES: Final = 4  # vectors stored in a round of a loop


def has_passes(kernel: Kernel) -> bool:
    """Whether loops over a row come one after the other, and not one inside of the other."""
    if any(kind_of(r) is AxisType.LOOP for r in kernel.axes):
        return True
    around = find_loops(kernel.ast).around
    pairs = combinations(kernel.reduce_axes, 2)
    return any(a not in around.get(b, ()) and b not in around.get(a, ()) for a, b in pairs)


def beside_steps(kernel: Kernel) -> None:
    """Steps in order: vectors along an axis beside them, a share of each for the threads; then
    vectors of the other loops, such as the one that prepares what the steps change.
    """
    facts = Facts.of(kernel)
    beside = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL and size_of(r)]
    lane = max(beside, key=facts.score, default=None)
    if lane is not None and facts.score(lane) > 0:
        beside_it = [a.itemsize for a in facts.accesses if a.stride(lane) != 0]
        facts = replace(facts, lanes=kernel.target.lanes(max(beside_it)))
        write_lane(facts, lane, SUMS)
        thread_rest(kernel)
        return
    if any(n.op is Ops.SCAN for n in kernel.ast.toposort()):
        tile = max(beside, key=lambda r: size_of(r) or 0, default=None)
        if tile is not None:  # several at once, so that additions do not wait for each other
            tile_axis(kernel, tile, SUMS)
    row_lanes(kernel)


def row_lanes(kernel: Kernel) -> None:
    """Several passes over a row in one kernel: each pass gets vectors of its own, along the axis
    that lies in a row.
    """
    thread_rest(kernel)
    keep_row(kernel)
    cut_lengths(kernel)
    done: set[int] = set()
    while True:
        facts = Facts.of(kernel)
        candidates = [
            r
            for r in kernel.axes
            if r.arg[0] not in done
            and kind_of(r) in (AxisType.LOOP, AxisType.REDUCE)
            and (size_of(r) or 0) >= facts.lanes
            and facts.score(r, alone=True) > 0
        ]
        if not candidates:
            break
        one = candidates[-1]
        done.add(number_of(one))
        write_row(facts, one)
    unroll_short(kernel)


def cut_lengths(kernel: Kernel) -> bool:
    """Loops of symbolic length over what lies in a row become loops over blocks of it, of which
    each has vectors, and what is left gets masked ones. Says whether there are any.
    """
    numbers = {number_of(r) for r in kernel.axes if size_of(r) is None}
    cut = False
    for number in sorted(numbers):
        facts = Facts.of(kernel)
        one = next(r for r in kernel.axes if number_of(r) == number)
        if kind_of(one) not in (AxisType.LOOP, AxisType.REDUCE) or not reads_rows(facts, one):
            continue
        position, block = kernel.axes.index(one), facts.lanes * STORES
        if attempt(kernel, Opt(OptOps.PARTITION, position, block)):
            cut = True
            mask_rest(Facts.of(kernel), numbers)
        elif maskable(facts, one):  # shorter than a block
            cut = attempt(kernel, Opt(OptOps.PADTO, position, facts.lanes)) or cut
    return cut


def reads_rows(facts: Facts, one: UOp) -> bool:
    """Whether vectors along a loop suit memory, and what it computes."""
    suits = kind_of(one) is not AxisType.REDUCE or reducible(facts.kernel, one)
    return suits and facts.score(one, alone=True) > 0


def mask_rest(facts: Facts, known: set[int]) -> None:
    """Vectors for the only axis of symbolic length that is not known yet."""
    rest = [r for r in facts.kernel.axes if size_of(r) is None and number_of(r) not in known]
    for one in rest:
        known.add(number_of(one))
        if maskable(facts, one):
            attempt(facts.kernel, Opt(OptOps.PADTO, facts.kernel.axes.index(one), facts.lanes))


def keep_row(kernel: Kernel) -> None:
    """Values of a row that cost much and are needed by two passes are kept in memory between."""
    level = next((n for n, r in enumerate(kernel.axes) if kind_of(r) is not AxisType.THREAD), 1) - 1
    if level < 0:
        return
    for number, value in enumerate(operands(kernel.ast)):
        tile = tile_of(kernel.ast, value, kernel.axes[level])
        dear = any(n.op in TRANSCENDENTAL for n in value.toposort())
        if dear and tile.bytes <= kernel.target.stage_bytes // 4 and twins(kernel.ast, tile):
            attempt(kernel, Opt(OptOps.STAGE, level, number))
            return


def write_row(facts: Facts, one: UOp) -> None:
    """Vectors along one axis of a row kernel; several at once where a reduction would wait. Where
    they do not divide it and no masks cover its rest, that is a part of its own.
    """
    kernel = facts.kernel
    along = [a.itemsize for a in facts.accesses if a.stride(one) != 0]
    facts = replace(facts, lanes=kernel.target.lanes(max(along)))
    size, position, most = size_of(one) or 1, kernel.axes.index(one), SUMS
    masked = size % facts.lanes == 0 or paddable(facts, one)
    if not masked:
        facts = replace(facts, lanes=min(facts.lanes, kernel.target.lanes(WORD)))
        most = max(1, min(most, size // facts.lanes))
    count = len(kernel.axes)
    one = whole_part(facts, one, most)
    if len(kernel.axes) > count and not masked:  # a rest of one element has no axis
        write_part(facts, kernel.axes[position + 1])
    write_part(facts, kernel.axes[position])


def write_part(facts: Facts, one: UOp) -> None:
    """Vectors along an axis or a part of one, as many side by side as fit."""
    kernel = facts.kernel
    if kind_of(one) is not AxisType.REDUCE:
        write_lane(facts, one, STORES)
    elif reducible(kernel, one):
        one = pad_lane(facts, one)
        amount = vector_amount(facts, one, SUMS)
        attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(one), amount))


def whole_part(facts: Facts, one: UOp, vectors: int) -> UOp:
    """The part of a long odd axis that so many vectors side by side divide; its rest is apart."""
    kernel, size = facts.kernel, size_of(one) or 1
    whole = size - size % (vectors * facts.lanes)
    if whole == 0 or size % facts.lanes == 0:
        return one
    position = kernel.axes.index(one)
    return kernel.axes[position] if attempt(kernel, Opt(OptOps.PARTITION, position, whole)) else one
