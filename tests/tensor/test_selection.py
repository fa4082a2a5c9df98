"""The k-th least, medians and quantiles of rows of any length, beside NumPy's sort."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import OutOfBoundsError

FORMATS = ("float32", "float64", "float16", "uint8", "int32", "uint64", "bool")
SHAPES = ((7,), (3, 300), (1, 2001))


def elements(shape, dtype, seed=0):
    """Elements with ties, both zeros, and what is infinite or the format's greatest and least."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.4
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        far = random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        return np.where(random.random(shape) < 0.5, far, far % 5).astype(dtype)
    rare = random.choice([0.0, -0.0, np.inf, -np.inf, 1.0, 1e-7], shape)
    return np.where(random.random(shape) < 0.3, rare, random.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FORMATS)
def test_the_kth_least_is_that_of_the_sorted_row(dtype, shape):
    data = elements(shape, dtype)
    ordered = np.sort(data, -1)
    for k in {1, shape[-1] // 3, shape[-1]}:
        values, indices = Tensor(data).kthvalue(k)
        np.testing.assert_array_equal(values.numpy(), ordered[..., k - 1])
        picked = np.take_along_axis(data, indices.numpy()[..., None], -1)[..., 0]
        np.testing.assert_array_equal(picked, ordered[..., k - 1])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FORMATS)
def test_the_median_is_the_lesser_one_in_the_middle(dtype, shape):
    data = elements(shape, dtype, seed=1)
    for axis in range(len(shape)):
        length = shape[axis]
        expected = np.sort(data, axis).take((length - 1) // 2, axis)
        values, indices = Tensor(data).median(axis, keepdim=True)
        np.testing.assert_array_equal(values.numpy().squeeze(axis), expected)
        np.testing.assert_array_equal(
            np.take_along_axis(data, indices.numpy(), axis), values.numpy()
        )
    middle = np.sort(data.reshape(-1))[(data.size - 1) // 2]
    np.testing.assert_array_equal(Tensor(data).median().numpy(), middle)


@pytest.mark.parametrize("length", [9, 300])
def test_nan_is_the_median_of_a_row_that_has_one_and_none_of_the_others(length):
    data = np.random.default_rng(2).standard_normal((4, length))
    data[1, 3] = data[3, 5] = data[3, 7] = np.nan
    data[2] = np.nan
    values, indices = Tensor(data).median(1)
    assert np.isnan(values.numpy()).tolist() == [False, True, True, True]
    assert np.isnan(np.take_along_axis(data, indices.numpy()[:, None], 1)[1:]).all()
    rest = [np.sort(row[~np.isnan(row)]) for row in data]
    expected = [row[(len(row) - 1) // 2] if len(row) else np.nan for row in rest]
    np.testing.assert_array_equal(Tensor(data).nanmedian(1).values.numpy(), expected)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("length", [5, 700])
def test_quantiles_are_numpys(length, count, interpolation):
    data = np.random.default_rng(3).standard_normal((3, length))
    shares = np.random.default_rng(4).random(count)
    found = Tensor(data).quantile(Tensor(shares), 1, interpolation=interpolation)
    expected = np.quantile(data, shares, 1, method=interpolation)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    data[1, 2] = np.nan
    found = Tensor(data).nanquantile(Tensor(shares), 1, interpolation=interpolation)
    expected = np.nanquantile(data, shares, 1, method=interpolation)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    assert np.isnan(Tensor(data).quantile(Tensor(shares), 1).numpy()[:, 1]).all()


def test_gradients_flow_to_what_was_selected():
    data = np.random.default_rng(5).permutation(900).reshape(3, 300) / 7.0
    x = Tensor(data, requires_grad=True)
    (x.median(1).values * Tensor([1.0, 2.0, 3.0])).sum().backward()
    expected = np.zeros_like(data)
    for row, factor in enumerate((1.0, 2.0, 3.0)):
        expected[row, np.argsort(data[row])[149]] = factor
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    x.grad = None
    x.quantile(0.25, 1).sum().backward()  # at 74.75
    expected = np.zeros_like(data)
    for row in range(3):
        order = np.argsort(data[row])
        expected[row, order[74]], expected[row, order[75]] = 0.25, 0.75
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-13)


def test_selection_in_a_jit_under_vmap_and_of_other_devices():
    data = np.random.default_rng(6).standard_normal((5, 400)).astype(np.float32)
    expected = np.sort(data, 1)[:, 199]
    jitted = torpor.jit(lambda x: x.median(1).values)
    for shift in (0.0, 0.5, 2.0):
        found = jitted(Tensor(data + np.float32(shift))).numpy()
        np.testing.assert_array_equal(found, np.sort(data + np.float32(shift), 1)[:, 199])
    mapped = torpor.vmap(lambda row: row.median())(Tensor(data))
    np.testing.assert_array_equal(mapped.numpy(), expected)
    small = Tensor(data[:2, :150], device="PYTHON").kthvalue(20).values
    np.testing.assert_array_equal(small.numpy(), np.sort(data[:2, :150], 1)[:, 19])


def test_what_has_no_elements_and_ranks_beyond_the_row():
    assert Tensor(np.zeros((0, 300))).kthvalue(7).values.shape == (0,)
    assert Tensor(np.zeros((0, 300))).median(1).indices.shape == (0,)
    assert math.isnan(Tensor(np.zeros((0,))).median().item())
    with pytest.raises(OutOfBoundsError, match="301"):
        Tensor(np.zeros((2, 300))).kthvalue(301)
