"""Sequences of several lengths."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import ShapeError
from torpor.nn.utils import rnn

LENGTHS = [2, 5, 3]
ROWS = [np.random.default_rng(n).normal(size=(n, 4)).astype("f4") for n in LENGTHS]


def test_padding_and_packing_are_undone():
    given = [Tensor(row) for row in ROWS]
    padded = rnn.pad_sequence(given, batch_first=True, padding_value=7.0)
    assert padded.shape == (3, 5, 4) and (padded.numpy()[0, 2:] == 7).all()
    left = rnn.pad_sequence(given, padding_side="left")
    np.testing.assert_array_equal(left.numpy()[3:, 0], ROWS[0])
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    np.testing.assert_array_equal(packed.data.numpy()[:3], [ROWS[n][0] for n in (1, 2, 0)])
    again, lengths = rnn.pad_packed_sequence(packed, True, 7.0, total_length=6)
    assert lengths.tolist() == LENGTHS and again.shape == (3, 6, 4)
    np.testing.assert_array_equal(again.numpy()[:, :5], padded.numpy())
    for made in (rnn.unpad_sequence(padded, lengths, True),
                 rnn.unpack_sequence(rnn.pack_sequence(given, enforce_sorted=False))):  # fmt: skip
        for one, row in zip(made, ROWS, strict=True):
            np.testing.assert_array_equal(one.numpy(), row)
    assert (again[:, 5] == 7).all().item()
    with pytest.raises(ValueError, match="enforce_sorted=False"):
        rnn.pack_sequence(given)
    with pytest.raises(ValueError, match="1 to 5, not"):
        rnn.pack_padded_sequence(padded, [2, 6, 3], True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_padding_what_the_host_has_compiles_nothing_whichever_is_the_longest(dtype):
    weight = Tensor(np.ones(1, np.float32), requires_grad=True)

    def computed(longest):
        arrays = [
            np.arange(1, 2 + (longest if n == longest else 1)).astype(dtype) for n in range(6)
        ]
        padded = rnn.pad_sequence([Tensor(one) for one in arrays], True)
        (slope,) = (padded * weight).sum().gradient(weight)
        assert slope.tolist() == [sum(one.sum() for one in arrays)]

    for longest in (1, 2, 3):
        computed(longest)
    with torpor.profile() as seen:
        for longest in (4, 5, 2):
            computed(longest)
    assert not sum(row.made for row in seen.rows)


def test_gradients_flow_through_padding():
    rows = [Tensor(row, requires_grad=True) for row in ROWS * 2]
    padded = rnn.pad_sequence(rows, batch_first=True, padding_value=3.0)
    (padded * padded).sum().backward()
    for row in rows:
        np.testing.assert_allclose(row.grad.numpy(), 2 * row.detach().numpy())


def test_padding_takes_what_differs_in_length_alone():
    assert rnn.pad_sequence(Tensor([[1, 2], [3, 4]])).tolist() == [[1, 3], [2, 4]]
    for wrong in ([Tensor.zeros(2, 3), Tensor.zeros(1, 4)], [Tensor(1.0), Tensor(2.0)]):
        with pytest.raises(ShapeError, match="differ in length only"):
            rnn.pad_sequence(wrong)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_layer_sees_each_sequence_alone(kind):
    torpor.manual_seed(0)
    layer = kind(4, 3, num_layers=2, bidirectional=True)
    packed = rnn.pack_sequence([Tensor(row) for row in ROWS], enforce_sorted=False)
    output, state = layer(packed)
    outputs = rnn.unpack_sequence(output)
    states = state if kind is nn.LSTM else (state,)
    for number, row in enumerate(ROWS):
        alone, end = layer(Tensor(row))
        np.testing.assert_allclose(
            outputs[number].detach().numpy(), alone.detach().numpy(), rtol=1e-5, atol=1e-6
        )
        ends = end if kind is nn.LSTM else (end,)
        for whole, one in zip(states, ends, strict=True):
            np.testing.assert_allclose(
                whole[:, number].detach().numpy(), one.detach().numpy(), rtol=1e-5, atol=1e-6
            )
    (slope,) = output.data.sum().gradient(layer.weight_ih_l0)
    alone = sum(layer(Tensor(row))[0].sum() for row in ROWS).gradient(layer.weight_ih_l0)[0]
    np.testing.assert_allclose(slope.numpy(), alone.numpy(), rtol=1e-4, atol=1e-5)
