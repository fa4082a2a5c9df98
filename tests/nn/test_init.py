"""Initial values: their distributions, and that the tensors that are filled stay themselves."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.nn import init


def moments(values):
    return values.mean(), values.std(), np.abs(values).max()


@pytest.mark.parametrize("a", [0.0, 1.0])
def test_kaiming_uniform(a):
    tensor = Tensor.zeros(200, 5, 4, requires_grad=True)
    assert init.kaiming_uniform_(tensor, a) is tensor
    mean, deviation, most = moments(tensor.numpy())
    bound = np.sqrt(6 / ((1 + a * a) * 20))
    assert abs(mean) < 0.05 * bound
    assert abs(deviation - bound / np.sqrt(3)) < 0.03 * bound
    assert 0.99 * bound < most <= bound
    assert tensor.requires_grad


def test_normal():
    mean, deviation, _ = moments(init.normal_(Tensor.zeros(100, 100), 2.0, 0.5).numpy())
    assert abs(mean - 2) < 0.03
    assert abs(deviation - 0.5) < 0.03


def test_constants_keep_the_format():
    tensor = Tensor.zeros(2, 3, dtype="float16", requires_grad=True)
    assert init.ones_(tensor).tolist() == [[1.0] * 3] * 2
    assert init.zeros_(tensor).tolist() == [[0.0] * 3] * 2
    assert tensor.dtype.name == "float16"
    assert tensor.requires_grad


def test_default_weights_of_nothing_are_zeros():
    weight = init.default_weight((3, 0), 0)
    assert weight.shape == (3, 0)
    assert init.default_weight((4,), 0).tolist() == [0.0] * 4
