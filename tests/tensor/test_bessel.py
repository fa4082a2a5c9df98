"""Bessel and Airy functions against values of 40 digits, SciPy, and what joins them."""

import math

import numpy as np
import pytest

from torpor import Tensor, special

INF, NAN = math.inf, math.nan
X = (0.001, 0.75, 3, 9, 1234.5)
VALUES = {
    "bessel_j0": (
        0.9999997500000156, 0.8642422751666486, -0.26005195490193345, -0.09033361118287614,
        -0.013550379618035721,
    ),
    "bessel_j1": (
        0.0004999999375000026, 0.34924360217486217, 0.3390589585259365, 0.24531178657332528,
        0.0182175083373925,
    ),
    "bessel_y0": (
        -4.471416611375923, -0.1371727693857724, 0.3768500100127904, 0.24993669828502468,
        0.018222995047412552,
    ),
    "bessel_y1": (
        -636.6221672311394, -1.0375945507692854, 0.3246744247918, 0.10431457519671589,
        0.013557761447180334,
    ),
    "modified_bessel_k0": (
        7.023688800562382, 0.6105824221164641, 0.03473950438627925, 5.0881312956459246e-05, 0,
    ),
    "modified_bessel_k1": (
        999.9962381560856, 0.9495804669621403, 0.040156431128194184, 5.363701637945195e-05, 0,
    ),
}  # fmt: skip
AIRY = {
    -50: -0.1618814236123209, -4.5: 0.2921527810559595, -1: 0.5355608832923521,
    0: 0.3550280538878172, 1.5: 0.07174949700810541, 8: 4.6922076160992316e-08,
    40: 6.365742658552915e-75,
}  # fmt: skip
ENDS = {
    "bessel_j0": (1, INF, NAN),
    "bessel_j1": (0, INF, NAN),
    "bessel_y0": (-INF, -1, NAN),
    "bessel_y1": (-INF, -1, NAN),
    "modified_bessel_k0": (INF, -1, NAN),
    "modified_bessel_k1": (INF, -INF, NAN),
    "scaled_modified_bessel_k0": (INF, -1, NAN),
    "scaled_modified_bessel_k1": (INF, -1, NAN),
    "spherical_bessel_j0": (1, INF, 0),
    "airy_ai": (AIRY[0], INF, NAN),
}
SLOPED = [name for name in ENDS if name != "airy_ai"]


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-13), ("float32", 1e-6)])
@pytest.mark.parametrize("name", VALUES)
def test_written_values(name, dtype, near):
    made = getattr(special, name)(Tensor(X, dtype=dtype)).numpy()
    assert made.dtype == dtype
    x = np.array(X, dtype).astype(float)
    waves = np.sqrt(2 / np.pi / x) * ("modified" not in name)
    size = np.maximum(np.abs(VALUES[name]), np.minimum(waves, 0.1))
    assert (abs(made - VALUES[name]) <= near * size).all()


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-13), ("float32", 3e-5)])
def test_airy(dtype, near):
    x = {x: value for x, value in AIRY.items() if value > 1e-30 or dtype == "float64"}
    made = special.airy_ai(Tensor(list(x), dtype=dtype)).numpy()
    np.testing.assert_allclose(made, list(x.values()), near)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ENDS)
def test_ends(name, dtype):
    at_zero, other, there = ENDS[name]
    made = getattr(special, name)(Tensor([0.0, other, NAN], dtype=dtype)).numpy()
    np.testing.assert_allclose(made, [at_zero, there, NAN], 1e-6)


@pytest.mark.parametrize("name", SLOPED)
def test_gradients_are_differences(name):
    points, step = np.array([0.3, 1.9, 2.1, 7.9, 8.1, 30.0]), 1e-5
    function = getattr(special, name)
    x = Tensor(points, requires_grad=True)
    slope = function(x).sum().gradient(x)[0].numpy()
    apart = function(Tensor(points + step)).numpy() - function(Tensor(points - step)).numpy()
    np.testing.assert_allclose(slope, apart / (2 * step), rtol=1e-6, atol=1e-9)


def test_wronskians():
    """J1 Y0 - J0 Y1 = 2 / (pi x) (DLMF 10.5.2), and I0 K1 + I1 K0 = 1 / x (10.28.2)."""
    x = Tensor(np.geomspace(1e-3, 1e3, 400))
    waves = special.bessel_j1(x) * special.bessel_y0(x)
    waves = waves - special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose((waves * x).numpy(), 2 / math.pi, 1e-12)
    made = special.i0e(x) * special.scaled_modified_bessel_k1(x)
    made = made + special.i1e(x) * special.scaled_modified_bessel_k0(x)
    np.testing.assert_allclose((made * x).numpy(), 1, 1e-12)


def test_signs_and_integers():
    x = Tensor([0.5, 20.0], dtype="float64")
    assert special.bessel_j0(-x).tolist() == special.bessel_j0(x).tolist()
    assert special.bessel_j1(-x).tolist() == (-special.bessel_j1(x)).tolist()
    assert special.bessel_j0(Tensor([1, 2])).dtype.name == "float32"


def test_the_whole_range_is_scipys():
    scipy = pytest.importorskip("scipy.special")
    x = np.concatenate([np.geomspace(1e-8, 1e3, 1000), np.linspace(0.01, 50, 1000)])
    waves = np.minimum(1, np.sqrt(2 / np.pi / x))
    for name, short in (("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"),
                        ("bessel_y1", "y1")):  # fmt: skip
        made, known = getattr(special, name)(Tensor(x)).numpy(), getattr(scipy, short)(x)
        assert (abs(made - known) < 1e-12 * np.maximum(abs(known), waves)).all()
    for name, short in (("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e")):
        made = getattr(special, name)(Tensor(x)).numpy()
        np.testing.assert_allclose(made, getattr(scipy, short)(x), 1e-14)
    x = np.linspace(-30, 90, 3000)
    made, known = special.airy_ai(Tensor(x)).numpy(), scipy.airy(x)[0]
    assert (abs(made - known) < 1e-12 * np.maximum(abs(known), (x < 0) * 0.1)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_least_numbers_have_bessel_functions_of_the_second_kind(dtype):
    least = np.finfo(dtype).smallest_subnormal
    for scale in (1, 3, 1000):
        x = dtype(least * scale)
        log = math.log(least) + math.log(scale)
        expected = math.log(2) - log - 0.5772156649015329
        made = special.modified_bessel_k0(Tensor(np.array([x]))).item()
        assert abs(made - expected) <= 2e-7 * expected
        one = special.modified_bessel_k1(Tensor(np.array([x]))).item()
        assert one == (dtype(1) / x if dtype(x) > 1 / np.finfo(dtype).max else INF)
