"""Ratios, tables and exit statuses, from results written by hand."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from bench import report
from bench.workloads import ALL

NAME = "matmul/128"  # 2 * 128**3 operations
OTHER = "memory/sum-64MB"
PEAKS = {"flops": 100e9, "read": 20e9, "copy": 15e9, "triad": 16e9, "write": 10e9}


def result(contender, samples, status="ok", detail=""):
    return {
        "contender": contender, "status": status, "detail": detail, "cold": 0.5,
        "samples": samples, "error": 0.0,
    }  # fmt: skip


def run(*entries):
    listed = [{"workload": name, "results": list(results)} for name, *results in entries]
    return {"threads": 1, "peaks": PEAKS, "results": listed}


def record(*runs):
    machine = {
        "processor": "abacus", "cores": 2, "architecture": "wood", "system": "none", "load": 0.1,
        "versions": {"torpor": "0"},
    }  # fmt: skip
    return {"machine": machine, "runs": list(runs), "load at the end": 0.1}


def shown(made):
    text = io.StringIO()
    report.show(made, Console(file=text, width=200))
    return text.getvalue()


def workload(name):
    return next(x for x in ALL if x.name == name)


def test_the_ratio_is_that_of_the_best_peer_that_counts():
    results = [
        result("torpor", [1e-4, 2e-4, 3e-4]),
        result("torch", [4e-4] * 3),
        result("jax", [3e-4] * 3),
        result("onnxruntime", [1e-6] * 3),  # does not count for products
    ]
    assert report.best_peer(workload(NAME), results) == ("jax", 3e-4)
    assert report.ratio(workload(NAME), results) == pytest.approx(1.5)
    assert math.isnan(report.ratio(workload(NAME), results[1:]))
    assert math.isnan(report.ratio(workload(NAME), results[:1]))


def test_the_share_of_peak_is_of_what_limits_more():
    assert report.share_of_peak(workload(NAME), 1e-3, PEAKS) == pytest.approx(
        2 * 128**3 / 100e9 / 1e-3
    )
    moved = 4 * (4096 * 4096 + 1)
    assert report.share_of_peak(workload(OTHER), 1e-2, PEAKS) == pytest.approx(moved / 20e9 / 1e-2)


def test_families_are_summed_up_by_the_geometric_mean():
    first = (NAME, result("torpor", [1e-3]), result("torch", [2e-3]))
    second = ("matmul/512", result("torpor", [1e-3]), result("torch", [0.5e-3]))
    assert report.ratios(run(first, second)) == {
        "matmul": {NAME: pytest.approx(2.0), "matmul/512": pytest.approx(0.5)}
    }
    text = shown(record(run(first, second)))
    assert "1.00" in text
    assert "0.50" in text


def test_what_is_missing_skipped_or_dead_is_said():
    missing = result("torpor", [], "missing", "AttributeError: no sort")
    skipped = result("jax", [], "skipped", "jax is not installed")
    made = record(run((NAME, missing, skipped), (OTHER,)))
    text = shown(made)
    assert "torpor: missing: AttributeError: no sort (matmul/128)" in text
    assert "jax: skipped: jax is not installed (matmul/128)" in text
    assert "the process died at (memory/sum-64MB)" in text


@pytest.mark.parametrize(
    ("status", "good"), [("ok", True), ("missing", True), ("wrong", False), ("failed", False)]
)
def test_only_what_is_wrong_or_fails_is_a_failure(status, good):
    made = record(run((NAME, result("torpor", [1.0] if status == "ok" else [], status))))
    assert report.all_right(made) is good


def test_a_workload_at_which_the_process_died_is_a_failure():
    assert not report.all_right(record(run((NAME,))))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s "), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (math.nan, "-")],
)
def test_durations(seconds, text):
    assert report.duration(seconds) == text
