"""New values of what a trace changes, written over the old ones where nobody else holds these.

An optimiser's step would otherwise go through twice the memory: each weight, and the place where
its next value comes to lie.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from sys import getrefcount
from typing import Final

from torpor.capture.commit import Value
from torpor.capture.output import Shown, node_over
from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.device.pool import pool
from torpor.ir.uop import UOp
from torpor.pipeline.compiled_graph import CompiledGraph, Kind
from torpor.pipeline.reuse import Fresh, Result

LEAST_EACH: Final = 1 << 14  # bytes of a value: looking who holds it costs about a microsecond
# Up to CPython 3.13 each variable that holds a thing counts, which is what offsets below rely on.
COUNTS: Final = sys.implementation.name == "cpython" and sys.version_info < (3, 14)
# Bytes of all: two of each would not lie in caches where one does. Measured by one thread of Zen 3
# (512 KB next to a core): sums of two matrices of 2 to 4 MB take 0.65 to 0.8 of the time, those of
# 1 MB 1.1.
LEAST: Final = 3 << 19


def is_worth_it(buffer: Buffer) -> bool:
    """Whether a value may be worth writing over the one before it."""
    return COUNTS and buffer.nbytes >= LEAST_EACH


def successors(
    graph: CompiledGraph, changes: Iterable[tuple[int, Value]], shown: Sequence[Shown | None]
) -> list[tuple[int, Successor] | None]:
    """For each result, if so, the input whose next value it is and may lie in its memory, and what
    gives it. The slot of an input is its number.
    """
    memory = graph.memory
    found: list[tuple[int, Successor] | None] = [None] * len(memory.results)
    for old, value in changes:
        new, shape = value.parts[0]
        number, seen = new - memory.first_result, shown[new]
        if graph.donated.get(number) == old and seen == Shown(shape, value.requires):
            found[number] = old, Successor(memory.results[number], seen)
    pairs = zip(memory.results, found, strict=True)
    large = sum(kind.nbytes for kind, over in pairs if over is not None) >= LEAST
    return found if large else [None] * len(found)


class Successor:
    """Gives the result that a changed value is for: the one before it, if only its storage holds
    that. For one thread at a time.
    """

    def __init__(self, output: Kind, shown: Shown):
        self._fresh = Fresh(BufferMaker(*output), partial(node_over, shown=shown))
        self._last: weakref.ref[Buffer] | None = None  # the last that was given
        self._alone: list[int] = []  # how often its parts are held by a storage and no one else

    def take(self, base: UOp) -> Result:
        """The result for the next run; `base` is the value now. Who calls it holds the buffer
        once.
        """
        last = None if self._last is None else self._last()
        if last is not None and last is below(base).arg and not others_run():
            *nodes, buffer, memory = held(base)
            nodes[0] -= 1  # `base`
            if [*nodes, buffer - 2, memory] == self._alone:  # less what calls it, and `last`
                return Result(last, base)
        return self._new()

    def _new(self) -> Result:
        made = self._fresh.take()
        assert made.node is not None, "its node was asked for"
        if not self._alone:
            *nodes, buffer, memory = held(made.node)  # of the result, not yet of a storage
            self._alone = [*nodes, buffer - 1, memory]
        self._last = weakref.ref(made.buffer)
        return made


def below(node: UOp) -> UOp:
    """What all of a value's views and leaves are over."""
    while node.src:
        node = node.src[0]
    return node


def held(node: UOp) -> list[int]:
    """How often each node down to a BUFFER is held, its buffer, and its memory."""
    parts: list[object] = [node]
    while node.src:
        node = node.src[0]
        parts.append(node)
    parts += (node.arg, node.arg.memory)
    return [*map(getrefcount, parts)]


def others_run() -> bool:
    """Whether there are threads that may look at a value while a kernel writes over it."""
    return threading.active_count() - pool.workers > 1
