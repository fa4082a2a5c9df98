"""Layers refuse what they cannot be made of or applied to."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.Linear(-1, 2),
        lambda: nn.Dropout(1.5),
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 4, 1, 1)),
        lambda: nn.BatchNorm2d(3)(Tensor.ones(2, 3, 1)),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises((ShapeError, ValueRangeError)):
        call()


def test_convolutions_take_padding_by_name():
    layer = nn.Conv2d(3, 4, 3, padding="same")
    assert layer(Tensor.ones(1, 3, 5, 6)).shape == (1, 4, 5, 6)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (nn.BatchNorm1d, (6, 3)),
        (nn.BatchNorm1d, (4, 3, 5)),
        (nn.BatchNorm2d, (2, 3, 2, 4)),
        (nn.BatchNorm3d, (2, 3, 2, 2, 3)),
    ],
)
def test_batch_norms(kind, shape):
    x = np.random.default_rng(2).standard_normal(shape) * 2 + 1
    layer, others = kind(3, momentum=0.25), tuple(a for a in range(len(shape)) if a != 1)
    mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    trained = layer(Tensor(x.astype("f4"))).numpy()
    assert np.allclose(trained, (x - mean) / np.sqrt(variance + 1e-5), atol=1e-5)
    unbiased = 0.75 + 0.25 * x.var(others, ddof=1, keepdims=True)
    assert np.allclose(layer.running_var.numpy(), unbiased.ravel(), atol=1e-5)
    assert layer.num_batches_tracked.item() == 1
    after = (x - 0.25 * mean) / np.sqrt(unbiased + 1e-5)
    assert np.allclose(layer.eval()(Tensor(x.astype("f4"))).numpy(), after, atol=1e-5)
    assert layer.num_batches_tracked.item() == 1


def test_embedding():
    layer, x = nn.Embedding(5, 3, padding_idx=-4), np.array([[0, 1, 1], [4, 1, 0]])
    weight = layer.weight.numpy()
    assert not weight[1].any() and weight[[0, 2, 3, 4]].all()
    found = layer(Tensor(x))
    assert np.array_equal(found.numpy(), weight[x])
    found.sum().backward()
    assert layer.weight.grad.tolist() == [[count] * 3 for count in (2, 0, 0, 0, 1)]
    with pytest.raises(IndexError, match="axis 0 of length 5"):
        layer(Tensor([5])).numpy()
    with pytest.raises(ValueRangeError):
        nn.Embedding(5, 3, padding_idx=5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_layers_of_complex_numbers(dtype):
    layer = nn.Linear(400, 3, dtype=dtype)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert weight.dtype == bias.dtype == np.dtype(dtype)
    for part in (weight.real, weight.imag):  # each is drawn like a real one
        assert 0.04 < np.abs(part).max() <= 0.05
    assert np.abs(weight.real - weight.imag).max() > 0.01
    x = np.random.default_rng(1).normal(size=(2, 400)) * (1 + 2j)
    found = layer(Tensor(x.astype(dtype)))
    np.testing.assert_allclose(found.detach().numpy(), x @ weight.T + bias, rtol=1e-4, atol=1e-5)
    (found.abs() ** 2).sum().backward()
    assert layer.weight.grad.dtype.name == dtype
    layer.reset_parameters()
    assert np.abs(layer.weight.detach().numpy() - weight).max() > 0.01
    assert nn.RMSNorm(2, dtype=dtype).weight.tolist() == [1, 1]
    nested = nn.MultiheadAttention(4, 2, dtype=dtype)
    assert {one.dtype.name for one in nested.parameters()} == {dtype}
    with pytest.raises(DTypeError, match="does not take complex numbers"):
        nn.LayerNorm(3, dtype=dtype)(Tensor(np.ones((1, 3), dtype)))
