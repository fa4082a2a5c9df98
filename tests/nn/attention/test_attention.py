"""Attention by heads against its formula in float64."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError

RNG = np.random.default_rng(8)


def attended(layer, query, key, forbidden):
    """(result, mean weights) of query[batch, length, width], a head after the other."""
    weight, bias = (
        t.numpy().astype(np.float64) for t in (layer.in_proj_weight, layer.in_proj_bias)
    )
    parts = zip((query, key, key), np.split(weight, 3), np.split(bias, 3), strict=True)
    heads = [np.split(x @ w.T + b, layer.num_heads, axis=-1) for x, w, b in parts]
    mixed, mean = [], 0
    for q, k, v in zip(*heads, strict=True):
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        weights = np.exp(np.where(forbidden, -np.inf, scores))
        weights /= weights.sum(-1, keepdims=True)
        mixed.append(weights @ v)
        mean = mean + weights / layer.num_heads
    out = layer.out_proj
    return np.concatenate(mixed, -1) @ out.weight.numpy().T + out.bias.numpy(), mean


@pytest.mark.parametrize("first", [True, False])
def test_heads(first):
    layer = nn.MultiheadAttention(6, 2, batch_first=first)
    layer.in_proj_bias.detach().assign(Tensor(RNG.standard_normal(18).astype("f4")))
    query, key = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 4, 6))
    forbidden = np.triu(np.ones((3, 4), bool), 2)
    given = (Tensor(x.astype("f4")) for x in (query, key, key))
    given = [x if first else x.transpose(0, 1) for x in given]
    found, weights = layer(*given, attn_mask=Tensor(forbidden))
    expected, mean = attended(layer, query, key, forbidden)
    found = found.numpy() if first else found.numpy().swapaxes(0, 1)
    assert np.allclose(found, expected, atol=1e-5)
    assert np.allclose(weights.numpy(), mean, atol=1e-5)
    assert layer(*given, need_weights=False)[1] is None
    padding = np.array([[False, False, True, True], [False, False, False, True]])
    padded = layer(*given, Tensor(padding), attn_mask=Tensor(forbidden))[1]
    _, mean = attended(layer, query, key, forbidden | padding[:, None])
    assert np.allclose(padded.numpy(), mean, atol=1e-5)


def test_weights_are_dropped_in_training_as_asked():
    units, drop = Tensor.eye(64), 0.25
    scores = Tensor.zeros(64, 64)
    plain = scores.scaled_dot_product_attention(scores, units).numpy()
    dropped = nn.functional.scaled_dot_product_attention(scores, scores, units, dropout_p=drop)
    dropped = dropped.numpy()
    gone = dropped == 0
    np.testing.assert_allclose(dropped[~gone], (plain / (1 - drop))[~gone], rtol=1e-6)
    assert abs(gone.mean() - drop) < 5 * np.sqrt(drop * (1 - drop) / gone.size)
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5), Tensor.randn(5, 3, 4)
    assert not np.array_equal(layer(x, x, x)[0].numpy(), layer(x, x, x)[0].numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x, x, x)[0].numpy(), layer(x, x, x)[0].numpy())


def test_names_are_those_of_pytorch():
    names = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    assert list(nn.MultiheadAttention(4, 2).state_dict()) == names
    assert list(nn.MultiheadAttention(4, 2, bias=False).state_dict()) == names[::2]


def test_refusals():
    with pytest.raises(ShapeError, match="do not divide"):
        nn.MultiheadAttention(5, 2)
    x = Tensor.ones(2, 3, 5)
    with pytest.raises(ShapeError, match="the last of 4"):
        nn.MultiheadAttention(4, 2)(x, x, x)
