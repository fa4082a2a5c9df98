"""What a nest of loops costs, predicted from facts of the target alone: nothing is built or timed.

A candidate is described by `Nest`s: its loops, outermost first, those that are written out (lanes,
register tiles) last; and for each of its memory accesses how many bytes each loop moves it. Ask

    seconds([Nest(loops, streams, ...), ...], target, blocks)

for a kernel whose nests run one after the other and whose outermost loop is `blocks` shares of
work. Copies (packing) are nests like any other. `nests_of(ast, target)` describes a kernel as it
is, with the opts that were applied to it; a caller with candidates makes descriptions of its own,
which takes microseconds: `stream(strides, itemsize, loops)` turns strides by axis into a stream.

The prediction is the time of arithmetic (multiply-adds by ports, latency by independent sums, reads
of the first cache, instructions by issue) and that of moving lines between caches. A cache keeps
what the largest inner part of the nest touches that fits; what is outside of that part fetches it
anew. Lines that lie a power of two apart share few of a cache's sets: each then counts as much of
the cache as there is between them. Translation of addresses is one more such cache, of pages.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import ceil, gcd, prod
from typing import Any, Final, NamedTuple

from torpor.base.target import LINE, Target
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses
from torpor.kernel.estimate import is_data
from torpor.kernel.ranges import WRITTEN, find_loops, kind_of, size_of

PAGE: Final = 4096  # bytes of the smallest page, which every system has; no prefetcher leaves it
WAYS: Final = 8  # lines of a set, the least that first caches of the last ten years have
# Cycles, alike on all processors of the last ten years within a third:
LOOP: Final = 1.0  # that a round takes beside its body: a branch and a counter
STARTED: Final = 16.0  # to begin a loop and to leave it: a branch that was not foreseen
MOVED: Final = 1.0  # to move one element between two vectors
SHARERS: Final = 4  # threads for which there should be work enough, a choice: results must not
# depend on how many there are
UNHIDDEN: Final = 0.3  # part of the shorter of arithmetic and transfers that the other hides not


class Loop(NamedTuple):
    """`rounds` along an axis, `step` rounds of the axis apart; `written`: as copies of the
    body; `summed`: what it computes is added up.
    """

    axis: Hashable
    rounds: int
    step: int = 1
    written: bool = False
    summed: bool = False


class Stream(NamedTuple):
    """An access: the bytes that it moves from one round of each loop of the nest to the next (None:
    irregular), and of one element. `aligned`: vectors of it begin where lines do. `masked`: it asks
    a condition in each round.
    """

    moves: tuple[int | None, ...]
    itemsize: int
    is_store: bool = False
    aligned: bool = False
    masked: bool = False


class Nest(NamedTuple):
    """Loops around one body. `lane` is the place of the written loop that vectors run along;
    `operations` is how many instructions each element takes; `fused`: they are multiply-adds.
    """

    loops: tuple[Loop, ...]
    streams: tuple[Stream, ...]
    lane: int | None = None
    operations: float = 1.0


class Level(NamedTuple):
    """Where lines come from: `room` bytes are nearer, in sets that repeat every `way` bytes. Cycles
    for a line that follows another one, and for one that lies in another page.
    """

    room: int
    line: int
    way: int
    near: float
    far: float


def stream(
    strides: Mapping[Any, int | None],
    itemsize: int,
    loops: Sequence[Loop],
    is_store: bool = False,
    masked: bool = False,
) -> Stream:
    """The stream of an access by its strides along axes, in elements."""
    moves = []
    for loop in loops:
        stride = strides.get(loop.axis, 0)
        moves.append(None if stride is None else stride * loop.step * itemsize)
    return Stream(tuple(moves), itemsize, is_store, False, masked)


def seconds(nests: Sequence[Nest], target: Target, blocks: int | None = None) -> float:
    """How long one thread takes for the nests, and waits for others at the end: `blocks` shares of
    the work are all that threads can take; None: it is not shared.
    """
    taken = sum(cycles(nest, target) for nest in nests) / target.clock
    return taken if blocks is None else taken * waiting(blocks)


def waiting(blocks: int) -> float:
    """How many times longer than by equal shares `SHARERS` threads take, of which each takes block
    after block: (the rounds that the last one takes) / (rounds by equal shares), half of the way.
    """
    return (1 + ceil(blocks / SHARERS) * SHARERS / blocks) / 2


def cycles(nest: Nest, target: Target) -> float:
    """The cycles of one nest: arithmetic and transfers, of which the longer hides most of the
    shorter.
    """
    work, moved = arithmetic(nest, target), sum(transfers(nest, at) for at in levels(target))
    return max(work, moved) + UNHIDDEN * min(work, moved)


# --- arithmetic -----------------------------------------------------------------------------------
def arithmetic(nest: Nest, target: Target) -> float:
    """Cycles where all that is read lies in the first cache."""
    rounds = sums = 1
    tile = steps = 1
    for loop in nest.loops:
        if loop.written:
            tile *= loop.rounds
            steps *= loop.rounds if loop.summed else 1
        else:
            rounds *= loop.rounds
            sums *= loop.rounds if loop.summed else 1
    lanes = nest.loops[nest.lane].rounds if nest.lane is not None else 1
    itemsize = max((s.itemsize for s in nest.streams), default=4)
    width = min(lanes, target.lanes(max(itemsize, 4)))
    vectors = tile / width if width > 1 else tile
    reads = sum(reading(nest, s, width, target) for s in nest.streams if not s.is_store)
    writes = sum(reading(nest, s, width, target) for s in nest.streams if s.is_store)
    summed = sums * steps > 1
    chain = steps * target.latency if summed else 0.0
    issued = (vectors * nest.operations + reads * 2) / target.issue
    body = max(vectors * nest.operations / target.multiply_adds, reads, chain, issued)
    over = vectors / steps - (target.registers - 2)  # sums that have no register are kept in memory
    body += max(0.0, over) * 2 * (steps if summed else 0)
    ends = rounds // sums
    return rounds * (body + LOOP) + ends * (2 * writes + (STARTED if sums > 1 else 0.0))


def reading(nest: Nest, one: Stream, width: int, target: Target) -> float:
    """Cycles for what a body reads (or writes) of a stream, each vector or factor once."""
    along = 0 if nest.lane is None else one.moves[nest.lane]
    apart: dict[int, int] = {}
    irregular = 1
    for number, (loop, move) in enumerate(zip(nest.loops, one.moves, strict=True)):
        if loop.written and number != nest.lane:
            if move is None:
                irregular *= loop.rounds
            elif move:
                apart[move] = apart.get(move, 1) + loop.rounds - 1
    places = prod(apart.values()) * irregular * (1.0 + one.masked)
    lanes = 1 if nest.lane is None else nest.loops[nest.lane].rounds
    if along == 0:
        return places / 2
    if along == one.itemsize:
        size = width * one.itemsize
        crossing = 1.0 if one.aligned else 1 + size / LINE
        return places * lanes / width * max(size / target.load_bytes, 0.5) * crossing
    return places * lanes * MOVED


# --- transfers ------------------------------------------------------------------------------------
def levels(target: Target) -> tuple[Level, ...]:
    """What lines come from when they are not in the first cache, the second, the last one, or
    their page's place is not at hand.
    """
    second, last, memory = target.line_cycles
    first, cache, shared = target.first_bytes, target.cache_bytes, target.last_bytes
    return (
        Level(first, LINE, first // WAYS, second, 2 * second),
        Level(cache, LINE, cache // WAYS, last, 3 * last),
        Level(shared, LINE, shared // WAYS, memory, 2 * memory),
        Level(target.pages * PAGE, PAGE, 0, target.page_cycles, target.page_cycles),
    )


def transfers(nest: Nest, at: Level) -> float:
    """Cycles for the lines that come from beyond a level."""
    loops, count = nest.loops, len(nest.loops)
    streams = nest.streams
    fit = count
    for first in range(count):
        if sum(footprint(s, loops, first, at)[0] for s in streams) <= at.room:
            fit = first
            break
    if fit == 0:
        return 0.0  # all of it is there, as far as one kernel knows
    total = 0.0
    for s in streams:
        first = fit
        while first > 0 and s.moves[first - 1] == 0:
            first -= 1
        if first > 0:
            first -= 1
        lines, far = footprint(s, loops, first, at)[1:]
        again = 1
        for loop in loops[:first]:
            again *= loop.rounds
        total += again * lines * (at.far if far else at.near) * (1 + s.is_store)
    return total


def footprint(
    one: Stream, loops: Sequence[Loop], first: int, at: Level
) -> tuple[float, float, bool]:
    """(bytes of a level that a stream takes in the loops from `first` on, lines that it touches,
    whether these lie in pages of their own).
    """
    apart: dict[int, int] = {}
    pieces = 1
    for loop, move in zip(loops[first:], one.moves[first:], strict=True):
        if move is None:
            pieces *= loop.rounds
        elif move:
            size = abs(move)
            apart[size] = apart.get(size, 1) + loop.rounds - 1
    run, between = one.itemsize, 0
    for move in sorted(apart):
        if move <= max(run, at.line):
            run += move * (apart[move] - 1)
        else:
            pieces *= apart[move]
            between = between or move
    lines = -(-run // at.line)
    taken = lines * at.line
    if between and at.way:
        taken = max(taken, gcd(between, at.way))
    return pieces * taken, pieces * lines, between >= PAGE and lines < 2


# --- a kernel as it is ----------------------------------------------------------------------------
def nests_of(root: UOp, target: Target) -> list[Nest]:
    """The nests of a kernel's ast, by the innermost loops that its accesses and sums stand in."""
    loops = find_loops(root)
    found = accesses(loops)
    bodies = {loops.nest(a.node) for a in found}
    bodies = {b for b in bodies if not any(set(b) < set(other) for other in bodies)}
    summed = {r for n in loops.order if n.op is Ops.REDUCE for r in n.src if r.op is Ops.RANGE}
    data = [n for n in loops.order if n.op in (*ALU, Ops.REDUCE) and is_data(n)]
    made = []
    for body in sorted(bodies, key=len):
        order = sorted(body, key=lambda r: kind_of(r) in WRITTEN)
        nest = tuple(
            Loop(r, size_of(r) or r.src[0].vmax, 1, kind_of(r) in WRITTEN, r in summed)
            for r in order
        )
        own = [a for a in found if set(loops.nest(a.node)) <= set(body)]
        streams = tuple(
            stream(a.strides, a.itemsize, nest, a.is_store, len(a.node.src) > 2) for a in own
        )
        operations = sum(set(loops.nest(n)) == set(body) for n in data)
        lane = best_lane(nest, streams)
        made.append(Nest(nest, streams, lane, max(1.0, operations / 2)))
    return made


def best_lane(loops: Sequence[Loop], streams: Sequence[Stream]) -> int | None:
    """The written loop along which most streams move by one element."""
    written = [n for n, loop in enumerate(loops) if loop.written]
    near = {n: sum(s.moves[n] == s.itemsize for s in streams) for n in written}
    best = max(written, key=lambda n: near[n], default=None)
    return best if best is not None and near[best] else None
