"""How a view lies in the memory of its storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torpor.device import Buffer
from torpor.ir.infer import largest, product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle
from torpor.tensor.host import buffer_node
from torpor.tensor.path import forward
from torpor.view import ShapeTracker, View


def is_row_major(handle: Handle) -> bool:
    """Whether the elements stand in row-major order, without gaps, in the memory of the storage,
    which is itself in row-major order. Where in it they begin does not matter.
    """
    if handle._path is None:
        return True
    base = handle._storage.base
    shape = shape_of(base)
    memory = buffer_node(Buffer("NULL", largest(product(shape)), base.dtype), shape)
    tracker = _tracker(forward(handle._path, memory))
    if len(tracker.views) > 1:
        return False
    (view,) = tracker.views
    return View.create(view.shape, view.strides, 0, view.mask).contiguous


def _tracker(node: UOp) -> ShapeTracker:
    """The movements from a buffer to `node` as views."""
    moves = []
    while node.op is not Ops.BUFFER:
        moves.append(node)
        node = node.src[0]
    tracker = ShapeTracker.from_shape(shape_of(node))
    for move in reversed(moves):
        if move.op in _MOVES:
            tracker = _MOVES[move.op](tracker, move.arg)
    return tracker


def _flip(tracker: ShapeTracker, flipped: tuple[bool, ...]) -> ShapeTracker:
    return tracker.flip([axis for axis, turned in enumerate(flipped) if turned])


def _shear(tracker: ShapeTracker, arguments: tuple[Any, ...]) -> ShapeTracker:
    return tracker.shear(*arguments)


_MOVES: Final[dict[Ops, Callable[[ShapeTracker, Any], ShapeTracker]]] = {
    Ops.RESHAPE: ShapeTracker.reshape,
    Ops.PERMUTE: ShapeTracker.permute,
    Ops.EXPAND: ShapeTracker.expand,
    Ops.PAD: ShapeTracker.pad,
    Ops.SHRINK: ShapeTracker.shrink,
    Ops.FLIP: _flip,
    Ops.SHEAR: _shear,
}
