import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.decompose.evaluate import SPECIAL, decomposed, evaluate
from torpor.base.dtypes import dtypes
from torpor.ir import Ops

single = st.floats(width=32, allow_nan=False, allow_infinity=False)
double = st.floats(allow_nan=False, allow_infinity=False)
roots = {
    "float32": decomposed(Ops.MOD, dtypes.float32, 2),
    "float64": decomposed(Ops.MOD, dtypes.float64, 2),
    "metal": decomposed(Ops.MOD, dtypes.float32, 2, "metal"),
}


def exact_remainder(a, b, kind):
    """a - floor(a/b)*b in rationals, rounded once."""
    quotient = Fraction(a) / Fraction(b)
    exact = Fraction(a) - math.floor(quotient) * Fraction(b)
    if kind is np.float64:
        return float(exact)  # Python rounds a rational correctly
    near = np.float32(float(exact))
    with np.errstate(over="ignore"):
        around = [np.nextafter(near, np.float32(way)) for way in (-np.inf, np.inf)] + [near]
    around = [c for c in around if np.isfinite(c)]
    return min(around, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1))


def check(root, a, b, kind):
    found = evaluate(root, x=np.array([a], kind), y=np.array([b], kind))[0]
    expected = exact_remainder(a, b, kind)
    assert found == expected, (a, b)
    assert math.copysign(1, found) == math.copysign(1, b)


@settings(max_examples=300, deadline=None)
@given(single, single.filter(bool))
def test_float32_is_exact_for_every_quotient(a, b):
    check(roots["float32"], a, b, np.float32)


@settings(max_examples=200, deadline=None)
@given(double, double.filter(bool))
def test_float64_is_exact_for_every_quotient(a, b):
    check(roots["float64"], a, b, np.float64)


@settings(max_examples=300, deadline=None)
@given(double.filter(bool), st.floats(-1, 27), st.sampled_from((-1, 0, 1)))
def test_float64_is_exact_about_the_largest_near_quotient(b, exponent, beside):
    a = float(np.floor(2.0**exponent)) * b
    a = math.nextafter(a, math.inf * beside) if beside else a
    if math.isfinite(a):
        check(roots["float64"], a, b, np.float64)


@settings(max_examples=200, deadline=None)
@given(single, single.filter(bool))
def test_float32_without_float64_is_exact_for_every_quotient(a, b):
    check(roots["metal"], a, b, np.float32)


@pytest.mark.parametrize("name", roots)
def test_special_numbers_are_those_of_numpy(name):
    kind = np.float64 if name == "float64" else np.float32
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(*[np.array(SPECIAL, kind)] * 2))
    found = evaluate(roots[name], x=x, y=y)
    with np.errstate(all="ignore"):
        expected = np.mod(x, y)
    np.testing.assert_array_equal(found, expected)
    finite = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[finite].all()
