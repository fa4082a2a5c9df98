"""A watched run undone, so that the function can be run again from the same state."""

from __future__ import annotations

from torpor.capture.tracer import Tracer
from torpor.capture.tree import restore
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
    for place in tracer.reach.places.values():
        if place.name in tracer.reach.stored and place.now() is not place.value:
            place.put(place.value)
    for container, kept, _ in tracer.reach.contents.values():
        restore(container, kept)
    for container, kept, _ in (*tracer.altered.values(), *tracer.passed.values()):
        restore(container, kept)
    for stream in tracer.streams.values():
        go_on_from(stream.generator, stream.state)
    go_on_from(None, tracer.state)
