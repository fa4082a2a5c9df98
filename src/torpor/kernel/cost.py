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
from functools import lru_cache
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
RUN: Final = 4  # lines apart that are still fetched one after the other, with those between them
LOOP: Final = 3  # instructions of a round beside its body: a counter, its end, a branch
HELD: Final = 0.75  # of a cache: pages lie anywhere in memory, and with more some sets overflow
# Cycles, alike on all processors of the last ten years within a third:
FAR: Final = 1.5  # times as long as a line that follows another takes one of another page
FOUND: Final = 2  # lines of a page until a prefetcher has found out what comes next
STARTED: Final = 12.0  # to begin a loop and to leave it: a branch that was not foreseen
ASKED: Final = 4.0  # times what a read takes, to ask a condition before it
STORED: Final = 4.0  # times what reading a vector takes, to store it, as ports and queues have it
MOVED: Final = 1.0  # to move one element between two vectors
SUMS: Final = 8  # side by side: an addition takes 3 to 4 cycles, and two run at once
SHARED_FROM: Final = 5e-6  # seconds of work from which waking threads pays
SHARERS: Final = (1, 2, 3, 4, 8)  # threads that may share it: results do not depend on how many
KEPT: Final = 1 << 14  # answers about streams that are kept: candidates have most in common
UNHIDDEN_NEAR: Final = 0.15  # the same for lines of the second cache
UNHIDDEN: Final = 0.5  # part of the shorter of arithmetic and transfers that the other hides not


# So many pieces, each of so many lines, so many bytes apart (the least distance; 0: one piece).
Extent = tuple[int, int, int]


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
    `operations` is how many instructions each element takes; `body`: cycles of the body where they
    are known otherwise, as those of products of matrices.
    """

    loops: tuple[Loop, ...]
    streams: tuple[Stream, ...]
    lane: int | None = None
    operations: float = 1.0
    body: float = 0.0


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
    return waited(sum(cycles(nest, target) for nest in nests) / target.clock, blocks)


def waited(taken: float, blocks: int | None) -> float:
    """Seconds with those that threads wait for each other, where they share the work."""
    shared = max(0.0, taken - SHARED_FROM) if blocks else 0.0
    return taken + shared * (waiting(blocks) - 1 if blocks else 0.0)


@lru_cache(maxsize=KEPT)
def waiting(blocks: int) -> float:
    """How many times longer than by equal shares threads take, of which each takes block after
    block: the rounds that the last one takes, in the mean over `SHARERS`.
    """
    return sum(ceil(blocks / count) * count / blocks for count in SHARERS) / len(SHARERS)


def cycles(nest: Nest, target: Target) -> float:
    """The cycles of one nest."""
    return with_transfers(nest, arithmetic(nest, target), target)


def with_transfers(nest: Nest, computing: float, target: Target) -> float:
    """The cycles of a nest whose arithmetic takes so many, with lines from the second cache, which
    are asked for long before, and from further away; of two the longer hides most of the shorter.
    """
    near, *far = transfers(nest, target)
    moving = near + sum(far)
    unhidden = (UNHIDDEN_NEAR * near + UNHIDDEN * sum(far)) / (moving or 1)
    return overlapped(computing, moving, unhidden)


def overlapped(one: float, other: float, unhidden: float) -> float:
    """Cycles for two things at once, of which the longer does not hide all of the shorter."""
    return max(one, other) + unhidden * min(one, other)


# --- arithmetic -----------------------------------------------------------------------------------
def arithmetic(nest: Nest, target: Target) -> float:
    """Cycles where all that is read lies in the first cache."""
    rounds = inner = sums = 1
    tile = steps = 1
    for number, loop in enumerate(nest.loops):
        if loop.written:
            tile *= loop.rounds
            steps *= loop.rounds if loop.summed and number != nest.lane else 1
        else:
            rounds *= loop.rounds
            inner = loop.rounds
            sums *= loop.rounds if loop.summed else 1
    lanes = nest.loops[nest.lane].rounds if nest.lane is not None else 1
    itemsize = max((s.itemsize for s in nest.streams), default=4)
    width = min(lanes, target.lanes(max(itemsize, 4)))
    vectors = tile / width if width > 1 else tile
    reads = sum(reading(nest, s, width, target) for s in nest.streams if not s.is_store)
    stores = [(s, reading(nest, s, width, target)) for s in nest.streams if s.is_store]
    apart = sum(taken for s, taken in stores if not is_near(nest, s))
    writes = sum(taken for s, taken in stores if is_near(nest, s))
    summed = sums * steps > 1
    chain = steps * target.latency if summed else 0.0
    computed = vectors * nest.operations / target.multiply_adds
    if nest.lane is not None and not target.broadcasts:  # shuffles begin two a cycle, like reads
        spread = [s for s in nest.streams if not s.is_store and s.moves[nest.lane] == 0]
        computed += sum(reading(nest, s, width, target) for s in spread)
    issued = (vectors * nest.operations + reads * 2 + LOOP) / target.issue
    # The nearer two of these are to as long, the more they are in each other's way (regret.md).
    body = (computed**4 + reads**4 + chain**4 + issued**4) ** 0.25
    over = vectors / steps - (target.registers - 2)  # sums that have no register are kept in memory
    body += max(0.0, over) * 2 * (steps if summed else 0)
    body = nest.body or body
    started = rounds // inner * STARTED
    ends = rounds // sums
    return overlapped(rounds * body + ends * apart, started + ends * STORED * writes, UNHIDDEN_NEAR)


def is_near(nest: Nest, one: Stream) -> bool:
    """Whether what a body stores are vectors. Elements that lie apart are each moved and stored."""
    return nest.lane is None or one.moves[nest.lane] in (0, one.itemsize)


def reading(nest: Nest, one: Stream, width: int, target: Target) -> float:
    """Cycles for what a body reads (or writes) of a stream, each vector or factor once."""
    moves, itemsize = one.moves, one.itemsize
    apart: dict[int, int] = {}
    places = 1.0 + ASKED * one.masked
    for number, loop in enumerate(nest.loops):
        if loop.written and number != nest.lane:
            move = moves[number]
            if move is None:
                places *= loop.rounds
            elif move:
                apart[move] = apart.get(move, 1) + loop.rounds - 1
    for count in apart.values():
        places *= count
    along = 0 if nest.lane is None else moves[nest.lane]
    if along == 0:
        return places / 2
    lanes = 1 if nest.lane is None else nest.loops[nest.lane].rounds
    if along != itemsize:
        return places * lanes * MOVED
    size = width * itemsize
    aligned = one.aligned or all(m == itemsize or (m is not None and m % size == 0) for m in moves)
    crossing = 1.0 if aligned else 1 + size / LINE
    return places * lanes / width * max(size / target.load_bytes, 0.5) * crossing


# --- transfers ------------------------------------------------------------------------------------
@lru_cache(maxsize=8)
def levels(target: Target) -> tuple[Level, ...]:
    """What lines come from when they are not in the first cache, the second, the last one, or
    their page's place is not at hand.
    """
    second, last, memory = target.line_cycles
    first, cache, shared = target.first_bytes, target.cache_bytes, target.last_bytes
    return (
        Level(first, LINE, PAGE, second, FAR * second),
        Level(int(cache * HELD), LINE, cache // WAYS, last, FAR * last),
        Level(int(shared * HELD), LINE, shared // WAYS, memory, FAR * memory),
        Level(target.pages * PAGE, PAGE, 0, target.page_cycles, target.page_cycles),
    )


def transfers(nest: Nest, target: Target) -> list[float]:
    """Cycles for the lines that come from beyond each level. What one level holds, the next one,
    whose sets are as many times larger as it is, holds too.
    """
    rounds = tuple(loop.rounds for loop in nest.loops)
    body = next((n for n, loop in enumerate(nest.loops) if loop.written), len(rounds))
    fit, line, found = body, 0, []
    for at in levels(target):
        if at.line != line:
            line, fit = at.line, body
            held = [touched(s.moves, rounds, s.itemsize, line, body) for s in nest.streams]
        fit = fitting(held, fit, at)
        found.append(fetched(nest.streams, held, rounds, fit, at) if fit else 0.0)
    return found


def fitting(held: Sequence[Sequence[Extent]], fit: int, at: Level) -> int:
    """The outermost of the loops up to `fit` from which on a level holds all that is touched."""
    while fit > 0:
        room = at.room
        for extents in held:
            room -= taken_by(extents[fit - 1], at)
            if room < 0:
                return fit
        fit -= 1
    return fit


def fetched(
    streams: Sequence[Stream], held: Sequence[Sequence[Extent]], rounds: tuple[int, ...], fit: int,
    at: Level,
) -> float:  # fmt: skip
    """Cycles for the lines that come from beyond a level, which holds what the loops from `fit` on
    touch.
    """
    total = 0.0
    for s, extents in zip(streams, held, strict=True):
        first, moves = fit, s.moves
        while first > 0 and moves[first - 1] == 0:
            first -= 1
        inner = extents[fit]
        if first and taken_by(inner, at) <= at.room:
            first -= 1  # what one round of a loop has read, the next one finds
        pieces, lines, between = extents[first]
        far = min(1.0, FOUND / inner[1]) if max(between, inner[2]) >= PAGE else 0.0
        moved = pieces * lines * (far * at.far + (1 - far) * at.near)
        total += prod(rounds[:first]) * moved * (1 + s.is_store)
    return total


def taken_by(one: Extent, at: Level) -> int:
    """How many bytes of a level a stream takes that touches so much."""
    pieces, lines, apart = one
    taken = lines * at.line
    if apart and at.way and (spread := gcd(apart, at.way)) > taken:
        taken = spread
    return pieces * taken


@lru_cache(maxsize=KEPT)
def touched(
    moves: tuple[int | None, ...], rounds: tuple[int, ...], itemsize: int, line: int, body: int
) -> list[Extent]:
    """What a stream touches in the loops from each one on, up to that with number `body`."""
    apart: list[tuple[int, int]] = []  # how far, and how many, the nearest first
    irregular = 1
    for place in range(len(moves) - 1, body - 1, -1):
        apart, irregular = stepped(apart, irregular, moves[place], rounds[place])
    found = [extent(apart, irregular, itemsize, line)]
    for place in range(min(body, len(moves)) - 1, -1, -1):
        if moves[place] == 0:
            found.append(found[-1])
            continue
        apart, irregular = stepped(apart, irregular, moves[place], rounds[place])
        found.append(extent(apart, irregular, itemsize, line))
    return found[::-1]


def stepped(
    apart: list[tuple[int, int]], irregular: int, move: int | None, rounds: int
) -> tuple[list[tuple[int, int]], int]:
    """What lies so far apart, so often, with the rounds of one more loop."""
    if move is None:
        return apart, irregular * rounds
    if not move:
        return apart, irregular
    move = abs(move)
    for place, (other, count) in enumerate(apart):
        if other >= move:
            more = count + rounds - 1 if other == move else rounds
            return [*apart[:place], (move, more), *apart[place + (other == move) :]], irregular
    return [*apart, (move, rounds)], irregular


def extent(apart: Sequence[tuple[int, int]], pieces: int, itemsize: int, line: int) -> Extent:
    """What lies in so many places so many bytes apart; and how often that is, somewhere else."""
    run, between = itemsize, 0
    for move, count in apart:
        if move <= run or move <= RUN * line:
            run += move * (count - 1)
        else:
            pieces *= count
            between = between or move
    return pieces, -(-run // line), between


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
