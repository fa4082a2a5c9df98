"""Normalisations, with PyTorch's names, constructor arguments and state names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.nn import functional
from torpor.nn.layer import Renewable, divide
from torpor.tensor import Tensor, no_grad

Sizes = int | Sequence[int]


def sizes_of(shape: Sizes) -> tuple[int, ...]:
    """The last axes that are normalised: one size is one axis."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Renewable):
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


class RMSNorm(Renewable):
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


class GroupNorm(Renewable):
    """Each of `num_groups` groups of channels of x[batch, channel, ...] moved to mean 0 and
    variance 1, then scaled and shifted by channel. Wu and He, 2018, arXiv:1803.08494.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        bias: bool = True,
    ):  # fmt: skip
        divide("groups", num_groups, num_channels)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(num_channels, requires_grad=True) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x.group_norm(self.num_groups, self.weight, self.bias, self.eps)


class _Running(Renewable):
    """Statistics of channels, with running ones that follow in training."""

    ranks: ClassVar[tuple[int, ...]]  # how many axes x may have

    def _fill(self, count: int, affine: bool, bias: bool, track: bool) -> None:
        self.num_features, self.affine, self.track_running_stats = count, affine, track
        self.weight = Tensor.ones(count, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(count, requires_grad=True) if affine and bias else None
        self.running_mean = Tensor.zeros(count) if track else None
        self.running_var = Tensor.ones(count) if track else None
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int64) if track else None

    def reset_running_stats(self) -> None:
        """Let the running statistics begin again."""
        with no_grad():
            if self.running_mean is not None and self.running_var is not None:
                self.running_mean.zero_()
                self.running_var.fill_(1.0)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.zero_()

    def _check(self, x: Tensor, axis: int = 1) -> None:
        if x.ndim not in self.ranks or x.shape[axis] != self.num_features:
            wanted = (
                f"(batch, {self.num_features}, ...) of {' or '.join(map(str, self.ranks))} axes"
            )
            raise ShapeError(f"{type(self).__name__} expected {wanted}, got {x.shape}")


class BatchNorm(_Running):
    """Each channel of x[batch, channel, ...] with mean 0 and variance 1, then scaled.

    In training the batch's own mean and (biased) variance are used, and running ones, with unbiased
    variance, follow by `momentum`: the mean of all batches if that is None. Ioffe and Szegedy,
    2015, arXiv:1502.03167.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, *, bias: bool = True,
    ):  # fmt: skip
        self.eps, self.momentum = eps, momentum
        self._fill(num_features, affine, bias, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        follow: Any = self.momentum
        follows = self.training and self.track_running_stats
        if follows and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.assign(self.num_batches_tracked + 1)
                if follow is None:
                    follow = 1.0 / self.num_batches_tracked.cast(dtypes.float32)
        kept = follows or not self.training
        running = (self.running_mean, self.running_var) if kept else (None, None)
        return functional.batch_norm(
            x, *running, self.weight, self.bias, self.training or self.running_mean is None,
            0.0 if follow is None else follow, self.eps,
        )  # fmt: skip


class BatchNorm1d(BatchNorm):
    """Batch normalisation of x[batch, channel] or x[batch, channel, length]."""

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch normalisation of x[batch, channel, height, width]."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Batch normalisation of x[batch, channel, depth, height, width]."""

    ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """Batch normalisation of x[batch, channel, ...]. The statistics are always those of the
    whole batch here, whose shards are one tensor.
    """

    ranks = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None, *,
        bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module, whose batch norms have become of this class, with their tensors."""
        for one in module.modules():
            if isinstance(one, BatchNorm) and one.ranks != cls.ranks:
                one.__class__ = cls
        return module


class _InstanceNorm(_Running):
    """Each channel of each sample of x[batch, channel, ...], or without batch, with mean 0 and
    variance 1, then scaled. With `track_running_stats` running statistics follow by `momentum`, and
    are used out of training. Ulyanov et al., 2016, arXiv:1607.08022.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, *, bias: bool = True,
    ):  # fmt: skip
        self.eps, self.momentum = eps, momentum
        self._fill(num_features, affine, bias, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        single = x.ndim == self.ranks[0]
        self._check(x, 0 if single else 1)
        rows = x.unsqueeze(0) if single else x
        made = functional.instance_norm(
            rows, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum, self.eps,
        )  # fmt: skip
        return made.squeeze(0) if single else made


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of x[batch, channel, length]."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of x[batch, channel, height, width]."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of x[batch, channel, depth, height, width]."""

    ranks = (4, 5)


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip
