"""Initial values: their distributions, and that the tensors that are filled stay themselves."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import ShapeError, ValueRangeError
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


def filled(function, shape, *arguments, **options):
    return function(Tensor.zeros(*shape, requires_grad=True), *arguments, **options).numpy()


def test_fans_decide_on_the_spread():
    shape = (60, 40, 5)  # fan in 200, fan out 300
    cases = [
        (init.xavier_uniform_, {"gain": 2.0}, 2 * np.sqrt(2 / 500)),
        (init.xavier_normal_, {}, np.sqrt(2 / 500)),
        (init.kaiming_normal_, {"mode": "fan_out", "nonlinearity": "relu"}, np.sqrt(2 / 300)),
        (init.kaiming_uniform_, {"nonlinearity": "tanh"}, 5 / 3 / np.sqrt(200)),
        (init.uniform_, {"a": -3.0, "b": 3.0}, np.sqrt(3)),
    ]
    for function, options, deviation in cases:
        assert abs(filled(function, shape, **options).std() / deviation - 1) < 0.03
    with pytest.raises(ShapeError, match="fans"):
        init.xavier_normal_(Tensor.zeros(3))
    assert init._calculate_correct_fan(Tensor.zeros(*shape), "fan_out") == 300
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0
    with pytest.raises(ValueRangeError, match="gain"):
        init.calculate_gain("what")


def test_normal_values_between_bounds():
    values = filled(init.trunc_normal_, (300, 100), 1.0, 2.0, 0.0, 2.0)
    assert 0 <= values.min() < 0.01
    assert 1.99 < values.max() <= 2
    assert abs(values.mean() - 1) < 0.02
    assert abs(values.std() - 0.5657) < 0.01  # by the normal distribution cut at half its deviation


def test_rows_or_columns_are_orthogonal():
    for shape in ((3, 2, 4), (9, 2, 2)):
        rows = filled(init.orthogonal_, shape, 2.0).reshape(shape[0], -1)
        square = rows @ rows.T if shape[0] < 8 else rows.T @ rows
        assert np.allclose(square, 4 * np.eye(len(square)), atol=1e-5)


def test_identities_and_zeros():
    assert (filled(init.eye_, (2, 3)) == np.eye(2, 3)).all()
    kernel = filled(init.dirac_, (4, 2, 3), 2)
    x = Tensor(np.arange(20.0, dtype=np.float32).reshape(1, 4, 5))
    assert (x.conv1d(Tensor(kernel), padding=1, groups=2).numpy() == x.numpy()).all()
    values = filled(init.sparse_, (50, 20), 0.3, std=2.0)
    assert ((values == 0).sum(0) == 15).all()
    assert abs(values[values != 0].std() - 2) < 0.3
    assert (filled(init.constant_, (3,), 0.5) == 0.5).all()
