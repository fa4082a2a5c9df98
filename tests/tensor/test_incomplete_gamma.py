"""The incomplete gamma functions against values of 40 digits, sums, and SciPy."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor, special
from torpor.base.errors import GradientError, ValueRangeError

INF, NAN = math.inf, math.nan
# a, x, P, Q
VALUES = (
    (1e-12, 0.001, 0.9999999999936685, 6.331539364116927e-12),
    (1e-06, 1.25, 0.9999998535864529, 1.4641354707770233e-07),
    (0.5, 0.25, 0.5204998778130465, 0.4795001221869535),
    (0.5, 20.0, 0.9999999997460371, 2.539628589470865e-10),
    (3.0, 2.5, 0.45618688411667047, 0.5438131158833295),
    (11.5, 14.0, 0.7842183818779039, 0.2157816181220961),
    (12.5, 1.0, 2.3217092989026864e-10, 0.999999999767829),
    (30.0, 25.0, 0.18210391597745512, 0.8178960840225449),
    (100.0, 160.0, 0.999999855797755, 1.4420224505352737e-07),
    (100.0, 250.0, 1.0, 1.1737017704487874e-27),
    (10000.0, 10100.0, 0.8413487504471796, 0.15865124955282037),
    (92546729.99429376, 92498374.70916869, 2.4869787201748076e-07, 0.9999997513021280),
)


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-13), ("float32", 1e-5)])
def test_written_values(dtype, near):
    a, x, lower, upper = np.array(VALUES if dtype == "float64" else VALUES[1:-1]).T
    a, x = Tensor(a.astype(dtype)), Tensor(x.astype(dtype))
    np.testing.assert_allclose(special.gammainc(a, x).numpy(), lower, near)
    np.testing.assert_allclose(special.gammaincc(a, x).numpy(), upper, near)


def test_ends_are_pytorchs():
    a = Tensor([0.0, 1.0, INF, 0.0, 0.0, 1.0, INF, -1.0, 1.0, NAN, 1.0])
    x = Tensor([1.0, 0.0, 1.0, 0.0, INF, INF, INF, 1.0, -1.0, 1.0, NAN])
    known = np.array([1, 0, 0, NAN, 1, 1, NAN, NAN, NAN, NAN, NAN])
    np.testing.assert_array_equal(a.igamma(x).numpy(), known)
    np.testing.assert_array_equal(a.igammac(x).numpy(), 1 - known)


def test_whole_orders_are_poissons_sums():
    """Q(n, x) is the sum of exp(-x) x**k / k! below n (DLMF 8.4.10)."""
    x = np.array([0.1, 1.4, 1.6, 5.0, 13.0, 40.0])
    for n in (1, 2, 7, 12, 13, 30):
        known = [math.fsum(math.exp(-t) * t**k / math.factorial(k) for k in range(n)) for t in x]
        made = Tensor(np.full(1, float(n))).igammac(Tensor(x))
        np.testing.assert_allclose(made.numpy(), known, 1e-13)


def test_gradients_are_of_the_second_operand():
    a = Tensor([[0.5], [3.0], [40.0]], dtype="float64")
    x = Tensor([0.5, 2.0, 38.0], dtype="float64", requires_grad=True)
    density = np.array([[t ** (b - 1) * math.exp(-t) / math.gamma(b) for t in x.tolist()]
                        for b in a[:, 0].tolist()]).sum(0)  # fmt: skip
    np.testing.assert_allclose(a.igamma(x).sum().gradient(x)[0].numpy(), density, 1e-12)
    np.testing.assert_allclose(a.igammac(x).sum().gradient(x)[0].numpy(), -density, 1e-12)
    with pytest.raises(GradientError, match="second operand alone; detach the first"):
        x.igamma(a)


def test_in_place_and_as_functions():
    x = Tensor([2.0, 3.0])
    assert torpor.igamma(x, x).tolist() == x.igamma(x).tolist()
    expected = x.igammac(x).tolist()
    assert x.igammac_(x).tolist() == expected
    half = Tensor([0.5]).half()
    assert half.igamma(half).dtype.name == "float16"


def test_mvlgamma():
    x = Tensor([2.0, 3.5], dtype="float64")
    known = [math.log(math.pi) / 2 + math.lgamma(a) + math.lgamma(a - 0.5) for a in (2.0, 3.5)]
    assert x.mvlgamma(2).tolist() == pytest.approx(known)
    assert special.multigammaln(x, 2).tolist() == torpor.mvlgamma(x, 2).tolist()
    with pytest.raises(ValueRangeError, match="1 dimension or more"):
        x.mvlgamma(0)


def test_the_whole_range_is_scipys():
    scipy = pytest.importorskip("scipy.special")
    random = np.random.default_rng(0)
    a = 10 ** random.uniform(-8, 4, 4000)
    x = np.concatenate([10 ** random.uniform(-8, 4, 2000), a[2000:] * random.uniform(0.3, 3, 2000)])
    for made, known in ((Tensor(a).igamma(Tensor(x)).numpy(), scipy.gammainc(a, x)),
                        (Tensor(a).igammac(Tensor(x)).numpy(), scipy.gammaincc(a, x))):  # fmt: skip
        told = known > 1e-10
        np.testing.assert_allclose(made[told], known[told], 2e-12)
