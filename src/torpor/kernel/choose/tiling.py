"""Ways to tile a summed product, as descriptions for the cost model: which register tiles, what is
packed in which loop, blocks of the results for threads, blocks of the sum.

    for block of results:                   # shared by threads: around, lanes, rows
      for block of the sum:                 # `depth`: partial results grow in memory
        copy lanes                          # STAGE, or WINDOW: what windows slide over
        for rows packed together:
          copy rows                         # `together`
          for tile of rows, tile of lanes:
            for step of the sum: multiply-adds in registers
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import permutations
from math import ceil, inf, prod
from typing import Final, NamedTuple

from torpor.base.target import LINE, Target
from torpor.ir.ops import Ops
from torpor.ir.records import OptOps
from torpor.ir.uop import UOp
from torpor.kernel import cost
from torpor.kernel.choose.columns import find_columns
from torpor.kernel.choose.roles import Operand, Roles, find_roles
from torpor.kernel.cost import Loop, Nest, Stream
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import find_loops, iterations, size_of
from torpor.rules.affine import strides_of

UNROLLED: Final = 2  # steps of the sum written out: more of them only crowd the registers
PANELS_SHARE: Final = 2 / 3  # of packed memory that lanes may take; rows take the rest
DEPTHS: Final = (512, 192)  # steps of a block of the sum that are tried, a choice
HEIGHTS: Final = (32, 96, 256)  # rows of a block that are tried, a choice
REUSE: Final = 16  # rows that share a packed tile, below which sums are computed otherwise
REUSE_WINDOWS: Final = 3  # the same where windows share what is copied too
SPARE: Final = 0.25  # share of a vector that may be padding where the axis is shorter than one
KEPT: Final = 64  # kernels whose plans are kept: several rooms ask for the same ones
RECENT: dict[tuple[UOp, Target], list[tuple[float, Plan]]] = {}
WAYS_TRIED: Final = 2  # ways to see a kernel as a product of which all plans are compared
REFINED: Final = 6  # plans of which those are compared that read rows otherwise
MOST_ROWS: Final = 14  # of a register tile: more of them only lengthen the code


class Strip(NamedTuple):
    """Elements of an axis that register tiles of `rows` rows of `panel` elements cover."""

    lanes: int
    panel: int
    rows: int

    @property
    def padded(self) -> int:
        """The elements that the tiles compute."""
        return ceil(self.lanes / self.panel) * self.panel


class Plan(NamedTuple):
    """A way to tile. block: lanes of a block (0: all); outer: how many axes of rows threads share;
    rows: of a block (0: all); depth: rounds of each summed axis in a block (empty: all); packs: how
    lanes are copied, if they are; image: rounds of the last axis around, in a block of which
    windows are copied; together: rows that are packed together (0: they are read where they are).
    """

    roles: Roles
    strips: tuple[Strip, ...]
    block: int = 0
    outer: int = 0
    rows: int = 0
    depth: tuple[int, ...] = ()
    packs: OptOps | None = None
    image: int = 0
    together: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """Rounds of each summed axis that results in registers add up."""
        return self.depth or tuple(size_of(r) or 1 for r in self.roles.sums)

    @property
    def height(self) -> int:
        """Rows of a block."""
        return self.rows or self.roles.height

    @property
    def panels(self) -> int:
        """Register tiles along the lanes of a block."""
        strip = self.strips[0]
        return ceil((self.block or strip.lanes) / strip.panel)


class Setting(NamedTuple):
    """What plans for one kernel have in common: elements of a vector, how its results are stored,
    instructions for a product.
    """

    target: Target
    width: int
    stores: tuple[dict[UOp, int | None], ...]
    itemsize: int
    instructions: int


def setting_of(kernel: Kernel) -> Setting:
    """What plans for a kernel have in common."""
    loops = find_loops(kernel.ast)
    stores = tuple(strides_of(s.src[0].src[1]) for s in kernel.ast.src)
    (reduction,) = [n for n in loops.order if n.op is Ops.REDUCE]
    words = any(opt.op in (OptOps.PAIR, OptOps.QUAD) for opt in kernel.opts)
    size = max(reduction.dtype.itemsize, 4)
    fused = reduction.dtype.is_float or words
    return Setting(kernel.target, kernel.target.lanes(size), stores, size, 1 if fused else 2)


# --- what a plan costs ----------------------------------------------------------------------------
def predicted(plan: Plan, at: Setting) -> float:
    """Seconds for a plan."""
    outer = outer_loops(plan)
    blocks = prod(loop.rounds for loop in outer)
    return cost.seconds(nests(plan, at), at.target, blocks)


def outer_loops(plan: Plan) -> list[Loop]:
    """What threads share."""
    roles = plan.roles
    loops = [Loop(r, size_of(r) or 1) for r in roles.around]
    if plan.image and loops:
        last = loops[-1]
        loops[-1] = Loop(last.axis, last.rounds // plan.image, plan.image)
    if plan.block:
        loops.append(Loop(roles.lane, ceil(roles.lanes / plan.block), plan.block))
    loops += [Loop(r, size_of(r) or 1) for r in roles.rows[: plan.outer]]
    if plan.rows:
        loops.append(Loop(roles.rows[-1], roles.height // plan.rows, plan.rows))
    return loops


def depth_loops(plan: Plan) -> list[Loop]:
    """The loops over blocks of the sum."""
    pairs = zip(plan.roles.sums, plan.steps, strict=True)
    return [Loop(r, (size_of(r) or 1) // n, n) for r, n in pairs if n < (size_of(r) or 1)]


def nests(plan: Plan, at: Setting) -> list[Nest]:
    """The copies and the products of a plan, as the cost model sees them."""
    around = [*outer_loops(plan), *depth_loops(plan)]
    made = []
    if plan.packs is not None:
        made.append(copy_lanes(plan, at, around))
    inner = []
    if plan.image > 1:
        inner.append(Loop(plan.roles.around[-1], plan.image))
    if plan.together:
        tiles = ceil(plan.height / plan.together)
        inner.append(Loop(plan.roles.rows[-1], tiles, plan.together))
        made.append(copy_rows(plan, at, [*around, *inner]))
    for strip in plan.strips:
        made.append(products(plan, strip, at, [*around, *inner]))
    if plan.depth:
        made.append(store_sums(plan, at))
    return made


def summed_loops(plan: Plan, unrolled: int) -> list[Loop]:
    """The loops over steps of the sum, and what of the last one is written out."""
    loops = [Loop(r, n, 1, summed=True) for r, n in zip(plan.roles.sums, plan.steps, strict=True)]
    last = loops[-1]
    if unrolled > 1 and last.rounds % unrolled == 0:
        loops[-1] = Loop(last.axis, last.rounds // unrolled, unrolled, summed=True)
        loops.append(Loop(last.axis, unrolled, 1, True, True))
    return loops


def products(plan: Plan, strip: Strip, at: Setting, around: Sequence[Loop]) -> Nest:
    """The register tiles of one strip."""
    roles, row, lane = plan.roles, plan.roles.rows[-1], plan.roles.lane
    height = plan.together or plan.height
    tiles = ceil(height / strip.rows)
    high = ceil(height / tiles)
    lanes = min(plan.block or strip.lanes, strip.padded)
    sums = summed_loops(plan, UNROLLED)
    loops = [*around]
    loops += [Loop(r, size_of(r) or 1) for r in roles.rows[plan.outer : -1]]
    loops += [Loop(row, tiles, high), Loop(lane, ceil(lanes / strip.panel), strip.panel)]
    loops += [loop for loop in sums if not loop.written]
    loops += [loop for loop in sums if loop.written]
    loops += [Loop(row, high, 1, True), Loop(lane, strip.panel, 1, True)]
    inner = len(outer_loops(plan)) + len(depth_loops(plan))
    depth, place = prod(plan.steps), len(loops) - 1
    streams = [
        *(
            packed(loops, inner, roles.lead, roles, depth, strip.panel)
            if plan.packs is not None
            else read(roles.lead, loops, strip.lanes < strip.padded)
        ),
        *(
            packed(loops, len(around), roles.other, roles, depth, high)
            if plan.together
            else read(roles.other, loops)
        ),
    ]
    if plan.depth:
        streams.append(partial(loops, inner, plan, at.itemsize))
    else:
        streams += [cost.stream(s, at.itemsize, loops, is_store=True) for s in at.stores]
    lead = 0 if plan.packs else roles.lead.operations / high
    other = 0 if plan.together else roles.other.operations / strip.panel * at.width
    return Nest(tuple(loops), tuple(streams), place, at.instructions + lead + other)


def read(operand: Operand, loops: Sequence[Loop], padded: bool = False) -> list[Stream]:
    """The streams of an operand that is read where it is; `padded`: some of it is not there."""
    pairs = zip(operand.loads, operand.strides, strict=True)
    return [
        cost.stream(strides, load.dtype.itemsize, loops, masked=padded or len(load.src[0].src) > 2)
        for load, strides in pairs
    ]


def packed(
    loops: Sequence[Loop], inner: int, operand: Operand, roles: Roles, depth: int, wide: int
) -> list[Stream]:
    """The stream of a packed operand: panels of `wide` elements for each of `depth` steps. It lies
    in the same memory in all rounds of the first `inner` loops.
    """
    itemsize = operand.value.dtype.itemsize
    own = roles.lane if operand is roles.lead else roles.rows[-1]
    steps = dict.fromkeys(roles.sums, 1)
    count = 1
    for r in reversed(roles.sums):
        steps[r] = count
        count *= max((n.rounds * n.step for n in loops[inner:] if n.axis is r), default=1)
    moves = []
    for number, loop in enumerate(loops):
        if number < inner or (loop.axis is not own and loop.axis not in steps):
            moves.append(0)
        elif loop.axis is own:
            moves.append(itemsize * (1 if loop.written else depth * wide))
        else:
            moves.append(itemsize * wide * steps[loop.axis] * loop.step)
    return [Stream(tuple(moves), itemsize, aligned=True)]


def partial(loops: Sequence[Loop], inner: int, plan: Plan, itemsize: int) -> Stream:
    """The stream of partial results in memory."""
    lanes = plan.panels * plan.strips[0].panel
    sizes: dict[Hashable, int] = {plan.roles.lane: itemsize, plan.roles.rows[-1]: lanes * itemsize}
    count = lanes * plan.height * itemsize
    for r in reversed(plan.roles.rows[plan.outer : -1]):
        sizes[r] = count
        count *= size_of(r) or 1
    moves = [
        0 if n < inner else sizes.get(loop.axis, 0) * loop.step for n, loop in enumerate(loops)
    ]
    return Stream(tuple(moves), itemsize, is_store=True, aligned=True)


def store_sums(plan: Plan, at: Setting) -> Nest:
    """Partial results stored at the end."""
    roles = plan.roles
    lanes = plan.block or roles.lanes
    loops = outer_loops(plan)
    inner = len(loops)
    loops += [Loop(r, size_of(r) or 1) for r in roles.rows[plan.outer : -1]]
    wide = min(at.width, lanes)
    loops += [Loop(roles.rows[-1], plan.height), Loop(roles.lane, ceil(lanes / wide), wide)]
    loops.append(Loop(roles.lane, wide, 1, True))
    sums = partial(loops, inner, plan, at.itemsize)._replace(is_store=False)
    stores = [cost.stream(s, at.itemsize, loops, is_store=True) for s in at.stores]
    return Nest(tuple(loops), (sums, *stores), len(loops) - 1)


def copy_lanes(plan: Plan, at: Setting, around: Sequence[Loop]) -> Nest:
    """The copy of what runs along the vectors. Windows: each element once."""
    roles = plan.roles
    lanes = plan.block or sum(strip.padded for strip in plan.strips)
    sizes = dict(zip(roles.sums, plan.steps, strict=True)) | {roles.lane: lanes}
    if plan.packs is OptOps.WINDOW:
        for window in roles.lead.windows(roles):
            count = sizes.get(window.one, plan.image if window.one is roles.around[-1] else 1)
            sizes[window.one] = count * window.step + sizes.pop(window.summed) - 1
    return copying(roles.lead, sizes, roles.lane, at, around)


def copy_rows(plan: Plan, at: Setting, around: Sequence[Loop]) -> Nest:
    """The copy of rows that are packed together."""
    roles = plan.roles
    sizes = dict(zip(roles.sums, plan.steps, strict=True)) | {roles.rows[-1]: plan.together}
    return copying(roles.other, sizes, roles.rows[-1], at, around)


def copying(
    operand: Operand, sizes: dict[UOp, int], lane: UOp, at: Setting, around: Sequence[Loop]
) -> Nest:
    """A copy over so many rounds of each axis: vectors of what lies side by side in both."""
    order = operand.near(list(sizes))
    wide = min(at.width, sizes[lane])
    loops = [*around]
    loops += [
        Loop(r, ceil(sizes[r] / wide), wide) if r is lane else Loop(r, sizes[r]) for r in order
    ]
    loops.append(Loop(lane, wide, 1, True))
    itemsize = operand.value.dtype.itemsize
    moves, count = [0] * len(around), prod(sizes.values()) * itemsize
    for r in order:
        count //= sizes[r]
        moves.append(count * (wide if r is lane else 1))
    moves.append(itemsize)
    stored = Stream(tuple(moves), itemsize, is_store=True, aligned=True)
    operations = operand.operations + 2 * operand.masked
    return Nest(tuple(loops), (*read(operand, loops), stored), len(loops) - 1, max(1, operations))


def copy_seconds(count: int, itemsize: int, target: Target) -> float:
    """Seconds to copy so many elements into another order in a kernel of its own."""
    wide = target.lanes(itemsize)
    loops = Loop("copy", ceil(count / wide), wide), Loop("copy", wide, 1, True)
    read, stored = (cost.stream({"copy": 1}, itemsize, loops, store) for store in (False, True))
    return cost.seconds([Nest(loops, (read, stored), 1, wide * cost.MOVED)], target)


# --- which plans there are ------------------------------------------------------------------------
def best_plans(kernel: Kernel) -> list[tuple[float, Plan]]:
    """Plans with their seconds, the quickest first; none where the kernel is no sum of products, or
    one for which another way is quicker.
    """
    key = kernel.ast, kernel.target
    if key not in RECENT:
        if len(RECENT) > KEPT:
            RECENT.clear()
        RECENT[key] = ranked(kernel)
    return RECENT[key]


def ranked(kernel: Kernel) -> list[tuple[float, Plan]]:
    """The same, found."""
    ways = list(find_roles(kernel))
    if not ways:
        return []
    at = setting_of(kernel)
    otherwise = [along_sums(roles, at) for roles in ways]
    if find_columns(kernel) is not None:
        otherwise += [down_columns(roles, at) for roles in ways]
    ways = [roles for roles in ways if is_shared(roles, at)]
    begun = [min(timed(starts(roles, at), at), key=seconds_of, default=None) for roles in ways]
    firsts = sorted((one for one in begun if one is not None), key=seconds_of)
    found: list[tuple[float, Plan]] = []
    for _, first in firsts[:WAYS_TRIED]:
        roles = first.roles
        found += timed((p for s in shapes(roles, at) for p in plans(roles, at, s)), at)
    found.sort(key=seconds_of)
    if found and min(otherwise) < found[0][0]:
        return []
    found += timed((p for _, plan in found[:REFINED] for p in other_rows(plan, at)), at)
    return sorted(found, key=seconds_of)


def is_shared(roles: Roles, at: Setting) -> bool:
    """Whether so many rows share what is packed, and vectors are so full, that it may pay."""
    least = REUSE_WINDOWS if roles.lead.windows(roles) else REUSE
    return iterations(roles.rows) >= least and roles.lanes >= at.width * (1 - SPARE)


def timed(plans: Iterable[Plan], at: Setting) -> list[tuple[float, Plan]]:
    """Plans with their seconds."""
    return [(predicted(plan, at), plan) for plan in plans]


def seconds_of(timed: tuple[float, Plan]) -> float:
    return timed[0]


def starts(roles: Roles, at: Setting) -> Iterator[Plan]:
    """A few plans of each kind, by which roles are compared."""
    strips = next(s for s in shapes(roles, at) if len(s) == 1)
    seen = set()
    for plan in plans(roles, at, strips):
        kind = plan.packs, bool(plan.depth), plan.rows > 0
        if kind not in seen:
            seen.add(kind)
            yield plan


def shapes(roles: Roles, at: Setting) -> list[tuple[Strip, ...]]:
    """Register tiles, the best first: of one kind, or of two one after the other for an axis that
    one kind pads. A quarter of the registers is left to what products read.
    """
    lanes, room = roles.lanes, at.target.registers * 3 // 4 - 2 * (at.instructions - 1)
    tiles = [
        (vectors, min(room // vectors, MOST_ROWS, roles.height))
        for vectors in range(1, 5)
        if vectors <= room and (vectors == 1 or (vectors - 1) * at.width < lanes)
    ]
    single = [(Strip(lanes, v * at.width, rows),) for v, rows in tiles]
    single.sort(key=lambda strips: tiles_time(strips, at))
    pairs = [
        (Strip(cut, v * at.width, rows), Strip(lanes - cut, w * at.width, more))
        for (v, rows), (w, more) in permutations(tiles, 2)
        for cut in whole_tiles(lanes, v * at.width)
    ]
    best = min(pairs, key=lambda strips: tiles_time(strips, at), default=None)
    worth = best is not None and tiles_time(best, at) < tiles_time(single[0], at)
    return [*single[:2], *([best] if worth and best is not None else [])]


def whole_tiles(lanes: int, panel: int) -> list[int]:
    """Lanes that whole tiles cover, but for two at least: all of those, and a tile less."""
    most = lanes // panel * panel
    return [cut for cut in (most, most - panel) if 0 < cut < lanes - 1]


def tiles_time(strips: Sequence[Strip], at: Setting) -> float:
    """Cycles for a step of all the tiles along the lanes, for one row."""
    return sum(tile_time(strip, at) for strip in strips)


def tile_time(strip: Strip, at: Setting) -> float:
    """Cycles for a step of all the tiles along the lanes, for one row."""
    vectors = strip.panel // at.width
    target, products = at.target, vectors * strip.rows * at.instructions
    reads = vectors * max(target.vector_bytes / target.load_bytes, 0.5) + strip.rows / 2
    waits = target.latency * at.instructions
    step = max(products / target.multiply_adds, reads, waits, (products + 2 * reads) / target.issue)
    return strip.padded / strip.panel * step / strip.rows


def plans(roles: Roles, at: Setting, strips: tuple[Strip, ...]) -> Iterator[Plan]:
    """Plans with these register tiles."""
    start = Plan(roles, strips)
    if roles.lead.value.op is Ops.LOAD:
        for plan in heights(start):
            yield from rows_read(plan, at)
    yield from windowed(start, at)
    for deep in depths(start, at):
        for plan in blocks(deep, at):
            for tall in heights(plan):
                if has_loop(tall) and fits(tall, at):
                    yield from rows_read(tall, at)


def has_loop(plan: Plan) -> bool:
    """Whether there is a loop that lanes can be packed in."""
    return bool(depth_loops(plan)) or prod(loop.rounds for loop in outer_loops(plan)) > 1


def depths(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Whole sums, and blocks of them."""
    yield plan
    length = iterations(plan.roles.sums)
    for most in DEPTHS:
        if len(plan.strips) == 1 and 2 * most <= max(length, 2 * DEPTHS[-1]) and length > most:
            yield plan._replace(depth=depth_of(plan.roles, most))


def along_sums(roles: Roles, at: Setting) -> float:
    """Seconds where vectors run along the sum, and a few results of both axes share what is read:
    what is left to those who choose opts for other sums.
    """
    summed = roles.sums[-1]
    if roles.lead.stride(summed) != 1 or roles.other.stride(summed) != 1:
        return inf
    row, lane = roles.rows[-1], roles.lane
    high, wide = (next(n for n in (4, 3, 2, 1) if (size_of(r) or 1) % n == 0) for r in (row, lane))
    steps, length = min(at.width, size_of(summed) or 1), size_of(summed) or 1
    loops = [Loop(r, size_of(r) or 1) for r in (*roles.around, *roles.rows[:-1])]
    loops += [Loop(row, roles.height // high, high), Loop(lane, roles.lanes // wide, wide)]
    blocks = prod(loop.rounds for loop in loops)
    loops += [Loop(r, size_of(r) or 1, 1, summed=True) for r in roles.sums[:-1]]
    loops.append(Loop(summed, ceil(length / steps), steps, summed=True))
    loops += [Loop(row, high, 1, True), Loop(lane, wide, 1, True), Loop(summed, steps, 1, True)]
    streams = (*read(roles.lead, loops), *read(roles.other, loops))
    results = iterations(roles.order())
    ends = results * steps * cost.MOVED / at.target.clock
    nest = Nest(tuple(loops), streams, len(loops) - 1, at.instructions)
    return cost.seconds([nest], at.target, blocks) + ends


def down_columns(roles: Roles, at: Setting) -> float:
    """Seconds where rows of memory are read a few at a time, from end to end, beside sums that grow
    in memory (`columns.py`).
    """
    strip = next(s for s in shapes(roles, at) if len(s) == 1)[0]
    depth = depth_of(roles, cost.WAYS)
    if roles.lead.value.op is not Ops.LOAD or roles.lead.stride(roles.lane) != 1:
        return inf
    return predicted(Plan(roles, (strip,), block=strip.panel, depth=depth), at)


def depth_of(roles: Roles, most: int) -> tuple[int, ...]:
    """Rounds of each summed axis in a block: divisors, up to `most` steps in all. Axes go first
    along which neighbours are nearest: lines are then read for one block only.
    """
    left = most
    amounts: dict[UOp, int] = {}
    for one in reversed(roles.lead.near(roles.sums)):
        size = size_of(one) or 1
        amount = max(n for n in range(1, min(left, size) + 1) if size % n == 0)
        left = left // amount if amount == size else 1
        amounts[one] = amount
    return tuple(amounts[one] for one in roles.sums)


def blocks(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Lanes packed at once: all, or blocks that have room."""
    strip, depth = plan.strips[0], prod(plan.steps)
    itemsize = plan.roles.lead.value.dtype.itemsize
    reach = int(at.target.stage_bytes * PANELS_SHARE) // (depth * itemsize * strip.panel)
    panels = plan.panels
    if len(plan.strips) > 1:
        if sum(s.padded for s in plan.strips) <= reach * strip.panel:
            yield plan._replace(packs=OptOps.STAGE)
        return
    if not reach:
        return
    least = ceil(panels / reach)
    for parts in sorted({least, 2 * least, 4 * least}):
        count = ceil(panels / parts)
        if parts <= panels:
            block = count * strip.panel if count < panels else 0
            yield plan._replace(packs=OptOps.STAGE, block=block)


def heights(plan: Plan) -> Iterator[Plan]:
    """Rows of a thread's block: all, those of the inner axes of rows, or parts of the last one."""
    rows, height = plan.roles.rows, plan.roles.height
    for outer in range(len(rows)):
        yield plan._replace(outer=outer)
    outer, seen = len(rows) - 1, set()
    for most in HEIGHTS:
        part = max(n for n in range(1, min(most, height) + 1) if height % n == 0)
        if part < height and 2 * part >= most and part not in seen:
            seen.add(part)
            yield plan._replace(outer=outer, rows=part)


def fits(plan: Plan, at: Setting) -> bool:
    """Whether partial results have room beside what is packed."""
    lanes = sum(s.padded for s in plan.strips) if not plan.block else plan.block
    taken = lanes * prod(plan.steps) * plan.roles.lead.value.dtype.itemsize
    if plan.depth:
        inner = iterations(plan.roles.rows[plan.outer : -1])
        taken += lanes * plan.height * inner * at.itemsize
    return taken <= at.target.stage_bytes * PANELS_SHARE


def rows_read(plan: Plan, at: Setting) -> Iterator[Plan]:
    """The plan with rows read where they are if that may be, else packed some at a time."""
    other = plan.roles.other
    along = other.stride(plan.roles.sums[-1])
    near = along is not None and abs(along) * other.value.dtype.itemsize < LINE
    if other.value.op is Ops.LOAD and (near or not can_pack_rows(plan, at)):
        yield plan
    elif can_pack_rows(plan, at):
        yield plan._replace(together=rows_of_block(plan, at))


def other_rows(plan: Plan, at: Setting) -> Iterator[Plan]:
    """The plan with rows packed where they were not, and read where they are where they were."""
    if plan.together and plan.roles.other.value.op is Ops.LOAD:
        yield plan._replace(together=0)
    elif not plan.together and plan.packs is not OptOps.WINDOW and can_pack_rows(plan, at):
        yield plan._replace(together=rows_of_block(plan, at))


def can_pack_rows(plan: Plan, at: Setting) -> bool:
    """Whether there is room and a loop to pack rows in."""
    together = rows_of_block(plan, at)
    nested = has_loop(plan) or together < plan.height
    whole = len(plan.strips) == 1 and not (plan.depth and plan.height % together)
    return together > 1 and nested and whole


def rows_of_block(plan: Plan, at: Setting) -> int:
    """How many rows are packed together: of two cache lines, if there is room."""
    itemsize = plan.roles.other.value.dtype.itemsize
    line = max(1, LINE // itemsize)
    room = int(at.target.stage_bytes * (1 - PANELS_SHARE)) // (prod(plan.steps) * itemsize)
    return rows_together(plan.height, min(2 * line, room), line)


def rows_together(height: int, most: int, line: int) -> int:
    """How many rows are packed together: as many as divide them evenly, if these fill half a cache
    line.
    """
    most = max(1, min(most, height))
    even = max(n for n in range(1, most + 1) if height % n == 0)
    return even if even * 2 >= min(line, most) else most


def windowed(plan: Plan, at: Setting) -> Iterator[Plan]:
    """What windows slide over, copied with its borders: of some rows of an image."""
    roles = plan.roles
    windows = roles.lead.windows(roles)
    if not windows or not roles.around:
        return
    rows = roles.around[-1]
    height = size_of(rows) or 1
    slides = any(window.one is rows for window in windows)
    for image in [n for n in (8, 7, 6, 5, 4, 3, 2, 1) if height % n == 0][: 3 if slides else 0] or [
        1
    ]:
        yield plan._replace(packs=OptOps.WINDOW, image=image)
