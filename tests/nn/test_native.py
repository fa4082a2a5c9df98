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


def test_batches_with_update():
    running = Tensor(np.zeros(6)), Tensor(np.ones(6))
    *made, kept = torpor._batch_norm_with_update(
        Tensor(X), Tensor(WEIGHT), Tensor(BIAS), *running, 0.1, EPS
    )
    check(made, X, (0, 2))
    assert kept.shape == (0,)
    np.testing.assert_allclose(running[0].numpy(), 0.1 * X.mean((0, 2)), 1e-9)


def test_gradients_by_results_are_those_of_the_functions():
    x = Tensor(X, requires_grad=True)
    slope = Tensor(np.random.default_rng(5).normal(size=X.shape))
    made = x.softmax(1)
    found = torpor._softmax_backward_data(slope, made.detach(), 1, torpor.float64)
    np.testing.assert_allclose(found.numpy(), x_slope(made, x, slope), 1e-9, 1e-12)
    pooled, places = x.unsqueeze(0).max_pool2d(2, 1, return_indices=True)
    slope = Tensor(np.random.default_rng(6).normal(size=pooled.shape))
    whole = x.detach().unsqueeze(0)
    found = torpor.max_pool2d_with_indices_backward(slope, whole, 2, 1, 0, 1, False, places)
    np.testing.assert_allclose(found[0].numpy(), x_slope(pooled, x, slope), 1e-9, 1e-12)


def x_slope(made, x, slope):
    return (made * slope).sum().gradient(x)[0].numpy()


def test_chunks_side_by_side():
    one, two = Tensor(np.arange(6.0).reshape(3, 2)), Tensor(np.ones((2, 1)))
    made = torpor._chunk_cat([one, two], 0, 2)
    assert made.tolist() == [[0, 1, 2, 3, 1], [4, 5, 0, 0, 1]]


def test_smoothed_pictures_with_scales_of_their_own():
    picture = Tensor(np.random.default_rng(7).normal(size=(1, 1, 6, 8)))
    small = torpor.nn.functional.interpolate(picture, (3, 4), mode="bilinear", antialias=True)
    assert torpor._upsample_bilinear2d_aa(picture, (3, 4), False).tolist() == small.tolist()
    scaled = torpor._upsample_bilinear2d_aa(picture, (3, 4), False, 0.5, 0.5)
    np.testing.assert_allclose(scaled.numpy(), small.numpy(), 1e-9)
    other = torpor._upsample_bilinear2d_aa(picture, (3, 4), False, 0.9, 0.9)
    assert other.tolist() != small.tolist()
