"""Prefetching: loads have memory fetched ahead that a processor does not fetch by itself.

Processors follow a few rows of memory that are read from end to end. They lose many rows read side
by side, as for a transpose, and know nothing of the next row while a later pass goes over this one.
Only kernels that store past the caches fetch ahead: what others work on is mostly in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from torpor.base.target import LINE, Target
from torpor.ir.ops import STREAMED, Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import strides_of, without_constant

# Measured by one thread of an AMD EPYC of the third generation (Zen 3), float32: 4224 x 4160
# transposed in blocks of 32 rows and 8 columns takes 6.5 ms with it, 7.9 ms without; with 16 rows
# it gains nothing. Of 1 to 4 lines ahead 2 are the best.
FOLLOWED: Final = 16  # rows that are followed without help
AHEAD: Final = 2 * LINE  # bytes
# There, 4096 x 4096: RMS norm 5.5 ms, 6.0 without; layer norm 6.5 ms, 6.7 without.
SHORTEST: Final = 4096  # bytes of a row; the row after a shorter one is followed too
LONGEST: Final = 0.25  # of the second cache for a row: of a longer one it loses the beginning


Line = tuple[UOp, UOp, int]  # memory, the part of a position that is no constant, the rest in lines


class Read(NamedTuple):
    """A load of a vector: its parameter, the line it is in (as if a position without its constant
    began one), the innermost loop around it, and how far each round of that loop and of the one
    around it moves the place, bytes (0: not evenly).
    """

    load: UOp
    memory: UOp
    line: Line
    loop: UOp
    step: int
    outer: int


def prefetch(linear: Sequence[UOp], target: Target) -> list[UOp]:
    """A linear program whose loads say how many bytes past their places they have fetched."""
    if not any(node.op is Ops.STORE and node.arg == STREAMED for node in linear):
        return list(linear)
    found = fetches(linear, target)
    made: dict[UOp, UOp] = {}
    for node in linear:
        source = tuple(made.get(s, s) for s in node.src)
        made[node] = node.replace(src=source, arg=found.get(node, node.arg))
    return list(made.values())


def fetches(nodes: Sequence[UOp], target: Target) -> dict[UOp, int]:
    """How many bytes past their places loads have memory fetched: one for each line."""
    rounds: dict[UOp, dict[Line, Read]] = {}
    for read in reads_of(nodes):
        rounds.setdefault(read.loop, {}).setdefault(read.line, read)
    found: dict[UOp, int] = {}
    longest = int(LONGEST * target.cache_bytes)
    passes: dict[tuple[UOp, int], dict[UOp, list[UOp]]] = {}  # of memory: loops, loads
    for loop, lines in rounds.items():
        rows = [r for r in lines.values() if 0 < r.step <= LINE]
        if len(rows) > FOLLOWED:
            found.update((r.load, AHEAD) for r in rows)
        for r in lines.values():
            passes.setdefault((r.memory, r.outer), {}).setdefault(loop, []).append(r.load)
    for (_, distance), loops in passes.items():
        if len(loops) > 1 and SHORTEST <= distance <= longest:
            found.update(dict.fromkeys(list(loops.values())[-1], distance))
    return found


def reads_of(nodes: Sequence[UOp]) -> list[Read]:
    """The loads of vectors of parameters that are made in any case, in order."""
    loops: list[UOp] = []
    found = []
    for node in nodes:
        if node.op is Ops.RANGE:
            loops.append(node)
        elif node.op is Ops.END:
            loops.pop()
        elif node.op is Ops.LOAD and loops and node.dtype.count > 1:
            place = node.src[0]
            if place.op is Ops.INDEX and place.src[0].op is Ops.PARAM and len(place.src) == 2:
                found.append(read_of(node, loops))
    return found


def read_of(load: UOp, loops: Sequence[UOp]) -> Read:
    """What a load inside of these loops is."""
    memory, position = load.src[0].src
    size = memory.dtype.itemsize
    varying, shift = without_constant(position)
    strides = strides_of(position)
    step, *outer = ((strides.get(loop) or 0) * size for loop in reversed(loops[-2:]))
    return Read(
        load, memory, (memory, varying, shift * size // LINE), loops[-1], step, *outer or [0]
    )
