"""Quotients and remainders of numbers of every magnitude, against NumPy."""

import math

import numpy as np
import pytest

from torpor import Tensor, dtypes
from torpor.base.errors import DivisionByZeroError, ValueRangeError

EDGES = [0.0, 1.0, 3.0, 0.1, 1e300, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308]


def any_numbers(dtype, count, seed):
    """Every exponent and sign, infinities and NaN among them."""
    words = np.uint64 if dtype == np.float64 else np.uint32
    bits = np.random.default_rng(seed).integers(0, np.iinfo(words).max, count, words)
    return bits.view(dtype)


def pairs(dtype):
    with np.errstate(over="ignore"):
        edges = np.array([*EDGES, *(-e for e in EDGES), np.inf, np.nan]).astype(dtype)
    left, right = (v.ravel() for v in np.meshgrid(edges, edges))
    numbers = [any_numbers(dtype, 2000, seed) for seed in (1, 2)]
    return np.concatenate([left, numbers[0]]), np.concatenate([right, numbers[1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_remainders_are_exact_for_every_quotient(dtype, device):
    left, right = pairs(dtype) if device == "CPU" else (v[:400] for v in pairs(dtype))
    x, y = Tensor(left, device=device), Tensor(right, device=device)
    with np.errstate(all="ignore"):
        rest, expected = x.fmod(y).numpy(), np.fmod(left, right)
        np.testing.assert_array_equal(rest, expected)
        assert (np.signbit(rest) == np.signbit(expected))[expected == 0].all()
        np.testing.assert_array_equal((x % y).numpy(), np.remainder(left, right))
        expected = np.floor_divide(left, right)  # rounded, where it is no number of the format
    found, zero = (x // y).numpy(), expected == 0
    np.testing.assert_allclose(found, expected, rtol=np.finfo(dtype).eps)
    assert (np.signbit(found) == np.signbit(expected))[zero].all()


def test_remainders_of_integers():
    left, right = np.int32([7, -7, 7, -7, 0]), np.int32([3, 3, -3, -3, 5])
    x, y = Tensor(left), Tensor(right)
    assert (x.fmod(y).numpy() == np.fmod(left, right)).all()
    assert (x.remainder(y).numpy() == np.remainder(left, right)).all()
    assert (x.div(y, rounding_mode="trunc").numpy() == np.trunc(left / right)).all()
    with pytest.raises(DivisionByZeroError):
        (x % Tensor([0, 1, 1, 1, 1])).numpy()


def test_powers_and_shifts_refuse_negative_counts():
    assert (Tensor([-8, 8]) >> 70).tolist() == [-1, 0]
    assert (Tensor([3]) ** Tensor([4])).tolist() == [81]
    with pytest.raises(ValueRangeError, match="negative"):
        Tensor([1]) << -1
    with pytest.raises(ValueRangeError, match="negative"):
        (Tensor([2]) ** Tensor([-1])).numpy()


@pytest.mark.parametrize("count", [1.0, 1.5, float("nan")])
@pytest.mark.parametrize("name", ["__lshift__", "__rshift__", "bitwise_left_shift"])
def test_a_float_is_no_number_of_places(name, count):
    with pytest.raises(TypeError, match="shifted by integers"):
        getattr(Tensor([1, 2]), name)(count)
    assert (Tensor([1, 2]) << True).tolist() == [2, 4]


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16], ids=str)
def test_small_floats_are_floored_before_they_are_rounded(dtype):
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=4000).astype(dtype.numpy) for _ in range(2))
    exact = np.floor(a.astype(np.float64) / b.astype(np.float64))
    found = Tensor(a) // Tensor(b)
    np.testing.assert_array_equal(found.numpy(), exact.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64", "uint8"])
def test_powers_of_integers_wrap_around_for_exponents_of_any_size(dtype):
    random = np.random.default_rng(5)
    base = random.integers(0, 100, (37, 29)).astype(dtype)
    for largest in (7, 60, 200):
        exponent = random.integers(0, largest, base.shape).astype(dtype)
        found = (Tensor(base) ** Tensor(exponent)).numpy()
        np.testing.assert_array_equal(found, np.power(base, exponent))
    huge = Tensor([3, -1, 2, 7]) ** Tensor([2**40 + 1, 2**62 + 1, 64, 2**62])
    wrapped = [pow(3, 2**40 + 1, 2**64) - 2**64, -1, 0, pow(7, 2**62, 2**64)]
    assert huge.tolist() == wrapped


def test_powers_of_no_integers():
    nothing = Tensor.zeros(0, 3, dtype=dtypes.int64)
    assert (nothing**nothing).tolist() == []
    assert (nothing**nothing).sum(0).tolist() == [0, 0, 0]


def test_powers_of_a_half_are_roots():
    x = np.array([-np.inf, -4, -0.0, 0, 2, 9, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        root, inverse = np.sqrt(x), 1 / np.sqrt(x)
    for made, wanted in ((Tensor(x) ** 0.5, root), (Tensor(x) ** -0.5, inverse)):
        np.testing.assert_allclose(made.numpy(), wanted, rtol=2e-7)
        np.testing.assert_array_equal(np.signbit(made.numpy()[2:7]), np.signbit(wanted[2:7]))
    leaf = Tensor([0.0, 4.0], requires_grad=True)
    (leaf**0.5).sum().backward()
    assert leaf.grad.tolist() == [np.inf, 0.25]


def test_divisors_of_one_number_computed_of_any_length_are_compiled_in_seconds():
    """Ninety remainders one after the other, in text without vectors."""
    for length in (5, 7, 6, 9, 8):
        place = Tensor(np.arange(length, dtype=np.float32)).argmax(-1)
        assert place.gcd(place * 0 + 6).item() == math.gcd(length - 1, 6)
