"""One function of tensors of the same kind, again and again: its graph is built once.

Of what methods compute at the call, later calls run the kernels on other memory. A long graph of
one tensor is copied onto the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from torpor.base.dtypes import DType
from torpor.base.site import here
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import JOINT, Shape, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import derive, make
from torpor.tensor.host import known_shape
from torpor.tensor.storage import recall
from torpor.tensor.watch import active

KEPT: Final = 1024  # graphs that are kept, the latest
SAME: Final = frozenset(
    {Ops.RESHAPE, Ops.DETACH, Ops.FUNCTION}
)  # the same elements in the same order


@cache
def _pipeline() -> Any:
    """The compiler, which is imported when the first value is wanted: it takes a while."""
    from torpor import pipeline

    return pipeline


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
    found = _pipeline().recall(key, whole)
    if found is not None:
        return found
    made = [*function(*inputs)]
    roots = [(one._storage.base, one._storage.device) for one in made]
    if all(one._path is None and recall(node) is None
           for one, (node, _) in zip(made, roots, strict=True)):  # fmt: skip
        _pipeline().learn(key, whole, roots)
    made[0].realize(*made[1:])
    memory = [memory_of(one) for one in made]
    return made if None in memory else memory


def _in_memory(tensor: Any) -> Any:
    """A tensor of known shape as one that is whole in memory; another one as it is."""
    if memory_of(tensor) is not None or not is_known(tensor.shape):
        return tensor
    node, base = tensor._current(), tensor._storage.base
    while node.op in SAME and node is not base:
        node = node.src[0]
    return (tensor if node is base else tensor.contiguous()).realize()


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


def built(function: Callable[..., Any], operand: Any, *arguments: Hashable) -> Any:
    """What `function` gives for a tensor, whose values no gradient flows from, and arguments. Its
    graph is a copy of the first one of the kind: building sorts takes longer than running them.
    """
    device = operand._storage.device
    if active or JOINT in device or not is_known(operand.shape):
        return function(operand.detach(), *arguments)
    return derive(_copied, (operand.detach(),), function, arguments, device)


def _copied(operand: UOp, function: Any, arguments: Any, device: str) -> UOp:
    """The graph that `_graph_of` keeps, of this operand."""
    hole, nodes = _graph_of(function, arguments, shape_of(operand), operand.dtype, device)
    done, site = {hole: operand}, here(2)
    for node in nodes:
        source = tuple([done.get(below, below) for below in node.src])
        done[node] = copy = UOp(node.op, node.dtype, source, node.arg)
        if site is not None and not copy.origins:
            copy.origins = (site,)
    return shaped(done[nodes[-1]], shape_of(nodes[-1]))


@lru_cache(maxsize=KEPT)
def _graph_of(
    function: Any, arguments: Any, shape: Shape, dtype: DType, device: str
) -> tuple[UOp, list[UOp]]:
    """A node of this kind that stands for any, and in order those that read it."""
    hole = buffer_node(Buffer(device, math.prod(known_shape(shape)), dtype), shape)
    root = function(make(hole, device), *arguments)._current()
    reading = {hole}
    for node in root.toposort():
        if not reading.isdisjoint(node.src):
            reading.add(node)
    return hole, [node for node in root.toposort() if node in reading and node is not hole]
