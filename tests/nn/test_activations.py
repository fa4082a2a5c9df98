"""Activations against their formulas in float64."""

import math

import numpy as np
import pytest

from torpor import Tensor, nn

X = np.linspace(-3, 3, 25)
NORMAL = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in X])
CASES = [
    (nn.ReLU(), np.maximum(X, 0)),
    (nn.LeakyReLU(0.2), np.where(X > 0, X, 0.2 * X)),
    (nn.ELU(2.0), np.where(X > 0, X, 2 * np.expm1(X))),
    (nn.GELU(), X * NORMAL),
    (nn.GELU("tanh"), X / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))),
    (nn.SiLU(), X / (1 + np.exp(-X))),
    (nn.Sigmoid(), 1 / (1 + np.exp(-X))),
    (nn.Tanh(), np.tanh(X)),
    (nn.Softplus(2.0), np.log1p(np.exp(2 * X)) / 2),
    (nn.Softmax(0), np.exp(X) / np.exp(X).sum()),
    (nn.Identity(3, what=4), X),
]


@pytest.mark.parametrize(("layer", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_formulas(layer, expected):
    assert np.allclose(layer(Tensor(X)).numpy(), expected, atol=1e-9)
    assert not layer.state_dict()
