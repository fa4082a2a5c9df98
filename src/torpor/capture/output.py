"""Results of a replay: how the values in them are seen, and which are used again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.ir.infer import Shape, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.compiled_graph import Kind
from torpor.pipeline.reuse import Fresh, Result, Reused
from torpor.tensor.differentiate import SEVERED
from torpor.tensor.host import buffer_node

MOST_BYTES: Final = 1 << 20  # making the buffer of a larger one costs little beside its kernel


class Shown(NamedTuple):
    """How the value in an output is seen: its shape, and whether it had a graph."""

    shape: Shape
    requires: bool


def node_over(buffer: Buffer, shown: Shown) -> UOp:
    """The node of the value in a buffer."""
    node = buffer_node(buffer, shown.shape)
    return severed(node) if shown.requires else node


def severed(node: UOp) -> UOp:
    """The value as one whose graph is gone."""
    return shaped(UOp(Ops.LEAF, node.dtype, (node,), SEVERED), shape_of(node))


def results_of(output: Kind, shown: Shown | None) -> Callable[[], Result]:
    """A function that gives a result for the next run. Not to be called by two threads at once."""
    small = output.nbytes <= MOST_BYTES
    node = None if shown is None else partial(node_over, shown=shown)
    return (Reused if small else Fresh)(BufferMaker(*output), node).take
