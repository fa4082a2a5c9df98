"""Transformers: their parts by hand, masks, copies, and the names of their state."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError


def numbers(*shape):
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_attention_and_two_products(norm_first):
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=norm_first)
    x = numbers(3, 2, 4)

    def attend(y):
        return layer.self_attn(y, y, y)[0]

    def products(y):
        return layer.linear2(layer.linear1(y).relu())

    if norm_first:
        y = x + attend(layer.norm1(x))
        wanted = y + products(layer.norm2(y))
    else:
        y = layer.norm1(x + attend(x))
        wanted = layer.norm2(y + products(y))
    assert np.allclose(layer(x).numpy(), wanted.numpy(), atol=1e-5)


def test_nobody_looks_ahead():
    layer = nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert np.array_equal(np.isneginf(mask.numpy()), np.triu(np.ones((3, 3)), 1) == 1)
    memory, tgt = numbers(2, 3, 4), numbers(2, 3, 4)
    padding = Tensor([[False, False, True]] * 2)

    def run(number):
        changed = [np.concatenate([x.numpy()[:, :2], number + x.numpy()[:, 2:]], 1)
                   for x in (tgt, memory)]  # fmt: skip
        given = map(Tensor, changed)
        return layer(*given, tgt_mask=mask, memory_key_padding_mask=padding).numpy()

    one, other = run(0), run(9)
    assert np.allclose(one[:, :2], other[:, :2], atol=1e-5)
    assert not np.allclose(one[:, 2:], other[:, 2:])


def test_names_of_the_state():
    names = set(nn.Transformer(4, 2, 1, 2, 8, bias=False).state_dict())
    assert {
        "encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0.norm2.weight",
        "encoder.norm.weight", "decoder.layers.1.multihead_attn.out_proj.weight",
        "decoder.layers.1.linear2.weight", "decoder.layers.1.norm3.weight", "decoder.norm.weight",
    } <= names  # fmt: skip
    assert not [name for name in names if "bias" in name]
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    assert model.layers[0].linear1.weight is not model.layers[1].linear1.weight
    with pytest.raises(ShapeError, match="last axes"):
        nn.Transformer(4, 2, 1, 1, 8)(numbers(2, 1, 3), numbers(2, 1, 4))
