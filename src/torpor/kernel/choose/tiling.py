"""Ways to tile a summed product, as descriptions for the cost model: which register tiles, what is
packed in which loop, blocks of the results for threads, blocks of the sum.

    for block of results:                   # shared by threads: around, lanes, rows
      for block of the sum:                 # `depth`: partial results grow in memory
        copy lanes                          # or what windows slide over
        for rows packed together:
          copy rows                         # `together`
          for tile of rows, tile of lanes:
            for step of the sum: multiply-adds in registers
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import ceil, prod
from typing import Any, Final, NamedTuple

from torpor.base.target import WORD, Fragment, Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel import cost
from torpor.kernel.choose.roles import Operand, Roles
from torpor.kernel.cost import Loop, Nest, Stream
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import find_loops, iterations, size_of
from torpor.rules.affine import strides_of

NO_PACES: Final[Mapping[Any, int]] = {}
REUSE: Final = 16  # uses of each value, from which it pays to compute or to copy it before
UNROLLED: Final = 2  # steps of the sum written out: more of them only crowd the registers


class Tile(NamedTuple):
    """A register tile: `rows` rows of `panel` elements."""

    panel: int
    rows: int


class Plan(NamedTuple):
    """A way to tile. block: lanes of a block (0: all); outer: how many axes of rows threads share;
    rows: of the axis after these, in a block (0: all); depth: rounds of each summed axis in a block
    (empty: all); packs: how lanes are copied, if they are; image: rounds of the last axis around,
    in a block of which windows are copied; together: rows that are packed together (0: they are
    read where they are).
    """

    roles: Roles
    tile: Tile
    block: int = 0
    outer: int = 0
    rows: int = 0
    depth: tuple[int, ...] = ()
    packs: bool = False
    image: int = 0
    together: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """Rounds of each summed axis that results in registers add up."""
        return self.depth or tuple(iterations([r]) for r in self.roles.sums)

    @property
    def inner(self) -> list[tuple[UOp, int]]:
        """The axes of rows in a block, and their rounds there."""
        first, *others = self.roles.rows[self.outer :]
        sizes = [self.rows or size_of(first) or 1, *(size_of(r) or 1 for r in others)]
        return list(zip([first, *others], sizes, strict=True))

    @property
    def height(self) -> int:
        """Rows of a block along the last of their axes."""
        return self.inner[-1][1]

    @property
    def panels(self) -> int:
        """Register tiles along the lanes of a block."""
        return ceil((self.block or self.roles.lanes) / self.tile.panel)

    @property
    def width(self) -> int:
        """Lanes of a block, those that only fill its last tile too."""
        return self.panels * self.tile.panel


class Setting(NamedTuple):
    """What plans for one kernel have in common: elements of a vector, how its results are stored,
    instructions for a product; or the instruction that multiplies matrices of words, of which one
    axis of the sum is.
    """

    target: Target
    width: int
    stores: tuple[dict[UOp, int | None], ...]
    itemsize: int
    instructions: int
    fragment: Fragment | None = None
    words: UOp | None = None


def setting_of(kernel: Kernel, words: UOp | None = None) -> Setting:
    """What plans for a kernel have in common; along `words` they multiply matrices."""
    loops = find_loops(kernel.ast)
    stores = tuple(strides_of(s.src[0].src[1]) for s in kernel.ast.src)
    (reduction,) = [n for n in loops.order if n.op is Ops.REDUCE]
    is_dot = reduction.src[0].op is Ops.DOT
    size = max(reduction.dtype.itemsize, 4)
    fused = reduction.dtype.is_float or is_dot
    one = kernel.target.either_fragment(reduction.src[0].arg) if words is not None else None
    return Setting(
        kernel.target, kernel.target.lanes(size), stores, size, 1 if fused else 2, one, words
    )


# --- what a plan costs ----------------------------------------------------------------------------
class Outlook:
    """A plan as the cost model sees it, and the seconds that its arithmetic takes."""

    def __init__(self, plan: Plan, at: Setting):
        outer = outer_loops(plan)
        self.target = at.target
        self.blocks = prod(loop.rounds for loop in outer)
        self.nests = nests(plan, at, outer)
        self.computing = [cost.arithmetic(nest, at.target) for nest in self.nests]
        self.least = cost.waited(sum(self.computing) / at.target.clock, self.blocks)

    def seconds(self) -> float:
        """The seconds that the plan takes."""
        pairs = zip(self.nests, self.computing, strict=True)
        taken = sum(cost.with_transfers(*pair, self.target) for pair in pairs)
        return cost.waited(taken / self.target.clock, self.blocks)


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
        cut = roles.rows[plan.outer]
        loops.append(Loop(cut, (size_of(cut) or 1) // plan.rows, plan.rows))
    return loops


def depth_loops(plan: Plan) -> list[Loop]:
    """The loops over blocks of the sum."""
    pairs = zip(plan.roles.sums, plan.steps, strict=True)
    return [Loop(r, (size_of(r) or 1) // n, n) for r, n in pairs if n < (size_of(r) or 1)]


def rows_around(plan: Plan) -> list[Loop]:
    """The loops of a block over the axes of rows but for the last one."""
    return [Loop(r, rounds) for r, rounds in plan.inner[:-1]]


def nests(plan: Plan, at: Setting, outer: Sequence[Loop]) -> list[Nest]:
    """The copies and the products of a plan, as the cost model sees them."""
    around = [*outer, *depth_loops(plan)]
    level, made = len(around), []
    if plan.packs:
        made.append(copy_lanes(plan, at, around))
    if plan.image > 1:
        around.append(Loop(plan.roles.around[-1], plan.image))
    if plan.together:
        count = ceil(plan.height / plan.together)
        around.append(Loop(plan.roles.rows[-1], count, plan.together))
        made.append(copy_rows(plan, at, [*around, *rows_around(plan)]))
    made.append(products(plan, at, around, level))
    if plan.depth:
        made.append(store_sums(plan, at, outer))
    return made


def summed_loops(plan: Plan, at: Setting, unrolled: int) -> list[Loop]:
    """The loops over steps of the sum, and what of the last one, or of that over a matrix's words,
    is written out.
    """
    loops = [Loop(r, n, 1, summed=True) for r, n in zip(plan.roles.sums, plan.steps, strict=True)]
    if at.fragment is not None:
        loops.sort(key=lambda loop: loop.axis is at.words)
        unrolled = at.fragment.words
    last = loops[-1]
    if unrolled > 1 and last.rounds % unrolled == 0:
        loops[-1] = Loop(last.axis, last.rounds // unrolled, unrolled, summed=True)
        loops.append(Loop(last.axis, unrolled, 1, True, True))
    return loops


def products(plan: Plan, at: Setting, around: Sequence[Loop], inner: int) -> Nest:
    """The register tiles; lanes are packed inside the first `inner` loops."""
    roles, row, lane = plan.roles, plan.roles.rows[-1], plan.roles.lane
    height, panel = plan.together or plan.height, plan.tile.panel
    count = ceil(height / plan.tile.rows)
    high = plan.tile.rows if at.fragment is not None else ceil(height / count)
    sums = summed_loops(plan, at, UNROLLED if high * panel < cost.SUMS * at.width else 1)
    loops = [*around, *rows_around(plan)]
    loops += [Loop(row, count, high), Loop(lane, plan.panels, panel)]
    loops += [loop for loop in sums if not loop.written]
    loops += [loop for loop in sums if loop.written]
    loops += [Loop(row, high, 1, True), Loop(lane, panel, 1, True)]
    depth, place = prod(plan.steps), len(loops) - 1
    streams = [
        *(
            packed(loops, inner, roles.lead, roles, depth, panel)
            if plan.packs
            else read(roles.lead, loops, roles.lanes % panel > 0 and not at.target.masks)
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
    other = 0 if plan.together else roles.other.operations / panel * at.width
    body = 0.0 if at.fragment is None else step_cycles(plan.tile, at.fragment, at.target)
    return Nest(tuple(loops), tuple(streams), place, at.instructions + lead + other, body)


def step_cycles(tile: Tile, one: Fragment, target: Target) -> float:
    """Cycles for a step of a register tile of matrices: the unit's, those of sums that wait for
    themselves, those of reading rows from the first cache.
    """
    high, wide = tile.rows / one.rows, tile.panel / one.columns
    read = (high * one.rows + wide * one.words) * one.columns * WORD / target.load_bytes
    return max(high * wide * one.cycles, one.latency, read)


def read(operand: Operand, loops: Sequence[Loop], asks: bool = False) -> list[Stream]:
    """The streams of an operand that is read where it is; `asks`: in any case by a condition."""
    pairs = zip(operand.loads, operand.strides, strict=True)
    return [
        cost.stream(strides, load.dtype.itemsize, loops, masked=asks or len(load.src[0].src) > 2)
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
    row = plan.width * itemsize
    sizes: dict[Hashable, int] = {plan.roles.lane: itemsize, plan.roles.rows[-1]: row}
    count = row * plan.height
    for r, rounds in reversed(plan.inner[:-1]):
        sizes[r] = count
        count *= rounds
    moves = [
        0 if n < inner else sizes.get(loop.axis, 0) * loop.step for n, loop in enumerate(loops)
    ]
    return Stream(tuple(moves), itemsize, is_store=True, aligned=True)


def store_sums(plan: Plan, at: Setting, outer: Sequence[Loop]) -> Nest:
    """Partial results stored at the end."""
    roles = plan.roles
    lanes = plan.block or roles.lanes
    inner = len(outer)
    loops = [*outer, *rows_around(plan)]
    wide = min(at.width, lanes)
    loops += [Loop(roles.rows[-1], plan.height), Loop(roles.lane, ceil(lanes / wide), wide)]
    loops.append(Loop(roles.lane, wide, 1, True))
    sums = partial(loops, inner, plan, at.itemsize)._replace(is_store=False)
    stores = [cost.stream(s, at.itemsize, loops, is_store=True) for s in at.stores]
    return Nest(tuple(loops), (sums, *stores), len(loops) - 1)


def copy_lanes(plan: Plan, at: Setting, around: Sequence[Loop]) -> Nest:
    """The copy of what runs along the vectors. Windows: each element once."""
    roles = plan.roles
    lanes = plan.block or plan.width
    sizes = dict(zip(roles.sums, plan.steps, strict=True)) | {roles.lane: lanes}
    paces: dict[UOp, int] = {}
    if plan.image:
        for window in roles.lead.windows(roles):
            count = sizes.get(window.one, plan.image if window.one is roles.around[-1] else 1)
            sizes[window.one] = count * window.step + sizes.pop(window.summed) - 1
            paces[window.one] = window.step
    return copying(roles.lead, sizes, roles.lane, at, around, paces)


def copy_rows(plan: Plan, at: Setting, around: Sequence[Loop]) -> Nest:
    """The copy of rows that are packed together."""
    roles = plan.roles
    sizes = dict(zip(roles.sums, plan.steps, strict=True)) | {roles.rows[-1]: plan.together}
    if at.words is None:
        return copying(roles.other, sizes, roles.rows[-1], at, around)
    near = roles.other.near(list(sizes))[-1]  # vectors run along it; words are to lie side by side
    made = copying(roles.other, sizes, near, at, around)
    turned = cost.MOVED * at.width if near is not at.words else 0.0
    return made._replace(operations=made.operations + turned)


def copying(
    operand: Operand, sizes: dict[UOp, int], lane: UOp, at: Setting, around: Sequence[Loop],
    paces: Mapping[Any, int] = NO_PACES,
) -> Nest:  # fmt: skip
    """A copy over so many rounds of each axis: vectors of what lies side by side in both. A round
    of an axis with a pace is a place of a row over which windows slide, so many apart: vectors of
    them are taken apart.
    """
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
    operations = operand.operations + 2 * operand.masked + (paces.get(lane, 1) > 1)
    streams = [in_places(one, loops, len(around), paces) for one in read(operand, loops)]
    return Nest(tuple(loops), (*streams, stored), len(loops) - 1, max(1, operations))


def in_places(one: Stream, loops: Sequence[Loop], inner: int, paces: Mapping[Any, int]) -> Stream:
    """A stream whose inner loops with a pace go from place to place."""
    moves = [
        move if move is None or number < inner else move // paces.get(loop.axis, 1)
        for number, (move, loop) in enumerate(zip(one.moves, loops, strict=True))
    ]
    return one._replace(moves=tuple(moves))


def copy_seconds(count: int, itemsize: int, target: Target) -> float:
    """Seconds to copy so many elements into another order in a kernel of its own."""
    wide = target.lanes(itemsize)
    loops = Loop("copy", ceil(count / wide), wide), Loop("copy", wide, 1, True)
    read, stored = (cost.stream({"copy": 1}, itemsize, loops, store) for store in (False, True))
    return cost.seconds([Nest(loops, (read, stored), 1, wide * cost.MOVED)], target)
