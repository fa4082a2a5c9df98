"""Graph nodes as views: a path of movements becomes one `ShapeTracker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.view.tracker import ShapeTracker

MOVES: Final[dict[Ops, Callable[[ShapeTracker, Any], ShapeTracker]]] = {
    Ops.RESHAPE: ShapeTracker.reshape,
    Ops.PERMUTE: ShapeTracker.permute,
    Ops.EXPAND: ShapeTracker.expand,
    Ops.PAD: ShapeTracker.pad,
    Ops.SHRINK: ShapeTracker.shrink,
    Ops.FLIP: lambda tracker, flipped: tracker.flip(
        [a for a, turned in enumerate(flipped) if turned]
    ),
    Ops.SHEAR: lambda tracker, given: tracker.shear(*given),
}


def shapetracker_of(node: UOp) -> tuple[UOp, ShapeTracker]:
    """(base, tracker): the first node below that is no movement, and how `node` walks through it.

    The base is taken as row-major memory of its shape.
    """
    path = []
    while node.op in MOVES:
        path.append(node)
        node = node.src[0]
    tracker = ShapeTracker.from_shape(shape_of(node))
    for movement in reversed(path):
        tracker = MOVES[movement.op](tracker, movement.arg)
    return node, tracker
