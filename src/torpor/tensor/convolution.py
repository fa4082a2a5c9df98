"""Convolutions: windows are views, so they are elementwise work and a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torpor.base.errors import ShapeError
from torpor.base.promotion import promote
from torpor.graph import build
from torpor.ir.infer import Shape, shape_of
from torpor.ir.uop import UOp
from torpor.tensor.amp import lowered
from torpor.tensor.annotated import Tensor
from torpor.tensor.contraction import contract
from torpor.tensor.handle import (
    Handle,
    derive,
    located,
    render_shape,
)
from torpor.tensor.overlap import scatter_windows
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import pair


def windows(
    node: UOp,
    kernel: Sequence[Any],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> UOp:
    """(..., L1, L2) to (..., O1, O2, K1, K2): windows of the last axes, with zeros around."""
    lead = len(shape_of(node)) - len(kernel)
    for place, size in enumerate(kernel):
        options = stride[place], dilation[place], padding[place]
        node = build.windows(node, lead + place, size, *options)
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
    seen = windows(image, kernel, stride, dilation, padding)  # (n, g*c, O..., K...)
    sizes = shape_of(seen)[2 : 2 + spatial]
    parts: Shape = (batch, groups, 1, channels // groups, *shape_of(seen)[2:])
    spread = build.reshape(seen, parts)
    rows = (1, groups, outputs // groups, inputs)
    filters = build.reshape(weight, (*rows, *(1,) * spatial, *kernel))
    axes = (3, *range(4 + spatial, 4 + 2 * spatial))
    return build.reshape(contract(spread, filters, axes, dtype), (batch, outputs, *sizes))


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


def check_window(image: Any, kernel: Any, paddings: Any, dilation: Any) -> None:
    for size, k, (before, after), d in zip(image.shape[-len(kernel) :], kernel, paddings, dilation):
        if isinstance(size, int) and size + before + after < d * (k - 1) + 1:
            what = f"a window of {k} (dilation {d}) exceeds the padded axis of {size}"
            raise located(ShapeError(f"{what} + {before} + {after}"), (image,))


def _correlation(dims: int, text: str) -> Callable[..., Tensor]:
    """A convolution along so many axes."""

    def method(
        self: Any, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        if self.ndim == dims + 1:
            one = method(self.unsqueeze(0), weight, bias, stride, padding, dilation, groups)
            return one.squeeze(0)
        _check(self, weight, groups, dims, False)
        steps, spread = pair(stride, dims), pair(dilation, dims)
        kernel = weight.shape[2:]
        around = paddings(padding, kernel, spread, steps)
        check_window(self, kernel, around, spread)
        made = derive(_convolve, (self, weight), steps, around, spread, groups)
        _check_bias(bias, weight.shape[0])
        return made if bias is None else made + bias.reshape(1, -1, *(1,) * dims)

    method.__name__, method.__doc__ = f"conv{dims}d", text
    return lowered(repeated(method))


def _transposed(dims: int, text: str) -> Callable[..., Tensor]:
    """The gradient of a convolution along so many axes."""

    def method(
        self: Any, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        if self.ndim == dims + 1:
            rest = (weight, bias, stride, padding, output_padding, groups, dilation)
            return method(self.unsqueeze(0), *rest).squeeze(0)
        _check(self, weight, groups, dims, True)
        steps, around = pair(stride, dims), pair(padding, dims)
        spread, beyond = pair(dilation, dims), pair(output_padding, dims)
        _check_steps(self, steps, spread, around, beyond)
        _check_bias(bias, groups * weight.shape[1])
        lengths = zip(self.shape[2:], steps, spread, weight.shape[2:], beyond, around, strict=True)
        made_lengths = [(n - 1) * s + d * (k - 1) + 1 + b - 2 * a for n, s, d, k, b, a in lengths]
        if any(isinstance(length, int) and length < 1 for length in made_lengths):
            what = (
                f"conv_transpose{dims}d: a result of lengths {tuple(made_lengths)} has no elements"
            )
            raise located(ShapeError(what), (self, weight))
        made = derive(scatter_windows, (self, weight), steps, spread, groups, around, beyond)
        return made if bias is None else made + bias.reshape(1, -1, *(1,) * dims)

    method.__name__, method.__doc__ = f"conv_transpose{dims}d", text
    return lowered(repeated(method))


def _check_steps(image: Any, steps: Any, spread: Any, around: Any, beyond: Any) -> None:
    if min(*steps, *spread) < 1 or min(*around, *beyond) < 0:
        what = f"stride {steps}, dilation {spread}, padding {around} and output_padding {beyond}"
        raise located(ShapeError(f"{what} cannot be negative, nor the first two 0"), (image,))
    if any(o >= max(s, d) for o, s, d in zip(beyond, steps, spread, strict=True)):
        what = f"output_padding {beyond} must be below stride {steps} or dilation {spread}"
        raise located(ShapeError(what), (image,))


class Convolution(Handle):
    """Convolutions of (batch, channels, spatial axes), or without batch. What does not fit is a
    `ShapeError` at the call.
    """

    __slots__ = ()

    conv2d = _correlation(
        2,
        """Cross-correlation of (batch, in, height, width), giving (batch, out, height', width').

        weight: (out, in / groups, kh, kw). bias: (out,). stride, padding, dilation: one number, or
        one for each axis; padding also "valid" (none), "same" (stride 1 only), or (before, after)
        pairs. Each output length is (length + before + after - dilation (k - 1) - 1) // stride + 1.

        >>> Tensor.ones(1, 3, 8, 8).conv2d(Tensor.ones(6, 3, 3, 3), padding=1, stride=2).shape
        (1, 6, 4, 4)
        """,
    )
    conv1d = _correlation(
        1,
        """Cross-correlation of (batch, in, length) with weight (out, in / groups, k), as
        `conv2d`.
        """,
    )
    conv3d = _correlation(
        3,
        """Cross-correlation of (batch, in, depth, height, width) with weight (out, in / groups, kd,
        kh, kw), as `conv2d`.
        """,
    )
    conv_transpose2d = _transposed(
        2,
        """The gradient of `conv2d`: (batch, in, height, width) to (batch, out, height', width').

        weight: (in, out / groups, kh, kw). bias: (out,). Each output length is (length - 1) stride
        - 2 padding + dilation (k - 1) + output_padding + 1.

        >>> Tensor.ones(1, 6, 4, 4).conv_transpose2d(Tensor.ones(6, 3, 2, 2), stride=2).shape
        (1, 3, 8, 8)
        """,
    )
    conv_transpose1d = _transposed(
        1,
        """The gradient of `conv1d`: (batch, in, length) with weight (in, out / groups, k), as
        `conv_transpose2d`.
        """,
    )
    conv_transpose3d = _transposed(
        3,
        """The gradient of `conv3d`: (batch, in, depth, height, width) with weight (in, out /
        groups, kd, kh, kw), as `conv_transpose2d`.
        """,
    )
