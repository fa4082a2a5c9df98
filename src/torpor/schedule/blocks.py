"""Kernels that hand each other large values, done by blocks of rows: a block stays in the cache.

before  s = q @ k.T; p = softmax(s); o = p @ v          each over all rows of s
after   for each block of rows: the same three kernels   s and p have the rows of one block

What nobody else reads needs memory for one block only, and a result that sums over the rows grows
from block to block. It is the same kernels at each block, whose number is a VARIABLE; where blocks
do not divide the rows, the last one is shorter, by kernels of its own. Rows that are
large themselves are cut again, by the next axis: so attention takes memory linear in the length of
its sequence.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import Ops, identity
from torpor.ir.records import ParamArg, ScheduleItem, Section
from torpor.ir.uop import UOp
from torpor.schedule.chain import (
    BLOCK_NUMBER,
    Chain,
    MakeBuffer,
    Rows,
    aligned,
    around,
    candidates,
    chain_of,
    chained_from,
    counts_blocks,
    even_part,
    parameter_of,
)
from torpor.schedule.online import rows_of_tiles, tile_by_tile
from torpor.schedule.skip import (
    PARTS,
    SHORT,
    WIDEST,
    Launches,
    Round,
    masked_rows,
    shorter,
    within,
    without_needless,
)

# Bytes of a block: a quarter of the last cache, within these two. From 2 to 16 MiB there is little
# difference (bench/results/constants.md, bench/results/attention.md), and memory counts too.
BLOCK: Final = 8 << 20
LEAST: Final = 2 << 20
SMALLEST: Final = 16  # blocks of less than such a part of it (512 KiB of 8 MiB) do not pay
CACHED: Final = 4  # bytes that come from a cache in the time that one takes to memory and back


class Block(NamedTuple):
    """How the rows are cut: so many rows each; `number` is the VARIABLE that counts the blocks."""

    rows: int
    number: UOp


def in_blocks(
    items: Sequence[ScheduleItem], kept: Iterable[UOp], make_buffer: MakeBuffer, target: Target
) -> list[ScheduleItem]:
    """The schedule with its chains done by blocks, of sizes for a target; buffers that are `kept`
    are read later.
    """
    outside, least = frozenset(kept), chained_from(target)
    sizes = [item.buffers[n].arg.nbytes for item in items for n in item.outputs]
    if sum(sizes) < least:
        return list(items)
    for members in candidates(items, least):
        found = chain_of(items, members, outside, least)
        if found is None:
            continue
        block, counts, rest = by_blocks(found, make_buffer, target)
        if counts:
            before, after = around(items, found.items)
            tiled = tile_by_tile(block, counts, make_buffer, target)
            launches = tiled or without_needless(block, counts, target)
            made = {b for one in launches for b in one.item.buffers}
            own = frozenset(made.difference(*(item.buffers for item in found.items)))
            launches = used_again(launches, own)
            section = Section(own & {b for one in launches for b in one.item.buffers})
            alone = apart(block.items, own, len(counts))
            blocks = repeated(launches, counts, rest, alone, section)
            return [*before, *blocks, *in_blocks(after, outside, make_buffer, target)]
    return list(items)


def by_blocks(
    chain: Chain, make_buffer: MakeBuffer, target: Target, counts: tuple[int, ...] = ()
) -> tuple[Chain, tuple[int, ...], int]:
    """The chain of one block, the counts of blocks, outermost first, and how many rows the last of
    the innermost has, if fewer (else 0); no counts where the rows cannot be cut well.
    """
    rows = rows_in_block(chain, block_bytes(target))
    if rows is None:
        return chain, counts, 0
    counts = (*counts, -(-chain.count // rows))
    number = UOp.variable(BLOCK_NUMBER.format(len(counts) - 1), 0, counts[-1] - 1)
    smaller = {
        b: make_buffer(b.arg.device, rows * chain.rows[b].stride, b.dtype) for b in chain.inside
    }
    body = [
        shortened(item, cut, Block(rows, number), smaller)
        for item, cut in zip(chain.items, chain.cut, strict=True)
    ]
    if rows > 1:
        lie = {smaller.get(b, b): Rows(rows, one.stride) for b, one in chain.rows.items()}
        cut = [frozenset(within(one, rows) for one in every) for every in chain.cut]
        inside = list(smaller.values())
        return Chain(body, lie, cut, inside), counts, chain.count % rows
    inner, misfit = aligned(body)
    if misfit is not None or not inner.rows:
        return Chain(body, {}, [frozenset() for _ in body]), counts, 0
    inner.inside = [smaller[b] for b in chain.inside if smaller[b] in inner.rows]
    return by_blocks(inner, make_buffer, target, counts)


def block_bytes(target: Target) -> int:
    """How large a block should be."""
    return min(max(target.last_bytes // 4, LEAST), BLOCK)


def rows_in_block(chain: Chain, block: int) -> int | None:
    """How many rows make a block of so many bytes. None where it does not pay: the blocks are too
    small, or much else is read anew for each.
    """
    rows = rows_of_tiles(chain)
    if rows is not None:
        return rows
    size = chain.row_bytes
    masked = masked_rows(chain.items, chain.cut)  # where blocks of any size leave something out
    if size * chain.count <= block and not masked:
        return None
    most = min(max(chain.count // PARTS, 1), WIDEST) if masked else chain.count - 1
    room = block * 2 if masked else block  # of which about half is used
    rows = even_part(chain.count, max(min(most, room // size), 1))
    again = chain.shared * (-(-chain.count // rows) - 1)
    pays = rows * size * SMALLEST >= block and again <= chain.handed * CACHED
    return rows if pays else None


def shortened(
    item: ScheduleItem, cut: frozenset[UOp], block: Block, smaller: dict[UOp, UOp]
) -> ScheduleItem:
    """The item for the rows of one block; `smaller` buffers hold only these."""
    none = UOp.index_const(0)
    inside = {one: within(one, block.rows) if block.rows > 1 else none for one in cut}
    done = {one: block.number * block.rows + inner for one, inner in inside.items()}
    for node in item.ast.toposort():
        source = [done[s] for s in node.src]
        buffer = item.buffers[parameter_of(node)] if node.op in (Ops.PARAM, Ops.INDEX) else None
        if node in done:
            continue
        if node.op is Ops.PARAM and buffer in smaller:
            done[node] = node.replace(arg=ParamArg(node.arg.slot, smaller[buffer].arg.size))
            continue
        if node.op is Ops.INDEX and buffer in smaller:
            source[1] = node.src[1].substitute(inside)
        elif node.op in (Ops.REDUCE, Ops.STORE):
            operands = 1 if node.op is Ops.REDUCE else 2
            runs = [inside.get(s, done[s]) for s in node.src[operands:]]
            source[operands:] = [r for r in runs if r.op is Ops.RANGE]
        if node.op is Ops.STORE and inside.keys().isdisjoint(node.src):
            source[1] = grown(node, inside, done, source[0], block)
        done[node] = node.replace(src=tuple(source))
        if node.op is Ops.REDUCE and len(source) == 1:
            done[node] = source[0]
    buffers = tuple(smaller.get(b, b) for b in item.buffers)
    return replace(item, ast=done[item.ast], buffers=buffers)


def grown(store: UOp, cut: Container[UOp], done: dict[UOp, UOp], place: UOp, block: Block) -> UOp:
    """What a sum over the rows is after this block; after the last one, what is made of it."""
    reductions = [n for n in store.src[1].toposort() if n.op is Ops.REDUCE]
    total = next(n for n in reductions if any(s in cut for s in n.src))
    so_far = UOp(Ops.LOAD, total.dtype, (place,))
    value = done[store.src[1]]
    if so_far in value.toposort():  # it grows over larger blocks already
        return value.substitute(later_too(value, block.number))
    neutral = UOp.const(total.dtype, identity(total.arg, total.dtype))
    grows = block.number.eq(0).where(neutral, so_far).alu(total.arg, done[total])
    if store.src[1] is total:
        return grows
    finished = value.substitute({done[total]: grows})
    return block.number.eq(block.number.vmax).where(finished, grows)


def later_too(value: UOp, number: UOp) -> dict[UOp, UOp]:
    """First and last blocks of a sum that grows, as they are where each block is cut again."""
    tests = [n for n in value.toposort() if n.op is Ops.CMPEQ and counts_blocks(n.src[0])]
    outermost = min(n.src[0].arg[0] for n in tests)
    return {
        n: n & number.eq(number.vmax if n.src[1].arg else 0)
        for n in tests
        if n.src[0].arg[0] == outermost
    }


def apart(body: Sequence[ScheduleItem], own: Container[UOp], levels: int) -> list[bool]:
    """By level, whether its blocks need none of each other: all that they write, but for what is
    their own, lies at places that depend on the number of the block. A sum grows at one place.
    """
    results = [s for i in body for s in i.ast.src if i.buffers[parameter_of(s.src[0])] not in own]
    used = [set(map(name_of, filter(counts_blocks, s.src[0].toposort()))) for s in results]
    return [all(BLOCK_NUMBER.format(level) in names for names in used) for level in range(levels)]


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
    body: Sequence[Launches],
    counts: tuple[int, ...],
    rest: int,
    apart: Sequence[bool],
    section: Section,
) -> Iterator[ScheduleItem]:
    """The kernels of one block, for each block; a group for all blocks that need each other."""
    templates = [[Versions(one, rest) for one in turns] for turns in taking(body)]
    first = [count if alone else 1 for count, alone in zip(counts, apart, strict=True)]
    then = [1 if alone else count for count, alone in zip(counts, apart, strict=True)]
    for group, outer in enumerate(product(*map(range, first))):
        for inner in product(*map(range, then)):
            numbers = tuple(map(operator.add, outer, inner))
            levels = {BLOCK_NUMBER.format(level): number for level, number in enumerate(numbers)}
            fewer = rest > 0 and numbers[-1] == counts[-1] - 1
            for turns in templates:
                rounds = (one.launches.rounds(numbers) for one in turns)
                for round_of_each in zip(*rounds, strict=True):
                    for one, more in zip(turns, round_of_each, strict=True):
                        item, used = one.version(fewer, more.get(SHORT, 0) > 0)
                        yield launched(item, used, {**levels, **more}, (section, group))


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
