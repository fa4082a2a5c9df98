"""NumPy's functions take tensors and give tensors."""

import numpy as np
import pytest

from torpor import Tensor, dtypes

ARRAY = np.random.default_rng(0).random((3, 4), np.float32)


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "absolute", "isnan", "negative", "log1p"])
def test_functions_of_one_tensor(name):
    made = getattr(np, name)(Tensor(ARRAY))
    assert isinstance(made, Tensor)
    assert np.allclose(made.numpy(), getattr(np, name)(ARRAY), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["add", "subtract", "divide", "power", "maximum", "arctan2", "less"]
)
def test_functions_of_two_in_any_order(name):
    function = getattr(np, name)
    for left, right in ((Tensor(ARRAY), ARRAY[0]), (ARRAY[0], Tensor(ARRAY))):
        made = function(left, right)
        plain = [one.numpy() if isinstance(one, Tensor) else one for one in (left, right)]
        assert isinstance(made, Tensor)
        assert np.allclose(made.numpy(), function(*plain), rtol=1e-6)


def test_numbers_of_numpy_stay_weak_and_arrays_keep_their_format():
    x = Tensor(ARRAY)
    for made in (np.float64(2) * x, x * np.float64(2), np.multiply(np.float64(2), x)):
        assert made.dtype is dtypes.float32
        assert (made.numpy() == ARRAY * 2).all()
    assert (np.ones(4) + x).dtype is dtypes.float64
    y = np.ones(4, np.float32)
    with pytest.raises(TypeError):
        y += x


@pytest.mark.parametrize("name", ["sum", "mean", "max", "std", "prod", "any", "argmin"])
def test_reductions(name):
    function = getattr(np, name)
    for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        made = function(Tensor(ARRAY), **options)
        assert isinstance(made, Tensor)
        assert np.allclose(made.numpy(), function(ARRAY, **options), rtol=1e-5)
    assert np.allclose(function(Tensor(ARRAY), 0).numpy(), function(ARRAY, 0), rtol=1e-5)
    assert np.allclose(np.var(Tensor(ARRAY), ddof=1).numpy(), ARRAY.var(ddof=1), rtol=1e-5)


def test_a_tensor_takes_the_result():
    place = Tensor(np.zeros((3, 4), np.float32))
    made = np.sin(Tensor(ARRAY), out=place)
    assert made is place
    assert np.allclose(place.numpy(), np.sin(ARRAY), rtol=1e-6)
    assert np.allclose(np.add(ARRAY, place, out=place).numpy(), ARRAY + np.sin(ARRAY), rtol=1e-6)


def test_other_functions_see_an_array():
    x = Tensor(ARRAY)
    assert np.shape(x) == (3, 4) and np.allclose(x, ARRAY)
    assert isinstance(np.concatenate([x, x]), np.ndarray)


def test_other_functions_take_tensors_anywhere():
    x = Tensor(ARRAY)
    assert np.transpose(x).shape == (4, 3)
    assert np.allclose(np.transpose(x, (1, 0)), ARRAY.T)
    assert np.allclose(np.where(x > 0.5, x, 0), np.where(ARRAY > 0.5, ARRAY, 0))
    assert np.allclose(np.sort(a=x, axis=0), np.sort(ARRAY, 0))
    assert np.block([[x, x], [x, x]]).shape == (6, 8)
