"""Beginnings and small things are timed in processes that know nothing of each other."""

from __future__ import annotations

from bench import first, latency, process


def test_a_process_answers_in_json():
    assert process.said("-c", "print([1, 2.5])") == [1, 2.5]


def test_a_process_keeps_bytecode_whatever_ours_does(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert process.said("-c", "import sys; print(int(sys.dont_write_bytecode))") == 0
    assert "PYTHONDONTWRITEBYTECODE" not in process.environment(2, "nowhere")


def test_an_import_is_timed_alone():
    assert 0 < process.said("-c", first.CLOCK.format("import json")) < 60


def test_the_first_sum_is_measured():
    found = first.summed("torpor")
    assert found["second"] > 0 and found["first"] > 0


def test_what_takes_time_again_and_again_is_told_in_microseconds(monkeypatch):
    monkeypatch.setattr(latency, "ROUNDS", 2)
    calls = []
    assert 0 < latency.microseconds(lambda: calls.append(0), calls=3, warm=4) < 1e6
    assert len(calls) == 2 * 3 + 4


def test_the_table_shows_what_was_waited_for():
    assert latency.cell({"eager": 1.0, "eager, waited for": 2.0}, "eager") == "1.00 (2.00)"
    assert latency.cell({}, "built") == "–"
