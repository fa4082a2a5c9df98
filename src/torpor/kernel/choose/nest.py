"""Opts for a kernel with one nest of loops: vectors along the axis that suits memory best."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses
from torpor.kernel.choose.registers import stage_coefficients
from torpor.kernel.choose.reuse import reuse_axes
from torpor.kernel.choose.rows import cut_lengths, row_lanes
from torpor.kernel.choose.shapes import Shapes, apply_shape
from torpor.kernel.choose.slides import short_rows, slide, sum_rows
from torpor.kernel.choose.vectors import (
    SMALL_LOOP,
    Facts,
    attempt,
    attempt_all,
    maskable,
    paddable,
    short_sums,
    thread_rest,
    tile_axis,
    unroll_short,
    unroll_whole,
    write_lane,
)
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.split import boundaries
from torpor.kernel.ranges import OUTPUTS, REDUCES, find_loops, kind_of, number_of, size_of

MOST_PARTS: Final = 4  # parts of an axis that have code of their own, one for their rests each
LOST: Final = 8  # one in so many elements may be in no whole vector
COLUMNS: Final = 8  # vectors of columns that passes go down side by side
WOVEN: Final = 4  # results side by side, at most, of which each is a lane of another vector
ROWS_ALONG: Final = 4  # of an operand, that are summed along and share what else is read


def nest_lanes(kernel: Kernel) -> None:
    """Vectors and copies that the cost model finds to be quickest; of windows whole rows."""
    if slide(kernel):
        return
    write_between(kernel)
    facts = Facts.of(kernel)
    if share_lookups(facts) or short_rows(facts) or part_lanes(kernel):
        return
    shapes = Shapes(kernel, short_sums(kernel)).ranked()
    if not shapes[0] and cut_lengths(kernel):
        row_lanes(kernel)
        return
    if not shapes[0] and mask_output(facts):
        thread_rest(kernel)
        return
    shape = next(s for s in shapes if attempt_all(kernel, kernel, apply_shape, s))
    along_sum = bool(shape) and kind_of(shape[-1].one) in REDUCES
    (unroll_whole if along_sum or not shape else unroll_short)(kernel)
    if along_sum:
        sum_rows(kernel, facts.lanes)
        stage_coefficients(kernel)


def mask_output(facts: Facts) -> bool:
    """Vectors along an output axis of symbolic length, masked at its end; says whether there are
    any.
    """
    kernel = facts.kernel
    outputs = [r for r in kernel.axes if kind_of(r) in OUTPUTS and size_of(r) is None]
    suits = [r for r in outputs if facts.score(r) > 0 and maskable(facts, r)]
    if not suits:
        return False
    position = kernel.axes.index(max(suits, key=facts.score))
    trial = kernel.copy()
    if not attempt(trial, Opt(OptOps.PADTO, position, 2 * facts.lanes)):
        return False
    last = max(range(len(trial.axes)), key=lambda n: number_of(trial.axes[n]))
    if not attempt(trial, Opt(OptOps.UPCAST, last, 0)):
        return False
    kernel.become(trial)
    return True


def write_between(kernel: Kernel) -> None:
    """Short axes written out whose results lie between those along another axis: phases, which read
    the same, and neighbours in a row, which are then interleaved.
    """
    found = accesses(find_loops(kernel.ast))
    outputs = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL]
    for short in reversed(outputs):
        small = 1 < (size_of(short) or 0) <= WOVEN
        if small and any(is_between(found, short, one) for one in outputs):
            attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(short), 0))


def is_between(found: Sequence[Access], short: UOp, one: UOp) -> bool:
    """Whether what is stored along a short axis fills the places between neighbours along another
    one, and what is loaded there is the same, or lies in rows as what is stored does.
    """
    stored = [(a.stride(short) or 0, a.stride(one)) for a in found if a.is_store]
    loads = [a for a in found if not a.is_store and a.stride(one) != 0]
    row = all(apart == 1 for apart, _ in stored) and all(a.stride(one) == 1 for a in loads)
    same = all(a.stride(short) == 0 for a in loads)
    fills = all(apart * (size_of(short) or 0) == step for apart, step in stored)
    return fills and bool(loads) and (row or same)


def pass_lanes(kernel: Kernel) -> bool:
    """Vectors of results of several passes that are over windows, short loops, which are written
    out; or that run down columns: a few side by side then, so that each row is read in pieces of
    some length, and two shares at least for the threads. As vectors along the passes gradients of
    max pools take 7 times as long, columns 12 times (AVX2).
    """
    facts = Facts.of(kernel)
    lane = best_lane(facts)
    if lane is None or kind_of(lane) in REDUCES:
        return False
    short = all((size_of(r) or SMALL_LOOP + 1) <= SMALL_LOOP for r in kernel.reduce_axes)
    if any(kind_of(r) is AxisType.LOOP for r in (kernel.axes if short else [lane])):
        return False
    most = min(COLUMNS, (size_of(lane) or 1) // (2 * facts.lanes))
    write_lane(facts, lane, 1 if short else max(1, most))
    thread_rest(kernel)
    if short:
        unroll_short(kernel)
    return True


def share_lookups(facts: Facts) -> bool:
    """Elements one by one, of a few rows at once, where nothing but copying what is looked up is
    done and rows share the places (columns chosen by index): each place is loaded and checked once
    for all of them. Says whether the kernel is one.
    """
    kernel = facts.kernel
    stores, axes = kernel.ast.src, kernel.axes
    if kernel.target.groups or not axes or len(stores) > 1 or stores[0].src[1].op is not Ops.LOAD:
        return False
    place = stores[0].src[1].src[0]
    apart = any(a.node is place and a.stride(axes[-1]) is None for a in facts.accesses)
    rows = reuse_axes(kernel, facts.accesses, None)[:1] if apart else []
    looked_up = any(n.op is Ops.LOAD for n in place.src[1].toposort())
    if not looked_up or not any(tile_axis(kernel, r, ROWS_ALONG, ROWS_ALONG) > 1 for r in rows):
        return False
    thread_rest(kernel)
    return True


def best_lane(facts: Facts) -> UOp | None:
    """The axis along which vectors suit memory best, if any does."""
    sizes = {r: size_of(r) or 0 for r in facts.kernel.axes if facts.score(r) > 0}
    suits = [r for r, n in sizes.items() if n >= WOVEN and (n % WOVEN == 0 or paddable(facts, r))]
    rank = {r: 2 * facts.score(r) + (kind_of(r) in OUTPUTS) for r in suits}
    return max(suits, key=lambda r: (rank[r], sizes[r]), default=None)


def part_lanes(kernel: Kernel) -> bool:
    """Vectors along each part of an axis of results, cut where conditions change and after the last
    whole vector, so that no vector has to ask (concatenation, borders). Not of the first axis,
    which threads share as a whole.
    """
    facts = Facts.of(kernel)
    outputs = [] if kernel.has_reduce else kernel.axes[1:]
    lane = next((r for r in reversed(outputs) if size_of(r) and facts.score(r) > 0), None)
    conditions = [] if lane is None else boundaries(kernel.ast, lane)
    if lane is None or not 0 < len(conditions) < MOST_PARTS:
        return False
    size, position = size_of(lane) or 0, kernel.axes.index(lane)
    ends = whole_vectors([0, *conditions, size], facts.lanes)
    wide = sum(b - a for a, b in pairwise(ends) if b - a >= 2 * facts.lanes)
    if wide * LOST < size * (LOST - 1):
        return False
    trial = kernel.copy()
    whole = {number_of(r) for r in trial.axes if r is not lane}
    if not all(attempt(trial, Opt(OptOps.PARTITION, position, end)) for end in ends[-2:0:-1]):
        return False
    for number in [n for n in map(number_of, trial.axes) if n not in whole]:
        write_lane(Facts.of(trial), next(r for r in trial.axes if number_of(r) == number), 2)
    thread_rest(trial)
    kernel.become(trial)
    return True


def whole_vectors(ends: list[int], lanes: int) -> list[int]:
    """Where parts end, long ones that are no whole vectors cut in two."""
    made = [0]
    for start, end in pairwise(ends):
        rest = (end - start) % lanes
        if rest and end - start >= LOST * lanes:
            made.append(end - rest)
        made.append(end)
    return made
