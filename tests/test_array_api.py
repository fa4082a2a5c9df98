"""The array API standard, beside NumPy's namespace, which implements it too."""

import inspect
import math

import numpy as np
import pytest

import torpor
import torpor.array_api as xp
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

X = np.random.default_rng(3).uniform(0.1, 0.9, (3, 4))
N = np.array([[3, -1, 4], [1, 5, -9]])
B = np.array([[True, False, True], [False, False, True]])
UNARY = [
    "acos", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10",
    "log1p", "log2", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
ROUNDING = ["abs", "ceil", "floor", "negative", "positive", "round", "sign", "square", "trunc"]
BINARY = ["add", "atan2", "copysign", "divide", "hypot", "logaddexp", "maximum", "minimum",
          "multiply", "nextafter", "pow", "subtract"]  # fmt: skip
COMPARISONS = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]
WHOLE = ["bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder"]


def same(made, expected):
    if isinstance(expected, tuple | list):
        assert len(made) == len(expected)
        for one, other in zip(made, expected):
            same(one, other)
        return
    expected = np.asarray(expected)
    assert made.shape == expected.shape
    assert made.dtype.numpy == expected.dtype
    np.testing.assert_allclose(made.numpy(), expected, 1e-7, 1e-12)


@pytest.mark.parametrize("name", UNARY + ROUNDING)
def test_functions_of_elements(name):
    same(getattr(xp, name)(xp.asarray(X)), getattr(np, name)(X))
    if name in ROUNDING:
        same(getattr(xp, name)(xp.asarray(N)), getattr(np, name)(N))


@pytest.mark.parametrize("name", BINARY + COMPARISONS + WHOLE)
def test_functions_of_pairs(name):
    one, other = (N, N[:1] % 7 + 1) if name in WHOLE else (X, X[::-1])
    same(getattr(xp, name)(xp.asarray(one), xp.asarray(other)), getattr(np, name)(one, other))
    if name not in ("copysign", "nextafter"):
        same(getattr(xp, name)(2, xp.asarray(other)), getattr(np, name)(2, other))


# A call in either namespace: (namespace, how to make an array).
CALLS = {
    "sum": lambda x, a: [x.sum(a(N), axis=1), x.sum(a(N.astype("uint8"))), x.sum(a(X), axis=(0,))],
    "prod": lambda x, a: x.prod(a(N), axis=0, keepdims=True),
    "mean": lambda x, a: x.mean(a(X), axis=0),
    "std": lambda x, a: [x.std(a(X)), x.var(a(X), axis=1, keepdims=True, correction=1)],
    "extremes": lambda x, a: [x.max(a(N)), x.min(a(N), axis=1), x.max(a(X), axis=(0, 1))],
    "places": lambda x, a: [x.argmax(a(N), axis=1), x.argmin(a(N)), x.argmax(a(N), keepdims=True)],
    "logic": lambda x, a: [x.all(a(B), axis=1), x.any(a(N)), x.count_nonzero(a(B), axis=0)],
    "running": lambda x, a: [x.cumulative_sum(a(N), axis=1, include_initial=True),
                             x.cumulative_prod(a(N), axis=0), x.diff(a(N), axis=1)],
    "sort": lambda x, a: [x.sort(a(N), axis=0), x.argsort(a(N))],
    "nonzero": lambda x, a: x.nonzero(a(B)),
    "where": lambda x, a: x.where(a(B), a(N), a(N) * 2),
    "searchsorted": lambda x, a: x.searchsorted(a(np.array([1, 3, 5])), a(N)),
    "sets": lambda x, a: [tuple(x.unique_all(a(np.array([3, 1, 3, 2])))),
                          tuple(x.unique_counts(a(N))), x.sort(x.unique_values(a(N)))],
    "inverse": lambda x, a: tuple(x.unique_inverse(a(N))),
    "concat": lambda x, a: [x.concat([a(N), a(N)], axis=1), x.concat([a(N), a(N)], axis=None),
                            x.stack([a(N), a(N)], axis=-1)],
    "shapes": lambda x, a: [x.expand_dims(a(N), axis=1), x.flip(a(N)), x.moveaxis(a(N), 0, 1),
                            x.permute_dims(a(N), (1, 0)), x.reshape(a(N), (3, 2)),
                            x.squeeze(a(N[:1]), axis=0), x.broadcast_to(a(N), (2, 2, 3)),
                            x.matrix_transpose(a(N)), x.unstack(a(N), axis=1)],
    "repeats": lambda x, a: [x.repeat(a(N), 2, axis=1), x.tile(a(N), (2, 1)), x.roll(a(N), 1),
                             x.roll(a(N), (1, 2), axis=(0, 1))],
    "take": lambda x, a: [x.take(a(N), a(np.array([2, 0])), axis=1),
                          x.take_along_axis(a(N), a(np.array([[0], [2]])), axis=1)],
    "products": lambda x, a: [x.matmul(a(N), a(N.T)), x.tensordot(a(X), a(X), axes=2),
                              x.vecdot(a(X), a(X))],
    "making": lambda x, a: [x.arange(2, 11, 3), x.eye(3, 4, k=1),
                            x.linspace(0, 1, 4, endpoint=False, dtype=x.float64),
                            x.full((2,), 7), x.zeros_like(a(N)), x.ones_like(a(X)),
                            x.tril(a(N), k=1), x.triu(a(N)),
                            x.meshgrid(a(np.array([1, 2])), a(np.array([3, 4, 5])))],
    "clip": lambda x, a: [x.clip(a(N), 0, 3), x.clip(a(X), min=0.5)],
    "isin": lambda x, a: x.isin(a(N), a(np.array([1, 5]))),
    "linalg": lambda x, a: [x.linalg.inv(a(X[:3, :3])), x.linalg.det(a(X[:3, :3])),
                            x.linalg.vector_norm(a(X), axis=1), x.linalg.matrix_norm(a(X)),
                            x.linalg.outer(a(X[0]), a(X[1])), x.linalg.trace(a(X)),
                            x.linalg.svdvals(a(X)), x.linalg.pinv(a(X)),
                            x.linalg.matrix_rank(a(X)), x.linalg.diagonal(a(X), offset=1),
                            x.linalg.solve(a(X[:3, :3]), a(X[0, :3])),
                            x.linalg.cross(a(X[:, :3]), a(X[::-1, :3].copy()))],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    expected = CALLS[name](np, lambda array: array)
    made = CALLS[name](xp, xp.asarray)
    if name == "making":  # the default float of the standard's namespace is float32 here
        expected[1] = expected[1].astype(np.float32)
    same(made, list(expected) if isinstance(made, list) else expected)


def test_formats():
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.asarray(N), 1.5) is xp.float32
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int64, xp.int8)
    assert not xp.can_cast(xp.uint64, xp.int64)
    assert xp.finfo(xp.float32).eps == 2.0**-23 and xp.iinfo(xp.int8).min == -128
    assert xp.isdtype(xp.uint8, "integral") and xp.isdtype(xp.float64, ("bool", "numeric"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.int8, xp.int8)
    x = xp.asarray(X)
    assert xp.astype(x, xp.float64, copy=False) is x and xp.astype(x, xp.float64) is not x
    with pytest.raises(DTypeError, match="no kind of formats"):
        xp.isdtype(xp.int8, "real")
    with pytest.raises(DTypeError, match="use iinfo"):
        xp.finfo(xp.int8)


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["integral"] is xp.int64
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16", "uint32", "uint64"}
    assert info.capabilities()["boolean indexing"] is True
    x = xp.asarray(N)
    assert x.__array_namespace__() is xp is torpor.array_api
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueRangeError, match="versions"):
        x.__array_namespace__(api_version="2020.1")
    assert x.to_device("cpu").tolist() == N.tolist()
    assert xp.pi == math.pi and xp.newaxis is None


def test_every_name_is_there_and_documented():
    for name in xp.__all__:
        value = getattr(xp, name)
        assert not inspect.isfunction(value) or value.__doc__, name


def test_memory_is_shared_in_and_out():
    array = np.arange(6.0)
    x = xp.from_dlpack(array)
    array[0] = 9
    assert x[0].item() == 9
    back = np.from_dlpack(x)
    assert np.shares_memory(back, array)
    assert xp.from_dlpack(array, copy=True)[0].item() == 9
    assert xp.from_dlpack(array[::-1]).tolist() == array[::-1].tolist()
    with pytest.raises(ShapeError, match="copy it"):
        xp.from_dlpack(array[::-1], copy=False)
    y = xp.asarray(x, copy=False)
    assert y is x and xp.asarray(x, copy=True) is not x
    with pytest.raises(DTypeError, match="copy=False"):
        xp.asarray(x, dtype=xp.float32, copy=False)


def test_what_does_not_fit_is_said():
    x = xp.asarray(N)
    with pytest.raises(ShapeError, match="not of length 1"):
        xp.squeeze(x, axis=0)
    with pytest.raises(ShapeError, match="need an axis"):
        xp.cumulative_sum(x)
    with pytest.raises(ShapeError, match="at least one axis"):
        xp.nonzero(Tensor(1))


def test_complex_numbers_and_transforms_are_there():
    a = np.array([1 + 2j, -0.5j])
    x = xp.asarray(a)
    assert x.dtype is xp.complex128
    assert xp.isdtype(x.dtype, "complex floating") and xp.isdtype(x.dtype, "numeric")
    assert xp.result_type(xp.float64, xp.complex64) is xp.complex128
    pairs = (
        (xp.real(x), a.real), (xp.imag(x), a.imag), (xp.conj(x), a.conj()), (xp.abs(x), abs(a)),
        (xp.sign(x), a / abs(a)), (xp.vecdot(x, xp.flip(x)), np.vdot(a, a[::-1])),
        (xp.mean(x), a.mean()), (xp.prod(x), a.prod()), (xp.add(x, 1j), a + 1j),
        (xp.fft.fft(x, axis=0), np.fft.fft(a)), (xp.fft.fftshift(x, axes=0), np.fft.fftshift(a)),
        (xp.fft.irfftn(x, s=(3,), axes=(0,)), np.fft.irfft(a, 3)),
        (xp.std(x), a.std()), (xp.astype(xp.asarray([True]), xp.complex64), np.array([1 + 0j])),
    )  # fmt: skip
    for made, expected in pairs:
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12)


def test_what_formats_promote_to():
    kinds = [xp.bool, xp.int8, xp.uint8, xp.int64, xp.uint64, xp.float32, xp.complex64]
    found = {(str(a), str(b)) for a in kinds for b in kinds if a is not b and xp.can_cast(a, b)}
    assert found == {
        ("dtypes.int8", "dtypes.int64"),
        ("dtypes.uint8", "dtypes.int64"),
        ("dtypes.uint8", "dtypes.uint64"),
        ("dtypes.float32", "dtypes.complex64"),
    }


def test_running_sums_of_a_number_are_a_vector():
    assert xp.cumulative_sum(xp.asarray(3)).tolist() == [3]
    assert xp.cumulative_prod(xp.asarray(3), include_initial=True).tolist() == [1, 3]


def test_complex_numbers_are_rounded_and_found_and_multiplied():
    z = np.array([[1.5 + 0.5j, 0], [2.5 - 1.2j, -0.6j]])
    same(xp.round(xp.asarray(z)), np.round(z))
    same(xp.nonzero(xp.asarray(z)), np.nonzero(z))
    same(xp.prod(xp.asarray(z), keepdims=True), np.prod(z, keepdims=True))


def test_options_by_place_and_where_alone_are_as_in_numpy():
    numbers = np.array([3, 0, 4, 4, 0, 7])
    x = xp.asarray(numbers)
    np.testing.assert_array_equal(xp.diff(x, 2).numpy(), np.diff(numbers, 2))
    np.testing.assert_array_equal(xp.where(x > 3)[0].numpy(), np.where(numbers > 3)[0])
    with pytest.raises(TypeError, match="both"):
        xp.where(x > 3, None, x)
