"""Tile-and-fuse: kernels that hand each other large values, done tile by tile.

before  s = q @ k.T; p = softmax(s); o = p @ v          each over all rows of s
after   for each block of rows: the same three kernels   s and p have the rows of one block

What nobody else reads needs memory for one block only, and a reduction over the rows accumulates
from block to block. It is the same kernels at each block, whose number is a VARIABLE; where blocks
do not divide the rows, the last one is shorter, by kernels of its own. Rows that are large
themselves are cut again, by the next axis, and long ones into tiles of columns: so attention takes
memory linear in the length of its sequence. Blocks of kernels that reduce nothing, such as the
stages of a Fourier transform, stay in the second cache of a core.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem, Section
from torpor.ir.uop import UOp
from torpor.rules.rebuild import Changes
from torpor.schedule.dead_tiles import columns_of, conditions
from torpor.schedule.reduction_fission import MakeBuffer, fission, parameter_of
from torpor.schedule.rematerialise import rematerialised
from torpor.schedule.tile_groups import (
    BLOCK_NUMBER,
    FusionGroup,
    Rows,
    aligned,
    around,
    candidates,
    counts_blocks,
    even_part,
    group_of,
    shared_from,
)
from torpor.schedule.tile_passes import rows_of_tiles, tile_by_tile
from torpor.schedule.tiles import (
    PARTS,
    SHORT,
    WIDEST,
    Launches,
    Round,
    once,
    restricted,
    shorter,
    tiles_of,
    within,
    without_dead_tiles,
)

SMALLEST: Final = 16  # blocks of less than such a part of it (512 KiB of 8 MiB) do not pay
CACHED: Final = 4  # bytes that come from a cache in the time that one takes to memory and back


class Blocking(NamedTuple):
    """Which kernels go by blocks: those that hand on `least` bytes, by blocks of `block` bytes.
    Where they are `streaming`, none of them reduces, and a block is to stay near one core.
    """

    least: int
    block: int
    streaming: bool


class Level(NamedTuple):
    """How an axis of rows is cut: into so many `blocks`, of which the last has `rest` rows, if
    fewer (else 0); kernels that run before the first block and after the last one.
    """

    blocks: int
    rest: int
    first: list[ScheduleItem]
    last: list[ScheduleItem]


def tile_and_fuse(
    items: Sequence[ScheduleItem], kept: Iterable[UOp], make: MakeBuffer, target: Target
) -> list[ScheduleItem]:
    """The schedule with what can share tiles done so, of sizes for a target; buffers that are
    `kept` are read later.
    """
    outside = frozenset(kept)
    for blocking in blockings(target):
        items = blocked(items, outside, make, target, blocking)
    return list(items)


def blockings(target: Target) -> Iterator[Blocking]:
    """The ways to go by blocks, the one that saves most memory first."""
    yield Blocking(shared_from(target), block_bytes(target), streaming=False)
    if not target.groups:
        yield Blocking(target.cache_bytes, target.cache_bytes // PARTS, streaming=True)


def blocked(
    items: Sequence[ScheduleItem],
    outside: frozenset[UOp],
    make: MakeBuffer,
    target: Target,
    blocking: Blocking,
) -> list[ScheduleItem]:
    """The schedule with what can share blocks in one way done so."""
    least = blocking.least
    done: list[ScheduleItem] = []
    rest, sets = list(items), candidates(items, least, blocking.streaming)
    while (members := next(sets, None)) is not None:
        found = group_of(rest, members, outside, least)
        if found is None:
            continue
        if not blocking.streaming and (again := rematerialised(rest, found, outside, make, least)):
            rest, sets = again, candidates(again, least, blocking.streaming)
            continue
        block, levels = by_blocks(found, make, target, blocking)
        if levels:
            before, rest = around(rest, found.items)
            done += [*before, *tiled(found, block, levels, make, target)]
            sets = candidates(rest, least, blocking.streaming)
    return [*done, *rest]


def tiled(
    group: FusionGroup,
    block: FusionGroup,
    levels: Sequence[Level],
    make: MakeBuffer,
    target: Target,
) -> Iterator[ScheduleItem]:
    """The kernels of a group, block by block."""
    launches = launches_of(block, levels, make, target)
    made = {b for one in launches for b in one.item.buffers}
    own = frozenset(made.difference(*(item.buffers for item in group.items)))
    launches = used_again(launches, own)
    section = Section(own & {b for one in launches for b in one.item.buffers})
    yield from levels[0].first
    yield from repeated(launches, levels, apart(block.items, own, len(levels)), section)
    yield from levels[0].last


def launches_of(
    block: FusionGroup, levels: Sequence[Level], make: MakeBuffer, target: Target
) -> list[Launches]:
    """The kernels of one block of rows, by tiles of its columns where that is of use."""
    counts = tuple(level.blocks for level in levels)
    by_tiles = tile_by_tile(block, counts, make, target)
    if by_tiles is not None:
        return by_tiles
    columns = columns_of(block)
    tiles = columns and tiles_of(columns, counts, target, WIDEST, loops=True)
    if columns and tiles and tiles.conditions:
        return without_dead_tiles(columns, tiles)
    return [Launches(*one, once) for one in zip(block.items, block.cut, strict=True)]


def by_blocks(
    group: FusionGroup, make: MakeBuffer, target: Target, blocking: Blocking, outer: int = 0
) -> tuple[FusionGroup, list[Level]]:
    """The group of one block, and the levels of blocks, outermost first: none where the rows cannot
    be cut well.
    """
    rows = rows_in_block(group, target, make, blocking)
    if rows is None:
        return group, []
    level = Level(-(-group.count // rows), group.count % rows, [], [])
    number = UOp.variable(BLOCK_NUMBER.format(outer), 0, level.blocks - 1)
    smaller = {b: make(b.arg.device, rows * group.rows[b].stride, b.dtype) for b in group.inside}
    body = []
    for item, cut in zip(group.items, group.cut, strict=True):
        parts = fission(item, cut)
        assert parts is not None, "it can share tiles"
        if parts.reductions:
            level.first.extend(parts.initial())
            level.last.extend(parts.finished())
            item = parts.accumulated()
        ranges: Changes = {}
        for one in cut:
            runs = (within(one, rows),) if rows > 1 else ()
            ranges[one] = sum(runs, number * rows), runs
        body.append(restricted(item, ranges, smaller, UOp.substitute))
    if rows > 1:
        lie = {smaller.get(b, b): Rows(rows, one.stride) for b, one in group.rows.items()}
        every = [frozenset(within(one, rows) for one in cut) for cut in group.cut]
        return FusionGroup(body, lie, every, list(smaller.values())), [level]
    inner, misfit = aligned(body)
    if misfit is not None or not inner.rows:
        return FusionGroup(body, {}, [frozenset() for _ in body]), [level]
    inner.inside = [smaller[b] for b in group.inside if smaller[b] in inner.rows]
    block, levels = by_blocks(inner, make, target, blocking, outer + 1)
    return block, [level, *levels]


def block_bytes(target: Target) -> int:
    """How large a block should be: a quarter of the last cache, as far as kernels hand on more than
    this holds. From 2 to 16 MiB there is little difference (bench/results/constants.md,
    bench/results/attention.md), and memory counts too.
    """
    return shared_from(target) // 4


def rows_in_block(
    group: FusionGroup, target: Target, make: MakeBuffer, blocking: Blocking
) -> int | None:
    """How many rows make a block. None where it does not pay: the blocks are too small, or much
    else is read anew for each.
    """
    size, block = group.row_bytes, blocking.block
    if blocking.streaming:
        fits = size <= block and group.count >= PARTS
        return even_part(group.count, min(block // size, group.count // PARTS)) if fits else None
    rows = rows_of_tiles(group, make, target)
    if rows is not None:
        return rows
    columns = columns_of(group)
    masked = columns is not None and bool(conditions(columns))  # blocks of any size leave tiles out
    if size * group.count <= block and not masked:
        return None
    most = min(max(group.count // PARTS, 1), WIDEST) if masked else group.count - 1
    room = block * 2 if masked else block  # of which about half is used
    rows = even_part(group.count, max(min(most, room // size), 1))
    again = group.shared * (-(-group.count // rows) - 1)
    pays = rows * size * SMALLEST >= block and again <= group.handed * CACHED
    return rows if pays else None


def apart(body: Sequence[ScheduleItem], own: Container[UOp], levels: int) -> list[bool]:
    """By level, whether its blocks, and those of levels around it, need none of each other: all
    that they write, but for what is their own, lies at places that depend on the number of the
    block. What accumulates does at one place.
    """
    results = [s for i in body for s in i.ast.src if i.buffers[parameter_of(s.src[0])] not in own]
    used = [set(map(name_of, filter(counts_blocks, s.src[0].toposort()))) for s in results]
    alone = [all(BLOCK_NUMBER.format(level) in names for names in used) for level in range(levels)]
    return [all(alone[: level + 1]) for level in range(levels)]


def used_again(body: Sequence[Launches], own: Container[UOp]) -> list[Launches]:
    """The kernels of a block, its memory given to the next that fits after its last reader."""
    last = {b: end for one, end in zip(body, ends(body), strict=True) for b in one.item.buffers}
    place: dict[UOp, UOp] = {}
    free: list[UOp] = []
    made = []
    for number, one in enumerate(body):
        item = one.item
        for buffer in (b for b in item.buffers if b in own and b not in place):
            like = [b for b in free if (b.arg.nbytes, b.dtype) == (buffer.arg.nbytes, buffer.dtype)]
            place[buffer] = like[0] if like else buffer
            free = [b for b in free if b is not place[buffer]]
        buffers = tuple(place.get(b, b) for b in item.buffers)
        made.append(one._replace(item=replace(item, buffers=buffers)))
        free += [place[b] for b in dict.fromkeys(item.buffers) if b in place and last[b] == number]
    return made


def ends(body: Sequence[Launches]) -> list[int]:
    """Until when each kernel's memory is needed: kernels of one phase come again and again."""
    last = {one.phase: number for number, one in enumerate(body)}
    return [n if one.phase is None else last[one.phase] for n, one in enumerate(body)]


def repeated(
    body: Sequence[Launches], levels: Sequence[Level], apart: Sequence[bool], section: Section
) -> Iterator[ScheduleItem]:
    """The kernels of one block, for each block; a group for all blocks that need each other."""
    rest, last = levels[-1].rest, tuple(level.blocks - 1 for level in levels)
    templates = [[Versions(one, rest) for one in turns] for turns in taking(body)]
    edges = [[[numbered(one) for one in items] for items in one[2:]] for one in levels]
    outermost = [range(n + 1 if alone else 1) for n, alone in zip(last, apart, strict=True)]
    inside = [range(1 if alone else n + 1) for n, alone in zip(last, apart, strict=True)]
    for group, outer in enumerate(product(*outermost)):
        for inner in product(*inside):
            numbers = tuple(map(operator.add, outer, inner))
            values = {BLOCK_NUMBER.format(level): number for level, number in enumerate(numbers)}
            for level in range(1, len(levels)):
                for fill in edges[level][0] if not any(numbers[level:]) else ():
                    yield launched(*fill, values, (section, group))
            fewer = rest > 0 and numbers[-1] == last[-1]
            for turns in templates:
                rounds = (one.launches.rounds(numbers) for one in turns)
                for round_of_each in zip(*rounds, strict=True):
                    for one, more in zip(turns, round_of_each, strict=True):
                        version = one.version(fewer, more.get(SHORT, 0) > 0)
                        yield launched(*version, {**values, **more}, (section, group))
            for level in range(len(levels) - 1, 0, -1):
                for finish in edges[level][1] if numbers[level:] == last[level:] else ():
                    yield launched(*finish, values, (section, group))


def taking(body: Sequence[Launches]) -> Iterator[list[Launches]]:
    """Kernels that take turns, together."""
    for number, one in enumerate(body):
        if one.phase is None:
            yield [one]
        elif number == 0 or body[number - 1].phase != one.phase:
            yield [other for other in body if other.phase == one.phase]


class Versions:
    """A kernel as it is in most blocks and tiles, and in the last ones, where those are smaller: of
    `rest` rows.
    """

    def __init__(self, launches: Launches, rest: int):
        self.launches, self.rest = launches, rest
        self.made: dict[tuple[bool, bool], tuple[ScheduleItem, list[UOp]]] = {}

    def version(self, fewer_rows: bool, fewer_columns: bool) -> tuple[ScheduleItem, list[UOp]]:
        """The kernel `numbered`, of fewer rows or columns or not."""
        key = fewer_rows, fewer_columns
        if key not in self.made:
            item, short = self.launches.item, self.launches.short
            ast = short if fewer_columns and short is not None else item.ast
            ast = shorter(ast, self.launches.rows, self.rest) if fewer_rows else ast
            self.made[key] = numbered(replace(item, ast=ast))
        return self.made[key]


def launched(
    item: ScheduleItem, used: Sequence[UOp], values: Round, group: tuple[Section, int]
) -> ScheduleItem:
    """The item with the numbers of a block, which are its next VARIABLEs."""
    numbers = [int(values[node.arg[0]]) for node in used]
    names = [(f"v{n}", number) for n, number in enumerate(numbers, len(item.variables))]
    bindings = [
        UOp(Ops.BIND, dtypes.index, (node, UOp.index_const(number)))
        for node, number in zip(used, numbers, strict=True)
    ]
    return replace(
        item,
        variables=(*item.variables, *names),
        bindings=(*item.bindings, *bindings),
        group=group,
    )


def numbered(item: ScheduleItem) -> tuple[ScheduleItem, list[UOp]]:
    """The item with its blocks' numbers as the next VARIABLEs, and which VARIABLEs these were."""
    ast = simpler(item.ast)
    used = sorted((n for n in ast.toposort() if counts_blocks(n)), key=name_of)
    names = {
        node: node.replace(arg=(f"v{place}", *node.arg[1:]))
        for place, node in enumerate(used, len(item.variables))
    }
    return replace(item, ast=simpler(ast.substitute(names))), used


def simpler(ast: UOp) -> UOp:
    """The kernel simplified, if that leaves each of its parameters some use."""
    simple = ast.simplify()
    before, after = ({n for n in x.toposort() if n.op is Ops.PARAM} for x in (ast, simple))
    return simple if before == after else ast


def name_of(variable: UOp) -> str:
    return str(variable.arg[0])
