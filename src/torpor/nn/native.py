"""PyTorch's operators beneath its layers and their gradients: norms give what they divided by, too,
and those whose names begin with an underscore are there for programs that call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torpor.base.errors import ShapeError
from torpor.nn.functional import batch_norm
from torpor.nn.resampling import _resized, interpolate
from torpor.tensor import Tensor
from torpor.tensor.handle import float_dtype
from torpor.tensor.host import known_shape
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import an_axis, within
from torpor.tensor.wide import wide_dtype, widely


@repeated
def native_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, the mean, and 1 / the standard deviation that it divided by."""
    shape = tuple(normalized_shape)
    mean, scale = _statistics(x, tuple(range(x.ndim - len(shape), x.ndim)), eps, True)
    return x.layer_norm(shape, weight, bias, eps), mean, scale


@repeated
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


def _batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`native_batch_norm` in training, and nothing kept for a gradient: uint8 without elements."""
    running = running_mean, running_var
    made = native_batch_norm(input, weight, bias, *running, True, momentum, eps)
    return *made, input.new_zeros((0,), dtype="uint8")


@widely
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Any:
    """The gradient of `softmax` along an axis, of its result and that one's gradient."""
    inner = (grad_output * output).sum(dim, keepdim=True)
    return ((grad_output - inner) * output).cast(input_dtype)


def max_pool2d_with_indices_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of `max_pool2d`: of each window at the place that its maximum came from."""
    if grad_output.shape != indices.shape or grad_output.shape[:-2] != self.shape[:-2]:
        what = f"gradients {grad_output.shape} with indices {indices.shape} are not of a pool"
        raise ShapeError(f"{what} of {self.shape}")
    into = grad_output.new_zeros(self.shape).flatten(-2)
    return into.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(*self.shape)


def _upsample_bilinear2d_aa(
    input: Tensor, output_size: Sequence[int] | None, align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None, *,
    scale_factors: Sequence[float] | None = None,
) -> Tensor:  # fmt: skip
    """`interpolate` by mode "bilinear", smoothed first; a size may have scales of its own."""
    if output_size is None:
        return interpolate(input, None, scale_factors, "bilinear", align_corners, antialias=True)
    return _resized(input, output_size, (scales_h, scales_w), "bilinear", align_corners, True)


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor cut along an axis into so many chunks, padded by zeros to equal lengths, the axes
    from it on made one: side by side, [..., chunk, elements].
    """
    within("num_chunks", num_chunks, 1)
    made = []
    for one in tensors:
        axis = an_axis(dim, one)
        rest = (0, 0) * (one.ndim - 1 - axis)
        padded: Any = one.pad((*rest, 0, -known_shape(one.shape)[axis] % num_chunks))
        made.append(padded.reshape(*one.shape[:axis], num_chunks, -1))
    return Tensor.cat(*made, dim=-1)


def _statistics(x: Any, axes: tuple[int, ...], eps: float, keep: bool = False) -> tuple[Any, Any]:
    """The mean, and 1 / the standard deviation with eps added to the variance."""
    wide = x.cast(wide_dtype(float_dtype(x.dtype)))
    variance = wide.var(axes, correction=0, keepdim=keep)
    return wide.mean(axes, keepdim=keep), (variance + eps).rsqrt()
