"""Special functions beside Python's `math`, sums and integrals in float64, and slopes known."""

import math

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import ValueRangeError

INF, NAN = math.inf, math.nan


def erfinv(y):
    """By bisection on `math.erf` and `math.erfc`."""
    low, high = 0.0, 6.5
    for _ in range(80):
        middle = (low + high) / 2
        below = math.erf(middle) < y if y < 0.5 else math.erfc(middle) > 1 - y
        low, high = (middle, high) if below else (low, middle)
    return low


def digamma(x):
    """The limit log(n) - sum of 1 / (x + k), with what is left of it by its series."""
    y = x + 99
    rest = math.log(y) - 0.5 / y - 1 / (12 * y * y) + 1 / (120 * y**4)
    return math.fsum([rest, *(-1 / (x + k) for k in range(99))])


def bessel(order):
    def function(x):
        return sum((x / 2) ** (2 * k + order) / math.factorial(k) / math.factorial(k + order)
                   for k in range(60))  # fmt: skip

    return function


# name: (the function, its slope, arguments, most units in the last place)
FUNCTIONS = {
    "atan": (math.atan, lambda x: 1 / (1 + x * x), (-1e30, -3.0, -0.41, 0.2, 0.5, 1.0, 2.5), 4),
    "asin": (math.asin, lambda x: 1 / math.sqrt(1 - x * x), (-0.99, -0.5, 1e-6, 0.3, 0.7), 4),
    "acos": (math.acos, lambda x: -1 / math.sqrt(1 - x * x), (-0.99, -0.5, 0.3, 0.9, 0.9999), 4),
    "asinh": (math.asinh, lambda x: 1 / math.hypot(1, x), (-1e12, -3.0, 1e-5, 0.5, 9.0), 4),
    "acosh": (math.acosh, lambda x: 1 / math.sqrt((x - 1) * (x + 1)), (1.001, 1.5, 9.0, 1e12), 4),
    "atanh": (math.atanh, lambda x: 1 / (1 - x * x), (-0.99, -0.3, 1e-6, 0.5), 4),
    "erfc": (math.erfc, lambda x: -2 / math.sqrt(math.pi) * math.exp(-x * x),
             (-3.0, -0.2, 0.4, 1.0, 3.0, 8.0), 8),
    "erfinv": (erfinv, lambda y: math.sqrt(math.pi) / 2 * math.exp(erfinv(y) ** 2),
               (1e-5, 0.1, 0.5, 0.75, 0.999, 1 - 2.0**-20), 8),
    "lgamma": (math.lgamma, digamma, (1e-3, 0.4, 0.999, 1.001, 1.5, 2.5, 7.9, 8.1, 1e5), 8),
    "digamma": (digamma, None, (0.1, 0.9, 1.2, 3.0, 9.9, 50.0), 8),
    "i0": (bessel(0), bessel(1), (0.1, 2.0, 7.9, 8.1, 20.0), 8),
    "logit": (lambda x: math.log(x / (1 - x)), lambda x: 1 / (x - x * x), (1e-6, 0.2, 0.9), 4),
    "sinc": (lambda x: math.sin(math.pi * x) / (math.pi * x), None, (-1.5, 0.3, 2.25), 4),
    "deg2rad": (math.radians, None, (-30.0, 90.0), 2),
    "rad2deg": (math.degrees, None, (-3.0, 0.1), 2),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_slopes(name, dtype):
    function, slope, arguments, ulps = FUNCTIONS[name]
    x = np.array(arguments, dtype)
    near_root = name in ("digamma", "lgamma") and (name == "digamma" or dtype is np.float64)
    if name in ("erfinv", "digamma", "lgamma") and dtype is np.float64:  # as good as the oracle
        ulps = 64
    tensor = Tensor(x).requires_grad_()
    made = getattr(tensor, name)()
    expected = np.array([function(float(v)) for v in x])
    assert made.numpy().dtype == dtype
    size = abs(expected) + near_root
    assert (abs(made.numpy() - expected) <= ulps * np.spacing(size.astype(dtype))).all()
    if slope:
        slopes = [slope(float(v)) for v in x]
        np.testing.assert_allclose(made.sum().gradient(tensor)[0].numpy(), slopes, 2e-5, 1e-30)


SPREAD = {  # functions of float64 that know more than float32, where they are taken, and ulps
    "asin": (np.arcsin, -1, 1, 4),
    "acos": (np.arccos, -1, 1, 4),
    "atan": (np.arctan, -8, 8, 4),
    "erfc": (np.vectorize(math.erfc), -4, 9, 5),
    "erfinv": (np.vectorize(erfinv), 0, 1, 5),
}


@pytest.mark.parametrize("name", SPREAD)
def test_float32_is_near_everywhere(name):
    function, low, high, ulps = SPREAD[name]
    x = np.linspace(low, high, 6001, dtype=np.float32)[1:-1]
    expected = function(x.astype(np.float64))
    error = abs(getattr(Tensor(x), name)().numpy() - expected)
    assert (error <= ulps * np.spacing(abs(expected).astype(np.float32))).all()


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("atan", ((INF, math.pi / 2), (-INF, -math.pi / 2), (-0.0, -0.0), (NAN, NAN))),
        ("asin", ((1, math.pi / 2), (-1, -math.pi / 2), (1.5, NAN))),
        ("acos", ((1, 0), (-1, math.pi), (-1.5, NAN))),
        ("acosh", ((1, 0), (0.5, NAN), (-1e30, NAN), (INF, INF))),
        ("atanh", ((1, INF), (-1, -INF), (2, NAN))),
        ("erfc", ((INF, 0), (-INF, 2), (NAN, NAN), (20, 0))),
        ("erfinv", ((1, INF), (-1, -INF), (0, 0), (-0.0, -0.0), (2, NAN),
                    (-0.5, -0.4769362762044))),
        ("lgamma", ((0, INF), (-1, INF), (1, 0), (2, 0), (-0.5, math.lgamma(-0.5)), (INF, INF),
                    (-1e-30, 69.07755278982137), (-1e-45, 103.27892990343184))),
        ("digamma", ((0, -INF), (-0.0, INF), (-1, NAN), (-0.5, 0.03648997397857652))),
        ("logit", ((0, -INF), (1, INF), (2, NAN))),
        ("sinc", ((0, 1),)),
    ],
)  # fmt: skip
def test_ends(name, pairs):
    x, expected = (np.array(values, np.float32) for values in zip(*pairs))
    made = getattr(Tensor(x), name)().numpy()
    np.testing.assert_allclose(made, expected, 1e-5)
    assert (np.signbit(made) == np.signbit(expected))[~np.isnan(expected)].all()


def test_second_slopes():
    x = Tensor(0.5, dtype="float64").requires_grad_()
    (first,) = x.atan().gradient(x)
    assert first.gradient(x)[0].item() == pytest.approx(-2 * 0.5 / 1.25**2)
    (first,) = x.lgamma().gradient(x)
    assert first.gradient(x)[0].item() == pytest.approx(math.pi**2 / 2)
    y = x.erfinv()
    (first,) = y.gradient(x)
    assert first.gradient(x)[0].item() == pytest.approx(math.pi / 2 * y.item() * math.exp(
        2 * y.item() ** 2))  # fmt: skip
    (first,) = x.hypot(2 * x.detach()).gradient(x)
    assert first.gradient(x)[0].item() == pytest.approx(4 / 5**1.5 / 0.5)


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"lgamma", "digamma", "acosh"}))
def test_second_slopes_are_those_of_the_first(name):
    places = np.array([-0.4, 0.0, 0.3, 0.7])[2 if name == "logit" else 0 :]

    def slope(x):
        return getattr(x, name)().sum().gradient(x)[0]

    x, step = Tensor(places, requires_grad=True), 1e-5
    (found,) = slope(x).sum().gradient(x)
    near = (slope(Tensor(places + by, requires_grad=True)).numpy() for by in (step, -step))
    expected = np.subtract(*near) / (2 * step)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_logit_is_clamped_and_integers_are_floats():
    assert Tensor([0.0, 1.0]).logit(0.25).tolist() == pytest.approx([-math.log(3), math.log(3)])
    assert Tensor([0, 1]).atan().dtype.name == "float32"


def test_polygamma():
    x = Tensor([1.0, 0.5], dtype="float64")
    assert x.polygamma(1).tolist() == pytest.approx([math.pi**2 / 6, math.pi**2 / 2])
    assert x.polygamma(2).tolist() == pytest.approx([-2.404113806319188, -16.828796644234318])
    assert Tensor(1).polygamma(x).tolist() == x.polygamma(1).tolist()
    with pytest.raises(ValueRangeError, match="order 0 or more"):
        x.polygamma(-1)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_polygamma_of_negative_numbers(n):
    """psi(x + 1) = psi(x) + 1/x, n times derived, from positive x down, in exact steps."""
    for start in (0.25, 0.5, 0.875):
        known = Tensor([start], dtype="float64").polygamma(n).item()
        for step in range(1, 40):
            x = start - step
            known -= (-1) ** n * math.factorial(n) / x ** (n + 1)
            assert Tensor([x], dtype="float64").polygamma(n).item() == pytest.approx(
                known, rel=1e-9
            )
    poles = Tensor([0.0, -1.0, -7.0]).polygamma(n)
    assert poles.abs().tolist() == [math.inf] * 3


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_polygamma_half_way_between_its_poles(n):
    """There the part that mirrors it is 0 for every even n, and far above what is left else."""
    x = np.array([-0.5, -3.5, -20.5, -100.5, -1000.5])
    exact = Tensor(x).polygamma(n).numpy()
    np.testing.assert_allclose(Tensor(x.astype("f4")).polygamma(n).numpy(), exact, rtol=2e-6)
    if n % 2 == 0:
        np.testing.assert_allclose(exact, Tensor(1 - x).polygamma(n).numpy(), rtol=1e-12)


def test_logit_has_no_slope_where_it_has_no_value():
    """As PyTorch: NaN beyond 0 and 1; with eps no slope where the argument is held."""
    x = Tensor([-0.5, 0.0, 0.25, 1.0, 1.5], requires_grad=True)
    slope = x.logit().sum().gradient(x)[0].numpy()
    assert np.isnan(slope[[0, 4]]).all() and np.isinf(slope[[1, 3]]).all()
    assert np.isclose(slope[2], 16 / 3)
    held = x.logit(0.1).sum().gradient(x)[0].numpy()
    assert np.allclose(held, [0, 0, 16 / 3, 0, 0])


def test_logit_whose_bounds_cross_raises_first():
    """As in PyTorch: below eps it is eps, and what is no less is lowered to 1 - eps."""
    found = Tensor([0.1, 0.5, 0.6, 0.9]).logit(0.6).numpy()
    np.testing.assert_allclose(found, np.log([1.5, 1.5, 2 / 3, 2 / 3]), rtol=1e-6)


def test_the_slope_of_digamma_at_its_ends():
    """Infinite at 0 and -1, 0 at infinity, and by reflection between: pi² / 2 - psi'(1/2 - ...)."""
    x = Tensor([0.0, -0.0, math.inf, -1.0, 0.5, -0.5, 1.0], requires_grad=True)
    slope = x.digamma().sum().gradient(x)[0].numpy()
    known = [math.inf, math.inf, 0, math.inf, math.pi**2 / 2, math.pi**2 / 2 + 4, math.pi**2 / 6]
    np.testing.assert_allclose(slope, known, rtol=2e-6)
    np.testing.assert_allclose(x.polygamma(1).detach().numpy(), known, rtol=2e-6)


def test_beside_the_poles_of_gamma_its_logarithm_and_slope_are_as_exact_as_elsewhere():
    x = np.array([k + sign * 2.0**-power for k in (-1, -4, -9, -31) for sign in (1, -1)
                  for power in (3, 9, 18)], np.float32)  # fmt: skip
    wide = x.astype(float)
    slope = [digamma(1 - v) - math.pi / math.tan(math.pi * (v - round(v))) for v in wide]
    np.testing.assert_allclose(Tensor(x).digamma().numpy(), slope, rtol=3e-6)
    size = [math.lgamma(v) for v in wide]
    np.testing.assert_allclose(Tensor(x).lgamma().numpy(), size, rtol=3e-6, atol=3e-6)
