"""LLVM IR: what it computes on this machine, and that it compiles for others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.source import golden, programs, run
from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for
from torpor.source import render

CASES = [c for c in programs.all_cases() if "cpu" not in c.unlike]
MACHINES = {
    "avx512": ("x86_64-unknown-linux-gnu", "x86-64-v4", "", "zmm"),
    "avx2": ("x86_64-unknown-linux-gnu", "x86-64-v3", "", "ymm"),
    "sse2": ("x86_64-unknown-linux-gnu", "x86-64", "", "xmm"),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", "+neon", "v0.4s"),
    "windows": ("x86_64-pc-windows-msvc", "x86-64-v3", "", "ymm"),
    "macos": ("arm64-apple-macosx", "apple-m1", "", ".4s"),
}


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_agrees_with_numpy(case):
    run.run_llvm(case)


@pytest.mark.parametrize("name", MACHINES)
def test_compiles_for(name):
    """Every program gives assembly, with vector registers of the machine's width."""
    *where, register = MACHINES[name]
    generator = run.machine(*where)
    texts = []
    for case in [*CASES[::4], programs.relu(16)]:
        module = run.parsed(run.text_of(case, "cpu"), generator)
        module.triple = where[0]
        texts.append(generator.emit_assembly(module))
    assert register in texts[-1]


def saturated(count: int, result: str, source: str = "float32") -> None:
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.5, 3e9, -3e9, 200.9, -200.9, 40000.0, 0.0]
    values += [2147483520.0, 2147483648.0, -2147483648.0, 2147483647.5, -2147483648.5, 127.5]
    a = np.resize(np.array(values, source), programs.SIZE)
    limits = np.iinfo(result)
    whole = [0 if v != v else int(min(max(np.trunc(float(v)), limits.min), limits.max)) for v in a]
    expected = np.array(whole, object).astype(result)
    name = f"saturate_{source}_{result}_{count}"
    rules, kind = rules_for(get_target("cpu")), dtypes.from_numpy(result).vec(count)
    linear = programs.lanewise(name, [a], count, lambda x: [graph_rewrite(x.cast(kind), rules)])
    run.run_llvm(programs.Case(name, linear, [a], [expected]))


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize(
    "result", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_float_to_integer_saturates(count, result, source):
    saturated(count, result, source)


def test_empty_share_of_a_thread_does_nothing():
    case = programs.relu(8)
    case.threads, case.expected = (3, 3), [np.zeros(programs.SIZE, np.float32)]
    run.run_llvm(case)


def test_half_is_a_format_of_registers():
    a = np.linspace(-4, 4, programs.SIZE).astype(np.float16)
    linear = programs.lanewise("half", [a], 4, lambda x: [x * x, x.cast(dtypes.float32.vec(4))])
    run.run_llvm(programs.Case("half4", linear, [a], [a * a, a.astype(np.float32)]))


def test_strict_float_contracts_nothing():
    case = programs.matmul_tile(8)
    assert "fmul contract" in run.text_of(case, "cpu")
    with settings.Context(STRICT_FLOAT=1):
        assert "contract" not in run.text_of(case, "cpu")


def test_contracted_product_and_sum_are_one_instruction():
    generator = run.machine(*MACHINES["avx2"][:3])
    text = run.text_of(programs.matmul_tile(8), "cpu")
    assembly = generator.emit_assembly(run.parsed(text, generator))
    assert assembly.count("vfmadd") == 4


def test_relu_is_one_instruction():
    generator = run.machine(*MACHINES["avx2"][:3])
    text = run.text_of(programs.relu(8), "cpu")
    assembly = generator.emit_assembly(run.parsed(text, generator))
    assert assembly.count("vmaxps") == 1
    assert "vcmp" not in assembly


def test_index_arithmetic_is_marked_where_bounds_prove_it():
    text = run.text_of(programs.padded(4), "cpu")
    assert "mul nsw i32 %ridx0, 4" in text
    wraps = run.text_of(programs.integer_arithmetic(1, "int32"), "cpu")
    assert "= add i32 %val0, %val1" in wraps


def test_group_numbers_are_refused():
    item = UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(dtypes.int32, 4),), "gidx0")
    with pytest.raises(ContractError, match="SPECIAL"):
        render([item], "cpu", "kernel_of_groups")


@pytest.mark.parametrize("case", golden.cases("cpu"), ids=[c.name for c in golden.cases("cpu")])
def test_golden(case):
    golden.check(case, "cpu")
