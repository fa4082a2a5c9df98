"""WGSL: golden text and its form. It runs where `wgpu` and an adapter are installed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.device.workloads import workloads
from tests.source import golden, programs, run, webgpu
from torpor import Context, Tensor, lower
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.base.target import get_target
from torpor.pipeline.compile import program_for
from torpor.pipeline.route import planned
from torpor.source import render
from torpor.source.linear import prepare
from torpor.source.wgsl import WGSLRenderer

# Nothing is promised of NaN, and there is no float64.
WORKLOADS = [w for w in workloads() if w.name not in ("to_half", "half", "exp_double")]
CASES = [c for c in programs.all_cases() if "wgsl" not in c.unlike]


@pytest.mark.parametrize("case", golden.cases("wgsl"), ids=lambda c: c.name)
def test_golden(case):
    golden.check(case, "wgsl")


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_says_nothing_of_c(case):
    """No pointers, casts, conditional expressions or declarations of C."""
    text = run.text_of(case, "wgsl")
    assert not re.search(r"\*\(|\?|\b(int|float|bool) \w+ =|\(float\)|\(int\)|NAN|INFINITY", text)
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")


def test_formats_that_it_lacks_are_refused():
    value = programs.load(programs.at(programs.param(1, dtypes.bfloat16), programs.number(0)))
    place = programs.at(programs.param(0, dtypes.bfloat16), programs.number(0))
    with pytest.raises(ContractError, match="bfloat16"):
        render([programs.store(place, value)], "wgsl", "copy_one")


def _runs(case):
    """WebGPU has neither threads nor float64, and promises nothing of NaN."""
    formats = {a.dtype.name for a in (*case.expected, *case.inputs)}
    nan = any(np.isnan(a).any() for a in case.expected if a.dtype.kind == "f")
    return case.threads is None and "float64" not in formats and not nan


@pytest.mark.parametrize(
    "case", [c for c in programs.all_cases() if _runs(c)], ids=lambda c: c.name
)
def test_runs(case):
    linear = prepare(case.linear)
    text = WGSLRenderer(get_target("wgsl")).render(case.name, linear)
    arrays = [np.zeros_like(e) for e in case.expected] + case.inputs
    found, error = webgpu.run(text, case.name, linear, arrays, case.variables, case.groups[0])
    for number, (got, want) in enumerate(zip(found, case.expected, strict=False)):
        np.testing.assert_array_equal(got, want, f"output {number}")
    assert error == (case.error or 0)


def test_small_formats_pass_every_contract():
    with Context(CHECK=1):
        for dtype in (dtypes.uint8, dtypes.int16, dtypes.float16, dtypes.bfloat16, dtypes.bool):
            (program,) = lower(Tensor.empty(8).cast(dtype), target="wgsl")
            assert "data0: array<atomic<u32>>" in program.source


def test_float16_is_enabled_where_it_is_used():
    half = Tensor.empty(8, 3, dtype=dtypes.float16)
    (plain,) = lower((half * 2).sum(1), target="wgsl")
    (native,) = lower((half * 2).sum(1), target="wgsl:f16")
    (other,) = lower(Tensor.empty(8) * 2, target="wgsl:f16")
    assert "f16" not in plain.source
    assert native.source.startswith("enable f16;\n")
    assert "array<f16>" in native.source
    assert "f16" not in other.source


def test_float16_runs():
    """Each step is rounded; a cast from float32 may round either way, so none is inexact here."""
    if "shader-f16" not in webgpu.device().features:
        pytest.skip("this WebGPU has no float16")
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(6, 8)).astype(np.float16) for _ in range(2))
    bits = a.view(np.int16)
    x, y, whole = Tensor(a), Tensor(b), Tensor(bits)
    cases = [
        (x * y + x, a * b + a),
        (x.maximum(y) - 1.5, np.maximum(a, b) - np.float16(1.5)),
        (x.cast(dtypes.float32) * 3, a.astype(np.float32) * 3),
        ((x < y).where(x, y), np.where(a < b, a, b)),
        (x.floor(), np.floor(a)),
        (x.amax(1), a.max(1)),
        (x.bitcast(dtypes.int16) + 1, bits + np.int16(1)),
        (whole.bitcast(dtypes.float16) + 1, a + np.float16(1)),
    ]
    for tensor, want in cases:
        (item,) = tensor.schedule()
        program = program_for(item.ast, get_target("wgsl:f16"))
        arrays = [node.arg.numpy() for node in item.buffers[1:]]
        found, _ = webgpu.run(
            program.source, program.name, program.linear, [np.zeros_like(want).ravel(), *arrays],
            groups=program.global_size,
        )  # fmt: skip
        assert program.source.startswith("enable f16;")
        np.testing.assert_array_equal(found[0], want.ravel())


def test_a_folded_grid_runs():
    """A group for each of more elements than an axis may have, and no number divides them."""
    values = np.arange(70001, dtype=np.float32)
    (item,) = (Tensor(values) + 1).schedule()
    program = program_for(item.ast, get_target("wgsl"), [])
    assert program.global_size == (35001, 2, 1)
    arrays = [np.zeros_like(values), values]
    found, _ = webgpu.run(
        program.source, program.name, program.linear, arrays, groups=program.global_size
    )
    np.testing.assert_array_equal(found[0], values + 1)


def test_random_numbers_run_and_are_the_same_everywhere():
    """Words of the seed are variables that int32 does not hold."""
    Tensor.manual_seed((1 << 63) + (1 << 31) + 7)
    drawn = Tensor.rand(64) + 0.0
    (item,) = drawn.schedule()[-1:]
    program = program_for(item.ast, get_target("wgsl"))
    assert {kind for _, kind in program.variables} == {"int64"}
    assert [name for name, _ in program.variables] == [name for name, _ in item.variables]
    counters = item.buffers[1].arg.numpy()
    arrays = [np.zeros(64, np.float32), counters]
    values = [value for _, value in item.variables]
    found, _ = webgpu.run(
        program.source, program.name, program.linear, arrays, values, program.global_size
    )
    np.testing.assert_array_equal(found[0], drawn.numpy())


@pytest.mark.parametrize("workload", WORKLOADS, ids=[w.name for w in WORKLOADS])
def test_workloads_run(workload):
    """Whole schedules, of kernels with at most as many parameters as WebGPU takes. A processor
    without a fused multiply-add is a little less exact.
    """
    target = get_target("wgsl")
    wanted = workload.compute(*workload.tensors())
    items = planned([(wanted._node, "CPU")], {"CPU": target}.get)[0].items
    arrays = {}
    for item in items:
        program = program_for(item.ast, target)
        buffers = [node.arg for node in item.buffers]
        for buffer in buffers:
            if buffer not in arrays:
                held = buffer.numpy() if buffer.is_allocated() else None
                empty = np.zeros(buffer.size, buffer.dtype.numpy)
                arrays[buffer] = empty if held is None else held
        given = [arrays[buffer] for buffer in buffers]
        values = [value for _, value in item.variables]
        found, error = webgpu.run(
            program.source, program.name, program.linear, given, values, program.global_size
        )
        assert error == 0
        arrays.update({buffers[n]: found[n] for n in item.outputs})
    workload.verify(found[0].reshape(wanted.shape), slack=2)
