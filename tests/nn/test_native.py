"""Norms that give their statistics, beside NumPy's."""

import numpy as np

import torpor
from torpor import Tensor

X = np.random.default_rng(4).normal(size=(2, 6, 3))
WEIGHT, BIAS = np.linspace(0.5, 1.5, 6), np.linspace(-1, 1, 6)
EPS = 1e-5


def check(made, x, axes, keepdims=False):
    y, mean, scale = made
    centre, spread = x.mean(axes, keepdims=True), 1 / np.sqrt(x.var(axes, keepdims=True) + EPS)
    normal = ((x - centre) * spread).reshape(X.shape)
    np.testing.assert_allclose(y.numpy(), normal * WEIGHT[:, None] + BIAS[:, None], 1e-9, 1e-12)
    for one, other in ((mean, centre), (scale, spread)):
        expected = other if keepdims else other.squeeze(axes)
        np.testing.assert_allclose(one.numpy(), expected, 1e-9)


def test_layers():
    weight, bias = (np.broadcast_to(x[:, None], (6, 3)).copy() for x in (WEIGHT, BIAS))
    made = torpor.native_layer_norm(Tensor(X), (6, 3), Tensor(weight), Tensor(bias), EPS)
    check(made, X, (1, 2), True)


def test_groups():
    made = torpor.native_group_norm(Tensor(X), Tensor(WEIGHT), Tensor(BIAS), 2, 6, 3, 2, EPS)
    check(made, X.reshape(2, 2, 9), (2,))


def test_batches():
    running = Tensor(np.zeros(6)), Tensor(np.ones(6))
    made = torpor.native_batch_norm(
        Tensor(X), Tensor(WEIGHT), Tensor(BIAS), *running, True, 0.1, EPS
    )
    check(made, X, (0, 2))
    np.testing.assert_allclose(running[0].numpy(), 0.1 * X.mean((0, 2)), 1e-9)
    y, mean, scale = torpor.native_batch_norm(Tensor(X), None, None, *running, False, 0.1, EPS)
    expected = X - running[0].numpy()[:, None]
    expected = expected / np.sqrt(running[1].numpy()[:, None] + EPS)
    np.testing.assert_allclose(y.numpy(), expected, 1e-9)
    assert mean.shape == scale.shape == (0,)
