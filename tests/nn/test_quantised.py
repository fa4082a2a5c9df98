"""Quantised weights: GGUF's layouts by NumPy, products in float64, and no weight in memory."""

import numpy as np
import pytest

from torpor import Tensor, lower, nn
from torpor.base.errors import ShapeError, ValueRangeError

FORMS = [(4, False), (4, True), (8, False), (8, True)]


def numbers(made):
    """The matrix in float64, from the bytes as GGUF's documents describe them."""
    codes = made.codes.numpy()
    if made.bits == 4:
        codes = np.concatenate([codes & 15, codes >> 4], -1)
    scale = made.scale.numpy().astype(np.float64)[..., None]
    if made.minimum is not None:
        values = codes * scale + made.minimum.numpy().astype(np.float64)[..., None]
    else:
        values = (codes - 8.0 * (made.bits == 4)) * scale
    return values.reshape(made.shape)


def weight(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize(("bits", "minimum"), FORMS)
@pytest.mark.parametrize("block", [32, 6])
def test_what_the_codes_stand_for(bits, minimum, block):
    w = weight(7, 3 * block)
    made = nn.quantise(Tensor(w), bits, block, minimum)
    assert made.shape == w.shape and made.codes.nbytes == w.size * bits // 8
    exact = numbers(made)
    np.testing.assert_allclose(made.dequantise().numpy(), exact, rtol=2**-23, atol=2**-22)
    # Half a step, and what rounding scale and minimum to float16 moves the ends of a block by.
    step = np.abs(made.scale.numpy().astype(np.float64)).repeat(block, 1).reshape(w.shape)
    most = np.abs(w).max()
    slack = step * 0.5 + most * 2**-9
    if bits == 4 and not minimum:  # 16 codes from -8 to 7: the far end is cut off
        slack = slack + step * 0.5
    assert (np.abs(exact - w) <= slack).all()


def test_blocks_of_zeros_are_zeros():
    for bits, minimum in FORMS:
        made = nn.quantise(Tensor.zeros(2, 64), bits, 32, minimum)
        assert not made.dequantise().numpy().any()


@pytest.mark.parametrize(("bits", "minimum"), FORMS)
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs"), [(1, 64, 256), (3, 7, 32), (8, 33, 96), (40, 48, 128)]
)
def test_products_against_float64(bits, minimum, rows, outputs, inputs):
    made = nn.quantise(Tensor(weight(outputs, inputs)), bits, 32, minimum)
    x = weight(rows, inputs, 1)
    want = x.astype(np.float64) @ numbers(made).T
    size = np.abs(x).astype(np.float64) @ np.abs(numbers(made)).T
    assert (np.abs(made(Tensor(x)).numpy() - want) <= 2**-23 * (inputs + 4) * size).all()


@pytest.mark.parametrize(("bits", "minimum"), FORMS)
@pytest.mark.parametrize("rows", [1, 8, 128])
def test_the_weight_is_never_stored(bits, minimum, rows):
    made = nn.quantise(Tensor(weight(96, 128)), bits, 32, minimum)
    programs = lower(made(Tensor(weight(rows, 128))))
    assert len(programs) == 1


def test_a_layer_takes_the_place_of_a_linear_one():
    layer = nn.Linear(64, 24)
    made = nn.QuantisedLinear.of(layer, bits=8)
    x = Tensor(weight(5, 64))
    want = x.numpy().astype(np.float64) @ numbers(made.weight).T + layer.bias.numpy()
    np.testing.assert_allclose(made(x).numpy(), want, rtol=1e-4, atol=1e-5)
    assert set(made.state_dict()) == {"weight.codes", "weight.scale", "bias"}
    assert repr(made) == "QuantisedLinear(64, 24, bits=8)"


def test_gradients_pass_to_the_input():
    made = nn.quantise(Tensor(weight(16, 64)))
    x = Tensor(weight(3, 64), requires_grad=True)
    made(x).sum().backward()
    np.testing.assert_allclose(
        x.grad.numpy(), np.tile(numbers(made).sum(0), (3, 1)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.quantise(Tensor.ones(2, 48)),
        lambda: nn.quantise(Tensor.ones(64)),
        lambda: nn.quantise(Tensor.ones(2, 64), bits=3),
        lambda: nn.Quantised(Tensor.ones(2, 3, 4), Tensor.ones(2, 4)),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises((ShapeError, ValueRangeError)):
        call()
