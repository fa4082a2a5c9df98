"""What the pictures show, read from their text."""

from __future__ import annotations

import pytest

from bench import plots
from tests.bench.test_report import NAME, OTHER, result, run


def test_columns_hold_every_workload_once_and_are_about_as_long():
    found = {"a": [f"a/{n}" for n in range(30)], "b": ["b/0"], "c": [f"c/{n}" for n in range(70)]}
    panels = plots.columns_of(found)
    assert len(panels) == plots.COLUMNS
    shown = [name for panel in panels for _, names in panel for name in names]
    assert shown == [name for names in found.values() for name in names]
    heights = [sum(len(names) + 2 for _, names in panel) for panel in panels]
    assert max(heights) <= 40


def test_pictures_name_workloads_floors_and_peaks(tmp_path):
    pytest.importorskip("matplotlib")
    one = run(
        (NAME, result("torpor", [1e-3]), result("torch", [2e-3])),
        (OTHER, result("torpor", [1e-3]), result("torch", [50e-3])),
    )
    ratios, roofline = plots.write([one], tmp_path, "full")
    assert (ratios.name, roofline.name) == ("full-ratios.svg", "full-roofline.svg")
    text = ratios.read_text()
    for shown in ("matmul (floor 0.9)", "memory (floor 1)", ">128<", "sum-64MB", ">50<"):
        assert shown in text, shown
    assert "100 GFLOP/s, read 20 GB/s" in roofline.read_text()
    before = text
    plots.write([one], tmp_path, "full")
    assert ratios.read_text() == before, "the same record makes the same picture"


def test_nothing_to_show_is_no_picture(tmp_path):
    pytest.importorskip("matplotlib")
    assert plots.write([run((NAME, result("torpor", [1e-3])))], tmp_path) == []
