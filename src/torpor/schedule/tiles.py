"""Tiles of a row, and kernels that only do what lies in a tile.

before  s[r, c] = x[r, c] * 2                             all rows and columns
after   s[b*4 + r, t*8 + c] = x[b*4 + r, t*8 + c] * 2     block b of 4 rows, tile t of 8 columns

The numbers of blocks and tiles are VARIABLEs: it is the same kernel for each. Where tiles do not
divide a row, the last one is shorter, by a kernel of its own. A kernel that needs several passes
over a row has loops over as many tiles as there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final, NamedTuple

from torpor.base.target import WORD, Target
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg, ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules.linear import linear
from torpor.rules.rebuild import Changes, replace_ranges
from torpor.schedule.dead_tiles import COLUMN, FALSE, Columns, conditions, needless
from torpor.schedule.reduction_fission import fission, parameter_of
from torpor.schedule.tile_groups import BLOCK_NUMBER, counts_blocks

# Measured with causal attention, see bench/results/constants.md.
PARTS: Final = 8  # tiles of a row, and blocks of the rows: more save more, and each does less
WIDEST: Final = 128  # columns of a tile, and rows of a block, from which more parts do enough each
FEWEST: Final = 4  # tiles of a row: with fewer a mask leaves out less than a quarter
NARROWEST: Final = 4  # vectors of columns in a tile, by choice

Round = dict[str, int]
Rounds = Callable[[tuple[int, ...]], Sequence[Round]]

TILE, START, COUNT = (BLOCK_NUMBER.format(name) for name in ("tile", "start", "count"))
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


# --- kernels of a part ----------------------------------------------------------------------------
def restricted(
    item: ScheduleItem,
    parts: Changes,
    smaller: Mapping[UOp, UOp],
    position: Callable[[UOp, dict[UOp, UOp]], UOp],
) -> ScheduleItem:
    """The kernel with ranges that only run over a part each. Of `smaller` buffers there is no more
    than that; the `position` in these is in terms of ranges as they are inside.
    """
    inside = {one: one.replace(arg=(~n, one.arg[1])) for n, one in enumerate(parts)}
    moved: dict[UOp, UOp] = {}
    for node in item.ast.toposort():
        if node.op is Ops.INDEX and item.buffers[parameter_of(node)] in smaller:
            size = smaller[item.buffers[parameter_of(node)]].arg.size
            memory = node.src[0].replace(arg=ParamArg(parameter_of(node), size))
            place = position(node.src[1], inside)
            moved[node] = node.replace(src=(memory, place, *node.src[2:]))
    zero = UOp.index_const(0)  # in a part of one
    whole = {inside[one]: (runs[0] if runs else zero, ()) for one, (_, runs) in parts.items()}
    ast = replace_ranges(item.ast.substitute(moved), {**parts, **whole})
    return replace(item, ast=ast, buffers=tuple(smaller.get(b, b) for b in item.buffers))


def shorter(ast: UOp, ranges: Iterable[UOp], size: int) -> UOp:
    """The kernel with ranges that only go so far."""
    return ast.substitute({one: within(one, size) for one in ranges})


def within(one: UOp, size: int) -> UOp:
    """A range cut to a size."""
    return one.replace(src=(UOp.index_const(size),))


# --- which tiles some element is needed of --------------------------------------------------------
@dataclass
class Tiles:
    """Tiles of `width` columns, of which the `conditions` hold where any is needed; `counts`: of
    blocks of rows, by level. Kernels with `loops` over them meet the last one, if that is shorter,
    with all others alone.
    """

    columns: Columns
    width: int
    conditions: list[UOp]
    counts: tuple[int, ...]
    loops: bool = False
    known: dict[tuple[int, ...], range] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return -(-self.columns.width // self.width)

    @property
    def rest(self) -> int:
        """Columns of the last tile, where these are fewer; else 0."""
        return self.columns.width % self.width

    @cached_property
    def levels(self) -> list[int]:
        """Of which levels of blocks the conditions need the number."""
        names = {n.arg[0] for c in self.conditions for n in c.toposort() if counts_blocks(n)}
        return [n for n in range(len(self.counts)) if BLOCK_NUMBER.format(n) in names]

    def alive(self, numbers: tuple[int, ...]) -> range:
        """The tiles from the first to the last one needed, one at least: what is NaN for a whole
        row then is where it is summed.
        """
        here = tuple(numbers[level] for level in self.levels)
        if here not in self.known:
            names = [BLOCK_NUMBER.format(level) for level in self.levels]
            known = dict(zip(names, here, strict=True))
            found = [tile for tile in range(self.total) if self.needed(known, tile)] or [0]
            all_needed = self.loops and self.short(found[-1])
            self.known[here] = range(0 if all_needed else found[0], found[-1] + 1)
        return self.known[here]

    def short(self, tile: int) -> bool:
        """Whether this is a shorter tile than others."""
        return self.rest > 0 and tile == self.total - 1

    def needed(self, numbers: dict[str, int], tile: int) -> bool:
        """Whether all conditions may hold somewhere in a tile of the block of these numbers."""
        inner = within(COLUMN, self.width) + tile * self.width
        for one in self.conditions:
            counted = (n for n in one.toposort() if counts_blocks(n))
            known = {n: UOp.index_const(numbers[n.arg[0]]) for n in counted}
            column = next(n for n in one.ranges() if n.arg[0] == COLUMN.arg[0])
            if one.substitute({**known, column: inner}).simplify() is FALSE:
                return False
        return True

    def leave_out(self) -> bool:
        """Whether some block does not need some tile."""
        outer = (0,) * (len(self.counts) - 1)
        return any(len(self.alive((*outer, n))) < self.total for n in range(self.counts[-1]))

    def each(self, numbers: tuple[int, ...]) -> list[Round]:
        """A round for each tile."""
        return [{TILE: n, SHORT: self.short(n)} for n in self.alive(numbers)]

    def together(self, numbers: tuple[int, ...]) -> list[Round]:
        """One round for all tiles."""
        alive = self.alive(numbers)
        return [{START: alive[0], COUNT: len(alive), SHORT: self.short(alive[-1])}]

    # --- kernels of a tile ------------------------------------------------------------------------
    def one(
        self,
        item: ScheduleItem,
        rows: frozenset[UOp],
        own: frozenset[UOp],
        smaller: Mapping[UOp, UOp],
        phase: int | None = None,
    ) -> Launches:
        """The kernel for one tile, whose number is a VARIABLE."""
        start = UOp.variable(TILE, 0, self.total - 1) * self.width
        parts: Changes = {}
        for column in own:
            inner = within(column, self.width)
            parts[column] = start + inner, (inner,)
        made = restricted(item, parts, smaller, self.position)
        inner_ones = [one for one in made.ast.ranges() if one in {p[1][0] for p in parts.values()}]
        short = shorter(made.ast, inner_ones, self.rest) if self.rest else None
        return Launches(made, rows, self.each, short, phase)

    def position(self, position: UOp, inside: Mapping[UOp, UOp]) -> UOp:
        """Where an element of row * width + column lies in memory of one tile."""
        terms, _ = linear(position)
        row, column = sorted(terms, key=terms.__getitem__, reverse=True)
        return row * self.width + inside[column]

    def several(self, item: ScheduleItem, rows: frozenset[UOp], own: frozenset[UOp]) -> Launches:
        """The kernel with loops over the tiles that are needed, a VARIABLE number of them."""
        start = UOp.variable(START, 0, self.total - 1)
        count = UOp.variable(COUNT, 1, self.total)
        fresh = 1 + max(one.arg[0] for one in item.ast.ranges())
        parts: Changes = {}
        for column in own:
            number, kind = column.arg
            outer = UOp(Ops.RANGE, column.dtype, (count,), (number, kind))
            inner = UOp.range(self.width, fresh + number, kind)
            parts[column] = (start + outer) * self.width + inner, (outer, inner)
        made = replace(item, ast=replace_ranges(item.ast, parts))
        return Launches(made, rows, self.together, item.ast)


def tiles_of(
    columns: Columns, counts: tuple[int, ...], target: Target, widest: int, loops: bool = False
) -> Tiles | None:
    """The tiles of a row (of whole vectors, about `widest` columns at most; `counts` and
    `loops` as in `Tiles`), with the conditions by which some are left out; None without tiles.
    """
    width = tile_width(columns.width, target.lanes(WORD), widest)
    if not width:
        return None
    found = [c for c in conditions(columns) if needless(columns, c)]
    tiles = Tiles(columns, width, found, counts, loops)
    return tiles if found and tiles.leave_out() else Tiles(columns, width, [], counts)


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


def without_dead_tiles(columns: Columns, tiles: Tiles) -> list[Launches]:
    """The kernels of one block of rows, with memory of whole rows, without tiles that are dead."""
    made: list[Launches] = []
    for item, rows, own in columns.kernels:
        parts = fission(item, own) if own else None
        if not own:
            made.append(Launches(item, rows, once))
        elif parts is None or parts.dependent or not parts.is_simple:
            made.append(tiles.several(item, rows, own))
        else:
            made += [Launches(one, rows, once) for one in parts.initial()]
            made.append(tiles.one(parts.accumulated(), rows, own, {}))
            made += [Launches(one, rows, once) for one in parts.finished()]
    return made
