"""WGSL: golden text and its form. It runs where `wgpu` and an adapter are installed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.source import golden, programs, run, webgpu
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.base.target import get_target
from torpor.kernel.decompose import in_words
from torpor.source import render
from torpor.source.wgsl import WGSLRenderer

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
    value = programs.load(programs.at(programs.param(1, dtypes.int64), programs.number(0)))
    place = programs.at(programs.param(0, dtypes.int64), programs.number(0))
    with pytest.raises(ContractError, match="int64"):
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
    linear = in_words(case.linear)
    text = WGSLRenderer(get_target("wgsl")).render(case.name, linear)
    arrays = [np.zeros_like(e) for e in case.expected] + case.inputs
    found, error = webgpu.run(text, case.name, linear, arrays, case.variables, case.groups[0])
    for number, (got, want) in enumerate(zip(found, case.expected, strict=False)):
        np.testing.assert_array_equal(got, want, f"output {number}")
    assert error == (case.error or 0)
