"""One function of tensors of the same kind, computed again and again: its graph is built once.

Of what methods compute at the call, later calls run the kernels on other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from torpor.device import Buffer
from torpor.ir.infer import Shape
from torpor.ir.ops import Ops
from torpor.tensor.computing import pipeline
from torpor.tensor.storage import recall
from torpor.tensor.watch import active

SAME: Final = frozenset(
    {Ops.RESHAPE, Ops.DETACH, Ops.FUNCTION, Ops.LEAF}
)  # the same elements in the same order


def computed(name: Hashable, function: Callable[..., Sequence[Any]], *inputs: Any) -> list[Any]:
    """What `function` gives for tensors, computed: the memory of each value, of tensors whose
    memory is whole without a graph once it is known. The inputs' values, shapes, formats and
    devices are all that it may depend on, and `name` says which function it is. Where a trace
    watches, or memory is not whole, tensors.
    """
    if not active:
        inputs = tuple(map(_in_memory, inputs))
    whole = [None if active else memory_of(one) for one in inputs]
    if None in whole:
        made = [*function(*inputs)]
        made[0].realize(*made[1:])
        return made
    key = (name, *[(one.shape, one.dtype, one._storage.device) for one in inputs])
    found = pipeline().recall(key, whole)
    if found is not None:
        return found
    made = [*function(*inputs)]
    roots = [(one._storage.base, one._storage.device) for one in made]
    if all(one._path is None and recall(node) is None
           for one, (node, _) in zip(made, roots, strict=True)):  # fmt: skip
        pipeline().learn(key, whole, roots)
    made[0].realize(*made[1:])
    memory = [memory_of(one) for one in made]
    return made if None in memory else memory


def _in_memory(tensor: Any) -> Any:
    """A tensor of known shape as one that is whole in memory; another one as it is. A float that
    `gradient` may go through later is computed along with a copy, which keeps its graph.
    """
    if memory_of(tensor) is not None or not is_known(tensor.shape):
        return tensor
    node, base = tensor._current(), tensor._storage.base
    while node.op in SAME and node is not base:
        node = node.src[0]
    whole = node is base and (tensor.requires_grad or not tensor.dtype.is_float)
    return (tensor if whole else tensor.contiguous()).realize()


def is_known(shape: Shape) -> bool:
    """Whether all sizes are numbers."""
    return all(isinstance(size, int) for size in shape)


def memory_of(tensor: Any) -> Buffer | None:
    """The buffer whose elements are those of a tensor of known shape, in order; None otherwise."""
    node = tensor._current()
    node = recall(node) or node
    while node.op in SAME:
        node = recall(node.src[0]) or node.src[0]
    return node.arg if node.op is Ops.BUFFER and is_known(tensor.shape) else None
