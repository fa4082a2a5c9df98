"""Text of C-like languages is laid out as its blocks nest."""

from __future__ import annotations

import pytest

from tests.source import programs
from torpor.source import render
from torpor.source.cstyle_function import INDENT

TARGETS = ("c", "cuda", "opencl", "metal", "wgsl")
CASES = [
    pytest.param(target, case, id=f"{target}-{case.name}")
    for case in programs.all_cases()
    for target in TARGETS
    if target not in case.unlike
]


@pytest.mark.parametrize(("target", "case"), CASES)
def test_lines_are_as_far_in_as_the_blocks_that_are_open(target, case):
    depth = 0
    for line in render(case.linear, target, "f").splitlines():
        body = line.lstrip()
        closes = body.startswith("}")
        if not body.startswith(("#", "(", "float", "{")) and not line.endswith("\\"):
            assert line == INDENT * (depth - closes) + body
        depth += body.count("{") - body.count("}")
    assert depth == 0
