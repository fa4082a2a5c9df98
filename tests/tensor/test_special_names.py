"""`torpor.special` against Python's functions, NumPy's polynomials and what is known of them."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor, special

X = np.array([-6.0, -2.0, -0.5, 0.0, 0.25, 1.0, 3.0, 8.5])


def of_floats(function):
    return np.array([function(float(x)) for x in X])


def series(x, order):
    """The modified Bessel function, by its series."""
    terms = ((x / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order))
             for k in range(60))  # fmt: skip
    return math.fsum(terms)


VALUES = {
    "expit": lambda x: 1 / (1 + math.exp(-x)),
    "erfcx": lambda x: math.exp(x * x) * math.erfc(x),
    "ndtr": lambda x: math.erfc(-x / math.sqrt(2)) / 2,
    "log_ndtr": lambda x: math.log(math.erfc(-x / math.sqrt(2)) / 2),
    "i0e": lambda x: math.exp(-abs(x)) * series(x, 0),
    "i1": lambda x: series(x, 1),
    "i1e": lambda x: math.exp(-abs(x)) * series(x, 1),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_and_gradients_of_two_orders(name):
    function, step = VALUES[name], 1e-5
    x = Tensor(X, requires_grad=True)
    made = getattr(special, name)(x)
    np.testing.assert_allclose(made.numpy(), of_floats(function), rtol=2e-9, atol=1e-12)
    (slope,) = made.sum().gradient(x)
    numeric = of_floats(lambda x: function(x + step)) - of_floats(lambda x: function(x - step))
    np.testing.assert_allclose(slope.numpy(), numeric / (2 * step), rtol=1e-5, atol=1e-6)
    (second,) = slope.sum().gradient(x)
    near = [Tensor(X + sign * step, requires_grad=True) for sign in (1, -1)]
    slopes = [getattr(special, name)(one).sum().gradient(one)[0].numpy() for one in near]
    away = X != 0  # where |x| has a corner
    expected = (slopes[0] - slopes[1]) / (2 * step)
    np.testing.assert_allclose(second.numpy()[away], expected[away], rtol=1e-4, atol=1e-5)


def test_entropy_and_its_gradient():
    x = Tensor([0.5, 1.0, 0.0, -1.0], requires_grad=True)
    made = special.entr(x)
    np.testing.assert_allclose(made.numpy(), [0.5 * math.log(2), 0, 0, -np.inf], rtol=1e-6)
    (slope,) = made[:3].sum().gradient(x)
    np.testing.assert_allclose(slope.numpy()[:3], [math.log(2) - 1, -1, np.inf], rtol=1e-6)


def test_far_values():
    x = Tensor([-1e3, -np.inf, np.inf], dtype="float64")
    expected = -5e5 - math.log(1e3 * math.sqrt(2 * math.pi))
    made = special.log_ndtr(x).numpy()
    np.testing.assert_allclose(made, [expected, -np.inf, 0], rtol=1e-9)
    assert special.erfcx(x).tolist() == [np.inf, np.inf, 0]
    np.testing.assert_allclose(special.ndtr(special.ndtri(Tensor([0.1, 0.5, 0.999]))).numpy(),
                               [0.1, 0.5, 0.999], rtol=1e-5)  # fmt: skip


def test_products_that_are_0_stay_so():
    x, y = Tensor([0.0, 0.0, 2.0]), Tensor([-1.0, math.nan, 1.0])
    np.testing.assert_allclose(special.xlog1py(x, y).numpy(), [0, np.nan, 2 * math.log(2)])


def test_zeta_and_gammas():
    made = special.zeta(Tensor([2.0, 4.0, 1.5], dtype="float64"), Tensor(1.0, dtype="float64"))
    known = [math.pi**2 / 6, math.pi**4 / 90, 2.612375348685488]
    np.testing.assert_allclose(made.numpy(), known, rtol=1e-12)
    s = Tensor([3.0])
    special.zeta(s, Tensor([2.0]))
    assert s.tolist() == [3.0]  # it is read, and not written to
    poles = special.zeta(Tensor([1.0, 2.0, 2.0]), Tensor([1.0, 0.0, -3.0]))
    assert poles.tolist() == [math.inf] * 3
    assert np.isnan(special.zeta(Tensor([0.5, 2.0]), Tensor([1.0, -0.5])).numpy()).all()
    x, p = np.array([2.0, 4.5]), 3
    expected = [p * (p - 1) / 4 * math.log(math.pi)
                + sum(math.lgamma(a - j / 2) for j in range(p)) for a in x]  # fmt: skip
    np.testing.assert_allclose(special.multigammaln(Tensor(x), p).numpy(), expected, rtol=1e-9)
    assert special.gammaln(Tensor(5.0)).item() == pytest.approx(math.log(24))


POLYNOMIALS = {
    "chebyshev_polynomial_t": np.polynomial.Chebyshev, "hermite_polynomial_h":
    np.polynomial.Hermite, "hermite_polynomial_he": np.polynomial.HermiteE,
    "laguerre_polynomial_l": np.polynomial.Laguerre,
    "legendre_polynomial_p": np.polynomial.Legendre,
}  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_polynomials_are_numpys(name, degree):
    x = np.linspace(-1, 1, 7)
    expected = POLYNOMIALS[name].basis(degree)(x)
    made = getattr(special, name)(Tensor(x), degree)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_chebyshevs_other_kinds_are_sines_and_cosines():
    angle = np.linspace(0.3, 2.5, 5)
    x, n = Tensor(np.cos(angle)), 4
    known = {
        "u": np.sin((n + 1) * angle) / np.sin(angle),
        "v": np.cos((n + 0.5) * angle) / np.cos(angle / 2),
        "w": np.sin((n + 0.5) * angle) / np.sin(angle / 2),
    }
    for kind, expected in known.items():
        made = getattr(special, f"chebyshev_polynomial_{kind}")(x, n)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-9, atol=1e-12)
        shifted = getattr(special, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, n)
        np.testing.assert_allclose(shifted.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_several_degrees(name):
    """Below 0 they are 0, as in PyTorch; fractions are cut off."""
    x, degrees = np.array([-0.3, 0.4, 1.0, 1.5]), [[3, 0, 5, -1], [-2, 1, 2, 4]]
    bases = POLYNOMIALS[name]
    expected = [[bases.basis(n)(y) if n >= 0 else 0 for n, y in zip(row, x)] for row in degrees]
    made = getattr(special, name)(Tensor(x), Tensor(degrees))
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-9, atol=1e-12)
    assert getattr(special, name)(Tensor(x), -1).tolist() == [0, 0, 0, 0]
    high = getattr(special, name)(Tensor([0.5]), Tensor([2.7, 3.2], dtype="float64"))
    expected = [bases.basis(n)(0.5) for n in (2, 3)]
    np.testing.assert_allclose(high.numpy(), expected, rtol=1e-12)
    assert np.allclose(getattr(special, name)(0.5, Tensor([2, 3])).tolist(), expected)
    assert getattr(special, name)(Tensor([0.5]), Tensor.zeros(0)).tolist() == []


def test_integers_become_floats_and_names_have_out():
    made = special.i1(Tensor([1, 2]))
    assert made.dtype is torpor.float32
    out = torpor.zeros(2)
    assert special.expit(Tensor([0.0, 0.0]), out=out) is out and out.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ndtri_far_from_the_middle(dtype):
    from statistics import NormalDist

    kind = np.finfo(dtype)
    shares = np.array([kind.tiny, 1e-30, 1e-17, 1e-8, 0.2, 0.25, 0.3, 0.75, 0.9, 1 - kind.epsneg])
    shares = shares.astype(dtype)
    made = special.ndtri(Tensor(shares)).numpy()
    expected = [NormalDist().inv_cdf(float(p)) for p in shares]
    np.testing.assert_allclose(made, expected, rtol=8 * kind.eps)
    least = special.ndtri(Tensor(np.array([kind.smallest_subnormal], dtype))).item()
    assert -math.inf < least < made[0]
    ends = special.ndtri(Tensor(np.array([0, 1, -0.1, 1.1, np.nan], dtype))).tolist()
    assert ends[:2] == [-math.inf, math.inf]
    assert all(map(math.isnan, ends[2:]))
    x = Tensor(np.array([1e-12], dtype), requires_grad=True)
    y = special.ndtri(x)
    slope = math.sqrt(2 * math.pi) * math.exp(y.item() ** 2 / 2)
    np.testing.assert_allclose(y.gradient(x)[0].numpy(), [slope], rtol=1e-4)
