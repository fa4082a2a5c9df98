"""Activations as modules, with PyTorch's names and constructor arguments."""

from __future__ import annotations

from torpor.nn.module import Module
from torpor.tensor import Tensor


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class LeakyReLU(Module):
    """x where it is positive, else x * negative_slope."""

    def __init__(self, negative_slope: float = 0.01):
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return x.leaky_relu(self.negative_slope)


class ELU(Module):
    """x where it is positive, else alpha * (exp(x) - 1). Clevert et al., 2015, arXiv:1511.07289."""

    def __init__(self, alpha: float = 1.0):
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return x.elu(self.alpha)


class GELU(Module):
    """x times the normal distribution's function of x, or its approximation by "tanh".

    Hendrycks and Gimpel, 2016, arXiv:1606.08415.
    """

    def __init__(self, approximate: str = "none"):
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return x.gelu(self.approximate)


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.silu()


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class Tanh(Module):
    """The hyperbolic tangent of x."""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        return x.softplus(self.beta, self.threshold)


class Softmax(Module):
    """exp(x) divided by its sum along `dim`."""

    def __init__(self, dim: int = -1):
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)


class Identity(Module):
    """x; arguments of the constructor say nothing."""

    def __init__(self, *_arguments: object, **_options: object):
        pass

    def forward(self, x: Tensor) -> Tensor:
        return x
