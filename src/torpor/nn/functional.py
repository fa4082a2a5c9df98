"""PyTorch's functions on tensors, by its names. Most are methods of `Tensor`, where their arguments
are explained; those that a layer keeps state for take that state here. A shape that does not fit is
a `ShapeError`, an argument out of its range a `ValueRangeError`.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.base.missing import names_of
from torpor.nn.losses import *  # noqa: F403  (listed there, once)
from torpor.nn.multi_head import multi_head_attention_forward as multi_head_attention_forward
from torpor.nn.noise import *  # noqa: F403
from torpor.nn.resampling import *  # noqa: F403
from torpor.tensor import Tensor, no_grad
from torpor.tensor.convolution import check_window, windows
from torpor.tensor.creation import beside
from torpor.tensor.handle import derive, float_dtype, located, with_rule
from torpor.tensor.host import known_size
from torpor.tensor.loss import check_several
from torpor.tensor.namespace import function_of
from torpor.tensor.operands import choose, sized
from torpor.tensor.repeated import repeated
from torpor.tensor.scatter import selected
from torpor.tensor.spelling import among, pair, spell, within
from torpor.tensor.wide import wide_dtype, widely
from torpor.tensor.write import update


def _writing(name: str) -> Callable[..., Any]:
    """The method `name` as a function that may be told to write to its operand: `inplace=True`."""
    function = function_of(name)
    own = inspect.signature(function)
    count = len(own.parameters)

    @functools.wraps(function.__wrapped__)  # type: ignore[attr-defined]
    def made(*arguments: Any, inplace: bool = False, **options: Any) -> Any:
        if len(arguments) > count:
            *arguments, inplace = arguments  # type: ignore[assignment]
        result = function(*arguments, **options)
        return update(arguments[0], result) if inplace else result

    last = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False)
    signature = own.replace(parameters=[*own.parameters.values(), last])
    made.__signature__ = signature  # type: ignore[attr-defined]
    return made


# Methods as functions; and those of them that may be told to write to their operand.
_PLAIN: Final = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d celu_ conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d elu_ gelu glu group_norm
    hardshrink hardtanh_ layer_norm leaky_relu_ linear logsigmoid max_pool1d
    max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d normalize one_hot pad prelu
    relu_ rms_norm scaled_dot_product_attention selu_ sigmoid softplus softshrink softsign
    tanh tanhshrink
    """.split()  # noqa: SIM905 (a table that is read)
_WRITING: Final = """
    celu elu hardsigmoid hardswish hardtanh leaky_relu mish relu relu6 selu silu threshold
    """.split()  # noqa: SIM905 (as above)
globals().update({name: function_of(name) for name in _PLAIN})
globals().update({name: _writing(name) for name in _WRITING})
upsample = interpolate  # noqa: F405


def _shares(name: str) -> Callable[..., Any]:
    method = function_of(name)

    def made(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
    ) -> Tensor:
        axis = dim if dim is not None else 0 if input.ndim in (0, 1, 3) else 1
        return method(input, axis, dtype)

    without = "Without `dim` along axis 0 of 0, 1 or 3 axes, else along axis 1, as in PyTorch."
    made.__doc__ = f"{method.__doc__} {without}"
    made.__name__ = made.__qualname__ = name
    return made


softmax, log_softmax, softmin = map(_shares, ("softmax", "log_softmax", "softmin"))


def _lp_pool(axes: int) -> Callable[..., Any]:
    average = function_of(f"avg_pool{axes}d")

    def pool(
        x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        """The `norm_type`-norm of each window, without the absolute values of its elements."""
        count = math.prod(pair(kernel_size, axes))
        mean = average(x**norm_type, kernel_size, stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu() * count) ** (1.0 / norm_type)

    pool.__name__ = pool.__qualname__ = f"lp_pool{axes}d"
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(axes) for axes in (1, 2, 3))


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = names_of("torpor.nn.functional", lambda: __all__)


def embedding(
    x: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of weight[rows, width] that the integers x[...] name: [..., width]; one that does
    not exist raises at realisation, a negative one too. The row `padding_idx` gets no gradient.

    Rows longer than `max_norm`, by the norm `norm_type`, are shortened in place first;
    `scale_grad_by_freq` divides the gradient of each row by how often it is named; gradients are
    dense, `sparse` or not.
    """
    x = beside(x, weight)
    if weight.ndim != 2:
        raise ShapeError(f"embedding needs weights (rows, width), not {weight.shape}")
    if max_norm is not None:
        with no_grad():
            length: Any = weight.norm(norm_type, 1, True)
            long = (_often(x, weight) > 0).unsqueeze(1) & (length > max_norm)
            weight.assign(long.where(weight * (max_norm / (length + 1e-7)), weight))
    rows = _rows_named(x, weight)
    if scale_grad_by_freq:
        often = _often(x, weight).gather(0, x.reshape(-1).long()).reshape(*x.shape, 1)
        rows = with_rule(rows.detach(), (rows / often,), "same")
    if padding_idx is None:
        return rows
    within("padding_idx", padding_idx, -len(weight), len(weight) - 1)
    return choose(x.eq(padding_idx % len(weight)).unsqueeze(-1), rows.detach(), rows)


@repeated
def _rows_named(x: Tensor, weight: Tensor) -> Tensor:
    found: Any = selected("embedding", weight, 0, x.reshape(-1))
    return found.reshape(*x.shape, *weight.shape[1:])


def _often(x: Tensor, weight: Tensor) -> Tensor:
    """How often each row is named."""
    flat = x.reshape(-1).long()
    return weight.new_zeros((weight.shape[0],)).scatter_add(
        0, flat, flat.ones_like(dtype=weight.dtype)
    )


def embedding_bag(
    x: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The "sum", "mean" or "max" of the rows of weight[rows, width] that each bag names: x[bag,
    count], or x[count] in bags that begin at the offsets[bag]; with `include_last_offset` the last
    one ends them. Rows `padding_idx` do not count; the other arguments are those of `embedding`.
    """
    among("embedding_bag's mode", mode, "sum", "mean", "max")
    x = beside(x, weight)
    flat, place = x.reshape(-1), Tensor.arange(x.numel(), device=weight.device)
    if x.ndim == 2:
        count, bag = x.shape[0], place // max(known_size(x.shape[1]), 1)
    elif offsets is None:
        raise ShapeError("embedding_bag of a vector needs offsets")
    else:
        starts = offsets.narrow(0, 0, known_size(offsets.shape[0]) - int(include_last_offset))
        count, bag = starts.shape[0], Tensor.searchsorted(starts, place, right=True) - 1
    rows: Any = embedding(flat, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        if mode != "sum":
            raise ValueRangeError(f"per_sample_weights are for mode 'sum', not {mode!r}")
        sized(per_sample_weights, x.shape, "a weight for each number")
        rows = rows * per_sample_weights.reshape(-1, 1)
    kept = flat.ones_like(dtype="bool")
    if padding_idx is not None:
        kept = flat.ne(padding_idx % known_size(weight.shape[0]))
    nothing = weight.new_zeros((count, weight.shape[1]))
    if mode == "max":
        rows, bag = rows[kept], bag[kept]
        return nothing.index_reduce(0, bag, rows, "amax", include_self=False)
    total = nothing.index_add(0, bag, choose(kept.unsqueeze(1), rows, 0.0))
    if mode == "sum":
        return total
    often = nothing.new_zeros((count,)).index_add(0, bag, kept.cast(weight.dtype))
    return total / often.clamp(1).unsqueeze(1)


@widely
def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis: x · y / (|x| |y|), where no length
    counts as less than `eps`.
    """
    x, y = Tensor.broadcast_tensors(x, y)  # whose axes `dim` counts
    return (_directions(x, dim, eps) * _directions(y, dim, eps)).sum(dim)


def _directions(x: Tensor, dim: int, eps: float) -> Tensor:
    """Vectors divided by their lengths, whose gradient is that of the length also below `eps`."""
    length = x.norm(2, dim, True)
    return x / with_rule(length.clamp(eps), (length,), "same")


def unfold(
    x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of x[batch, channel, height, width] as columns: [batch, channel * kernel, window]
    (without batch as without).
    """
    if x.is_pair:
        pair_of: Any = x
        return pair_of.by_parts(lambda part: unfold(part, kernel_size, dilation, padding, stride))
    if x.ndim == 3:
        return unfold(x.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    sizes, spread, steps = pair(kernel_size), pair(dilation), pair(stride)
    around = [(before, before) for before in pair(padding)]
    check_window(x, sizes, around, spread)
    seen: Any = derive(windows, (x,), sizes, steps, spread, around).permute(0, 1, 4, 5, 2, 3)
    batch, channels, *_, height, width = seen.shape
    return seen.reshape(batch, channels * sizes[0] * sizes[1], height * width)


def fold(
    x: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Sums of windows that are columns, where they overlap: what the gradient of `unfold` is,
    [batch, channel, height, width].
    """
    if x.ndim == 2:
        return fold(x.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    count = math.prod(pair(kernel_size))
    if x.ndim != 3 or x.shape[1] % count:
        what = f"fold needs columns (batch, channels * {count}, window), not {x.shape}"
        raise located(ShapeError(what), (x,))
    shape = x.shape[0], x.shape[1] // count, *pair(output_size)
    nothing = x.new_zeros(shape).requires_grad_()
    columns = unfold(nothing, kernel_size, dilation, padding, stride)
    made = columns.gradient(nothing, gradient=x)[0]  # linear in x: nothing is in it
    return made if x.requires_grad else made.detach()


@widely
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x divided by (k + alpha mean)**beta, the mean of the squares of `size` channels around."""
    if x.ndim < 3:
        raise ShapeError(f"local_response_norm needs 3 axes or more, not {x.ndim}")
    squares = x.square().transpose(1, -1).pad((size // 2, (size - 1) // 2))
    mean: Any = squares.unfold(-1, size).sum(-1).transpose(1, -1) / size
    made = x / (mean * alpha + k) ** beta
    return made if x.numel() else made.cast(x.dtype)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`batch_norm` of each sample by itself; running statistics follow the mean over samples."""
    batch, channels, *inner = x.shape
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)

    def each(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.repeat(batch)

    means, variances = each(running_mean), each(running_var)
    rows = x.reshape(1, batch * channels, *inner)
    made = batch_norm(rows, means, variances, each(weight), each(bias), True, momentum, eps)
    for running, new in ((running_mean, means), (running_var, variances)):
        if running is not None and new is not None:
            with no_grad():
                running.assign(new.reshape(batch, channels).mean(0).cast(running.dtype))
    return made.reshape(*x.shape)


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

    With `training` mean and (biased) variance are the batch's own; the running ones, if given, with
    unbiased variance, follow by `momentum`, in place, unless there are no elements.
    """
    if x.ndim < 2:
        if x.numel():
            raise ShapeError(f"batch_norm needs 2 axes or more, not {x.ndim}")
        return x.clone()
    for one in (running_mean, running_var, weight, bias):
        sized(one, x.shape[1:2], "a number for each channel")
    within("batch_norm's eps", eps, 0)
    if training:
        if not eps:
            raise ValueRangeError("batch_norm's eps is above 0 in training")
        check_several(x, x.shape[1])
    elif running_mean is None or running_var is None:
        raise ShapeError("batch_norm without training needs running_mean and running_var")
    else:
        return _scaled(x, running_mean, running_var, weight, bias, eps)
    made, mean, variance = _standardised(x, weight, bias, eps)
    if training and running_mean is not None and running_var is not None and 0 not in x.shape:
        count = x.numel() // x.shape[1]
        with no_grad():
            new = _followed(running_mean, running_var, mean, variance, momentum, count)
            for running, value in zip((running_mean, running_var), new, strict=True):
                running.assign(value)
    return made


@repeated
def _scaled(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> Tensor:  # fmt: skip
    """`batch_norm` with these statistics."""
    shape, dtype = (1, -1, *(1,) * (x.ndim - 2)), float_dtype(x.dtype)
    moved = x.cast(wide_dtype(dtype)) - mean.reshape(shape)
    y: Tensor = (moved * (variance + eps).rsqrt().reshape(shape)).cast(dtype)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


@repeated
def _standardised(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` with the batch's own statistics, and these."""
    others, wide = (0, *range(2, x.ndim)), x.cast(wide_dtype(float_dtype(x.dtype)))
    mean, variance = wide.mean(others), wide.var(others, correction=0)
    return _scaled(x, mean, variance, weight, bias, eps), mean, variance


@repeated
def _followed(
    running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, momentum: Any,
    count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Running statistics after a batch of so many elements of each channel."""
    unbiased, keep = variance * (count / max(count - 1, 1)), 1 - momentum
    made = running_mean * keep + mean * momentum, running_var * keep + unbiased * momentum
    return made[0].cast(running_mean.dtype), made[1].cast(running_var.dtype)


def _with(name: str, called: str, option: str) -> Callable[..., Any]:
    """The function `called`, which is another one with an option set."""
    function = globals()[name]

    def made(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **{option: True, **options})

    made.__doc__ = f"`{name}` with `{option}=True`."
    made.__name__ = made.__qualname__ = called
    made.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return made


_POOLS: Final = """
    max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
    fractional_max_pool2d fractional_max_pool3d
    """.split()  # noqa: SIM905 (as above)
globals().update(
    {f"{one}_with_indices": _with(one, f"{one}_with_indices", "return_indices") for one in _POOLS}
)
threshold_ = _with("threshold", "threshold_", "inplace")
rrelu_ = _with("rrelu", "rrelu_", "inplace")
native_channel_shuffle = channel_shuffle  # noqa: F405


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Products of groups: row t of mat_a[row, width] times mat_b[group, width, column] of the
    group that it is in, [row, column]. `offs` says where each group ends; rows behind the last give
    0. Columns of mat_b[width, column] may be grouped likewise, by mat_a[group, row, width], or the
    width of two matrices, which gives [group, row, column]; two stacks are multiplied one by one.

    Which rows a group has is read by the kernel, so that nothing is compiled anew for others; it
    multiplies every row by every group's matrix.

    >>> x, weights = Tensor.ones(3, 2), Tensor([[[1.0], [1.0]], [[2.0], [2.0]]])
    >>> grouped_mm(x, weights, offs=Tensor([1, 3])).tolist()
    [[2.0], [4.0], [4.0]]
    """
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3) or not {mat_a.ndim, mat_b.ndim} <= {2, 3}:
        what = "grouped_mm takes two stacks, or a matrix and offs for each that is none"
        raise located(ShapeError(what), (mat_a, mat_b))
    if offs is None:
        made = mat_a.matmul(mat_b)
    else:
        split = mat_a.shape[0 if mat_b.ndim == 3 else -1] if mat_a.ndim == 2 else mat_b.shape[-1]
        ends = offs.reshape(-1, 1)
        place = Tensor.arange(split, device=mat_a.device)
        held = (place < ends) & (place >= ends.pad((0, 0, 1, 0))[:-1])  # (group, place)
        if mat_a.ndim == mat_b.ndim:
            left, right = (held.unsqueeze(1), mat_a), (held.unsqueeze(2), mat_b)
            made = choose(*left, 0.0).matmul(choose(*right, 0.0))
        else:
            held = held.unsqueeze(2 if mat_a.ndim == 2 else 1)
            made = choose(held, mat_a.matmul(mat_b), 0.0).sum(0)
    made = made if bias is None else made + bias
    return made if out_dtype is None else made.cast(out_dtype)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution along time of input[time, batch, channel] by weight[window, channel, output],
    with bias[output]: [time', batch, output].
    """
    made: Tensor = input.permute(1, 2, 0).conv1d(weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1)


# What is defined in this room, or is a method; not what either is made with.
__all__ = [
    name
    for name, value in globals().items()
    if inspect.isfunction(value) and not name.startswith("_")
    if value.__module__.startswith("torpor.nn.") or hasattr(value, "__wrapped__")
]
spell(sys.modules[__name__])
