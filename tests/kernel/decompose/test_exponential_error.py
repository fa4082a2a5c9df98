import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from tests.kernel.decompose.evaluate import decomposed, error_in_ulps, evaluate, samples
from torpor.base.dtypes import dtypes
from torpor.ir import Ops

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def series(x):
    """erf x = 2/sqrt(pi) * sum of (-1)**n * x**(2n+1) / (n! * (2n+1)), in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(x)
        square = exact * exact
        term, total, n = exact, Decimal(0), 0
        while abs(term) > Decimal(10) ** -50:
            total += term / (2 * n + 1)
            n += 1
            term = -term * square / n
        return total * 2 / PI.sqrt()


def test_float32_error_is_at_most_two_ulp():
    values = samples(dtypes.float32, 50_000, (-1, 1), (-5, 5))
    found = evaluate(decomposed(Ops.ERF, dtypes.float32), x=values)
    exact = np.array([math.erf(v) for v in values.tolist()])
    errors = error_in_ulps(found, exact)
    assert errors.max() <= 2.0, values[np.argmax(errors)]


@pytest.mark.parametrize("interval", [(1e-3, 1), (0.95, 1.3), (1, 6.5), (-3, 0)])
def test_float64_error_is_at_most_two_ulp(interval):
    values = np.random.default_rng(1).uniform(*interval, 200)
    found = evaluate(decomposed(Ops.ERF, dtypes.float64), x=values)
    for value, mine in zip(values.tolist(), found.tolist(), strict=True):
        exact = series(value)
        assert abs(Decimal(mine) - exact) <= 2 * Decimal(math.ulp(float(exact))), value


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_special_numbers(dtype):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -30.0], dtype.numpy)
    found = evaluate(decomposed(Ops.ERF, dtype), x=values)
    expected = np.array([math.erf(v) for v in values.tolist()], dtype.numpy)
    np.testing.assert_array_max_ulp(found[5:], expected[5:], 1)
    np.testing.assert_array_equal(found[:5], expected[:5])
    assert (np.signbit(found[:4]) == np.signbit(values[:4])).all()
