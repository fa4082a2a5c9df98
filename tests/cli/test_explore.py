"""`torpor explore`, and the page that VIZ=1 serves at the end of a program."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.recorded import BROKEN, record
from torpor.cli import main

SCRIPT = """import sys
from torpor import Tensor
print(((Tensor.empty(5) * 3).contiguous() + 2).shape)
(Tensor.empty(5) * 3 + 2).realize()
sys.exit(3 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("TORPOR_CACHE_DIR", str(tmp_path))
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def ends(address):
    """Whether soon nobody answers there any more."""
    for _ in range(200):
        try:
            urllib.request.urlopen(address, timeout=10).close()
        except OSError:
            return True
        time.sleep(0.05)
    return False


def command(*arguments, **names):
    environment = {**os.environ, **{f"TORPOR_{name}": value for name, value in names.items()}}
    line = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(
        line, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_script_is_run_and_listed(script):
    process = command("-m", "torpor", "explore", "--json", script, "fail")
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 3, errors
    (kernel,) = json.loads(out)
    assert kernel["reasons"] == ["output"]
    assert "(5,)" in errors
    (trace,) = (script.parent / "traces").iterdir()
    assert f"recording to {trace}" in errors


def test_a_saved_trace_is_read_in_the_terminal(fusion, capsys):
    assert main(["explore", "--trace", str(fusion), "--list"]) == 0
    assert "fusion.py:4: b.contiguous()" in capsys.readouterr().out
    assert main(["explore", "--trace", str(fusion), "--line", "fusion.py:5"]) == 0
    assert "contiguous" not in capsys.readouterr().out
    assert main(["explore", "--trace", str(fusion), "--kernel", "E_*", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert main(["explore", "--trace", str(fusion), "--pass", "simplify"]) == 0
    assert "rejoin_quotient  `(x//c)*c + x%c -> x`." in capsys.readouterr().out
    assert main(["explore", "--trace", str(fusion), "--pass", "write_*", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["steps"][0]["rule"] for one in told] == ["write_out"] * 2


def test_what_is_not_there_is_an_error(fusion, tmp_path, capsys):
    for wrong in (
        ["--trace", str(fusion), "--kernel", "none"],
        ["--trace", str(fusion), "--pass", "none"],
        ["--trace", str(tmp_path / "none"), "--list"],
        ["--list", str(tmp_path / "none.py")],
        ["--trace", str(fusion), "script.py"],
    ):
        assert main(["explore", *wrong]) == 1
        assert capsys.readouterr().err.startswith("torpor: ")


def test_the_page_is_written_for_a_file_server(fusion, tmp_path, capsys):
    assert main(["explore", "--trace", str(fusion), "--static", str(tmp_path / "page")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page" / "index.html")


def test_a_program_serves_its_page_when_it_ends(script):
    process = command(script, "fail", VIZ="1", CACHE_DIR=str(script.parent))
    address = None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+/\S+/", line):
                address = found[0]
                break
        assert address is not None
        assert process.stdout.readline() == "(5,)\n"
        with urllib.request.urlopen(f"{address}data/index.json", timeout=10) as answer:
            assert json.load(answer)["kernels"][0]["launches"] == 1
    finally:
        process.kill()
        process.communicate()
    assert ends(address), "the server outlives the program"


def test_steps_are_executed_in_the_terminal(fusion, capsys):
    assert main(["explore", "--trace", str(fusion), "--check"]) == 0
    scheduling, *kernels = capsys.readouterr().out.splitlines()
    assert scheduling.startswith("scheduling: ")
    assert len(kernels) == 2
    assert all("no step gives another result" in line for line in kernels)


def test_a_broken_rule_is_found_at_its_step(tmp_path, capsys):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    trace = record(script, tmp_path)
    assert main(["explore", "--trace", str(trace), "--check", "--json"]) == 0
    scheduling, *kernels = json.loads(capsys.readouterr().out)
    assert scheduling["first"]["rule"] == "divide_by_one"
    assert (scheduling["first"]["before"], scheduling["first"]["after"]) == ("(ridx0//1)", "0")
    assert [one["first"] for one in kernels] == [None]
    assert main(["explore", "--trace", str(trace), "--check"]) == 0
    assert "divide_by_one  `x//1 -> x`.\n  - (ridx0//1)\n  + 0\n" in capsys.readouterr().out
