"""Tensors of modules: `Parameter` is trained, `Buffer` is not."""

from __future__ import annotations

import inspect
from typing import Any

from torpor.tensor import Tensor
from torpor.tensor.creation import as_tensor
from torpor.tensor.differentiate import is_parameter


def parameter(data: Any = None, requires_grad: bool = True) -> Tensor:
    """A tensor of its own that is trained."""
    tensor = as_tensor(() if data is None else data).detach().clone()
    return tensor.requires_grad_().requires_grad_(requires_grad)


class _ParameterType(type):
    __signature__ = inspect.signature(parameter)

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return parameter(*arguments, **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and is_parameter(instance)


class Parameter(metaclass=_ParameterType):
    """`Parameter(data, requires_grad=True)` is a tensor of its own that is trained; leaves are
    instances of it that require a gradient, or did before `requires_grad_(False)`.
    """


def Buffer(data: Any = None, persistent: bool = True) -> Tensor:
    """A tensor that is not trained; not `persistent`, and it is no part of the state.

    >>> torpor.nn.Buffer([1.0, 2.0]).requires_grad
    False
    """
    tensor: Any = as_tensor(() if data is None else data).detach()
    if not persistent:
        tensor.persistent = False
    return tensor
