"""Convolutions, with PyTorch's names, constructor arguments, distributions and state names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from torpor.base.errors import ShapeError
from torpor.nn import init
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.convolution import paddings
from torpor.tensor.spelling import pair

Sizes = int | Sequence[int]


class _Convolution(Module):
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
        if groups < 1 or inside % groups or outside % groups:
            raise ShapeError(f"{groups} groups do not divide {inside} and {outside}")
        self.in_channels, self.out_channels, self.groups = inside, outside, groups
        self.kernel_size = pair(kernel, self.axes)
        first, second = (inside, outside) if turned else (outside, inside)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])  # of a turned one too, as in PyTorch
        self.weight = init.default_weight(shape, fan_in)
        self.bias = init.default_weight((outside,), fan_in) if bias else None

    def __repr__(self) -> str:
        sizes = f"kernel_size={self.kernel_size}, stride={self.stride}"
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {sizes})"


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
    ):
        self.padding = padding if isinstance(padding, str) else pair(padding, self.axes)
        channels = in_channels, out_channels
        self._fill(channels, kernel_size, stride, dilation, groups, bias, turned=False)
        paddings(self.padding, self.kernel_size, self.dilation, self.stride)

    def forward(self, x: Tensor) -> Tensor:
        convolve = (x.conv1d, x.conv2d, x.conv3d)[self.axes - 1]
        return convolve(
            self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


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
    ):
        self.padding = pair(padding, self.axes)
        self.output_padding = pair(output_padding, self.axes)
        channels = in_channels, out_channels
        self._fill(channels, kernel_size, stride, dilation, groups, bias, turned=True)

    def forward(self, x: Tensor) -> Tensor:
        convolve = (x.conv_transpose1d, x.conv_transpose2d, x.conv_transpose3d)[self.axes - 1]
        sizes = self.stride, self.padding, self.output_padding
        return convolve(self.weight, self.bias, *sizes, self.groups, self.dilation)


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
