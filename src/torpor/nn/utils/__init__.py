"""What is done to parameters and their gradients between `backward` and `step`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.base.missing import names_of
from torpor.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from torpor.nn.utils.fusing import fuse_conv_bn_eval as fuse_conv_bn_eval
from torpor.nn.utils.fusing import fuse_conv_bn_weights as fuse_conv_bn_weights
from torpor.nn.utils.fusing import fuse_linear_bn_eval as fuse_linear_bn_eval
from torpor.nn.utils.fusing import fuse_linear_bn_weights as fuse_linear_bn_weights
from torpor.nn.utils.older import remove_spectral_norm as remove_spectral_norm
from torpor.nn.utils.older import remove_weight_norm as remove_weight_norm
from torpor.nn.utils.older import spectral_norm as spectral_norm
from torpor.nn.utils.older import weight_norm as weight_norm
from torpor.tensor import Tensor, no_grad
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import within
from torpor.tensor.write import hand_over


def get_total_norm(
    tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of all elements of all tensors, shape (). A `ValueRangeError` if it is no finite
    number, where asked for. How PyTorch runs it (`foreach`) says nothing here.

    >>> torpor.nn.utils.get_total_norm([Tensor([3.0]), Tensor([0.0, 4.0])]).item()
    5.0
    """
    norms = [_norm(one, float(norm_type)) for one in tensors]
    whole = _norm(Tensor.stack(norms), float(norm_type)) if norms else Tensor(0.0)
    if error_if_nonfinite and not math.isfinite(whole.item()):
        raise ValueRangeError(f"the norm of the gradients is {whole.item()}")
    return whole


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients, in place, so that their norm together is at most `max_norm`: Pascanu,
    Mikolov and Bengio, 2013, arXiv:1211.5063. Gives the norm before, shape (); with
    `error_if_nonfinite` a `ValueRangeError` if that is infinite or NaN.

    >>> w = Tensor([1.0, 1.0], requires_grad=True)
    >>> loss = (w * Tensor([3.0, 4.0])).sum().backward()
    >>> torpor.nn.utils.clip_grad_norm_([w], max_norm=1.0).item(), w.grad.norm().item() < 1.0001
    (5.0, True)
    """
    within("max_norm", max_norm, -math.inf)
    moving = _with_gradients(parameters)
    with no_grad():
        gradients = [one.grad for one in moving if one.grad is not None]
        norm = get_total_norm(gradients, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(moving, max_norm, norm)
    return norm


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients, in place, so that their norm, `total_norm`, is at most `max_norm`."""
    with no_grad():
        for one in _with_gradients(parameters):
            assert one.grad is not None
            _put(one.grad, _clipped(one.grad, total_norm.to(one.grad.device), float(max_norm)))


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """The module that this makes: initial values are lazy here, so that none which is overwritten
    before it is read is computed.
    """
    return module_cls(*args, **kwargs)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Bring, in place, each element of each gradient between -clip_value and clip_value.

    >>> w = Tensor([1.0, 1.0], requires_grad=True)
    >>> loss = (w * Tensor([3.0, 0.5])).sum().backward()
    >>> torpor.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]
    """
    with no_grad():
        for one in _with_gradients(parameters):
            assert one.grad is not None
            _put(one.grad, one.grad.clamp(-clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, one after the other, shape (n,)."""
    return Tensor.cat([one.reshape(-1) for one in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of `vec`, shape (n,), into the parameters, one after the other."""
    place, given = 0, list(parameters)
    if sum(one.numel() for one in given) != vec.numel():
        raise ShapeError(f"{vec.numel()} elements for parameters of others")
    with no_grad():
        for one in given:
            one.assign(vec.detach()[place : place + one.numel()].reshape(one.shape).cast(one.dtype))
            place += one.numel()


def _with_gradients(parameters: Any) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [one for one in given if one.grad is not None]


def _put(gradient: Tensor, made: Tensor) -> None:
    """Let the gradient be what was made of it."""
    for old, new in zip(gradient._parts, made._parts, strict=True):
        hand_over(old, new)


@repeated
def _norm(tensor: Tensor, order: float) -> Tensor:
    size = tensor.abs()
    if math.isinf(order):
        found: Tensor = size.max() if order > 0 else size.min()
    elif order == 2:
        found = size.square().sum().sqrt()
    else:
        found = size.pow(order).sum().pow(1 / order)
    return found


@repeated
def _clipped(gradient: Tensor, norm: Tensor, most: float) -> Tensor:
    # the sum keeps the division finite where all gradients are zero
    share = (most / (norm.cast(gradient.dtype.part) + 1e-6)).clamp(max=1.0)
    return gradient * share


__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm",
    "parameters_to_vector", "parametrizations", "parametrize", "prune",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.utils", lambda: __all__)
