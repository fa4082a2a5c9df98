"""Recurrent layers against their formulas, step by step in float64."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import ShapeError, ValueRangeError

RNG = np.random.default_rng(4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(x, h, state):
    return (np.tanh(x + h),)


def relu_step(x, h, state):
    return (np.maximum(x + h, 0),)


def lstm_step(x, h, state):
    i, f, g, o = np.split(x + h, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru_step(x, h, state):
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, -1), np.split(h, 3, -1)
    z = sigmoid(xz + hz)
    return ((1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * state[0],)


STEPS = {nn.RNN: rnn_step, nn.LSTM: lstm_step, nn.GRU: gru_step}


def expected(layer, x, state, step):
    """(outputs, last states) of x[length, batch, width], by the weights' names in PyTorch."""
    weights = {name: t.numpy().astype(np.float64) for name, t in layer.state_dict().items()}
    last = []
    for level in range(layer.num_layers):
        made = []
        for way in ["", "_reverse"][: 1 + layer.bidirectional]:
            end = f"_l{level}{way}"
            zero = np.zeros(1)
            bias_ih, bias_hh = (
                weights.get(f"bias_ih{end}", zero),
                weights.get(f"bias_hh{end}", zero),
            )
            now = tuple(part[len(last)] for part in state)
            outputs = []
            for inputs in x[::-1] if way else x:
                entering = inputs @ weights[f"weight_ih{end}"].T + bias_ih
                now = step(entering, now[0] @ weights[f"weight_hh{end}"].T + bias_hh, now)
                outputs.append(now[0])
            made.append(np.stack(outputs[::-1] if way else outputs))
            last.append(now)
        x = np.concatenate(made, -1)
    return x, [np.stack(parts) for parts in zip(*last, strict=True)]


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps(kind, bidirectional):
    layer = kind(3, 4, num_layers=2, bidirectional=bidirectional)
    x = RNG.standard_normal((2, 2, 3)).astype(np.float32)
    count = 2 * (1 + bidirectional)
    state = RNG.standard_normal((layer.kept, count, 2, 4)).astype(np.float32)
    given = tuple(map(Tensor, state)) if layer.kept > 1 else Tensor(state[0])
    output, last = layer(Tensor(x), given)
    outputs, ends = expected(layer, x, state, STEPS[kind])
    assert np.allclose(output.numpy(), outputs, atol=1e-5)
    for found, end in zip(last if layer.kept > 1 else [last], ends, strict=True):
        assert np.allclose(found.numpy(), end, atol=1e-5)


def test_batches_first_no_batch_no_bias_and_relu():
    layer = nn.RNN(3, 4, nonlinearity="relu", bias=False, batch_first=True)
    x = RNG.standard_normal((2, 5, 3)).astype(np.float32)
    state = np.zeros((1, 1, 2, 4))
    outputs, ends = expected(layer, x.swapaxes(0, 1), state, relu_step)
    output, last = layer(Tensor(x))
    assert np.allclose(output.numpy(), outputs.swapaxes(0, 1), atol=1e-5)
    assert np.allclose(last.numpy(), ends[0], atol=1e-5)
    alone, end = layer(Tensor(x[1]))
    assert np.allclose(alone.numpy(), outputs[:, 1], atol=1e-5)
    assert np.allclose(end.numpy(), ends[0][:, 1], atol=1e-5)


def test_names_shapes_and_distribution_are_those_of_checkpoints():
    layer = nn.LSTM(3, 50, num_layers=2, bidirectional=True)
    shapes = {name: tensor.shape for name, tensor in layer.state_dict().items()}
    parts = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    ends = ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]
    assert list(shapes) == [part + end for end in ends for part in parts]
    assert shapes["weight_ih_l0"] == (200, 3)
    assert shapes["weight_ih_l1_reverse"] == (200, 100)
    assert shapes["weight_hh_l1"] == (200, 50)
    assert shapes["bias_hh_l0_reverse"] == (200,)
    weight = layer.weight_hh_l0.numpy()
    most = np.float32(1 / np.sqrt(50))  # the bound as weights can be
    assert 0.9 * most < np.abs(weight).max() <= most


def test_gradients_reach_every_weight():
    layer = nn.GRU(2, 3)
    layer(Tensor.ones(2, 1, 2))[0].sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())


def test_wrong_calls_raise_at_once():
    layer = nn.LSTM(3, 4)
    with pytest.raises(ShapeError, match="LSTM expected"):
        layer(Tensor.ones(2, 1, 5))
    with pytest.raises(ShapeError, match="state has shape"):
        layer(Tensor.ones(2, 1, 3), (Tensor.ones(1, 1, 5), Tensor.ones(1, 1, 4)))
    with pytest.raises(ValueRangeError, match="nonlinearity"):
        nn.RNN(3, 4, nonlinearity="sigmoid")
    with pytest.raises(ShapeError, match="positive"):
        nn.GRU(3, 0)


def test_a_probability_to_drop_is_one():
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.LSTM(2, 3, dropout=2.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.MultiheadAttention(4, 2, dropout=-0.5)


FUNCTIONS = {
    "lstm": (nn.LSTM, nn.LSTMCell, {}), "gru": (nn.GRU, nn.GRUCell, {}),
    "rnn_tanh": (nn.RNN, nn.RNNCell, {}),
    "rnn_relu": (nn.RNN, nn.RNNCell, {"nonlinearity": "relu"}),
}  # fmt: skip


def same(made, parts):
    for one, other in zip(made, parts, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-6, 1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_weights_are_the_layers_that_have_them(name):
    kind, _, options = FUNCTIONS[name]
    function, several = getattr(torpor, name), kind is nn.LSTM
    layer = kind(3, 4, 2, bidirectional=True, batch_first=True, **options)
    state = [Tensor(RNG.normal(size=(4, 2, 4)).astype(np.float32)) for _ in range(1 + several)]
    given = state if several else state[0]
    x, weights = Tensor(RNG.normal(size=(2, 5, 3)).astype(np.float32)), list(layer.parameters())
    output, ends = layer(x, tuple(state))
    made = function(x, given, weights, True, 2, 0.0, False, True, True)
    same(made, (output, *(ends if several else (ends,))))
    packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3], batch_first=True)
    output, ends = layer(packed, tuple(state))
    arguments = packed.data, packed.batch_sizes, given, weights, True, 2, 0.0, False, True
    same(function(*arguments), (output.data, *(ends if several else (ends,))))
    with pytest.raises(ShapeError, match="4 layers have 16 weights, not 3"):
        function(x, given, weights[:3], True, 2, 0.0, False, True, True)


def test_functions_know_biases_and_projections_by_the_weights():
    x = Tensor(RNG.normal(size=(5, 2, 3)).astype(np.float32))
    for options in ({"bias": False}, {"proj_size": 2}):
        layer = nn.LSTM(3, 4, **options)
        start = [Tensor.zeros(1, 2, options.get("proj_size", 4)), Tensor.zeros(1, 2, 4)]
        weights, biased = list(layer.parameters()), options.get("bias", True)
        made = torpor.lstm(x, start, weights, biased, 1, 0.0, False, False, False)
        output, ends = layer(x)
        same(made, (output, *ends))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_step_are_the_cells(name):
    _, kind, options = FUNCTIONS[name]
    cell, function = kind(3, 4, **options), getattr(torpor, f"{name}_cell")
    x = Tensor(RNG.normal(size=(2, 3)).astype(np.float32))
    state = [Tensor(RNG.normal(size=(2, 4)).astype(np.float32)) for _ in range(cell.kept)]
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    given = state if cell.kept > 1 else state[0]
    made, known = function(x, given, *weights), cell(x, tuple(state))
    same(*((made, known) if cell.kept > 1 else ((made,), (known,))))
    with pytest.raises(ShapeError, match="the state has shape"):
        cell(x, Tensor.zeros(2, 5))
