"""Small models that come along."""

from __future__ import annotations

from torpor.nn.convolution import Conv2d
from torpor.nn.layers import Linear
from torpor.nn.module import Module
from torpor.tensor import Tensor


class DigitNet(Module):
    """Two convolutions with pooling and one linear layer: x[batch, 1, 28, 28] to logits[batch, 10].

    The shape is that of LeCun et al., "Gradient-based learning applied to document recognition",
    1998, with fewer layers at the end.
    """

    def __init__(self, channels: tuple[int, int] = (16, 32)):
        self.first = Conv2d(1, channels[0], 5)
        self.second = Conv2d(channels[0], channels[1], 5)
        self.last = Linear(channels[1] * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu().max_pool2d(2)
        x = self.second(x).relu().max_pool2d(2)
        return self.last(x.flatten(1))
