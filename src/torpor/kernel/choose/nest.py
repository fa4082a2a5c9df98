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
from torpor.kernel.choose.rows import cut_lengths, row_lanes, whole_part, write_part
from torpor.kernel.choose.slides import short_rows, slide, sum_rows, tile_windows
from torpor.kernel.choose.vectors import (
    NARROW,
    WOVEN,
    Facts,
    attempt,
    copies_of,
    maskable,
    pad_lane,
    paddable,
    reducible,
    thread_rest,
    tile_axis,
    unroll_short,
    unroll_whole,
    vector_amount,
    write_lane,
)
from torpor.kernel.cost import SUMS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.split import boundaries
from torpor.kernel.ranges import (
    FEW,
    OUTPUTS,
    REDUCES,
    find_loops,
    has_few_rounds,
    iterations,
    kind_of,
    number_of,
    size_of,
)

OPERANDS: Final = 4  # registers that sums leave to operands and masks
MOST_PARTS: Final = 4  # parts of an axis that have code of their own, one for their rests each
LOST: Final = 8  # one in so many elements may be in no whole vector
ROWS_ALONG: Final = 4  # of an operand, that are summed along and share what else is read
BESIDE: Final = 4  # vectors of a row that are summed side by side


def nest_lanes(kernel: Kernel) -> None:
    """Vectors along the axis that suits memory best, where one does."""
    if slide(kernel):
        return
    write_between(kernel)
    facts = Facts.of(kernel)
    if share_lookups(facts):
        return
    lane = best_lane(facts)
    if (lane is None or kind_of(lane) in REDUCES) and short_rows(facts):
        return
    if lane is not None:
        if kind_of(lane) in REDUCES:
            reduce_lanes(facts, lane)
        elif not part_lanes(facts, lane):
            output_lanes(facts, lane)
    elif cut_lengths(kernel):
        row_lanes(kernel)
    elif mask_output(facts):
        thread_rest(kernel)
    else:  # LLVM finds vectors where there are none
        thread_rest(kernel)
        unroll_whole(kernel)


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
    """Short axes written out: parts of a stack that are made of the same, and those whose results
    lie between those along another axis: phases, which read the same, and neighbours in a row,
    which are then interleaved. Not where no vectors can be, of which these would be lanes.
    """
    found, trial = accesses(find_loops(kernel.ast)), kernel.copy()
    outputs = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL]
    for short in reversed(outputs):
        small = 1 < (size_of(short) or 0) <= WOVEN
        between = small and any(is_between(found, short, one) for one in outputs)
        if between or is_stack(kernel, found, short):
            attempt(trial, Opt(OptOps.UPCAST, trial.axes.index(short), 0))
    if kernel.has_reduce or best_lane(Facts.of(trial)) is not None:
        kernel.become(trial)


def is_stack(kernel: Kernel, found: Sequence[Access], short: UOp) -> bool:
    """Whether each place of a short axis has a value of its own, and all are made of the same."""
    same = all(a.stride(short) == 0 for a in found if not a.is_store)
    parts = len(boundaries(kernel.ast, short)) + 1
    return same and has_few_rounds(short) and parts == size_of(short) and parts > 1


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
    short = all(map(has_few_rounds, kernel.reduce_axes))
    if any(kind_of(r) is AxisType.LOOP for r in (kernel.axes if short else [lane])):
        return False
    most = min(SUMS, (size_of(lane) or 1) // (2 * facts.lanes))
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
    candidates = []
    for one in facts.kernel.axes:
        size = size_of(one)
        if size is None or size < 4 or kind_of(one) is AxisType.THREAD:
            continue
        if kind_of(one) in REDUCES and not reducible(facts.kernel, one):
            continue
        fits = size % facts.lanes == 0
        divides = fits or size % 4 == 0
        if not divides and not paddable(facts, one) and not has_rest(facts, one):
            continue
        score = facts.score(one)
        if score > 0:
            is_output = kind_of(one) in OUTPUTS
            candidates.append((score * 2 + (2 * fits) + is_output, is_output, size, one))
    return max(candidates, key=lambda c: c[:3])[3] if candidates else None


def output_lanes(facts: Facts, lane: UOp) -> None:
    """Vectors along an output axis; where a reduction reuses data, a tile of accumulators."""
    kernel = facts.kernel
    tiled = kernel.has_reduce
    if tiled and tile_windows(facts, lane, reuse_axes(kernel, facts.accesses, lane)):
        return
    registers = kernel.target.registers - OPERANDS
    reused = reuse_axes(kernel, facts.accesses, lane) if tiled else []
    written = iterations(tuple(r for r in kernel.axes if kind_of(r) is AxisType.UPCAST))
    few = (tiled and not reused) or 2 * written > registers
    amount = write_lane(facts, lane, 1 if few else 2)
    room = max(1, registers // max(1, amount // facts.lanes))
    for one in reused:
        room //= tile_axis(kernel, one, room)
    thread_rest(kernel)
    unroll_short(kernel)


def part_lanes(facts: Facts, lane: UOp) -> bool:
    """Vectors along each part of an output axis, cut where conditions change and after the last
    whole vector, so that no vector has to ask (concatenation, borders, rows of odd lengths). Not of
    the first axis, which threads share as a whole.
    """
    conditions, size = boundaries(facts.kernel.ast, lane), size_of(lane) or 0
    least = facts.lanes * (LOST if paddable(facts, lane) else 2)
    ends = whole_vectors([0, *conditions, size], facts.lanes, least)
    position = facts.kernel.axes.index(lane)
    if facts.kernel.has_reduce or not position or not len(conditions) < MOST_PARTS:
        return False
    wide = sum(b - a for a, b in pairwise(ends) if b - a >= 2 * facts.lanes)
    if len(ends) < 3 or wide * LOST < size * (LOST - 1):
        return False
    trial = facts.kernel.copy()
    whole = {number_of(r) for r in trial.axes if r is not lane}
    if not all(attempt(trial, Opt(OptOps.PARTITION, position, end)) for end in ends[-2:0:-1]):
        return False
    for number in [n for n in map(number_of, trial.axes) if n not in whole]:
        write_lane(Facts.of(trial), next(r for r in trial.axes if number_of(r) == number), 2)
    facts.kernel.become(trial)
    return True


def has_rest(facts: Facts, one: UOp) -> bool:
    """Whether an axis may be cut after its last whole vector: one that is summed, or one of results
    (see `part_lanes`). Without it gradients of products over rows of 65 take 4 to 40 times as long.
    """
    kernel, size = facts.kernel, size_of(one) or 0
    if kind_of(one) in REDUCES:
        return size >= 2 * facts.lanes
    long = rest_is_small(size, facts.lanes)
    return long and kind_of(one) in OUTPUTS and one is not kernel.axes[0] and not kernel.has_reduce


def rest_is_small(size: int, lanes: int) -> bool:
    """Whether few elements are left behind whole vectors, of which there are two or more."""
    rest = size % lanes
    return 0 < rest * LOST <= size and size >= 2 * lanes


def whole_vectors(ends: list[int], lanes: int, least: int) -> list[int]:
    """Where parts end, those from `least` elements on that are no whole vectors cut in two."""
    made = [0]
    for start, end in pairwise(ends):
        if end - start >= least and rest_is_small(end - start, lanes):
            made.append(end - (end - start) % lanes)
        made.append(end)
    return made


def reduce_lanes(facts: Facts, lane: UOp) -> None:
    """Vectors along a reduce axis; several, so that additions do not wait for each other: of
    several rows where these share what is read.
    """
    kernel = facts.kernel
    rows = reuse_axes(kernel, facts.accesses, lane)
    outputs = [r for r in rows if copies_of(r, ROWS_ALONG) > 1]
    most = 1 if outputs else BESIDE
    lane = whole_lane(facts, lane, most)
    amount = vector_amount(facts, lane, most)
    if attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(lane), amount)):
        room = kernel.target.registers - OPERANDS
        for one in outputs:
            room //= tile_axis(kernel, one, min(room, ROWS_ALONG), ROWS_ALONG)
    thread_rest(kernel)
    unroll_whole(kernel)
    sum_rows(kernel, facts.lanes)
    stage_coefficients(kernel)


def whole_lane(facts: Facts, lane: UOp, most: int) -> UOp:
    """A reduce axis of whole vectors: padded, or cut after the last one, or, where that would leave
    a long loop few vectors side by side, after the last `most` of them, the rest being apart.
    """
    kernel, size, position = facts.kernel, size_of(lane) or 0, facts.kernel.axes.index(lane)
    rounds, whole = -(-size // facts.lanes_along(lane)), size - size % (most * facts.lanes)
    beside = max(n for n in range(1, most + 1) if rounds % n == 0)
    if rounds > FEW * beside and 2 * beside <= most:
        kernel.apply_opt(Opt(OptOps.PARTITION, position, whole))
        if size - whole > 1:  # one element has no loop
            write_part(Facts.of(kernel), kernel.axes[position + 1])
        return kernel.axes[position]
    padded = pad_lane(facts, lane)
    return whole_part(facts, padded, 1) if size % NARROW and size_of(padded) == size else padded
