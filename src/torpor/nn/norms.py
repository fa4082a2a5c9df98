"""Normalisations, with PyTorch's names, constructor arguments and state names."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.base.errors import ShapeError
from torpor.nn.module import Module
from torpor.tensor import Tensor

Sizes = int | Sequence[int]


def sizes_of(shape: Sizes) -> tuple[int, ...]:
    """The last axes that are normalised: one size is one axis."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """The last axes of x, of the sizes `normalized_shape`, moved to mean 0 and variance 1, then
    scaled by `weight` and shifted by `bias`. Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
    """

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ):
        self.normalized_shape, self.eps = sizes_of(normalized_shape), eps
        sizes, shifts = self.normalized_shape, elementwise_affine and bias
        self.weight = Tensor.ones(*sizes, requires_grad=True) if elementwise_affine else None
        self.bias = Tensor.zeros(*sizes, requires_grad=True) if shifts else None

    def forward(self, x: Tensor) -> Tensor:
        return x.layer_norm(self.normalized_shape, self.weight, self.bias, self.eps)

    def __repr__(self) -> str:
        return f"LayerNorm({self.normalized_shape}, eps={self.eps})"


class RMSNorm(Module):
    """The last axes of x, of the sizes `normalized_shape`, divided by the root of their mean
    square, then scaled by `weight`. Zhang and Sennrich, 2019, arXiv:1910.07467.
    """

    def __init__(
        self, normalized_shape: Sizes, eps: float | None = None, elementwise_affine: bool = True
    ):
        self.normalized_shape, self.eps = sizes_of(normalized_shape), eps
        ones = Tensor.ones(*self.normalized_shape, requires_grad=True)
        self.weight = ones if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return x.rms_norm(self.normalized_shape, self.weight, self.eps)

    def __repr__(self) -> str:
        return f"RMSNorm({self.normalized_shape}, eps={self.eps})"


class GroupNorm(Module):
    """Each of `num_groups` groups of channels of x[batch, channel, ...] moved to mean 0 and
    variance 1, then scaled and shifted by channel. Wu and He, 2018, arXiv:1803.08494.
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True):
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(num_channels, requires_grad=True) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return x.group_norm(self.num_groups, self.weight, self.bias, self.eps)

    def __repr__(self) -> str:
        return f"GroupNorm({self.num_groups}, {self.num_channels}, eps={self.eps})"
