"""Layers, with PyTorch's names, constructor arguments, initial distributions and state names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import functional, init
from torpor.nn.layer import Layer, Renewable
from torpor.tensor import Tensor


class Linear(Renewable):
    """y[.., out] = sum over in of x[.., in] * weight[out, in] + bias[out]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        self.in_features, self.out_features = in_features, out_features
        self.weight = init.default_weight((out_features, in_features), in_features)
        self.bias = init.default_weight((out_features,), in_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x.linear(self.weight, self.bias)


class Bilinear(Renewable):
    """z[.., out] from x[.., in1] and y[.., in2] by weight[out, in1, in2]: x W y + bias[out]."""

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True):
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = init.default_weight(shape, in1_features)
        self.bias = init.default_weight((out_features,), in1_features) if bias else None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return functional.bilinear(x, y, self.weight, self.bias)


class LinearCrossEntropyOptions(NamedTuple):
    """In which pieces PyTorch computes a `LinearCrossEntropyLoss`: nothing depends on it here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Layer):
    """`functional.linear_cross_entropy` with the weights of a layer `linear`, which makes scores of
    `num_classes`, for each place of `out_features`, of `in_features` numbers.
    """

    weight: Tensor | None

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: Sequence[int] = (),
        bias: bool = False, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
    ):  # fmt: skip
        self.in_features, self.num_classes = in_features, num_classes
        self.out_features, self.options = tuple(out_features), options
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return functional.linear_cross_entropy(
            input, self.linear.weight.reshape(*shape, self.in_features), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip


class PReLU(Renewable):
    """x where it is positive, else x times a weight that is trained: one, or one for each channel.
    He et al., 2015, arXiv:1502.01852.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25):
        self.num_parameters = num_parameters
        self.weight = Tensor.full((num_parameters,), init).requires_grad_()

    def forward(self, x: Tensor) -> Tensor:
        return x.prelu(self.weight)


class _Rows(Renewable):
    """What is looked up by number: weight[num_embeddings, embedding_dim]."""

    def _fill(
        self, count: int, width: int, padding_idx: int | None, weight: Any, frozen: bool
    ) -> None:
        if padding_idx is not None and not -count <= padding_idx < count:
            raise ValueRangeError(f"padding_idx {padding_idx} names none of {count} rows")
        self.num_embeddings, self.embedding_dim = count, width
        self.padding_idx = None if padding_idx is None else padding_idx % count
        if weight is None:
            weight = Tensor.randn(count, width)
            if self.padding_idx is not None:
                weight = weight.index_fill(0, Tensor([self.padding_idx]), 0.0)
        if weight.shape != (count, width):
            raise ShapeError(f"weights of shape {(count, width)} are needed, not {weight.shape}")
        self.weight = weight.detach().requires_grad_().requires_grad_(not frozen)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Any:
        """A layer with these rows, not trained while `freeze` holds."""
        make: Any = cls
        return make(*embeddings.shape, _weight=embeddings, _freeze=freeze, **options)


class Embedding(_Rows):
    """The row of weight[num_embeddings, embedding_dim] that each integer of x names. The row
    `padding_idx` begins as zeros and gets no gradient. Rows longer than `max_norm`, by the norm
    `norm_type`, are shortened in place when they are named. Gradients are dense, `sparse` or not.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
    ):  # fmt: skip
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, _freeze)
        self.max_norm, self.norm_type, self.sparse = max_norm, norm_type, sparse
        self.scale_grad_by_freq = scale_grad_by_freq

    def forward(self, x: Tensor) -> Tensor:
        return functional.embedding(
            x, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq,
        )  # fmt: skip


class EmbeddingBag(_Rows):
    """The "sum", "mean" or "max" of the rows of weight[num_embeddings, embedding_dim] that each bag
    of integers names: x[bag, count], or x[count] in bags that begin at the offsets[bag].
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, _freeze: bool = False,
    ):  # fmt: skip
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, _freeze)
        self.max_norm, self.norm_type, self.sparse = max_norm, norm_type, sparse
        self.scale_grad_by_freq, self.mode = scale_grad_by_freq, mode
        self.include_last_offset = include_last_offset

    def forward(
        self, x: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return functional.embedding_bag(
            x, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip


__all__ = [
    "Bilinear", "Embedding", "EmbeddingBag", "Linear", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions", "PReLU",
]  # fmt: skip
