"""Opts chosen without measuring, from how the accesses move with each axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.ops import TRANSCENDENTAL, AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, passes_caches
from torpor.kernel.columns import tile_columns
from torpor.kernel.contraction import SPARE
from torpor.kernel.crossing import tile_crossing
from torpor.kernel.kernel import REDUCES, Kernel
from torpor.kernel.products import tile_contraction
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    iterations,
    kind_of,
    number_of,
    size_of,
)
from torpor.kernel.reuse import COPIES, OUTPUTS, reuse_axes, row_axes
from torpor.kernel.stage import operands, tile_of, twins
from torpor.kernel.streams import stream_once
from torpor.kernel.unpacking import dear_operands

SMALL_LOOP: Final = 8  # iterations of a reduce loop that is always written out
CODE_LIMIT: Final = 160  # copies of the loop body past which compiling costs more than it gains
MASKABLE: Final = (4, 8)  # bytes of elements that vector instructions can mask
DEAR: Final = 1.0  # time for packing, of that for products, beyond which it is a last resort
UNPACKED: Final = 8  # results that share a value that is dear to compute
OPERANDS: Final = 6  # registers that sums leave to operands and masks
MOST_PARTS: Final = 4  # parts of an axis that have code of their own
ROWS: Final = 4  # of an operand, that are summed along and share what else is read
STEP_VECTORS: Final = 8  # most vectors side by side in a loop whose steps run in order


@dataclass(frozen=True)
class Facts:
    """What the heuristics look at."""

    kernel: Kernel
    accesses: list[Access]
    lanes: int  # elements in a vector register

    @staticmethod
    def of(kernel: Kernel) -> Facts:
        found = accesses(find_loops(kernel.ast))
        widest = max((a.itemsize for a in found), default=4)
        lanes = kernel.target.lanes(widest) if kernel.target.vector_alu else 4
        return Facts(kernel, found, lanes)

    def score(self, one: UOp, alone: bool = False) -> float:
        """How well vectors along the axis suit memory: neighbours and broadcasts for, gathers
        against, each weighed by how often it happens. With `alone`, only accesses that depend on
        the axis count.
        """
        most = max((a.count for a in self.accesses), default=1)
        total = 0.0
        for access in self.accesses:
            stride = access.stride(one)
            if alone and stride == 0:
                continue
            if stride == 1:
                points = 2
            elif stride == 0:
                points = 0 if access.is_store else 1
            else:
                points = -4 if access.is_store else -3
            total += points * access.count / most
        return total


def choose(kernel: Kernel) -> list[Opt]:
    """The opts for a kernel, already applied to a copy: they fit."""
    trial = kernel.copy()
    if kernel.target.groups and kernel.target.name != "python":
        for_groups(trial)
    elif kernel.target.name != "python":
        for_processor(trial)
    return trial.opts


def attempt(kernel: Kernel, opt: Opt) -> bool:
    """Apply the opt if it fits."""
    try:
        kernel.apply_opt(opt)
    except OptError:
        return False
    return True


# --- processors with vectors and threads ----------------------------------------------------------
def for_processor(kernel: Kernel) -> None:
    """Vectors along the axis that suits memory best, register tiles where data is reused, short
    reductions written out, the outermost axis for the threads.
    """
    if any(kind_of(r) is AxisType.SERIAL for r in kernel.axes):
        beside_steps(kernel)
        return
    if tile_contraction(kernel, DEAR) or tile_columns(kernel) or tile_contraction(kernel):
        return
    if not tile_crossing(kernel):
        along_lanes(kernel)
    stream_out(kernel)


def along_lanes(kernel: Kernel) -> None:
    """Vectors along the axes that suit memory best, the outermost axis for the threads."""
    stream_once(kernel)
    thread_outermost(kernel)
    if has_passes(kernel):
        row_lanes(kernel)
        return
    facts = Facts.of(kernel)
    if copies_rows(facts):
        return
    lane = best_lane(facts)
    if lane is not None:
        if kind_of(lane) in REDUCES:
            reduce_lanes(facts, lane)
        elif not part_lanes(facts, lane):
            output_lanes(facts, lane)
    else:
        single_lanes(facts)


def single_lanes(facts: Facts) -> None:
    """No vectors: a tile of accumulators for long sums (LLVM finds vectors where there is none)."""
    kernel = facts.kernel
    room = kernel.target.registers - OPERANDS
    if any((size_of(r) or SMALL_LOOP + 1) > SMALL_LOOP for r in kernel.reduce_axes):
        for one in reuse_axes(kernel, facts.accesses, None):
            room //= tile_axis(kernel, one, room)
    thread_rest(kernel)
    unroll_short(kernel)


def stream_out(kernel: Kernel) -> None:
    """More output than the caches hold goes past them."""
    if passes_caches(kernel.ast, kernel.target):
        attempt(kernel, Opt(OptOps.STREAM))


def copies_rows(facts: Facts) -> bool:
    """Whether the kernel does nothing but copy rows that it looks up: compilers make their loop a
    block copy, whatever its length, while vectors of a fixed width leave a rest. Vectors can be
    stored past the caches, though.
    """
    stores, axes = facts.kernel.ast.src, facts.kernel.axes
    if len(axes) < 2 or len(stores) > 1 or stores[0].src[1].op is not Ops.LOAD:
        return False
    if passes_caches(facts.kernel.ast, facts.kernel.target):
        return False
    place = stores[0].src[1].src[0]
    touching = [a for a in facts.accesses if a.stride(axes[-1]) != 0]
    looked_up = any(n.op is Ops.LOAD for n in place.src[1].toposort())
    return looked_up and len(touching) == 2 and all(a.stride(axes[-1]) == 1 for a in touching)


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
        lane = pad_lane(facts, lane)
        amount = vector_amount(facts, lane, STEP_VECTORS)
        attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(lane), amount))
        thread_rest(kernel)
        return
    if any(n.op is Ops.SCAN for n in kernel.ast.toposort()):
        tile = max(beside, key=lambda r: size_of(r) or 0, default=None)
        if tile is not None:  # several at once, so that additions do not wait for each other
            tile_axis(kernel, tile, STEP_VECTORS)
    row_lanes(kernel)


def thread_outermost(kernel: Kernel) -> None:
    """The first output axis for the threads, unless it is all there is and will be vectors."""
    axes = kernel.axes
    if axes and kind_of(axes[0]) is AxisType.GLOBAL:
        outputs = [r for r in axes if kind_of(r) in OUTPUTS]
        if len(outputs) > 1:
            attempt(kernel, Opt(OptOps.THREAD, 0, 0))


def row_lanes(kernel: Kernel) -> None:
    """Several passes over a row in one kernel: each pass gets vectors of its own, along the axis
    that lies in a row.
    """
    thread_rest(kernel)
    keep_row(kernel)
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
    """Vectors along one axis of a row kernel; several at once where a reduction would wait."""
    kernel = facts.kernel
    if (size_of(one) or 1) % facts.lanes and not paddable(facts, one):
        return
    one = pad_lane(facts, one)
    if kind_of(one) is AxisType.REDUCE:
        if reducible(kernel, one):
            amount = vector_amount(facts, one, 4)
            attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(one), amount))
    else:
        amount = vector_amount(facts, one, 2)
        attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(one), amount))


def thread_rest(kernel: Kernel) -> None:
    """After vectors were cut off: what is left of the first axis for the threads."""
    axes = kernel.axes
    if axes and kind_of(axes[0]) is AxisType.GLOBAL:
        attempt(kernel, Opt(OptOps.THREAD, 0, 0))


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
        if not divides and not paddable(facts, one):
            continue
        score = facts.score(one)
        if score > 0:
            is_output = kind_of(one) in OUTPUTS
            candidates.append((score * 2 + (2 * fits) + is_output, is_output, size, one))
    return max(candidates, key=lambda c: c[:3])[3] if candidates else None


def reducible(kernel: Kernel, one: UOp) -> bool:
    """Whether every reduction over the axis may end in a reduction over lanes."""
    loops = find_loops(kernel.ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE and one in closed_by(n)]
    return all(r.dtype.kind != "bool" for r in reductions)


def paddable(facts: Facts, one: UOp) -> bool:
    """Whether masks may cover the rest: elements that vector instructions mask, none irregular,
    and most of a vector at least.
    """
    if (size_of(one) or 0) < facts.lanes * (1 - SPARE):
        return False
    touching = [a for a in facts.accesses if a.stride(one) != 0]
    return all(a.itemsize in MASKABLE and a.stride(one) == 1 for a in touching)


def vector_amount(facts: Facts, one: UOp, most: int) -> int:
    """A multiple of the lanes, up to `most` vectors, that divides the axis."""
    size = size_of(one) or 1
    for vectors in range(most, 0, -1):
        if size % (vectors * facts.lanes) == 0:
            return vectors * facts.lanes
    return next((n for n in (8, 4, 2) if n <= facts.lanes and size % n == 0), 1)


def pad_lane(facts: Facts, lane: UOp) -> UOp:
    """The axis, padded to whole vectors if that wastes fewer lanes than shorter vectors would."""
    kernel = facts.kernel
    size = size_of(lane) or 1
    whole = -(-size // facts.lanes) * facts.lanes
    if size == whole or not paddable(facts, lane):
        return lane
    shorter = next((n for n in (8, 4) if n < facts.lanes and size % n == 0), 1)
    if shorter * whole >= size * facts.lanes:
        return lane
    position = kernel.axes.index(lane)
    attempt(kernel, Opt(OptOps.PADTO, position, facts.lanes))
    return kernel.axes[position]


def output_lanes(facts: Facts, lane: UOp) -> None:
    """Vectors along an output axis; where a reduction reuses data, a tile of accumulators."""
    kernel = facts.kernel
    lane = pad_lane(facts, lane)
    tiled = kernel.has_reduce
    registers = kernel.target.registers - OPERANDS
    reused = reuse_axes(kernel, facts.accesses, lane) if tiled else []
    vectors = 1 if tiled and not reused else 2
    amount = vector_amount(facts, lane, vectors)
    attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(lane), amount))
    room = max(1, registers // max(1, amount // facts.lanes))
    for one in reused:
        room //= tile_axis(kernel, one, room)
    thread_rest(kernel)
    unroll_short(kernel)


def part_lanes(facts: Facts, lane: UOp) -> bool:
    """Vectors along each part of an output axis, cut where conditions change, so that no vector
    has to ask (concatenation). Not of the first axis, which threads share as a whole.
    """
    ends = [0, *boundaries(facts.kernel.ast, lane), size_of(lane) or 0]
    parts = [b - a for a, b in pairwise(ends)]
    position = facts.kernel.axes.index(lane)
    if facts.kernel.has_reduce or not position or not 1 < len(parts) <= MOST_PARTS:
        return False
    if min(parts) < 2 * facts.lanes:
        return False
    trial = facts.kernel.copy()
    whole = {number_of(r) for r in trial.axes if r is not lane}
    if not all(attempt(trial, Opt(OptOps.PARTITION, position, end)) for end in ends[-2:0:-1]):
        return False
    for number in [n for n in map(number_of, trial.axes) if n not in whole]:
        one = pad_lane(Facts.of(trial), next(r for r in trial.axes if number_of(r) == number))
        amount = vector_amount(facts, one, 2)
        attempt(trial, Opt(OptOps.UPCAST, trial.axes.index(one), amount))
    facts.kernel.__dict__.update(trial.__dict__)
    return True


def boundaries(root: UOp, one: UOp) -> list[int]:
    """Where comparisons of the axis with numbers change, in order."""
    found = set()
    for node in root.toposort():
        if node.op is Ops.CMPLT and node.src[0] is one and node.src[1].op is Ops.CONST:
            found.add(int(node.src[1].arg))
    return sorted(n for n in found if 0 < n < (size_of(one) or 0))


def tile_axis(kernel: Kernel, one: UOp, most: int, limit: int = COPIES) -> int:
    """As many copies of an output axis as divide it and fit the registers (at most `limit`); gives
    how many.
    """
    axes = [r for r in kernel.axes if r is one or r.arg == one.arg]
    if not axes:
        return 1
    copies = copies_of(axes[0], min(most, limit))
    opt = Opt(OptOps.UPCAST, kernel.axes.index(axes[0]), copies)
    return copies if copies > 1 and attempt(kernel, opt) else 1


def copies_of(one: UOp, most: int) -> int:
    """The most copies of an axis that divide it."""
    size = size_of(one) or 1
    return max(n for n in range(1, max(most, 1) + 1) if size % n == 0)


def reduce_lanes(facts: Facts, lane: UOp) -> None:
    """Vectors along a reduce axis; several, so that additions do not wait for each other: of
    several rows where there are, since memory read in several places comes faster.
    """
    kernel = facts.kernel
    lane = pad_lane(facts, lane)
    dear = dear_operands(kernel)
    rows = reuse_axes(kernel, facts.accesses, lane) or row_axes(kernel, facts.accesses, lane)
    outputs = [r for r in rows if copies_of(r, UNPACKED if dear else ROWS) > 1]
    amount = vector_amount(facts, lane, 1 if outputs else 4)
    if attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(lane), amount)):
        room = kernel.target.registers - 4
        for one in outputs:
            shared = any(all(r.arg != one.arg for r in value.ranges()) for value in dear)
            most = UNPACKED if shared else ROWS
            room //= tile_axis(kernel, one, min(room, most), most)
    thread_rest(kernel)
    unroll_whole(kernel)


def unroll_short(kernel: Kernel) -> None:
    """Short reduce loops written out, and some rounds of a long one."""
    body = unroll_whole(kernel)
    longest = [r for r in kernel.reduce_axes if kind_of(r) is AxisType.REDUCE]
    if longest and body <= CODE_LIMIT // 8 and len(longest) == 1:
        size = size_of(longest[0])
        if size is not None and size % 4 == 0:
            attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(longest[0]), 4))


def unroll_whole(kernel: Kernel) -> int:
    """Short reduce loops written out, innermost first, as long as the body stays small; gives its
    size in copies.
    """
    copies = iterations(
        tuple(r for r in kernel.axes if kind_of(r) in (AxisType.UPCAST, AxisType.UNROLL))
    )
    body = max(1, copies // 4)
    for one in reversed(kernel.reduce_axes):
        size = size_of(one)
        if kind_of(one) is not AxisType.REDUCE or size is None:
            continue
        if size > SMALL_LOOP or body * size > CODE_LIMIT:
            break  # copies of what is around a loop share nothing
        attempt(kernel, Opt(OptOps.UNROLL, kernel.reduce_axes.index(one), 0))
        body *= size
    return body


# --- targets with groups --------------------------------------------------------------------------
def for_groups(kernel: Kernel) -> None:
    """Four neighbours an item where memory allows it; groups of up to 256 items; a group for each
    long reduction with few results.
    """
    facts = Facts.of(kernel)
    outputs = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL]
    results = iterations(tuple(outputs))
    longest = max(
        (r for r in kernel.reduce_axes if size_of(r)), key=lambda r: size_of(r) or 0, default=None
    )
    if longest is not None and results <= 1024 and (size_of(longest) or 0) >= 64:
        position = kernel.reduce_axes.index(longest)
        for items in (256, 64, 16):
            if attempt(kernel, Opt(OptOps.GROUPTOP, position, items)):
                return
    for one in reversed(outputs):
        if facts.score(one) > 0 and (size_of(one) or 0) % 4 == 0:
            attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(one), 4))
            break
    unroll_short(kernel)
    room = min(256, kernel.target.group_limit)
    for one in [r for r in reversed(kernel.axes) if kind_of(r) is AxisType.GLOBAL][:3]:
        size = size_of(one)
        items = next((n for n in (64, 32, 16, 8, 4, 2) if size and size % n == 0 and n <= room), 1)
        if items > 1 and attempt(kernel, Opt(OptOps.LOCAL, kernel.axes.index(one), items)):
            room //= items
