"""Convolutions, with PyTorch's names, constructor arguments, distributions and state names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import init
from torpor.nn.layer import Renewable, divide
from torpor.tensor import Tensor
from torpor.tensor.convolution import paddings
from torpor.tensor.spelling import among, pair

Sizes = int | Sequence[int]
PADDINGS: Final = {
    "zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"
}  # fmt: skip


class _Convolution(Renewable):
    """What convolutions share: sizes by axis, and a weight of `layout` with its bias."""

    axes: ClassVar[int]

    def _fill(
        self, channels: tuple[int, int], kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int,
        bias: bool, turned: bool,
    ) -> None:  # fmt: skip
        """Make a weight (out, in / groups, *kernel), or (in, out / groups, *kernel) if turned, and
        a bias (out,).
        """
        self.stride, self.dilation = pair(stride, self.axes), pair(dilation, self.axes)
        inside, outside = channels
        for size in channels:
            divide("groups", groups, size)
        self.in_channels, self.out_channels, self.groups = inside, outside, groups
        self.kernel_size = pair(kernel, self.axes)
        first, second = (inside, outside) if turned else (outside, inside)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])  # of a turned one too, as in PyTorch
        self.weight = init.default_weight(shape, fan_in)
        self.bias = init.default_weight((outside,), fan_in) if bias else None


class _Direct(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ):
        among("padding_mode", padding_mode, *PADDINGS)
        self.padding_mode = padding_mode
        self.padding = padding if isinstance(padding, str) else pair(padding, self.axes)
        channels = in_channels, out_channels
        self._fill(channels, kernel_size, stride, dilation, groups, bias, turned=False)
        self._around = paddings(self.padding, self.kernel_size, self.dilation, self.stride)

    def forward(self, x: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            sides = [side for pair in reversed(self._around) for side in pair]
            x, padding = x.pad(sides, PADDINGS[self.padding_mode]), 0
        convolve = (x.conv1d, x.conv2d, x.conv3d)[self.axes - 1]
        return convolve(self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Direct):
    """Convolution of x[batch, in, length] with weight[out, in/groups, k]."""

    axes = 1


class Conv2d(_Direct):
    """Convolution of x[batch, in, height, width] with weight[out, in/groups, kh, kw]."""

    axes = 2


class Conv3d(_Direct):
    """Convolution of x[batch, in, depth, height, width] with weight[out, in/groups, kd, kh, kw]."""

    axes = 3


class _Transposed(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
    ):
        if padding_mode != "zeros":
            raise ValueRangeError(f"a transposed convolution pads with zeros, not {padding_mode!r}")
        self.padding_mode = padding_mode
        self.padding = pair(padding, self.axes)
        self.output_padding = pair(output_padding, self.axes)
        channels = in_channels, out_channels
        self._fill(channels, kernel_size, stride, dilation, groups, bias, turned=True)

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = (x.conv_transpose1d, x.conv_transpose2d, x.conv_transpose3d)[self.axes - 1]
        further = self.output_padding if output_size is None else self._further(x, output_size)
        sizes = self.stride, self.padding, further
        return convolve(self.weight, self.bias, *sizes, self.groups, self.dilation)

    def _further(self, x: Tensor, wanted: Sequence[int]) -> tuple[int, ...]:
        """The output padding by which the result has the sizes that are wanted."""
        made = []
        parts = zip(x.shape[-self.axes :], self.stride, self.padding, self.dilation,
                    self.kernel_size, wanted[-self.axes :], strict=True)  # fmt: skip
        for length, stride, padding, dilation, kernel, size in parts:
            least = (length - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            if not 0 <= size - least < max(stride, dilation):
                raise ShapeError(f"no result of size {size}: it is {least} or a little more")
            made.append(size - least)
        return tuple(made)


class ConvTranspose1d(_Transposed):
    """The gradient of `Conv1d`: x[batch, in, length] with weight[in, out/groups, k]."""

    axes = 1


class ConvTranspose2d(_Transposed):
    """The gradient of `Conv2d`: x[batch, in, height, width] with weight[in, out/groups, kh, kw]."""

    axes = 2


class ConvTranspose3d(_Transposed):
    """The gradient of `Conv3d`: x[batch, in, depth, height, width] with weight[in, out/groups, kd,
    kh, kw].
    """

    axes = 3


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
