"""Outputs of a plan: memory and the node over it, used again when nobody else holds them.

A result that its user has let go is found again as a whole, so that a small call makes neither a
buffer nor a node. Whether somebody holds it (a tensor, a graph, a view, an array that looks into
its memory) is what the reference counts of its parts say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType
from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.ir.infer import Shape
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.differentiate import SEVERED
from torpor.tensor.host import buffer_node

MOST_BYTES: Final = 1 << 16  # making the buffer of a larger one costs little beside its kernel
MOST_KEPT: Final = 2  # while the last result is an argument, another one takes its turn


class Output(NamedTuple):
    """A buffer that is another one at each run."""

    device: str
    size: int
    dtype: DType


class Shown(NamedTuple):
    """How the value in an output is seen: its shape, and whether it had a graph."""

    shape: Shape
    requires: bool


class Result:
    """An output of one run. `address`: where its first byte is for the host; 0: it sees none."""

    __slots__ = ("buffer", "address", "node")

    def __init__(self, buffer: Buffer, shown: Shown | None):
        self.buffer, self.address = buffer, buffer.memory.address or 0
        self.node = None if shown is None else node_over(buffer, shown)


def parts_of(result: Result) -> list[Any]:
    """The result, as whoever runs the plan holds it, and everything in it that others may hold."""
    parts = [result, result.buffer, result.buffer.memory]
    node = result.node
    while node is not None:
        parts.append(node)
        node = node.src[0] if node.src else None
    return parts


def node_over(buffer: Buffer, shown: Shown) -> UOp:
    """The node of the value in a buffer."""
    node = buffer_node(buffer, shown.shape)
    return severed(node) if shown.requires else node


def severed(node: UOp) -> UOp:
    """The value as one whose graph is gone."""
    return UOp(Ops.LEAF, node.dtype, (node,), SEVERED)


def results_of(output: Output, shown: Shown | None) -> Callable[[], Result]:
    """A function that gives a result for the next run. Not to be called by two threads at once; who
    holds the result, or anything in it, keeps it from being given again.
    """
    make = BufferMaker(*output)
    if output.size * output.dtype.itemsize > MOST_BYTES or shown is None:
        return _Fresh(make, shown).take
    return _Kept(make, shown).take


class _Fresh:
    def __init__(self, make: BufferMaker, shown: Shown | None):
        self._make, self._shown = make, shown

    def take(self) -> Result:
        return Result(self._make(), self._shown)


class _Kept(_Fresh):
    def __init__(self, make: BufferMaker, shown: Shown | None):
        super().__init__(make, shown)
        # The parts of results, and how often each is held where nobody else does.
        self._known: list[tuple[list[Any], list[int]]] = []

    def take(self) -> Result:
        for parts, alone in self._known:
            if [*map(getrefcount, parts)] == alone:
                return parts[0]  # type: ignore[no-any-return]
        parts = parts_of(super().take())
        self._known = [(parts, [*map(getrefcount, parts)]), *self._known[: MOST_KEPT - 1]]
        return parts[0]  # type: ignore[no-any-return]


def table_of(
    inputs: Sequence[Buffer], kept: Sequence[Buffer], results: Sequence[Result]
) -> list[Buffer]:
    """A plan's table of buffers in one run."""
    return [*inputs, *kept, *[result.buffer for result in results]]
