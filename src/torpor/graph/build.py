"""Checked builders of graph nodes, all in one place: the vocabulary of `Tensor`.

Each infers the shape and dtype of what it makes, and raises at the call: a `ShapeError` or
`DTypeError` that names the operation, its operands' dtypes and shapes, what was expected and what
came. Building takes time that does not depend on the size of the graph.
"""

from torpor.graph.elementwise import bitcast, cast, check, constant, elementwise
from torpor.graph.indexed import gather, prior, scatter
from torpor.graph.movement import (
    broadcast_shapes,
    broadcast_to,
    expand,
    flip,
    pad,
    permute,
    reshape,
    shrink,
)
from torpor.graph.polyphase import overlap_add, windows
from torpor.graph.recompute import checkpoint
from torpor.graph.reduce import (
    again,
    alias,
    contiguous,
    copy_to,
    detach,
    function,
    identity,
    leaf,
    reduce,
)
from torpor.graph.scan import latest, scan
from torpor.graph.window import shear, stride_axis, window

__all__ = [
    "again",
    "alias",
    "bitcast",
    "broadcast_shapes",
    "broadcast_to",
    "cast",
    "check",
    "checkpoint",
    "constant",
    "contiguous",
    "copy_to",
    "detach",
    "elementwise",
    "expand",
    "flip",
    "function",
    "gather",
    "identity",
    "latest",
    "leaf",
    "overlap_add",
    "pad",
    "permute",
    "prior",
    "reduce",
    "reshape",
    "scan",
    "scatter",
    "shear",
    "shrink",
    "stride_axis",
    "window",
    "windows",
]
