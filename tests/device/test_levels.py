"""Code for lesser processors than this one runs and gives the same."""

import pytest

from tests.device.workloads import workloads
from torpor.base.settings import Context
from torpor.device.machine import facts, machine

WORKLOADS = workloads()
# The first x86-64 processors, whose code rounds by a function of C's library.
BASELINE = "sse,-popcnt,-sse3,-ssse3,-sse4.1,-sse4.2"


@pytest.mark.parametrize("workload", WORKLOADS, ids=[w.name for w in WORKLOADS])
@pytest.mark.parametrize("level", [BASELINE, "sse", "avx2", "avx512"])
def test_every_level_gives_what_numpy_gives(level, workload):
    if not machine(level).runs_here:
        pytest.skip(f"this processor cannot run {level}")
    with Context(TARGET=level):
        got = workload.compute(*workload.tensors()).numpy()
    workload.verify(got)


def test_the_levels_differ():
    widths = [facts(machine(level)).vector_bytes for level in ("sse", "avx2", "avx512")]
    assert widths == [16, 32, 64]
