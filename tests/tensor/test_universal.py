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


def test_arrays_are_written_to_by_numpys_operators():
    y = before = np.ones((3, 4), np.float32)
    y += Tensor(ARRAY)
    np.multiply(Tensor(ARRAY), y, out=y)
    np.add(y, Tensor([0.0, 0.0, 0.0, 1.0]), out=y, where=Tensor([True, True, True, False]))
    assert y is before
    np.testing.assert_allclose(y, (1 + ARRAY) * ARRAY, rtol=1e-6)


def test_arguments_by_place_and_by_name():
    x = Tensor(ARRAY)
    for made in (np.swapaxes(x, 0, 1), np.swapaxes(x, axis1=1, axis2=0)):
        assert isinstance(made, Tensor) and (made.numpy() == ARRAY.T).all()
    for made in (np.take(x, [0, 2], axis=1), np.take(x, indices=np.array([0, 2]), axis=1)):
        assert isinstance(made, Tensor) and (made.numpy() == ARRAY[:, [0, 2]]).all()


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


X, Y = (np.random.default_rng(n).random((3, 3), np.float32) + np.eye(3, dtype="f") for n in (1, 2))
SAME = {
    "concatenate": lambda x, y: np.concatenate([x, y], 1),
    "concatenate flat": lambda x, y: np.concatenate([x, y], axis=None),
    "stack": lambda x, y: np.stack((x, y), axis=1),
    "where": lambda x, y: np.where(x > 1, x, 0),
    "places": lambda x, y: np.where(x > 1),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y),
    "norm": lambda x, y: np.linalg.norm(x, axis=0),
    "norm of all": lambda x, y: np.linalg.norm(x),
    "solve": lambda x, y: np.linalg.solve(x, y),
    "eigh": lambda x, y: np.linalg.eigh(x @ x.T),
    "fft": lambda x, y: np.fft.fft(x, 4, axis=0),
    "shifted": lambda x, y: np.fft.fftshift(x, axes=1),
    "sort": lambda x, y: np.sort(a=x, axis=0),
    "reshape": lambda x, y: np.reshape(x, (9,)),
    "transpose": lambda x, y: np.transpose(x, (1, 0)),
    "block": lambda x, y: np.block([[x, y], [y, x]]),
    "clip": lambda x, y: np.clip(x, 0.5, 1),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=1),
    "roll": lambda x, y: np.roll(x, 1, axis=1),
    "diff": lambda x, y: np.diff(x, axis=0),
    "cumsum": lambda x, y: np.cumsum(x, 0),
    "percentile": lambda x, y: np.percentile(x, [10, 50], axis=1),
    "interp": lambda x, y: np.interp(x.reshape(-1), [0, 1, 2], [1.0, 3.0, 2.0]),
    "histogram": lambda x, y: np.histogram(x, 4, (0, 2)),
    "split": lambda x, y: np.split(x, 3),
    "gradient": lambda x, y: np.gradient(x),
    "reduce": lambda x, y: np.add.reduce(x),
    "reduce all": lambda x, y: np.maximum.reduce(x, axis=None, keepdims=True),
    "accumulate": lambda x, y: np.multiply.accumulate(x, 1),
    "outer": lambda x, y: np.subtract.outer(x, y),
    "modf": lambda x, y: np.modf(x),
    "held": lambda x, y: np.add(x, y, where=X > 1, out=x * 0),
}


@pytest.mark.parametrize("name", SAME)
def test_other_functions_give_tensors(name):
    made, expected = SAME[name](Tensor(X), Tensor(Y)), SAME[name](X, Y)
    several = isinstance(expected, list | tuple)
    assert several == isinstance(made, list | tuple)
    for one, other in zip(*((made, expected) if several else ([made], [expected])), strict=True):
        assert isinstance(one, Tensor) and one.shape == other.shape
        assert np.allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


def test_functions_about_arrays_give_what_python_has():
    x = Tensor(ARRAY)
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2 and np.size(x) == 12
    assert np.allclose(x, ARRAY) is True and np.array_equal(x, ARRAY + 1) is False
    assert np.array2string(x) == np.array2string(ARRAY)


def test_gradients_flow_through_what_torpor_has():
    x = Tensor(X, requires_grad=True)
    np.linalg.norm(np.concatenate([x, x]) * np.float64(2)).backward()
    assert np.allclose(x.grad.numpy(), 4 * X / np.linalg.norm([X, X]), rtol=1e-5)
    assert not np.percentile(x, 50).requires_grad


def test_what_writes_into_an_array_writes_into_a_tensor():
    x, y = Tensor(X), X.copy()
    for one in (x, y):
        np.fill_diagonal(one, 0)
        np.copyto(one, 7, where=Y > 1)
        np.add.at(one, ([0, 0], [1, 1]), 1)
    assert np.allclose(x.numpy(), y)
    place = Tensor(np.zeros(3, np.float32))
    assert np.sum(Tensor(X), axis=0, out=place) is place
    assert np.allclose(place.numpy(), X.sum(0), rtol=1e-6)
