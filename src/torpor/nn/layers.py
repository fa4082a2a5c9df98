"""Layers, with PyTorch's names, constructor arguments, initial distributions and state names."""

from __future__ import annotations

from typing import Any, ClassVar

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import functional, init
from torpor.nn.module import Module
from torpor.tensor import Tensor, no_grad
from torpor.tensor.spelling import within

Pair = int | tuple[int, int]


class Linear(Module):
    """y[.., out] = sum over in of x[.., in] * weight[out, in] + bias[out]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        self.in_features, self.out_features = in_features, out_features
        self.weight = init.default_weight((out_features, in_features), in_features)
        self.bias = init.default_weight((out_features,), in_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x.linear(self.weight, self.bias)

    def __repr__(self) -> str:
        return f"Linear({self.in_features}, {self.out_features}, bias={self.bias is not None})"


class _BatchNorm(Module):
    """Each channel of x[batch, channel, ...] with mean 0 and variance 1, then scaled.

    In training the batch's own mean and (biased) variance are used, and running ones, with unbiased
    variance, follow by `momentum`. Ioffe and Szegedy, 2015, arXiv:1502.03167.
    """

    ranks: ClassVar[tuple[int, ...]]  # how many axes x may have

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ):
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Tensor.ones(num_features, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(num_features, requires_grad=True) if affine else None
        self.running_mean = Tensor.zeros(num_features) if track_running_stats else None
        self.running_var = Tensor.ones(num_features) if track_running_stats else None
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int64) if track_running_stats else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            wanted = f"(batch, {self.num_features}, ...) of {self.ranks} axes"
            raise ShapeError(f"{type(self).__name__} expected {wanted}, got {x.shape}")
        if self.training and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training,
            self.momentum, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of x[batch, channel] or x[batch, channel, length]."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of x[batch, channel, height, width]."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of x[batch, channel, depth, height, width]."""

    ranks = (5,)


class Embedding(Module):
    """The row of weight[num_embeddings, embedding_dim] that each integer of x names. The row
    `padding_idx` begins as zeros and gets no gradient.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None):
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueRangeError(f"padding_idx {padding_idx} names none of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        weight = Tensor.randn(num_embeddings, embedding_dim)
        if self.padding_idx is not None:
            weight = weight.index_fill(0, Tensor([self.padding_idx]), 0.0)
        self.weight = weight.requires_grad_()

    def forward(self, x: Tensor) -> Tensor:
        return functional.embedding(x, self.weight, self.padding_idx)

    def __repr__(self) -> str:
        return f"Embedding({self.num_embeddings}, {self.embedding_dim})"


class Dropout(Module):
    """In training, each element becomes 0 with probability p, the others grow by 1/(1-p)."""

    def __init__(self, p: float = 0.5):
        within("dropout's probability", p, 0, 1)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return x.dropout(self.p, training=self.training)


class MaxPool2d(Module):
    """The maximum of each window of x[batch, channel, height, width]; with `return_indices` also
    where in height * width it stands.
    """

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.return_indices, self.ceil_mode = dilation, return_indices, ceil_mode

    def forward(self, x: Tensor) -> Any:
        windows = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        return x.max_pool2d(*windows, self.return_indices)


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)
