"""A softmax over many classes, of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.containers import ModuleList, Sequential
from torpor.nn.layer import Renewable
from torpor.nn.layers import Linear
from torpor.tensor import Tensor


class Output(NamedTuple):
    """The logarithm of each target's probability, and the mean of them with its sign turned."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Renewable):
    """Classes in clusters that end at the `cutoffs`, frequent ones first: the head tells those of
    the first cluster and the other clusters apart, and a tail, narrower by `div_value` from one to
    the next, the classes of a cluster. Grave et al., 2017, arXiv:1609.04309.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False,
    ):  # fmt: skip
        ends = [*cutoffs, n_classes]
        if not cutoffs or ends != sorted(set(ends)) or ends[0] < 1:
            raise ValueRangeError(f"cutoffs grow from 1 to below {n_classes}, unlike {cutoffs}")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, ends
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias)
        self.tail = ModuleList()
        for number, (start, end) in enumerate(pairwise(ends), 1):
            width = int(in_features // div_value**number)
            narrow = Linear(in_features, width, bias=False)
            self.tail.append(Sequential(narrow, Linear(width, end - start, bias=False)))

    def log_prob(self, x: Tensor) -> Tensor:
        """The logarithms of all probabilities: x[row, in_features] to [row, n_classes]."""
        head = self.head(x).log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail, self.shortlist_size):
            parts.append(cluster(x).log_softmax(1) + head[:, number : number + 1])
        return Tensor.cat(parts, 1)

    def predict(self, x: Tensor) -> Tensor:
        """The most probable class of each row."""
        return self.log_prob(x).argmax(1)

    def forward(self, x: Tensor, target: Tensor) -> Output:
        """Of x[row, in_features] and target[row], or of one row."""
        if target.ndim == 0:
            output, loss = self.forward(x.unsqueeze(0), target.unsqueeze(0))
            return Output(output.squeeze(0), loss)
        if x.ndim != 2 or target.ndim != 1 or x.shape[0] != target.shape[0]:
            raise ShapeError(f"a target for each row is needed: {x.shape}, {target.shape}")
        output = self.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
        return Output(output, -output.mean())
