"""What methods compute at the call, since what they give depends on values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.device import Buffer
from torpor.ir.infer import Shape
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.computing import compute
from torpor.tensor.handle import Handle, located
from torpor.tensor.inside import UnknownValueError, depends_on_step
from torpor.tensor.storage import recall
from torpor.tensor.watch import active

SAME: Final = frozenset(
    {Ops.RESHAPE, Ops.DETACH, Ops.FUNCTION, Ops.LEAF}
)  # the same elements in the same order


def computed(function: Callable[..., Sequence[Any]], *given: Any) -> Sequence[Any]:
    """What `function` gives for tensors and plain values, computed: the memory of each value, which
    has no graph; tensors where a trace watches, or memory is not whole. `UnknownValueError` in the
    step of a loop.
    """
    handles = [one for one in given if isinstance(one, Handle)]
    if any(depends_on_step(one._current()) for one in handles):
        what = "how many elements there are depends on the step of a loop, or on vmap's example"
        tip = "use where(), or say how many: masked_select(size=), nonzero_static(size)"
        raise located(UnknownValueError(f"{what}; {tip}"), handles)
    if not active:
        given = tuple([_in_memory(one) if isinstance(one, Handle) else one for one in given])
    made = function(*given)
    if not active and all(is_known(one.shape) for one in made):
        values = compute([(one._current(), one._storage.device) for one in made])
        memory = [buffer for value in values if (buffer := buffer_of(value)) is not None]
        if len(memory) == len(made):
            return memory
    made[0].realize(*made[1:])
    return made


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
    return buffer_of(tensor._current()) if is_known(tensor.shape) else None


def buffer_of(node: UOp) -> Buffer | None:
    """The buffer whose elements are those of a node, in order; None where there is none such."""
    node = recall(node) or node
    while node.op in SAME:
        node = recall(node.src[0]) or node.src[0]
    return node.arg if node.op is Ops.BUFFER else None
