"""Layers with the batch norm behind them as one layer."""

from __future__ import annotations

import copy
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.nn.trained import parameter
from torpor.nn.utils.parametrizations import spectral_axis
from torpor.tensor import Tensor, no_grad


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(weight, bias) of a layer that computes what the norm makes of it by its running mean and
    variance, weight and bias; a transposed convolution's weight has what comes out on axis 1.
    """
    scale: Any = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = [1] * conv_w.ndim
    shape[int(transpose)] = -1
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    weight = (conv_w * scale.reshape(shape)).cast(conv_w.dtype)
    return parameter(weight, conv_w.requires_grad), parameter(bias.cast(conv_w.dtype))


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `fuse_conv_bn_weights`."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A layer that computes what a batch norm makes of this one; both are out of training."""
    if conv.training or bn.training:
        raise ValueRangeError("layers are fused out of training: call eval() first")
    made = copy.deepcopy(conv)
    turned = transpose or spectral_axis(conv, None) == 1
    with no_grad():
        made.weight, made.bias = fuse_conv_bn_weights(
            made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
            turned,
        )  # fmt: skip
    return made


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """As `fuse_conv_bn_eval`."""
    return fuse_conv_bn_eval(linear, bn)
