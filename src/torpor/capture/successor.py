"""New values of what a trace changes, written over the old ones where nobody else holds these.

An optimiser's step would otherwise go through twice the memory: each weight, and the place where
its next value comes to lie.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from sys import getrefcount
from typing import Any, Final, NamedTuple

from torpor.capture.commit import Value, whole
from torpor.capture.output import Shown, node_over
from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.device.pool import pool
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.compiled_graph import CompiledGraph, Kind
from torpor.pipeline.reuse import Fresh, Result
from torpor.tensor.handle import Handle
from torpor.tensor.storage import Storage

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


class Owner(NamedTuple):
    """The tensor whose gradient is replaced: itself, or the number of an argument."""

    source: Any


# For a result: the input (its number) or the gradient that comes before it, and what gives it.
Heir = tuple[int | Owner, "Successor | Replacement"]


def heirs_of(
    graph: CompiledGraph, changes: Iterable[tuple[int, Value]], grads: Iterable[tuple[Any, Value]],
    shown: Sequence[Shown | None],
) -> list[Heir | None]:  # fmt: skip
    """For each result, if so, what it may be written over: the input whose next value it is, or the
    gradient that nobody reads.
    """
    memory = graph.memory
    found: list[Heir | None] = [None] * len(memory.results)
    candidates: list[tuple[int | Owner, Value]] = [*changes]
    candidates += [(Owner(owner), value) for owner, value in grads]
    for before, value in candidates:
        new, shape = value.parts[0]
        number, seen = new - memory.first_result, shown[new]
        over = None if isinstance(before, Owner) else before
        if graph.donated.get(number, -1) == over and seen == Shown(shape, value.requires):
            giver: Any = Replacement if over is None else Successor
            found[number] = before, giver(memory.results[number], seen)
    pairs = zip(memory.results, found, strict=True)
    large = sum(kind.nbytes for kind, heir in pairs if heir is not None) >= LEAST
    return found if large else [None] * len(found)


class Successor:
    """Gives the result that a changed value is for: the one before it, if only its storage holds
    that. For one thread at a time.
    """

    def __init__(self, output: Kind, shown: Shown):
        self._fresh = Fresh(BufferMaker(*output), partial(node_over, shown=shown))
        holder = [small_like(output, shown)]
        self._alone = held(holder[0])  # by a storage and no one else
        self._nbytes = output.nbytes

    def take(self, base: UOp) -> Result:
        """The result for the next run; `base` is the value now. Who calls it holds the buffer
        once.
        """
        buffer = below(base).arg
        if buffer.base is None and buffer.memory.own and buffer.nbytes == self._nbytes:
            first, *nodes, count, memory = held(base)
            alone = [first - 1, *nodes, count - 2, memory]  # less `base`, what calls it, `buffer`
            if alone == self._alone and not others_run():
                return Result(buffer, base)
        return self._fresh.take()


class Replacement:
    """Gives the result for a tensor's next gradient: the memory of the last one, if only that
    tensor holds it. For one thread at a time.
    """

    def __init__(self, output: Kind, shown: Shown):
        self._fresh = Fresh(BufferMaker(*output), partial(node_over, shown=shown))
        self._nbytes = output.nbytes
        self._alone: list[int] = []
        holder = [whole(Storage(small_like(output, shown), output.device))]
        self._learn(holder[0])

    def _learn(self, grad: Handle) -> None:
        self._alone = held_by_handle(grad)

    def take(self, grad: Any) -> Result:
        """The result for the next run; `grad` is the gradient now, if there is one."""
        if isinstance(grad, Handle) and grad._path is None and held_by_handle(grad) == self._alone:
            node = grad._node
            buffer = below(node).arg
            if buffer.memory.own and buffer.nbytes == self._nbytes and not others_run():
                return Result(buffer, node)
        return self._fresh.take()


def small_like(output: Kind, shown: Shown) -> UOp:
    """The node of a value that is seen in the same way, over as little memory as can be."""
    flat = shown.shape == (output.size,)
    like = shown._replace(shape=(1,)) if flat else shown
    return node_over(Buffer(output.device, 1, output.dtype).allocate(), like)


def held_by_handle(tensor: Handle) -> list[int]:
    """How often a tensor is held, its storage, and the parts of its value."""
    if below(tensor._node).op is not Ops.BUFFER or tensor._node is not tensor._storage.base:
        return []
    return [getrefcount(tensor), getrefcount(tensor._storage), *held(tensor._node)]


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
    """Whether there are threads that may look at a value while a kernel writes over it: any but
    torpor's own, which share kernels and compile.
    """
    if threading.active_count() <= 1 + pool.workers:
        return False
    here = threading.current_thread()
    return any(
        one is not here and not one.name.startswith("torpor-") for one in threading.enumerate()
    )
