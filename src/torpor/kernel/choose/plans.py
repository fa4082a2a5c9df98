"""The plans for a summed product, which the cost model ranks: which axis runs along the vectors,
register tiles, what is packed and in which loop, blocks of the results and of the sum.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from math import ceil, gcd, inf, prod
from operator import itemgetter
from typing import Final

from torpor.base.target import LINE, Fragment, Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import cost
from torpor.kernel.choose.columns import tile_columns
from torpor.kernel.choose.roles import Roles, find_roles
from torpor.kernel.choose.tiling import (
    REUSE,
    Outlook,
    Plan,
    Setting,
    Tile,
    depth_loops,
    outer_loops,
    setting_of,
    step_cycles,
)
from torpor.kernel.choose.vectors import SPARE
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import has_known_lengths, iterations, size_of
from torpor.kernel.shuffles import SOURCES

PANELS_SHARE: Final = 2 / 3  # of packed memory that lanes may take; rows take the rest
DEPTH: Final = 512  # steps of a block of the sum, at most, a choice
HEIGHTS: Final = (32, 96, 256)  # rows of a block that are tried, a choice
PARTS: Final = (2, 4)  # of an axis of rows that threads share, a choice
REUSE_WINDOWS: Final = 3  # uses of what is copied, where windows share it too
KEPT: Final = 512  # kernels whose plans are kept: several rooms ask for the same ones
RECENT: dict[tuple[UOp, Target, UOp | None], list[tuple[float, Plan]]] = {}
WITHIN: Final = (
    2.0  # times the least that the first plan of a kind takes, of which all are compared
)
REFINED: Final = 12  # plans that are tried with other register tiles, and other ways to read rows
NO_MATRICES: Final[Mapping[UOp | None, int]] = {}
MOST_ROWS: Final = 16  # of a register tile: more of them only lengthen the code


def best_plans(kernel: Kernel, words: UOp | None = None) -> list[tuple[float, Plan]]:
    """Plans with their seconds, the quickest first, kept for a while; none where the kernel is no
    sum of products, or one for which another way is quicker. `words`: those that multiply matrices
    along this axis.
    """
    key = kernel.ast, kernel.target, words
    if key not in RECENT:
        if len(RECENT) > KEPT:
            RECENT.clear()
        RECENT[key] = ranked(kernel, words)
    return RECENT[key]


def ranked(kernel: Kernel, words: UOp | None) -> list[tuple[float, Plan]]:
    """What `best_plans` gives, found in two steps: plans with one register tile for each way to see
    the kernel as a product; then those like the best of these with other tiles, and with rows read
    otherwise.
    """
    ways = list(find_roles(kernel))
    if not ways:
        return []
    at = setting_of(kernel, words)
    columns = ways if tile_columns(kernel.copy()) else ()  # opts may be refused
    otherwise = min((down_columns(roles, at) for roles in columns), default=inf)
    tiles = {roles: shapes(roles, at) for roles in ways if is_shared(roles, at)}
    found: dict[Plan, float] = {}
    first = 1 if at.fragment is None else None  # of matrices all, which fit blocks or do not
    made = [
        [plan for tile in own[:first] for plan in plans(roles, at, tile)]
        for roles, own in tiles.items()
    ]
    for some in made:
        add(found, {kind_of_plan(plan): plan for plan in reversed(some)}.values(), at)
    near = min(found.values(), default=inf) * WITHIN
    kinds = {like(plan) for plan, taken in found.items() if taken <= near}
    for some in made:
        add(found, (plan for plan in some if like(plan) in kinds), at)
    similar = {(like(plan), plan.rows, plan.outer) for plan in quickest(found)}
    for roles, own in tiles.items():
        others = (plan for one in own[1:] for plan in plans(roles, at, one))
        add(found, (p for p in others if (like(p), p.rows, p.outer) in similar), at)
    if otherwise < min(found.values(), default=inf):
        return []
    add(found, (p for plan in quickest(found) for p in other_rows(plan, at)), at)
    return sorted(((taken, plan) for plan, taken in found.items()), key=itemgetter(0))


def like(plan: Plan) -> tuple[Roles, tuple[bool, ...]]:
    """What plans of a kind have in common that see the kernel as the same product."""
    return plan.roles, kind_of_plan(plan)


def add(found: dict[Plan, float], plans: Iterable[Plan], at: Setting) -> None:
    """Plans with their seconds, or, where arithmetic alone makes them slower than those near the
    best, with those that this takes.
    """
    fresh = {plan: Outlook(plan, at) for plan in plans if plan not in found}
    near = nsmallest(REFINED, found.values())
    for plan, outlook in sorted(fresh.items(), key=lambda one: one[1].least):
        slow = len(near) == REFINED and outlook.least > near[-1]
        found[plan] = outlook.least if slow else outlook.seconds()
        insort(near, found[plan])
        del near[REFINED:]


def quickest(found: dict[Plan, float]) -> list[Plan]:
    """Some plans that are near the best: of those alike but for how deep their blocks are, one."""
    best: dict[Plan, Plan] = {}
    for plan in sorted(found, key=found.__getitem__):
        best.setdefault(plan._replace(depth=(1,) if plan.depth else ()), plan)
        if len(best) == REFINED:
            break
    return [*best.values()]


def kind_of_plan(plan: Plan) -> tuple[bool, ...]:
    """What plans of a kind have in common: how lanes are packed, and whether sums and rows are in
    blocks.
    """
    return plan.packs, plan.image > 0, bool(plan.depth), plan.rows > 0


def is_shared(roles: Roles, at: Setting) -> bool:
    """Whether so many rows share what is packed, and vectors are so full, that it may pay."""
    least = REUSE_WINDOWS if roles.lead.windows(roles) else REUSE
    return iterations(roles.rows) >= least and roles.lanes >= at.width * (1 - SPARE)


def shapes(roles: Roles, at: Setting) -> list[Tile]:
    """The best register tiles, the very best first. A quarter of the registers is left to what
    products read.
    """
    if at.fragment is not None:
        return matrices(at.fragment, roles, at)
    lanes, room = roles.lanes, at.target.registers * 3 // 4 - 2 * (at.instructions - 1)
    most = min(MOST_ROWS, roles.height, rows_held(roles, at))
    tiles = [
        Tile(vectors * at.width, min(room // vectors, most))
        for vectors in range(1, 5)
        if vectors <= room and (vectors == 1 or (vectors - 1) * at.width < lanes)
    ]
    return nsmallest(2, tiles, key=lambda t: Outlook(Plan(roles, t, packs=True), at).computing[1])


def matrices(one: Fragment, roles: Roles, at: Setting) -> list[Tile]:
    """The best register tiles of matrices, those that few of their rows and columns only fill left
    out.
    """
    shapes = [
        Tile(wide * one.columns, high * one.rows)
        for high in range(1, one.registers)
        for wide in range(1, one.registers)
        if high * wide + high + wide <= one.registers
        and (high - 1) * one.rows < roles.height
        and (wide - 1) * one.columns < roles.lanes
    ]

    def time(tile: Tile) -> float:
        count = ceil(roles.lanes / tile.panel) * ceil(roles.height / tile.rows)
        return count * step_cycles(tile, one, at.target)

    return sorted(shapes, key=time)[:3]


def rows_held(roles: Roles, at: Setting) -> int:
    """Rows of which the first cache holds a line each: a power of two apart, they share sets."""
    apart = (roles.other.stride(roles.rows[-1]) or 0) * roles.other.value.dtype.itemsize
    return at.target.first_bytes // gcd(apart, cost.PAGE)


def plans(roles: Roles, at: Setting, tile: Tile) -> Iterator[Plan]:
    """Plans with these register tiles."""
    start = Plan(roles, tile)
    if at.fragment is None:  # the right one of two matrices is packed in any case
        yield from unpacked(start, at)
        yield from windowed(start)
    for deep in depths(start, at):
        for plan in blocks(deep, at):
            for tall in heights(plan, at):
                if has_loop(tall) and fits(tall, at):
                    yield from rows_read(tall, at)


def unpacked(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Lanes read where they are."""
    lead = plan.roles.lead
    if lead.value.op is Ops.LOAD and not lead.masked and are_vectors(plan.roles):
        for tall in heights(plan, at):
            yield from rows_read(tall, at)


def are_vectors(roles: Roles) -> bool:
    """Whether what runs along the lanes is read as vectors where it is: else none are formed."""
    return 0 < abs(roles.lead.stride(roles.lane) or 0) <= SOURCES


def has_loop(plan: Plan) -> bool:
    """Whether there is a loop that lanes can be packed in."""
    return bool(depth_loops(plan)) or prod(loop.rounds for loop in outer_loops(plan)) > 1


def depths(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Whole sums, and blocks of those of known length: of as many steps as a panel has room for;
    and, where matrices are multiplied, or sums go on from row to row, of half and a quarter of
    these, whose rows lie in fewer pages. What lies along the sum is packed in long runs.
    """
    yield plan
    sums = plan.roles.sums
    if not has_known_lengths(sums):
        return
    words = 1 if at.fragment is None else at.fragment.words
    most = min(DEPTH, packed_room(at) // (plan.roles.lead.value.dtype.itemsize * plan.tile.panel))
    seen = {iterations(sums)}
    in_runs = plan.roles.lead.stride(sums[-1]) == 1
    shallow = at.fragment is not None or (len(sums) > 1 and not in_runs)
    for steps in (most, most // 2, most // 4) if shallow else (most,):
        depth = depth_of(plan.roles, steps // words, {at.words: words})
        if prod(depth) not in seen and prod(depth) <= steps:
            seen.add(prod(depth))
            yield plan._replace(depth=depth)


def packed_room(at: Setting) -> int:
    """Bytes for lanes that are packed."""
    return int(at.target.stage_bytes * PANELS_SHARE)


def down_columns(roles: Roles, at: Setting) -> float:
    """Seconds where rows of memory are read a few at a time, from end to end, beside sums that grow
    in memory (`columns.py`).
    """
    tile, depth = shapes(roles, at)[0], depth_of(roles, cost.WAYS)
    if roles.lead.value.op is not Ops.LOAD or roles.lead.stride(roles.lane) != 1:
        return inf
    return Outlook(Plan(roles, tile, block=tile.panel, depth=depth), at).seconds()


def depth_of(
    roles: Roles, most: int, together: Mapping[UOp | None, int] = NO_MATRICES
) -> tuple[int, ...]:
    """Rounds of each summed axis in a block: divisors, up to `most` steps in all. Axes go first
    along which neighbours are nearest: lines are then read for one block only. `together`: so many
    rounds of an axis that are one step.
    """
    left = max(1, most)
    amounts: dict[UOp, int] = {}
    for one in reversed(roles.lead.near(roles.sums)):
        least = together.get(one, 1)
        size = (size_of(one) or 1) // least
        amount = max(n for n in range(1, min(left, size) + 1) if size % n == 0)
        left = left // amount if amount == size else 1
        amounts[one] = amount * least
    return tuple(amounts[one] for one in roles.sums)


def blocks(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Lanes packed at once: all, or blocks that have room."""
    panel, panels = plan.tile.panel, plan.panels
    itemsize = plan.roles.lead.value.dtype.itemsize
    reach = packed_room(at) // (prod(plan.steps) * itemsize * panel)
    if not reach:
        return
    least = ceil(panels / reach)
    for parts in sorted({least, 2 * least, 4 * least}):
        count = ceil(panels / parts)
        if parts <= panels:
            block = count * panel if count < panels else 0
            yield plan._replace(packs=True, block=block)


def heights(plan: Plan, at: Setting) -> Iterator[Plan]:
    """Rows of a thread's block: all, those of the inner axes of rows, parts of one of these, or of
    the last one, of whole matrices where these are multiplied.
    """
    least = 1 if at.fragment is None else plan.tile.rows
    rows, height = plan.roles.rows, plan.roles.height
    for outer, one in enumerate(rows):
        yield plan._replace(outer=outer)
        for count in PARTS if one is not rows[-1] else ():
            rounds, rest = divmod(size_of(one) or 1, count)
            if rounds > 1 and not rest:
                yield plan._replace(outer=outer, rows=rounds)
    outer, seen = len(rows) - 1, set()
    for most in HEIGHTS:
        parts = range(least, min(most, height) + 1, least)
        part = max((n for n in parts if height % n == 0), default=height)
        if part < height and 2 * part >= most and part not in seen:
            seen.add(part)
            yield plan._replace(outer=outer, rows=part)


def fits(plan: Plan, at: Setting) -> bool:
    """Whether partial results have room beside what is packed."""
    lanes = plan.block or plan.width
    taken = lanes * prod(plan.steps) * plan.roles.lead.value.dtype.itemsize
    if plan.depth:
        taken += lanes * prod(rounds for _, rounds in plan.inner) * at.itemsize
    return taken <= at.target.stage_bytes * PANELS_SHARE


def rows_read(plan: Plan, at: Setting) -> Iterator[Plan]:
    """The plan with rows read where they are if that may be, else packed some at a time."""
    other = plan.roles.other
    if at.fragment is not None:
        yield from rows_of_matrices(plan, at)
        return
    along = other.stride(plan.roles.sums[-1])
    near = along is not None and abs(along) * other.value.dtype.itemsize < LINE
    if other.value.op is Ops.LOAD and ((near and not other.masked) or not can_pack_rows(plan, at)):
        yield plan
    elif can_pack_rows(plan, at):
        yield plan._replace(together=rows_of_block(plan, at))


def rows_of_matrices(plan: Plan, at: Setting) -> Iterator[Plan]:
    """The plan with matrices read where they are, if their rows lie there, and there are enough;
    and with them packed.
    """
    other = plan.roles.other
    lie = at.words is not None and other.stride(at.words) == 1 and not other.masked
    whole = plan.height % plan.tile.rows == 0
    overlap = plan.height > plan.tile.rows and not plan.depth
    if lie and other.value.op is Ops.LOAD and (whole or overlap):
        yield plan
    if can_pack_rows(plan, at):
        yield plan._replace(together=rows_of_block(plan, at))


def other_rows(plan: Plan, at: Setting) -> Iterator[Plan]:
    """The plan with rows packed where they were not, and read where they are where they were."""
    if at.fragment is not None:
        return
    if plan.together and plan.roles.other.value.op is Ops.LOAD:
        yield plan._replace(together=0)
    elif not plan.together and not plan.image and can_pack_rows(plan, at):
        yield plan._replace(together=rows_of_block(plan, at))


def can_pack_rows(plan: Plan, at: Setting) -> bool:
    """Whether there is room and a loop to pack rows in."""
    together = rows_of_block(plan, at)
    if at.fragment is not None:
        return bool(together) and (has_loop(plan) or together < plan.height)
    nested = has_loop(plan) or together < plan.height
    return together > 1 and nested and not (plan.depth and plan.height % together)


def rows_of_block(plan: Plan, at: Setting) -> int:
    """How many rows are packed together: of two cache lines, if there is room."""
    itemsize = plan.roles.other.value.dtype.itemsize
    line = max(1, LINE // itemsize)
    room = int(at.target.stage_bytes * (1 - PANELS_SHARE)) // (prod(plan.steps) * itemsize)
    if at.fragment is not None:
        tiles = ceil(plan.height / plan.tile.rows)
        most = min(tiles, room // plan.tile.rows, max(1, 2 * line // plan.tile.rows))
        return max((n for n in range(1, most + 1) if tiles % n == 0), default=0) * plan.tile.rows
    return rows_together(plan.height, min(2 * line, room), line)


def rows_together(height: int, most: int, line: int) -> int:
    """How many rows are packed together: as many as divide them evenly, if these fill half a cache
    line.
    """
    most = max(1, min(most, height))
    even = max(n for n in range(1, most + 1) if height % n == 0)
    return even if even * 2 >= min(line, most) else most


def windowed(plan: Plan) -> Iterator[Plan]:
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
        yield plan._replace(packs=True, image=image)
