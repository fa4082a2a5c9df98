"""Random graphs of elementwise operations, movements and reductions against NumPy."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.devices import needs
from tests.graph.evaluate import evaluate
from tests.schedule.graphs import compute, random_graph
from torpor import Context, dtypes

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DTYPES = st.sampled_from([dtypes.float64, dtypes.int32, dtypes.int64])
RANDOM = st.randoms(use_true_random=False)


def agree(random, dtype, steps, device):
    """Small integers and quarters: float64 holds every result exactly, whatever the order."""
    roots = random_graph(random, dtype, steps)
    expected = [evaluate(root) for root in roots]
    with Context(CHECK=1, CACHE=0):
        got = compute(roots, device)
    for one, other in zip(got, expected, strict=True):
        exact = np.abs(other.astype(np.float64)).max(initial=0) < 2**50
        if other.dtype.kind != "f" or exact:
            np.testing.assert_array_equal(one, other)


@settings(QUICK, max_examples=60)
@given(RANDOM, DTYPES, st.integers(2, 12))
def test_the_interpreter_agrees_with_numpy(random, dtype, steps):
    agree(random, dtype, steps, "PYTHON")


@settings(QUICK, max_examples=30)
@given(RANDOM, DTYPES, st.integers(2, 12))
def test_the_processor_agrees_with_numpy(random, dtype, steps):
    agree(random, dtype, steps, "CPU")


def test_opencl_agrees_with_numpy():
    needs("OPENCL")

    @settings(QUICK, max_examples=4)
    @given(RANDOM, DTYPES, st.integers(2, 8))
    def check(random, dtype, steps):
        agree(random, dtype, steps, "OPENCL")

    check()
