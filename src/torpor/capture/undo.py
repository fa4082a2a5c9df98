"""What one watched run of a function has changed: noted, put back, or let go of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.capture.tracer import Tracer
from torpor.capture.tree import restore
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle
from torpor.tensor.random import go_on_from


def can_undo(tracer: Tracer) -> bool:
    """Whether everything that the run changed is known."""
    return not tracer.reasons and set(tracer.reseeded) <= {id(None)}


def undo(tracer: Tracer) -> None:
    """Put everything back that the run has changed: tensors, gradients, names, lists, streams."""
    for entry in tracer.inputs.values():
        if entry.storage.base is not entry.base:
            entry.storage.replace(entry.base)
            entry.storage.requires = entry.requires
    for handle, gradient in tracer.grads.values():
        handle.grad = gradient
    for place, _ in tracer.reach.noted.rebound():
        place.put(place.value)
    for container, kept, _ in tracer.reach.contents.values():
        restore(container, kept)
    for container, kept, _ in (*tracer.altered.values(), *tracer.passed.values()):
        restore(container, kept)
    for stream in tracer.streams.values():
        go_on_from(stream.generator, stream.state)
    go_on_from(None, tracer.state)


_NOTHING: Final = UOp.const(dtypes.bool, False)


def let_go(tracer: Tracer, handles: Iterable[Handle], changed: set[int]) -> None:
    """Have no tensor keep an old value alive: those that the run knows, and `handles`, look anew at
    storages (by `id`) with new values.
    """
    known = [handle for handle, *_ in tracer.reach.tensors.values()]
    for handle in (*known, *handles):
        if id(handle._storage) in changed:
            handle._node, handle._stamp = _NOTHING, -1
    for handle, _ in tracer.grads.values():
        grad = handle.grad
        if grad is not None and grad._path is None and id(grad._storage) in changed:
            grad._node, grad._stamp = grad._storage.base, grad._storage.stamp
