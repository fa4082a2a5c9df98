"""Attention of several heads with projections that are given, beside NumPy's."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError
from torpor.nn import functional

WIDTH, HEADS, LENGTH, KEYS, BATCH = 4, 2, 3, 5, 2
RANDOM = np.random.default_rng(6)
QUERY = RANDOM.normal(size=(LENGTH, BATCH, WIDTH))
KEY, VALUE = RANDOM.normal(size=(2, KEYS, BATCH, WIDTH))
ROWS, SHIFT = RANDOM.normal(size=(3, WIDTH, WIDTH)), RANDOM.normal(size=(3, WIDTH))
OUT, OUT_SHIFT = RANDOM.normal(size=(WIDTH, WIDTH)), RANDOM.normal(size=WIDTH)
MORE_KEY, MORE_VALUE = RANDOM.normal(size=(2, 1, 1, WIDTH))


def expected(mask=0.0, more=False, zeros=False):
    """The result[length, batch, width] and the weights[batch, head, length, keys]."""
    sides = [x @ r.T + s for x, r, s in zip((QUERY, KEY, VALUE), ROWS, SHIFT)]
    for part, row in ((1, MORE_KEY), (2, MORE_VALUE)):
        parts = [sides[part]] + [np.repeat(row, BATCH, 1)] * more
        parts += [np.zeros((1, BATCH, WIDTH))] * zeros
        sides[part] = np.concatenate(parts)
    query, key, value = (x.reshape(-1, BATCH, HEADS, 2).transpose(1, 2, 0, 3) for x in sides)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(2) + mask
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    mixed = (weights @ value).transpose(2, 0, 1, 3).reshape(LENGTH, BATCH, WIDTH)
    return mixed @ OUT.T + OUT_SHIFT, weights


def attend(weight=None, more=False, zeros=False, **options):
    extra = (Tensor(MORE_KEY), Tensor(MORE_VALUE)) if more else (None, None)
    return functional.multi_head_attention_forward(
        Tensor(QUERY), Tensor(KEY), Tensor(VALUE), WIDTH, HEADS, weight, Tensor(SHIFT.reshape(-1)),
        *extra, zeros, 0.0, Tensor(OUT), Tensor(OUT_SHIFT), **options,
    )  # fmt: skip


def same(made, wanted):
    np.testing.assert_allclose(made.numpy(), wanted, 1e-9, 1e-12)


def test_one_weight_and_one_for_each():
    result, weights = expected()
    made, mean = attend(Tensor(ROWS.reshape(-1, WIDTH)))
    same(made, result)
    same(mean, weights.mean(1))
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    apart = {name: Tensor(rows) for name, rows in zip(names, ROWS)}
    made, each = attend(use_separate_proj_weight=True, average_attn_weights=False, **apart)
    same(made, result)
    same(each, weights)


def test_keys_that_are_added_are_seen_through_masks():
    hidden = np.array([[False] * 4 + [True], [True] + [False] * 4])
    mask = np.zeros((BATCH, 1, 1, KEYS + 2))
    mask[..., :KEYS] = np.where(hidden[:, None, None], -np.inf, 0)
    result, weights = expected(mask, True, True)
    made, mean = attend(
        Tensor(ROWS.reshape(-1, WIDTH)), True, True, key_padding_mask=Tensor(hidden)
    )
    same(made, result)
    same(mean, weights.mean(1))


def test_the_width_is_checked():
    with pytest.raises(ShapeError, match="the last of 8"):
        functional.multi_head_attention_forward(
            Tensor(QUERY), Tensor(KEY), Tensor(VALUE), 8, 2, None, None, None, None, False, 0.0,
            Tensor(OUT), None,
        )  # fmt: skip


def test_weights_that_are_dropped_are_the_ones_that_mix():
    layer = nn.MultiheadAttention(WIDTH, 1, dropout=0.5, bias=False)
    query, key, value = (Tensor(x, dtype="float32") for x in (QUERY, KEY, VALUE))
    made, weights = layer(query, key, value)
    rows = layer.in_proj_weight.detach().numpy()[2 * WIDTH :]
    mixed = weights.detach().numpy() @ (VALUE @ rows.T).transpose(1, 0, 2)
    wanted = mixed.transpose(1, 0, 2) @ layer.out_proj.weight.detach().numpy().T
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert (weights == 0).any()
    layer.eval()
    assert not (layer(query, key, value)[1] == 0).any()
