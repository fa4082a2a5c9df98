import numpy as np
import pytest

from tests.kernel.decompose.evaluate import decomposed, evaluate, samples, worst_error
from torpor.base.dtypes import dtypes
from torpor.ir import Ops

COUNT = 100_000
RANGES = {
    Ops.EXP: {32: (-185, 90), 64: (-1430, 711)},
    Ops.EXP2: {32: (-260, 129), 64: (-2060, 1025)},
    Ops.TANH: {32: (-12, 12), 64: (-22, 22)},
}
REFERENCES = {Ops.EXP: np.exp, Ops.EXP2: np.exp2, Ops.TANH: np.tanh}


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize(("dtype", "bound"), [(dtypes.float32, 1.0), (dtypes.float64, 2.0)])
def test_error_stays_within_the_promised_bound(op, dtype, bound):
    values = samples(dtype, COUNT, RANGES[op][dtype.bits], (-2, 2))
    error, where = worst_error(op, dtype, REFERENCES[op], values)
    assert error <= bound, where


@pytest.mark.parametrize("op", [Ops.EXP, Ops.EXP2])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_masked_scores_are_0_without_an_underflow_on_the_way(op, dtype):
    """Processors of Intel take some 150 cycles for each."""
    values = np.array([-np.inf, -1e30, -1e9, -1e4], dtype.numpy)
    found = evaluate(decomposed(op, dtype), under="raise", x=values)
    assert (found == 0).all()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_exp2_of_integers_is_exact_down_to_the_least_denormal(dtype):
    info = np.finfo(dtype.numpy)
    powers = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype.numpy)
    found = evaluate(decomposed(Ops.EXP2, dtype), x=powers)
    assert (found == np.ldexp(np.ones_like(powers), powers.astype(int))).all()


def test_tanh_keeps_the_sign_of_zero_and_never_exceeds_one():
    values = samples(dtypes.float32, 10_000, (-20, 20))
    found = evaluate(decomposed(Ops.TANH, dtypes.float32), x=values)
    known = ~np.isnan(values)
    assert (np.abs(found[known]) <= 1).all()
    assert (np.signbit(found[known]) == np.signbit(values[known])).all()
