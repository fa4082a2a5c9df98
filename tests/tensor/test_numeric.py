"""Functions of two elements, parts of floats and tests, beside NumPy's."""

import math

import numpy as np
import pytest

from torpor import Tensor, dtypes
from torpor.base.errors import DTypeError

INF, NAN = math.inf, math.nan
ENDS = np.float32([0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, INF, -INF, NAN])
X, Y = (part.reshape(-1) for part in np.meshgrid(ENDS, ENDS))
PAIRS = {
    "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
    "fmax": np.fmax, "fmin": np.fmin, "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2,
    "heaviside": np.heaviside,
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_all_kinds_of_numbers(name):
    with np.errstate(all="ignore"):
        expected = PAIRS[name](X, Y)
    made = getattr(Tensor(X), name)(Tensor(Y)).numpy()
    np.testing.assert_allclose(made, expected, 1e-6, 0)
    if name in ("atan2", "copysign", "nextafter"):
        known = ~np.isnan(expected)
        assert (np.signbit(made) == np.signbit(expected))[known].all()


@pytest.mark.parametrize(
    ("name", "slopes"),
    [
        ("atan2", (4 / 25, -3 / 25)),
        ("hypot", (3 / 5, 4 / 5)),
        ("logaddexp", (1 / (1 + math.e), math.e / (1 + math.e))),
        ("logaddexp2", (1 / 3, 2 / 3)),
        ("xlogy", (math.log(4), 3 / 4)),
        ("copysign", (1, 0)),
        ("fmax", (0, 1)),
        ("fmin", (1, 0)),
        ("ldexp", (16, 48 * math.log(2))),
        ("float_power", (108, 81 * math.log(3))),
    ],
)
def test_slopes_of_pairs(name, slopes):
    x, y = (Tensor(v, dtype="float64").requires_grad_() for v in (3.0, 4.0))
    made = getattr(x, name)(y).gradient(x, y)
    assert [one.item() for one in made] == pytest.approx(slopes)


def test_products_with_logarithms_are_0_where_the_factor_is():
    made = Tensor([0.0, 0.0, 2.0, NAN]).xlogy(Tensor([0.0, NAN, 3.0, 1.0])).tolist()
    assert made[:3] == [0.0, pytest.approx(NAN, nan_ok=True), pytest.approx(2 * math.log(3))]
    assert math.isnan(made[3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_mantissas_and_exponents(dtype):
    tiny = float(np.finfo(dtype).smallest_subnormal)
    x = np.array([1.0, -3.5, 0.0, tiny, 7 * tiny, 65504.0, INF, NAN], dtype)
    mantissa, exponent = found = Tensor(x).frexp()
    assert found.mantissa is mantissa and found.exponent is exponent
    expected = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), expected[0])
    assert exponent.tolist()[:6] == expected[1].tolist()[:6]
    assert exponent.dtype is dtypes.int32


def test_common_divisors():
    x, y = np.int64([0, 12, -12, 2**62, 7]), np.int64([0, 18, 18, 2**40 * 3, 0])
    assert Tensor(x).gcd(Tensor(y)).tolist() == np.gcd(x, y).tolist()
    assert Tensor(x[:3]).lcm(Tensor(y[:3])).tolist() == np.lcm(x[:3], y[:3]).tolist()
    with pytest.raises(DTypeError, match="only integers"):
        Tensor([1.0]).gcd(2)


def test_closeness():
    x, y = np.array([1.0, 1.0, INF, INF, NAN]), np.array([1.0 + 1e-6, 1.1, INF, -INF, NAN])
    assert Tensor(x).isclose(Tensor(y)).tolist() == np.isclose(x, y).tolist()
    assert Tensor(x).isclose(Tensor(y), equal_nan=True).tolist()[-1] is True
    assert Tensor([1, 2]).isclose(Tensor([1, 3])).tolist() == [True, False]
    assert Tensor(x[:1]).allclose(Tensor(y[:1])) is True
    assert Tensor([1, 2]).equal(Tensor([1, 2])) and not Tensor([1]).equal(Tensor([1, 1]))


@pytest.mark.parametrize("count", [0, 3, 100])
def test_membership(count):
    x, known = np.arange(-5, 20).reshape(5, 5), np.arange(count)[::-1] * 2
    made = Tensor(x).isin(Tensor(known, dtype="int64"))
    assert (made.numpy() == np.isin(x, known)).all()
    assert (Tensor(x).isin(Tensor(known, dtype="int64"), invert=True).numpy() != made.numpy()).all()


def test_signs_and_infinities():
    x = Tensor([-0.0, 1.0, -INF, INF, -NAN])
    assert x.signbit().tolist()[:4] == [True, False, True, False]
    assert x.isposinf().tolist() == [False, False, False, True, False]
    assert x.isneginf().tolist() == [False, False, True, False, False]
    assert x.angle().tolist()[:4] == [0.0, 0.0, pytest.approx(math.pi), 0.0]
    assert Tensor([-1, 0]).signbit().tolist() == [True, False]
    assert x.isreal().all().item() and not x.is_complex() and x.is_signed()
    assert x.conj() is x and x.real is x


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_heaviside_of_small_formats(dtype):
    x, at = np.array([0, 0, 1, 1], dtype), np.array([0, 1, 0, 1], dtype)
    made = Tensor(x).heaviside(Tensor(at))
    np.testing.assert_array_equal(made.numpy(), np.array([0, 1, 1, 1], dtype))


def test_common_divisors_of_bytes():
    x, y = np.array([12, 0, 7, 255], np.uint8), np.array([18, 5, 0, 34], np.uint8)
    np.testing.assert_array_equal(Tensor(x).gcd(Tensor(y)).numpy(), np.gcd(x, y))


def test_common_divisors_of_the_least_number():
    x, y = np.array([-128, -128, 0, -128], np.int8), np.array([0, 64, -128, -96], np.int8)
    np.testing.assert_array_equal(Tensor(x).gcd(Tensor(y)).numpy(), np.gcd(x, y))


def test_nextafter_has_the_slope_of_its_first_operand():
    x, y = (Tensor(v, requires_grad=True) for v in ([1.0, 2.0, 3.0], [1.0, 5.0, 3.0]))
    slopes = x.nextafter(y).sum().gradient(x, y)
    assert [slope.tolist() for slope in slopes] == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_infinite_gradients_go_to_one_of_two(name):
    x = Tensor([1.0, 0.0], requires_grad=True)
    seed = Tensor([-math.inf, math.inf])
    (found,) = getattr(x, name)(Tensor([1.0, 2.0])).gradient(x, gradient=seed)
    assert found.tolist() == [-math.inf, 0.0 if name == "fmax" else math.inf]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_of_points_far_away_and_next_to_the_origin(dtype):
    """Sums of coordinates may be beyond the format, and shares of them below it."""
    found = np.finfo(dtype)
    sizes = [0.0, found.smallest_subnormal, found.tiny, 1.0, found.max / 3, found.max, np.inf]
    y, x = (one.ravel() for one in np.meshgrid(*[np.array([*sizes, -2.0], dtype)] * 2))
    angles = Tensor(y).atan2(Tensor(x)).numpy()
    expected = np.arctan2(y.astype("float64"), x.astype("float64"))
    np.testing.assert_allclose(angles, expected, rtol=1e-6, atol=found.tiny)
