"""Tiles of columns that an index condition makes constant are neither computed nor read.

before  for each block of rows: s = where(column <= row, q @ k.T, -inf); p = exp(s - m); o = p @ v
after   for each block of rows, and each tile of its columns that has some column <= row: the same

A kernel whose results run over the columns, or that is one sum over them, runs once for each tile;
one with several passes over a row has loops over as many tiles as there are. Where tiles do not
divide a row, the last one is shorter, by kernels of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from torpor.base import settings
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.schedule.chain import BLOCK_NUMBER, Chain, can_grow, counts_blocks
from torpor.schedule.columns import COLUMN, FALSE, Columns, columns_of, conditions, needless

# Measured with causal attention, see bench/results/constants.md.
PARTS: Final = 8  # tiles of a row, and blocks of the rows: more save more, and each does less
WIDEST: Final = 128  # columns of a tile, and rows of a block, from which more parts do enough each
FEWEST: Final = 4  # tiles of a row: with fewer a mask leaves out less than a quarter
NARROWEST: Final = 4  # vectors of columns in a tile, by choice
ITEMSIZE: Final = 4  # bytes of a column of such vectors, as a rule

Round = dict[str, int]
Rounds = Callable[[tuple[int, ...]], Sequence[Round]]

TILE, FIRST, LAST, START, COUNT = (
    BLOCK_NUMBER.format(name) for name in ("tile", "first", "last", "start", "count")
)
SHORT: Final = "short"  # of a Round: whether it takes the kernel of the last, shorter tile


class Launches(NamedTuple):
    """A kernel of a block of rows, and with which numbers it runs in the block of these numbers.

    rows:  its ranges that count the rows of the block.
    short: its ast for the last tile, where that is shorter.
    phase: kernels of one phase take turns, a round each.
    """

    item: ScheduleItem
    rows: frozenset[UOp]
    rounds: Rounds
    short: UOp | None = None
    phase: int | None = None


def once(numbers: tuple[int, ...]) -> Sequence[Round]:
    """One round without numbers of its own."""
    return ({},)


def without_needless(chain: Chain, counts: tuple[int, ...], target: Target) -> list[Launches]:
    """The kernels of one block of rows, without tiles of columns that nobody needs."""
    whole = [Launches(*one, once) for one in zip(chain.items, chain.cut, strict=True)]
    columns = None if settings.number("STRICT_FLOAT") else columns_of(chain)
    tiles = columns and tiles_of(columns, counts, target.lanes(ITEMSIZE), WIDEST, loops=True)
    if not columns or not tiles or not tiles.conditions:
        return whole
    own = (found for _, found in columns.ranges)
    return [tiled(*one, tiles) for one in zip(whole, own, strict=True)]


def tiles_of(
    columns: Columns, counts: tuple[int, ...], lanes: int, widest: int, loops: bool = False
) -> Tiles | None:
    """The tiles of a row (of whole vectors of `lanes`, about `widest` columns at most; `counts` and
    `loops` as in `Tiles`), with the conditions by which some are left out; None without tiles.
    """
    width = tile_width(columns.width, lanes, widest)
    if not width:
        return None
    found = [c for c in conditions(columns) if needless(columns, c)]
    tiles = Tiles(columns, width, found, counts, loops)
    return tiles if found and tiles.cover() else Tiles(columns, width, [], counts)


def tile_width(columns: int, lanes: int, widest: int) -> int | None:
    """How many columns a tile has: whole vectors of `lanes`, a divisor of all where one is near."""
    wanted = min(columns // PARTS, widest)
    least, most = NARROWEST * lanes, min(columns // FEWEST, widest)
    even = [n for n in range(least, most + 1, lanes) if columns % n == 0]
    best = min(even, key=partial(apart, wanted), default=None)
    if best is not None and apart(wanted, best) < math.log(2):
        return best
    return max(wanted // lanes * lanes, least) if least <= most else None


def apart(wanted: int, width: int) -> float:
    """How far a width is from the one that is wanted."""
    return abs(math.log(width / wanted))


def masked_rows(items: Sequence[ScheduleItem], cut: Sequence[frozenset[UOp]]) -> bool:
    """Whether some item chooses by a condition on its row and another of its axes."""
    for item, rows in zip(items, cut, strict=True):
        for node in item.ast.toposort():
            if node.op is Ops.WHERE:
                condition = node.src[0].toposort()
                ranges = {n for n in condition if n.op is Ops.RANGE}
                whole = any(n.op is Ops.REDUCE for n in condition)  # about a row, not its elements
                if len(ranges) > 1 and ranges & rows and not whole:
                    return True
    return False


# --- which tiles some element is needed of --------------------------------------------------------
@dataclass
class Tiles:
    """Tiles of `width` columns; of each at least one of the `conditions` fails where it is dead.
    Kernels with `loops` over them meet no shorter one but with all others.
    """

    columns: Columns
    width: int
    conditions: list[UOp]
    counts: tuple[int, ...]
    loops: bool = False
    known: dict[tuple[tuple[str, int], ...], range] = field(default_factory=dict)
    used: list[tuple[str, int]] | None = None

    @property
    def total(self) -> int:
        return -(-self.columns.width // self.width)

    @property
    def rest(self) -> int:
        """Columns of the last tile, where these are fewer; else 0."""
        return self.columns.width % self.width

    def alive(self, numbers: tuple[int, ...]) -> range:
        """The tiles from the first to the last one needed, one at least: what is NaN for a whole
        row then is where it is summed.
        """
        here = tuple((name, numbers[level]) for name, level in self.levels())
        if here not in self.known:
            found = [tile for tile in range(self.total) if self.needed(dict(here), tile)] or [0]
            all_needed = self.loops and self.short(found[-1])
            self.known[here] = range(0 if all_needed else found[0], found[-1] + 1)
        return self.known[here]

    def short(self, tile: int) -> bool:
        """Whether this is a shorter tile than others."""
        return self.rest > 0 and tile == self.total - 1

    def levels(self) -> list[tuple[str, int]]:
        """The numbers of blocks that the conditions are about: name and level."""
        if self.used is None:
            names = {n.arg[0] for c in self.conditions for n in c.toposort() if counts_blocks(n)}
            every = ((BLOCK_NUMBER.format(level), level) for level in range(len(self.counts)))
            self.used = [(name, level) for name, level in every if name in names]
        return self.used

    def needed(self, numbers: dict[str, int], tile: int) -> bool:
        """Whether all conditions may hold somewhere in a tile of the block of these numbers."""
        for one in self.conditions:
            known = {
                n: UOp.index_const(numbers[n.arg[0]]) for n in one.toposort() if counts_blocks(n)
            }
            if not possible(one.substitute(known), tile, self.width):
                return False
        return True

    def cover(self) -> bool:
        """Whether something can be left out, and each tile is needed in some block of rows."""
        outer = (0,) * (len(self.counts) - 1)
        blocks = [self.alive((*outer, n)) for n in range(self.counts[-1])]
        every = {tile for block in blocks for tile in block}
        return len(every) == self.total and any(len(block) < self.total for block in blocks)

    def each(self, numbers: tuple[int, ...]) -> list[Round]:
        """A round for each tile. A sum over the tiles starts with the first one."""
        alive = self.alive(numbers)
        return [self.round(n, n == alive[0], n == alive[-1]) for n in alive]

    def round(self, tile: int, first: bool, last: bool) -> Round:
        """The round of a tile."""
        return {TILE: tile, FIRST: first, LAST: last, SHORT: self.short(tile)}

    def each_column(self, numbers: tuple[int, ...]) -> list[Round]:
        """A round for each tile. A sum over the rows starts with the first block that needs it."""
        found = []
        for tile in self.alive(numbers):
            levels = [(*numbers[:-1], n) for n in range(self.counts[-1])]
            blocks = [n for n, level in enumerate(levels) if tile in self.alive(level)]
            first, last = (numbers[-1] == blocks[n] for n in (0, -1))
            found.append(self.round(tile, first, last))
        return found

    def together(self, numbers: tuple[int, ...]) -> list[Round]:
        """One round for all tiles."""
        alive = self.alive(numbers)
        return [{START: alive[0], COUNT: len(alive), SHORT: self.short(alive[-1])}]


def possible(condition: UOp, tile: int, width: int) -> bool:
    """Whether a condition may hold in a tile."""
    column = next(n for n in condition.toposort() if n.op is Ops.RANGE and n.arg[0] == COLUMN)
    inner = UOp.range(width, *column.arg)
    return condition.substitute({column: inner + tile * width}).simplify() is not FALSE


# --- kernels of a tile ----------------------------------------------------------------------------
def tiled(whole: Launches, own: frozenset[UOp], tiles: Tiles) -> Launches:
    """The kernel for one tile, or for several in loops."""
    item, column = whole.item, next(iter(own), None)
    if column is None:
        return whole
    along = column.arg[1] is AxisType.GLOBAL
    if len(own) == 1 and (along or summed(item, column)):
        ast = one_tile(item.ast, column, tiles)
        grows = along and any(is_start(n) for n in ast.toposort())
        rounds = tiles.each_column if grows else tiles.each
        return Launches(replace(item, ast=ast), whole.rows, rounds, last_tile(ast, own, tiles))
    made = replace(item, ast=several(item.ast, own, tiles))
    return Launches(made, whole.rows, tiles.together, item.ast)


def last_tile(ast: UOp, own: Iterable[UOp], tiles: Tiles) -> UOp | None:
    """The kernel of a tile for the last one, if that has fewer of these columns."""
    numbers = {one.arg[0] for one in own}
    inner = [one for one in ast.ranges() if one.arg[0] in numbers]
    return shorter(ast, inner, tiles.rest) if tiles.rest else None


def shorter(ast: UOp, ranges: Iterable[UOp], size: int) -> UOp:
    """The kernel with ranges that only go so far."""
    return ast.substitute({one: within(one, size) for one in ranges})


def within(one: UOp, size: int) -> UOp:
    """A range cut to a size."""
    return one.replace(src=(UOp.index_const(size),))


def summed(item: ScheduleItem, column: UOp) -> bool:
    """Whether the columns count in one sum alone, which can grow in every result made of it."""
    sums = [n for n in item.ast.toposort() if n.op is Ops.REDUCE and column in n.src]
    if len(sums) != 1 or any(column in store.src[2:] for store in item.ast.src):
        return False
    made = [store for store in item.ast.src if sums[0] in store.src[1].toposort()]
    return all(can_grow(store, sums[0], frozenset((column,))) for store in made)


def flag(name: str) -> UOp:
    """Whether the number of this name is 1."""
    return UOp.variable(name, 0, 1).eq(1)


def one_tile(ast: UOp, column: UOp, tiles: Tiles, scale: UOp | None = None) -> UOp:
    """The kernel for the columns of one tile, whose number is a VARIABLE. Sums of earlier tiles are
    multiplied by `scale`, if any.
    """
    moved = narrowed(ast, (column,), tiles)
    inner = within(column, tiles.width)
    stores = [grown(store, inner, scale) for store in moved.src]
    return starting(moved.replace(src=tuple(stores)), len(tiles.counts) - 1)


def narrowed(ast: UOp, own: Iterable[UOp], tiles: Tiles) -> UOp:
    """The kernel with the columns of one tile alone, whose number is a VARIABLE."""
    changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = {}
    for column in own:
        inner = within(column, tiles.width)
        here = UOp.variable(TILE, 0, tiles.total - 1) * tiles.width + inner
        changes[column] = here, (inner,)
    return over(ast, changes)


def grown(store: UOp, inner: UOp, scale: UOp | None) -> UOp:
    """What a sum over the columns is after this tile; after the last one, what is made of it."""
    sums = [n for n in store.src[1].toposort() if n.op is Ops.REDUCE and inner in n.src]
    if not sums:
        return store
    total, place = sums[0], store.src[0]
    so_far = UOp(Ops.LOAD, total.dtype, (place,))
    neutral = UOp.const(total.dtype, identity(total.arg, total.dtype))
    before = flag(FIRST).where(neutral, so_far)
    grows = (before if scale is None else before * scale).alu(total.arg, total)
    finished = store.src[1].substitute({total: grows})
    value = grows if finished is grows else flag(LAST).where(finished, grows)
    return store.replace(src=(place, value, *store.src[2:]))


def is_start(node: UOp) -> bool:
    """Whether a node asks for the first block of rows, or for the first tile that is needed."""
    return node.op is Ops.CMPEQ and counts_blocks(node.src[0])


def starting(ast: UOp, level: int) -> UOp:
    """Sums over blocks of rows start where a tile is first needed, and end where it last is: in the
    first and last of larger blocks, if they go on over these, whose numbers are of lower levels.
    """
    changes = {}
    for node in ast.toposort():
        if is_start(node) and node.src[0].arg[0] == BLOCK_NUMBER.format(level):
            changes[node] = flag(LAST if node.src[1].arg else FIRST)
    return ast.substitute(changes)


def several(ast: UOp, own: frozenset[UOp], tiles: Tiles) -> UOp:
    """The kernel with loops over the tiles that are needed, a VARIABLE number of them."""
    start = UOp.variable(START, 0, tiles.total - 1)
    count = UOp.variable(COUNT, 1, tiles.total)
    fresh = 1 + max(one.arg[0] for one in ast.ranges())
    changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = {}
    for column in own:
        number, kind = column.arg
        outer = UOp(Ops.RANGE, column.dtype, (count,), (number, kind))
        inner = UOp.range(tiles.width, fresh + number, kind)
        changes[column] = (start + outer) * tiles.width + inner, (outer, inner)
    return over(ast, changes)


def over(ast: UOp, changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]]) -> UOp:
    """The kernel with ranges become values, and what ran over these running over others."""
    done = {old: value for old, (value, _) in changes.items()}
    for node in ast.toposort():
        if node in done:
            continue
        source = [done[s] for s in node.src]
        if node.op in (Ops.REDUCE, Ops.STORE):
            kept = 1 if node.op is Ops.REDUCE else 2
            runs = [changes[s][1] if s in changes else (done[s],) for s in node.src[kept:]]
            source[kept:] = [one for some in runs for one in some]
        done[node] = node.replace(src=tuple(source))
    return done[ast]
