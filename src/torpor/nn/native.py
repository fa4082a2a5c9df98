"""PyTorch's norms beneath its layers: they give what they divided by, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torpor.nn.functional import batch_norm
from torpor.tensor import Tensor
from torpor.tensor.handle import float_dtype
from torpor.tensor.wide import wide_dtype


def native_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, the mean, and 1 / the standard deviation that it divided by."""
    shape = tuple(normalized_shape)
    mean, scale = _statistics(x, tuple(range(x.ndim - len(shape), x.ndim)), eps, True)
    return x.layer_norm(shape, weight, bias, eps), mean, scale


def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`group_norm`, the mean[sample, group], and 1 / the standard deviation."""
    mean, scale = _statistics(x.reshape(N, group, -1 if x.numel() else 0), (2,), eps)
    return x.group_norm(group, weight, bias, eps), mean, scale


def native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm`, the mean[channel], and 1 / the standard deviation; empty ones of no batch."""
    made = batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        nothing = x.new_zeros((0,), dtype=wide_dtype(float_dtype(x.dtype)))
        return made, nothing, nothing.clone()
    return made, *_statistics(x, (0, *range(2, x.ndim)), eps)


def _statistics(x: Any, axes: tuple[int, ...], eps: float, keep: bool = False) -> tuple[Any, Any]:
    """The mean, and 1 / the standard deviation with eps added to the variance."""
    wide = x.cast(wide_dtype(float_dtype(x.dtype)))
    variance = wide.var(axes, correction=0, keepdim=keep)
    return wide.mean(axes, keepdim=keep), (variance + eps).rsqrt()
