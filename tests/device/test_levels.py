"""Code for lesser processors than this one runs and gives the same."""

import numpy as np
import pytest

from tests.device.workloads import workloads
from torpor import Tensor, dtypes, lower, nn
from torpor.base.settings import Context
from torpor.device.machine import facts, machine

WORKLOADS = workloads()
# The first x86-64 processors, whose code rounds by a function of C's library.
BASELINE = "sse,-popcnt,-sse3,-ssse3,-sse4.1,-sse4.2"


@pytest.mark.parametrize("workload", WORKLOADS, ids=[w.name for w in WORKLOADS])
@pytest.mark.parametrize("level", [BASELINE, "sse", "avx2", "avx512", "amx"])
def test_every_level_gives_what_numpy_gives(level, workload):
    if not machine(level).runs_here:
        pytest.skip(f"this processor cannot run {level}")
    with Context(TARGET=level):
        got = workload.compute(*workload.tensors()).numpy()
    workload.verify(got)


def test_the_levels_differ():
    widths = [facts(machine(level)).vector_bytes for level in ("sse", "avx2", "avx512")]
    assert widths == [16, 32, 64]


@pytest.mark.parametrize("level", ["native", "native,-f16c"])
def test_float16_with_and_without_the_instruction(level):
    """Every float16 and its neighbours' middles, there and back, to the bit."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = halves[np.isfinite(halves)].astype(np.float32)
    wide = np.concatenate([wide, (np.sort(wide)[1:] + np.sort(wide)[:-1]) / 2, [65520, 7e8, -1e-9]])
    with Context(TARGET=level):
        up = Tensor(halves).cast(dtypes.float32).numpy()
        down = Tensor(wide.astype(np.float32)).cast(dtypes.float16).numpy()
    np.testing.assert_array_equal(up, halves.astype(np.float32))
    with np.errstate(over="ignore"):
        want = wide.astype(np.float32).astype(np.float16)
    np.testing.assert_array_equal(down, want)
    np.testing.assert_array_equal(np.signbit(down), np.signbit(want))


@pytest.mark.parametrize(("level", "native"), [("avx2", True), ("sse", False), ("aarch64", True)])
def test_float16_is_converted_by_an_instruction(level, native):
    with Context(TARGET=level):
        (program,) = lower(Tensor.empty(64, dtype=dtypes.float16).cast(dtypes.float32))
    assert ("fpext" in program.source) is native


@pytest.mark.parametrize("level", [BASELINE, "sse", "avx2", "avx512", "amx"])
def test_quotients_beside_what_is_padded(level):
    """0 / 0 where a window reaches beyond the picture is in no sum: LLVM takes it for 0."""
    if not machine(level).runs_here:
        pytest.skip(f"this processor cannot run {level}")
    x = np.random.default_rng(0).standard_normal((3, 15, 15)).astype(np.float32)
    with Context(TARGET=level):
        made = Tensor(x)
        found = nn.functional.avg_pool2d(made / made, 2, padding=1).numpy()
    inside = np.pad(np.ones_like(x), ((0, 0), (1, 0), (1, 0)))
    wanted = inside.reshape(3, 8, 2, 8, 2).sum((2, 4)) / 4
    np.testing.assert_array_equal(found, wanted)
