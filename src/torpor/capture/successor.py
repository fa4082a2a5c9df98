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

from torpor.capture.commit import Shown, Value, node_over, own_result, whole
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
# Packages whose threads watch bars or serve a notebook, and are handed text: no tensors.
TOOLS: Final = frozenset({"tqdm", "ipykernel", "IPython", "zmq", "jupyter_client"})


def is_worth_it(buffer: Buffer) -> bool:
    """Whether a value may be worth writing over the one before it."""
    return COUNTS and buffer.nbytes >= LEAST_EACH


class Owner(NamedTuple):
    """The tensor whose gradient is replaced: itself, or the number of an argument."""

    source: Any


# For a result: the input (its number) or the gradient that comes before it, and what gives it.
Heir = tuple[int | Owner, "Successor"]


def heirs_of(
    graph: CompiledGraph, changes: Iterable[tuple[int, Value]], grads: Iterable[tuple[Any, Value]],
    shown: Sequence[Shown | None],
) -> list[Heir | None]:  # fmt: skip
    """For each result, if so, what it may be written over: the input whose next value it is, or the
    gradient that nobody reads.
    """
    memory, first = graph.memory, graph.memory.first_result
    found: list[Heir | None] = [None] * len(memory.results)
    candidates: list[tuple[int | Owner, Value]] = [*changes]
    candidates += [(Owner(owner), value) for owner, value in grads]
    for before, value in candidates:
        number, over = (
            own_result(value, shown, first),
            None if isinstance(before, Owner) else before,
        )
        if number is not None and graph.donated.get(number, -1) == over:
            seen = Shown(value.parts[0][1], value.requires)
            found[number] = before, Successor(memory.results[number], seen, over is None)
    pairs = zip(memory.results, found, strict=True)
    large = sum(kind.nbytes for kind, heir in pairs if heir is not None) >= LEAST
    return found if large else [None] * len(found)


class Successor:
    """Gives the result that takes the place of a storage's value, or (`of_gradient`) of what a
    tensor has for a gradient: its memory, if nobody else holds that. For one thread at a time.
    """

    def __init__(self, output: Kind, shown: Shown, of_gradient: bool = False):
        self._fresh = Fresh(BufferMaker(*output), partial(node_over, shown=shown))
        self._nbytes = output.nbytes
        self._held = held_by_handle if of_gradient else held
        like: Any = small_like(output, shown)
        # What `take` is given is held by a slot and by its argument, as here, and the buffer of a
        # storage by who calls it, among the inputs.
        seen = [whole(Storage(like, output.device))] if of_gradient else [like, below(like).arg]
        del like
        self._learn(seen[0])

    def _learn(self, before: Any) -> None:
        self._alone = self._held(before)

    def take(self, before: Any) -> Result:
        """The result for the next run; `before` is the value's node now, or the gradient (None:
        there is none).
        """
        if before is not None and self._held(before) == self._alone:
            node = before._node if isinstance(before, Handle) else before
            buffer = below(node).arg
            own = buffer.base is None and buffer.memory.own
            if own and buffer.nbytes == self._nbytes and not others_run():
                return Result(buffer, node)
        return self._fresh.take()


def small_like(output: Kind, shown: Shown) -> UOp:
    """The node of a value that is seen in the same way, over as little memory as can be."""
    flat = shown.shape == (output.size,)
    like = shown._replace(shape=(1,)) if flat else shown
    return node_over(Buffer(output.device, 1, output.dtype).allocate(), like)


def held_by_handle(tensor: Handle) -> list[int]:
    """How often a tensor is held, its storage, and the parts of its value."""
    whole = tensor._path is None and tensor._node is tensor._storage.base
    if not whole or below(tensor._node).op is not Ops.BUFFER:
        return []
    return [getrefcount(tensor), getrefcount(tensor._storage), *held(tensor._node)]


def below(node: UOp) -> UOp:
    """What all of a value's views and leaves are over."""
    while node.src:
        node = node.src[0]
    return node


def held(node: UOp) -> list[int]:
    """How often each node down to a BUFFER is held, its buffer, and its memory; nothing where it
    has no memory yet (`empty`).
    """
    parts: list[object] = [node]
    while node.src:
        node = node.src[0]
        parts.append(node)
    if not node.arg.is_allocated():
        return []
    parts += (node.arg, node.arg.memory)
    return [*map(getrefcount, parts)]


def others_run() -> bool:
    """Whether there are threads that may look at a value while a kernel writes over it: any but
    torpor's own, which share kernels and compile, and those of `TOOLS`.
    """
    if threading.active_count() <= 1 + pool.workers:
        return False
    here = threading.current_thread()
    return any(
        one is not here and not one.name.startswith("torpor-") and not is_of_tool(one)
        for one in threading.enumerate()
    )


def is_of_tool(thread: threading.Thread) -> bool:
    """Whether a thread runs a class or a function of `TOOLS`."""
    run = getattr(thread, "_target", None)
    modules = type(thread).__module__, getattr(run, "__module__", None) or ""
    return any(module.partition(".")[0] in TOOLS for module in modules)
