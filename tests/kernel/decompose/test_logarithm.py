import numpy as np
import pytest

from tests.kernel.decompose.evaluate import decomposed, evaluate, samples, worst_error
from torpor.base.dtypes import dtypes
from torpor.ir import Ops

REFERENCES = {Ops.LOG: np.log, Ops.LOG2: np.log2}


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize(("dtype", "bound"), [(dtypes.float32, 1.0), (dtypes.float64, 2.0)])
def test_error_stays_within_the_promised_bound(op, dtype, bound):
    values = samples(dtype, 200_000, (0.5, 2), (0.99, 1.01), (0, 100))
    error, where = worst_error(op, dtype, REFERENCES[op], values)
    assert error <= bound, where


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_log2_of_powers_of_two_is_exact_from_the_least_denormal_on(dtype):
    info = np.finfo(dtype.numpy)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    numbers = np.ldexp(np.ones(len(powers), dtype.numpy), powers)
    assert (evaluate(decomposed(Ops.LOG2, dtype), x=numbers) == powers).all()
