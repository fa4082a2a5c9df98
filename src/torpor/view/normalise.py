"""Graph nodes as views: a path of movements becomes one `ShapeTracker`."""

from __future__ import annotations

from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.view.tracker import ShapeTracker

MOVEMENTS = frozenset(
    {Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.PAD, Ops.SHRINK, Ops.FLIP, Ops.SHEAR}
)


def move(tracker: ShapeTracker, node: UOp) -> ShapeTracker:
    """The tracker after the movement that `node` is."""
    op, arg = node.op, node.arg
    if op is Ops.RESHAPE:
        return tracker.reshape(arg)
    if op is Ops.PERMUTE:
        return tracker.permute(arg)
    if op is Ops.EXPAND:
        return tracker.expand(arg)
    if op is Ops.PAD:
        return tracker.pad(arg)
    if op is Ops.SHRINK:
        return tracker.shrink(arg)
    if op is Ops.FLIP:
        return tracker.flip([axis for axis, turned in enumerate(arg) if turned])
    assert op is Ops.SHEAR, f"{op} is no movement"
    return tracker.shear(*arg)


def shapetracker_of(node: UOp) -> tuple[UOp, ShapeTracker]:
    """(base, tracker): the first node below that is no movement, and how `node` walks through it.

    The base is taken as row-major memory of its shape.
    """
    path = []
    while node.op in MOVEMENTS:
        path.append(node)
        node = node.src[0]
    tracker = ShapeTracker.from_shape(shape_of(node))
    for movement in reversed(path):
        tracker = move(tracker, movement)
    return node, tracker
