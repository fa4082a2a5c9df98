"""Convolutions and pooling: windows are views, so both are elementwise work and a reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.base.promotion import promote
from torpor.graph import build
from torpor.ir.infer import Shape, shape_of
from torpor.ir.uop import UOp
from torpor.tensor.contraction import contract
from torpor.tensor.handle import (
    Handle,
    derive,
    float_dtype,
    located,
    make,
    render_shape,
    with_rule,
)
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.overlap import scatter_windows
from torpor.tensor.spelling import pair
from torpor.tensor.wide import widely

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


def _windows(
    node: UOp, kernel: Sequence[Any], stride: Sequence[int], dilation: Sequence[int]
) -> UOp:
    """(..., L1, L2) to (..., O1, O2, K1, K2): windows of the last axes."""
    lead = len(shape_of(node)) - len(kernel)
    for place, size in enumerate(kernel):
        node = build.window(node, lead + place, size, stride[place], dilation[place])
    return node


def _convolve(
    image: UOp,
    weight: UOp,
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> UOp:
    """Gives image (n, groups*c, L...), weight (groups*o, c, K...) to (n, groups*o, O...)."""
    dtype = promote(image.dtype, weight.dtype)
    batch, channels = shape_of(image)[:2]
    outputs, inputs, *kernel = shape_of(weight)
    spatial = len(kernel)
    padded = build.pad(image, ((0, 0), (0, 0), *padding))
    windows = _windows(padded, kernel, stride, dilation)  # (n, g*c, O..., K...)
    sizes = shape_of(windows)[2 : 2 + spatial]
    parts: Shape = (batch, groups, 1, channels // groups, *shape_of(windows)[2:])
    spread = build.reshape(windows, parts)
    rows = (1, groups, outputs // groups, inputs)
    filters = build.reshape(weight, (*rows, *(1,) * spatial, *kernel))
    axes = (3, *range(4 + spatial, 4 + 2 * spatial))
    summed = contract(spread, filters, axes, dtype)
    return build.reshape(summed, (batch, outputs, *sizes))


def paddings(padding: Any, kernel: Sequence[Any], dilation: Sequence[int], stride: Any) -> Any:
    """(before, after) of each spatial axis: numbers, pairs, "valid" or "same"."""
    count = len(kernel)
    if isinstance(padding, str) and padding not in ("valid", "same"):
        raise ShapeError(
            f'padding is a number, one for each axis, "valid" or "same", not {padding!r}'
        )
    if padding == "valid":
        padding = 0
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ShapeError('padding="same" needs stride 1')
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(padding, Sequence) and padding and isinstance(padding[0], Sequence):
        return tuple((before, after) for before, after in padding)
    return tuple((p, p) for p in pair(padding, count))


def _cell_means(operand: Any, axis: int, cells: int) -> Any:
    """Means over the cells of an axis counted from the end. What is not in a cell is left out, not
    multiplied by 0.
    """
    size = operand.shape[axis]
    numbers: Any = make(iota(max(cells, size), operand.device), operand.device)
    place, cell = numbers[:size], numbers[:cells].unsqueeze(1)
    inside = ((place + 1) * cells > cell * size) & (place * cells < (cell + 1) * size)
    turned = operand.transpose(axis, -1).unsqueeze(-2)
    sums = inside.where(turned, 0).sum(-1) / inside.sum(-1).cast(operand.dtype)
    return sums.transpose(axis, -1)


def _check_bias(bias: Any, outputs: Any) -> None:
    if bias is not None and bias.shape != (outputs,):
        raise located(ShapeError(f"a bias has one number for each of {outputs} outputs"), (bias,))


def _check(image: Any, weight: Any, groups: int, dims: int, transposed: bool) -> None:
    if image.ndim != dims + 2 or weight.ndim != dims + 2:
        what = f"a {dims}-d convolution needs an input and a weight of {dims + 2} axes"
        raise located(ShapeError(what), (image, weight))
    channels = image.shape[1]
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    if channels != expected or weight.shape[0] % groups:
        what = (
            f"input {render_shape(image.shape)} does not fit weight "
            f"{render_shape(weight.shape)} with {groups} groups"
        )
        raise located(ShapeError(what), (image, weight))


def _check_window(image: Any, kernel: Any, paddings: Any, dilation: Any) -> None:
    for size, k, (before, after), d in zip(image.shape[-len(kernel) :], kernel, paddings, dilation):
        if isinstance(size, int) and size + before + after < d * (k - 1) + 1:
            what = f"a window of {k} (dilation {d}) exceeds the padded axis of {size}"
            raise located(ShapeError(f"{what} + {before} + {after}"), (image,))


class Pooled(NamedTuple):
    """What `max_pool1d` and `max_pool2d` give with `return_indices`."""

    values: Any
    indices: Any


class Convolution(Handle):
    """Convolutions and pooling of (batch, channels, spatial axes); without batch for the
    convolutions. What does not fit is a `ShapeError` at the call.
    """

    __slots__ = ()

    def conv2d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """Cross-correlation of (batch, in, height, width), giving (batch, out, height', width').

        weight: (out, in / groups, kh, kw). bias: (out,). stride, padding, dilation: one number, or
        one for each axis; padding also "valid" (none), "same" (stride 1 only), or (before, after)
        pairs. Each output length is (length + before + after - dilation (k - 1) - 1) // stride + 1.

        >>> Tensor.ones(1, 3, 8, 8).conv2d(Tensor.ones(6, 3, 3, 3), padding=1, stride=2).shape
        (1, 6, 4, 4)
        """
        return _convolution(self, weight, bias, stride, padding, dilation, groups, 2)

    def conv1d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """Cross-correlation of (batch, in, length) with weight (out, in / groups, k), as
        `conv2d`.
        """
        return _convolution(self, weight, bias, stride, padding, dilation, groups, 1)

    def conv3d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """Cross-correlation of (batch, in, depth, height, width) with weight (out, in / groups, kd,
        kh, kw), as `conv2d`.
        """
        return _convolution(self, weight, bias, stride, padding, dilation, groups, 3)

    def conv_transpose2d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        """The gradient of `conv2d`: (batch, in, height, width) to (batch, out, height', width').

        weight: (in, out / groups, kh, kw). bias: (out,). Each output length is (length - 1) stride
        - 2 padding + dilation (k - 1) + output_padding + 1.

        >>> Tensor.ones(1, 6, 4, 4).conv_transpose2d(Tensor.ones(6, 3, 2, 2), stride=2).shape
        (1, 3, 8, 8)
        """
        return _transposed(self, weight, bias, stride, padding, output_padding, groups, dilation, 2)

    def conv_transpose1d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        """The gradient of `conv1d`: (batch, in, length) with weight (in, out / groups, k), as
        `conv_transpose2d`.
        """
        return _transposed(self, weight, bias, stride, padding, output_padding, groups, dilation, 1)

    def conv_transpose3d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        """The gradient of `conv3d`: (batch, in, depth, height, width) with weight (in, out /
        groups, kd, kh, kw), as `conv_transpose2d`.
        """
        return _transposed(self, weight, bias, stride, padding, output_padding, groups, dilation, 3)

    # --- pooling ----------------------------------------------------------------------------------
    def max_pool2d(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The greatest element of each window of the last two axes, which are (height, width);
        padding is less than anything, NaN greater. `stride` is the window's size unless given; with
        `ceil_mode` a last window may reach beyond the end.

        >>> Tensor([[[1, 2], [3, 4]]]).max_pool2d(2).tolist()
        [[[4]]]
        """
        windows = kernel_size, stride, padding, dilation, ceil_mode
        return _max_pool(self, *windows, 2, return_indices)

    def max_pool1d(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The greatest element of each window of the last axis, as `max_pool2d`."""
        windows = kernel_size, stride, padding, dilation, ceil_mode
        return _max_pool(self, *windows, 1, return_indices)

    def avg_pool2d(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """The mean of each window of the last two axes, windows as in `max_pool2d`. Padding counts
        as zeros unless `count_include_pad` is off; `divisor_override` divides instead of the count.
        Means of integers are truncated.
        """
        return _mean_pool(
            self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2
        )

    def avg_pool1d(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        """The mean of each window of the last axis, as `avg_pool2d`."""
        return _mean_pool(self, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)

    @widely
    def adaptive_avg_pool2d(self, output_size: Any) -> Tensor:
        """Means over a grid of `output_size` cells of the last two axes: cell i of n along an axis
        of length s covers its elements from floor(i s / n) up to ceil((i + 1) s / n), as in
        PyTorch. None stands for s.
        """
        sizes = known_shape(self.shape[-2:])
        asked = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * 2
        each: tuple[Any, ...] = asked * 2 if len(asked) == 1 else asked
        wanted = pair([s if n is None else n for n, s in zip(each, sizes, strict=True)])
        if any(n < 0 for n in wanted) or any(s == 0 for s in sizes):
            what = f"adaptive pooling of {render_shape(self.shape)} to {wanted}"
            raise located(ShapeError(what), (self,))
        if all(wanted) and not any(s % n for s, n in zip(sizes, wanted)):
            return self.avg_pool2d(tuple(s // n for s, n in zip(sizes, wanted)))
        rows = _cell_means(self.cast(float_dtype(self.dtype)), -2, wanted[0])
        return _cell_means(rows, -1, wanted[1])


def _convolution(
    image: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    dims: int,
) -> Tensor:  # fmt: skip
    if image.ndim == dims + 1:
        one = image.unsqueeze(0)
        return _convolution(one, weight, bias, stride, padding, dilation, groups, dims).squeeze(0)
    _check(image, weight, groups, dims, False)
    steps, spread = pair(stride, dims), pair(dilation, dims)
    kernel = weight.shape[2:]
    around = paddings(padding, kernel, spread, steps)
    _check_window(image, kernel, around, spread)
    made = derive(_convolve, (image, weight), steps, around, spread, groups)
    _check_bias(bias, weight.shape[0])
    return made if bias is None else made + bias.reshape(1, -1, *(1,) * dims)


def _transposed(
    image: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any, dims: int,
) -> Tensor:  # fmt: skip
    if image.ndim == dims + 1:
        one = image.unsqueeze(0)
        return _transposed(
            one, weight, bias, stride, padding, output_padding, groups, dilation, dims
        ).squeeze(0)
    _check(image, weight, groups, dims, True)
    steps, around = pair(stride, dims), pair(padding, dims)
    spread, beyond = pair(dilation, dims), pair(output_padding, dims)
    inputs, outputs, *kernel = weight.shape
    if min(*steps, *spread) < 1 or min(*around, *beyond) < 0:
        what = f"stride {steps}, dilation {spread}, padding {around} and output_padding {beyond}"
        raise located(ShapeError(f"{what} cannot be negative, nor the first two 0"), (image,))
    if any(o >= max(s, d) for o, s, d in zip(beyond, steps, spread, strict=True)):
        what = f"output_padding {beyond} must be below stride {steps} or dilation {spread}"
        raise located(ShapeError(what), (image,))
    pairs = [(-p, o - p) for p, o in zip(around, beyond, strict=True)]
    whole = derive(scatter_windows, (image, weight), steps, spread, groups)
    _check_bias(bias, groups * outputs)
    made = whole.pad([None, None, *pairs])  # negative numbers cut
    return made if bias is None else made + bias.reshape(1, -1, *(1,) * dims)


def _pool_plan(
    operand: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, dims: int
) -> Any:
    """Kernel, strides, dilation, paddings, and what `ceil_mode` adds behind, an axis each."""
    sizes = pair(kernel, dims)
    given = stride is not None and not (isinstance(stride, Sequence) and not stride)
    steps = pair(stride, dims) if given else sizes
    spread, paddings = pair(dilation, dims), [(p, p) for p in pair(padding, dims)]
    if any(n < 1 for n in (*sizes, *steps, *spread)):
        what = f"pooling needs a positive window, stride and dilation: {sizes}, {steps}, {spread}"
        raise located(ShapeError(what), (operand,))
    if any(not 0 <= 2 * p <= k for (p, _), k in zip(paddings, sizes)):
        raise located(ShapeError("pooling pads from 0 to half of its window"), (operand,))
    more = [0] * dims
    for place in range(dims if ceil else 0):
        reach = spread[place] * (sizes[place] - 1) + 1
        length, around = operand.shape[operand.ndim - dims + place], paddings[place][0]
        rest = (length + 2 * around - reach) % steps[place]
        count = (length + 2 * around - reach) // steps[place] + 1
        # as in PyTorch, a window must not start in the padding behind
        if rest and count * steps[place] < length + around:
            more[place] = steps[place] - rest
    return sizes, steps, spread, paddings, more


def _pooled(operand: Any, sizes: Any, steps: Any, spread: Any) -> Any:
    """Windows (already padded): (tensor, axes of the windows)."""
    made = derive(_windows, (operand,), sizes, steps, spread)
    return made, tuple(range(-len(sizes), 0))


def _max_pool(
    operand: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    dims: int,
    indices: bool,
) -> Any:
    plan = _pool_plan(operand, kernel, stride, padding, dilation, ceil, dims)
    sizes, steps, spread, paddings, more = plan
    pairs = [(b, a + m) for (b, a), m in zip(paddings, more, strict=True)]
    _check_window(operand, sizes, pairs, spread)
    padded = any(b or a for b, a in pairs)
    grown: list[Any] = [None] * (operand.ndim - dims) + pairs
    made = operand.pad(grown, value=operand.dtype.min) if padded else operand
    windows, axes = _pooled(made, sizes, steps, spread)
    values = windows.amax(axes)
    if operand.dtype.is_float:
        inside = [_inside(operand, grown, sizes, steps, spread)] if padded else []
        values = with_rule(values, (windows, *inside), "pool", dims)
    if not indices:
        return values
    shape = known_shape(operand.shape[-dims:])
    count = math.prod(shape)
    places: Any = make(iota(count, operand.device), operand.device).reshape(*shape)
    around, _ = _pooled(places.pad(pairs, value=count), sizes, steps, spread)
    found = windows.detach().eq(values.detach().reshape(*values.shape, *(1,) * dims))
    first = found.where(around, count).amin(axes)
    if operand.dtype.is_float:  # as in PyTorch, the last NaN
        first = values.isnan().where(windows.isnan().where(around, -1).amax(axes), first)
    return Pooled(values, first)


def _inside(operand: Any, grown: Any, sizes: Any, steps: Any, spread: Any) -> Any:
    """Which elements of windows are not padding."""
    whole = make(build.constant(True, dtypes.bool, operand.shape), operand.device)
    return _pooled(whole.pad(grown), sizes, steps, spread)[0]


def _quotient(total: Any, count: Any) -> Any:
    """total / count, of integers truncated."""
    return total.div(count, rounding_mode="trunc") if total.dtype.is_int else total / count


@widely
def _mean_pool(
    operand: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, counted: bool,
    divisor: int | None, dims: int,
) -> Tensor:  # fmt: skip
    sizes, steps, spread, paddings, more = _pool_plan(
        operand, kernel, stride, padding, 1, ceil, dims
    )
    lead: list[Any] = [None] * (operand.ndim - dims)
    grown = operand.pad([*lead, *paddings]) if any(b for b, _ in paddings) else operand
    behind = [*lead, *[(0, m) for m in more]]
    _check_window(grown, sizes, [(0, m) for m in more], spread)
    windows, axes = _pooled(grown.pad(behind) if any(more) else grown, sizes, steps, spread)
    total = windows.sum(axes).cast(operand.dtype)
    if divisor is not None:
        if not divisor:
            raise located(ShapeError("pooling cannot divide by 0"), (operand,))
        return _quotient(total, divisor)
    count = 1
    for size in sizes:
        count *= size
    if (counted or not any(b for b, _ in paddings)) and not any(more):
        return _quotient(total, count)
    inside = (grown if counted else operand).ones_like()
    inside = (inside if counted else inside.pad([*lead, *paddings])).pad(behind)
    counts, _ = _pooled(inside, sizes, steps, spread)
    return _quotient(total, counts.sum(axes))
