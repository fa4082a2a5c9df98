"""The command line of the benchmarks: choices, exit statuses, and one short run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from bench import peaks, run, worker
from bench.engine import Effort


def test_list_names_what_is_chosen(capsys):
    assert run.main(["--list", "--only", "memory/sum"]) == 0
    names = capsys.readouterr().out.split()
    assert "memory/sum-rows-1MB" in names
    assert all("memory/sum" in name for name in names)


def test_nothing_chosen_and_unknown_peers_are_exit_status_2(capsys):
    assert run.main(["--only", "no such thing"]) == 2
    assert run.main(["--only", "matmul/128", "--peers", "abacus"]) == 2
    assert "no contender is called 'abacus'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--peers", "none"], ["torpor", "torpor plain"]),
        (["--peers", "torch,jax"], ["torpor", "torpor plain", "torch", "jax"]),
    ],
)
def test_choosing_peers(arguments, expected):
    assert run.chosen_contenders(run.parser().parse_args(arguments)) == expected


def test_a_quick_run_leaves_out_what_is_slow_to_compile():
    every = run.chosen_contenders(run.parser().parse_args([]))
    quick = run.chosen_contenders(run.parser().parse_args(["--quick"]))
    assert set(every) - set(quick) == {run.SLOW_TO_COMPILE}


def test_one_workload_from_start_to_json(tmp_path, capsys, monkeypatch):
    patient = dataclasses.replace(run.QUICK, slow=60.0, budget=60.0)  # others may use the machine
    monkeypatch.setattr(run, "QUICK", patient)
    path = tmp_path / "out" / "record.json"
    arguments = ["--quick", "--threads", "1", "--only", "memory/sum-4KB", "--peers", "numpy"]
    assert run.main([*arguments, "--json", str(path)]) == 0
    record = json.loads(path.read_text())
    chosen = "--quick --threads 1 --only memory/sum-4KB --peers numpy"
    assert record["command"] == f"python -m bench {chosen}"
    (only,) = record["runs"]
    assert only["effort"]["rounds"] == run.QUICK.rounds
    assert only["threads"] == 1
    assert only["peaks"]["flops"] > only["peaks"]["copy"] > 0
    (entry,) = only["results"]
    by_name = {result["contender"]: result for result in entry["results"]}
    assert list(by_name) == ["torpor", "torpor plain", "numpy"]
    for result in by_name.values():
        assert result["status"] == "ok"
        assert result["error"] < 1e-5
        assert len(result["samples"]) == entry["rounds"] >= 2
        assert all(0 < seconds < 1 for seconds in result["samples"])
        assert result["cold"] > 0
    assert "memory/sum-4KB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "rounds", "most"),
    [
        ([], Effort.rounds, Effort.most),
        (["--quick"], run.QUICK.rounds, run.QUICK.most),
        (["--rounds", "3"], 3, 15),
        (["--quick", "--rounds", "4", "--most", "6"], 4, 6),
    ],
)
def test_how_many_rounds(arguments, rounds, most):
    effort = run.effort_of(run.parser().parse_args(arguments))
    assert (effort.rounds, effort.most) == (rounds, most)


def test_a_process_that_dies_costs_only_the_workload_it_was_at(monkeypatch):
    started = []

    def lines_of(request):
        started.append(list(request["workloads"]))
        yield {"peaks": {"flops": 1.0}}
        for name in request["workloads"]:
            yield {"begins": name}
            if name == "b":
                return
            yield {"workload": name, "results": []}

    monkeypatch.setattr(run, "lines_of", lines_of)
    measured = {"threads": 1, "peaks": {}, "results": []}
    done = [
        len(measured["results"])
        for _ in run.measure(measured, ["a", "b", "c"], ["torpor"], run.QUICK, False)
    ]
    assert done == [1, 3], "after each workload there is something to keep"
    assert started == [["a", "b", "c"], ["c"]]
    assert [x["workload"] for x in measured["results"]] == ["a", "b", "c"]
    assert measured["results"][1]["died"]


def test_ctrl_c_keeps_what_was_measured(monkeypatch, tmp_path, capsys):
    path = tmp_path / "record.json"

    def measure(found, names, contenders, effort, counted):
        found["results"].append({"workload": names[0], "results": []})
        yield
        assert len(json.loads(path.read_text())["runs"][0]["results"]) == 1, "kept at once"
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "measure", measure)
    assert run.main(["--only", "matmul/128", "--json", str(path)]) == run.INTERRUPTED
    assert json.loads(path.read_text())["runs"][0]["results"][0]["workload"] == "matmul/128"
    assert "interrupted" in capsys.readouterr().err


def test_only_peers_that_count(monkeypatch):
    raced = []

    def race(workload, contenders, effort):
        raced.append([x.name for x in contenders])
        return []

    monkeypatch.setattr(worker, "race", race)
    monkeypatch.setattr(worker, "pin", lambda threads: None)
    monkeypatch.setattr(peaks, "measure_peaks", lambda: peaks.Peaks(1.0, 1.0, 1.0, 1.0, 1.0))
    request = {"threads": 1, "workloads": ["attention/128/forward"], "effort": {}}
    request["contenders"] = ["torpor", "torpor plain", "torch", "torch compiled", "jax"]
    for counted in (False, True):
        worker.work({**request, "counted": counted}, lambda line: None)
    assert raced == [request["contenders"], ["torpor", "torpor plain", "torch"]]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process there")
def test_ctrl_c_ends_the_process_and_its_worker(tmp_path):
    arguments = ["--quick", "--threads", "1", "--only", "memory", "--peers", "none"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments, "--json", str(tmp_path / "record.json")],
        cwd=run.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    first = process.stderr.readline().split()[-1]
    os.killpg(process.pid, signal.SIGINT)
    shown, complaint = process.communicate(timeout=60)
    assert process.returncode == run.INTERRUPTED
    assert first in shown
    assert "Traceback" not in complaint
