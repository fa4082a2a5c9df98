import itertools
import math

import numpy as np
import pytest

from tests.kernel.decompose.evaluate import (
    SPECIAL,
    decomposed,
    error_in_ulps,
    evaluate,
    samples,
    variable,
    wider,
)
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_error_is_at_most_two_ulp(dtype):
    x = samples(dtype, 100_000, (0.5, 2), (0, 10))
    y = np.concatenate([
        np.random.default_rng(2).uniform(-30, 30, 100_000),
        np.random.default_rng(3).uniform(-2000, 2000, 100_000),
        np.random.default_rng(4).uniform(-300, 300, len(x) - 200_000),
    ]).astype(dtype.numpy)  # fmt: skip
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wider(dtype)), y.astype(wider(dtype)))
    errors = error_in_ulps(evaluate(decomposed(Ops.POW, dtype, 2), x=x, y=y), exact)
    place = np.argmax(errors)
    assert errors[place] <= 2.0, (x[place], y[place])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_every_special_case_is_that_of_c99(dtype):
    huge = [1e30, -1e30, 1e-30, 16777215.0, 16777216.0, 0.75, -0.75, 1e-45]
    pairs = np.array(list(itertools.product([*SPECIAL, *huge], repeat=2)), dtype.numpy)
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    found = evaluate(decomposed(Ops.POW, dtype, 2), x=x, y=y)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype.numpy)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype.numpy).eps)
    known = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[known].all()


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, -1.0, 0.5])
def test_short_exponents_take_no_logarithm_and_mean_the_same(exponent, count):
    x = variable(dtypes.float32.vec(count))
    root = graph_rewrite(x.alu(Ops.POW, x.const_like(exponent)), rules_for(get_target("cpu")))
    assert len(root.toposort()) < 20 + 3 * count
    values = samples(dtypes.float32, 10_000, (0, 10))
    with np.errstate(all="ignore"):
        # An array of exponents: for a scalar 0.5 NumPy takes sqrt, which is NaN at -inf.
        exact = np.power(values.astype(np.float64), np.full(len(values), exponent))
    assert error_in_ulps(evaluate(root, x=values), exact).max() <= 2.0


def test_other_constants_go_the_long_way():
    x = variable(dtypes.float32)
    root = graph_rewrite(
        x.alu(Ops.POW, UOp.const(dtypes.float32, math.pi)), rules_for(get_target("cpu"))
    )
    assert Ops.POW not in {node.op for node in root.toposort()}
