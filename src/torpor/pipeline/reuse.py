"""Results: memory and the node over it, used again when nobody else holds them.

A result that its user has let go is found again as a whole, so that a small run makes neither a
buffer nor a node. Whether somebody holds it (a tensor, a graph, a view, an array that looks into
its memory) is what the reference counts of its parts say.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any, Final

from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.ir.uop import UOp
from torpor.pipeline.compiled_graph import Kind

MOST_KEPT: Final = 2  # while the last result is an argument, another one takes its turn


class Result:
    """A result of one run. `address`: where its first byte is for the host; 0: not known yet."""

    __slots__ = ("buffer", "address", "node")

    def __init__(self, buffer: Buffer, node: UOp | None = None):
        self.buffer, self.node, self.address = buffer, node, buffer.place


def parts_of(result: Result) -> list[Any]:
    """The result, as whoever makes a run holds it, and everything in it that others may hold."""
    parts = [result, result.buffer, result.buffer.memory]
    node = result.node
    while node is not None:
        parts.append(node)
        node = node.src[0] if node.src else None
    return parts


class Fresh:
    """Gives another result for each run."""

    __slots__ = ("_make", "_node_over")

    def __init__(self, make: BufferMaker, node_over: Callable[[Buffer], UOp] | None):
        self._make, self._node_over = make, node_over

    def take(self) -> Result:
        """The result for the next run; its memory holds anything."""
        buffer = self._make()
        return Result(buffer, None if self._node_over is None else self._node_over(buffer))


class Reused(Fresh):
    """Gives one of the last results again where nobody holds it. For one thread at a time; who
    holds a result, or anything in it, keeps it from being given again.
    """

    __slots__ = ("known", "alone")

    def __init__(self, make: BufferMaker, node_over: Callable[[Buffer], UOp] | None):
        super().__init__(make, node_over)
        self.known: list[list[Any]] = []  # the parts of results
        self.alone: list[int] = []  # how often each is held where nobody else does

    def take(self) -> Result:
        for parts in self.known:
            if [*map(getrefcount, parts)] == self.alone:
                return parts[0]  # type: ignore[no-any-return]
        parts = parts_of(super().take())
        if not self.alone:
            self.alone = [*map(getrefcount, parts)]
        self.known = [parts, *self.known[: MOST_KEPT - 1]]
        return parts[0]  # type: ignore[no-any-return]


def giving(
    kind: Kind, node_over: Callable[[Buffer], UOp] | None, most: int
) -> Callable[[], Result]:
    """A function that gives a result for the next run, in memory that was used before if that has
    `most` bytes. Not to be called by two threads at once.
    """
    return (Reused if kind.nbytes <= most else Fresh)(BufferMaker(*kind), node_over).take
