"""How a view lies in the memory of its storage."""

from __future__ import annotations

from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import largest, product, shape_of
from torpor.tensor.handle import Handle
from torpor.tensor.path import forward
from torpor.view import View, shapetracker_of


def is_row_major(handle: Handle) -> bool:
    """Whether the elements stand in row-major order, without gaps, in the memory of the storage,
    which is itself in row-major order. Where in it they begin does not matter.
    """
    if handle._path is None:
        return True
    base = handle._storage.base
    shape = shape_of(base)
    memory = buffer_node(Buffer("NULL", largest(product(shape)), base.dtype), shape)
    _, tracker = shapetracker_of(forward(handle._path, memory))
    if len(tracker.views) > 1:
        return False
    (view,) = tracker.views
    return View.create(view.shape, view.strides, 0, view.mask).contiguous
