"""PyTorch's `torch.autograd` by its names."""

from __future__ import annotations

from typing import Any

from torpor.base.missing import names_of
from torpor.tensor import derivatives as functional
from torpor.tensor import forward_ad
from torpor.tensor import saved as graph
from torpor.tensor.custom import Context as FunctionCtx
from torpor.tensor.custom import Function, once_differentiable
from torpor.tensor.gradcheck import gradcheck, gradgradcheck
from torpor.tensor.gradients import backward
from torpor.tensor.gradients import grad as gradients_of
from torpor.tensor.mode import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from torpor.tensor.transforms import vmap

__all__ = [
    "Function", "FunctionCtx", "backward", "detect_anomaly", "enable_grad", "forward_ad",
    "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad",
    "once_differentiable", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
__getattr__ = names_of("torpor.autograd", lambda: __all__, __name__)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The sums of the outputs' gradients for each input; nothing is added to `.grad`. An input that
    no output depends on is an error, None with `allow_unused`, zeros with `materialize_grads`. With
    `is_grads_batched` each of `grad_outputs` has one axis more in front, along which there are many
    of them, and so has each gradient. With `create_graph` the sums can be differentiated again.
    An output whose gradients were taken before is an error where it is one in `backward`.
    `only_inputs` means nothing, as in PyTorch.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> torpor.autograd.grad(x * x, x, Tensor.eye(2), is_grads_batched=True)[0].tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    options = retain_graph, create_graph, allow_unused, materialize_grads
    if not is_grads_batched:
        return gradients_of(outputs, inputs, grad_outputs, *options)
    unused: list[bool] = []

    def of_one(seeds: Any) -> list[Any]:
        found = gradients_of(outputs, inputs, seeds, *options)
        unused[:] = [one is None for one in found]
        return [one for one in found if one is not None]

    made = iter(vmap(of_one)(grad_outputs))
    return tuple([None if nothing else next(made) for nothing in unused])
