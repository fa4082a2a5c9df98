"""PyTorch's functions on tensors, by its names. Most are methods of `Tensor`, where their arguments
are explained; those that a layer keeps state for take that state here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn.losses import *  # noqa: F403  (listed there, once)
from torpor.tensor import Tensor, no_grad
from torpor.tensor.creation import beside
from torpor.tensor.handle import float_dtype, with_rule
from torpor.tensor.loss import check_several
from torpor.tensor.namespace import function_of
from torpor.tensor.operands import choose
from torpor.tensor.scatter import selected
from torpor.tensor.spelling import within
from torpor.tensor.wide import wide_dtype, widely

# --- activations ----------------------------------------------------------------------------------
celu = function_of("celu")
elu = function_of("elu")
gelu = function_of("gelu")
hardsigmoid = function_of("hardsigmoid")
hardswish = function_of("hardswish")
hardtanh = function_of("hardtanh")
leaky_relu = function_of("leaky_relu")
log_softmax = function_of("log_softmax")
logsigmoid = function_of("logsigmoid")
mish = function_of("mish")
relu = function_of("relu")
relu6 = function_of("relu6")
selu = function_of("selu")
sigmoid = function_of("sigmoid")
silu = function_of("silu")
softmax = function_of("softmax")
softmin = function_of("softmin")
softplus = function_of("softplus")
softsign = function_of("softsign")
tanh = function_of("tanh")

# --- products, windows and shapes -----------------------------------------------------------------
adaptive_avg_pool2d = function_of("adaptive_avg_pool2d")
avg_pool1d = function_of("avg_pool1d")
avg_pool2d = function_of("avg_pool2d")
conv1d = function_of("conv1d")
conv2d = function_of("conv2d")
conv3d = function_of("conv3d")
conv_transpose1d = function_of("conv_transpose1d")
conv_transpose2d = function_of("conv_transpose2d")
conv_transpose3d = function_of("conv_transpose3d")
linear = function_of("linear")
max_pool1d = function_of("max_pool1d")
max_pool2d = function_of("max_pool2d")
one_hot = function_of("one_hot")
pad = function_of("pad")
scaled_dot_product_attention = function_of("scaled_dot_product_attention")

# --- norms ----------------------------------------------------------------------------------------
group_norm = function_of("group_norm")
layer_norm = function_of("layer_norm")
normalize = function_of("normalize")
rms_norm = function_of("rms_norm")


def _names() -> list[str]:
    return [name for name, value in globals().items() if callable(value)]


if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.functional", _names)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element 0 with probability p, else divided by 1 - p; x itself unless `training`."""
    made: Tensor = x.dropout(p, training=training)
    return made


def embedding(x: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of weight[rows, width] that the integers x[...] name: [..., width]; one that does
    not exist raises at realisation, a negative one too. The row `padding_idx` gets no gradient.
    """
    x = beside(x, weight)
    rows = selected("embedding", weight, 0, x.reshape(-1)).reshape(*x.shape, *weight.shape[1:])
    if padding_idx is None:
        return rows
    within("padding_idx", padding_idx, -len(weight), len(weight) - 1)
    return choose(x.eq(padding_idx % len(weight)).unsqueeze(-1), rows.detach(), rows)


@widely
def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis: x · y / (|x| |y|), where no length
    counts as less than `eps`.
    """
    made: Tensor = (_directions(x, dim, eps) * _directions(y, dim, eps)).sum(dim)
    return made


def _directions(x: Tensor, dim: int, eps: float) -> Tensor:
    """Vectors divided by their lengths, whose gradient is that of the length also below `eps`."""
    length = x.norm(2, dim, True)
    return x / with_rule(length.clamp(eps), (length,), "same")


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) of x[batch, channel, ...], multiplied by weight[channel]
    and bias[channel] added. Ioffe and Szegedy, 2015, arXiv:1502.03167.

    With `training`, or without running statistics, mean and (biased) variance are the batch's own;
    in training the running ones, with unbiased variance, follow by `momentum`, in place.
    """
    others = (0, *range(2, x.ndim))
    mean, variance = running_mean, running_var
    dtype = float_dtype(x.dtype)
    x = x.cast(wide_dtype(dtype))
    if training:
        check_several(x, x.shape[1])
    if training or mean is None or variance is None:
        mean, variance = x.mean(others), x.var(others, correction=0)
        if training and running_mean is not None and running_var is not None:
            count = x.numel() // x.shape[1]
            unbiased = variance.detach() * (count / max(count - 1, 1))
            with no_grad():
                keep = 1 - momentum
                for running, new in ((running_mean, mean.detach()), (running_var, unbiased)):
                    running.assign((running * keep + new * momentum).cast(running.dtype))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    y: Tensor = (x - mean.reshape(shape)) * (variance + eps).rsqrt().reshape(shape)
    y = y.cast(dtype)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
