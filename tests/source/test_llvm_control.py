"""Blocks of LLVM IR: every branch has its label, every block its end."""

from __future__ import annotations

import re

import pytest

from tests.source import programs
from torpor.source import render

CASES = [case for case in programs.all_cases() if "cpu" not in case.unlike]
_LABEL = re.compile(r"^([\w.]+):", re.MULTILINE)
_ENDS = ("br ", "ret ", "unreachable")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_blocks_are_whole(case):
    text = render(case.linear, "cpu", "f")
    body = text[text.index("entry:") :].partition("\n}")[0]
    labels = _LABEL.findall(body)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"label %([\w.]+)", body)) == set(labels) - {"entry"}
    for block in _LABEL.split(body)[2::2]:
        lines = [line.strip() for line in block.strip().splitlines()]
        assert [line.startswith(_ENDS) for line in lines] == [*[False] * (len(lines) - 1), True]
