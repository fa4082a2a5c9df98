import numpy as np
import pytest

from tests.kernel.decompose.evaluate import decomposed, samples, worst_error
from torpor.base.dtypes import dtypes
from torpor.ir import Ops

REFERENCES = {Ops.SIN: np.sin, Ops.COS: np.cos}


def near_multiples_of_half_pi(dtype):
    """The numbers of the format around k*pi/2, where the reduced angle is smallest."""
    middle = (np.arange(1, 20_000) * (np.pi / 2)).astype(dtype.numpy)
    around = [np.nextafter(middle, dtype.numpy.type(end)) for end in (0, 1e9)]
    return np.concatenate([middle, *around])


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize(("dtype", "bound"), [(dtypes.float32, 1.0), (dtypes.float64, 2.0)])
def test_error_stays_within_the_promised_bound_for_arguments_of_any_size(op, dtype, bound):
    values = samples(dtype, 60_000, (-1, 1), (-10, 10), (-1e5, 1e5))
    values = np.concatenate([values, near_multiples_of_half_pi(dtype)])
    error, where = worst_error(op, dtype, REFERENCES[op], values)
    assert error <= bound, where


# J.-M. Muller, "Elementary Functions" (2016), table 11.1: the float64 and float32 numbers that lie
# closest to a multiple of pi/2.
@pytest.mark.parametrize(
    ("dtype", "number"),
    [(dtypes.float64, 6381956970095103.0 * 2.0**797), (dtypes.float32, 16367173.0 * 2.0**72)],
)
def test_the_worst_case_of_reduction_keeps_all_digits(dtype, number):
    error, where = worst_error(Ops.COS, dtype, np.cos, np.array([number], dtype.numpy))
    assert error <= 1.0, where


@pytest.mark.parametrize("op", REFERENCES)
def test_a_target_without_float64_gets_none(op):
    root = decomposed(op, dtypes.float32, target="wgsl")
    assert all(node.dtype is not dtypes.float64 for node in root.toposort())
    values = samples(dtypes.float32, 60_000, (-10, 10), (-1e5, 1e5))
    error, where = worst_error(op, dtypes.float32, REFERENCES[op], values, "wgsl")
    assert error <= 1.0, where
