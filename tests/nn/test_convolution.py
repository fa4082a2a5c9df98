"""Convolutions against their formula, written as loops in float64."""

import itertools

import numpy as np
import pytest

from torpor import Tensor, nn

RNG = np.random.default_rng(3)


def convolved(x, weight, bias, stride):
    """out[n, o, p..] = bias[o] + sum of x[n, :, p*stride + k..] * weight[o, :, k..]."""
    kernel = weight.shape[2:]
    sizes = [(s - k) // stride + 1 for s, k in zip(x.shape[2:], kernel, strict=True)]
    out = np.zeros((len(x), len(weight), *sizes))
    for place in np.ndindex(*sizes):
        cut = tuple(slice(p * stride, p * stride + k) for p, k in zip(place, kernel, strict=True))
        axes = list(range(1, x.ndim))
        out[(..., *place)] = np.tensordot(x[(..., *cut)], weight, (axes, axes)) + bias
    return out


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_convolutions(kind):
    layer = kind(2, 3, 2, stride=2)
    x = RNG.standard_normal((2, 2, *(5, 4, 4)[: kind.axes]))
    weight, bias = (t.numpy().astype(np.float64) for t in (layer.weight, layer.bias))
    assert weight.shape == (3, 2, *(2,) * kind.axes)
    found = layer(Tensor(x.astype("f4"))).numpy()
    assert np.allclose(found, convolved(x, weight, bias, 2), atol=1e-5)


@pytest.mark.parametrize("kind", [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d])
def test_transposed_convolutions(kind):
    layer = kind(2, 4, 3, stride=2, output_padding=1)
    x = RNG.standard_normal((2, 2, *(3, 2, 2)[: kind.axes]))
    weight, bias = (t.numpy().astype(np.float64) for t in (layer.weight, layer.bias))
    assert weight.shape == (2, 4, *(3,) * kind.axes)
    out = np.zeros((2, 4, *((s - 1) * 2 + 3 + 1 for s in x.shape[2:])))
    for place, k in itertools.product(np.ndindex(*x.shape[2:]), np.ndindex(*weight.shape[2:])):
        at = tuple(2 * p + q for p, q in zip(place, k, strict=True))
        out[(..., *at)] += x[(..., *place)] @ weight[(..., *k)]
    out += bias.reshape(-1, *(1,) * kind.axes)
    assert np.allclose(layer(Tensor(x.astype("f4"))).numpy(), out, atol=1e-5)
    assert np.allclose(layer(Tensor(x[0].astype("f4"))).numpy(), out[0], atol=1e-5)


def test_defaults_are_uniform_within_the_root_of_what_comes_in():
    for layer, count in ((nn.Conv1d(50, 20, 4), 200), (nn.ConvTranspose1d(20, 50, 4), 200)):
        weight = layer.weight.numpy()
        assert 0.9 < np.abs(weight).max() * np.sqrt(count) <= 1
        assert list(layer.state_dict()) == ["weight", "bias"]


def test_what_padding_cannot_be_is_said_when_the_layer_is_made():
    for padding, stride in (("nope", 1), ("same", 2)):
        with pytest.raises(ValueError, match="padding"):
            nn.Conv2d(1, 1, 3, stride, padding)
    assert nn.Conv2d(1, 1, (3,), stride=(1,))(Tensor.ones(1, 1, 4, 4)).shape == (1, 1, 2, 2)
