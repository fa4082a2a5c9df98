"""WGSL: golden text and its form. Nothing here can compile it."""

from __future__ import annotations

import re

import pytest

from tests.source import golden, programs, run
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.source import render

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
