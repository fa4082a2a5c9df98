"""`torpor profile`: the script runs as Python would run it, and its lines are shown."""

import json
import pstats

import pytest

from torpor import Context
from torpor.cli import main

SCRIPT = """
import sys
import threading
from neighbour import numbers
from torpor import Tensor

def work():
    print((Tensor(numbers) * 3).tolist())

work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(__name__, sys.argv[1:])
if "exit" in sys.argv:
    sys.exit(7)
if "word" in sys.argv:
    sys.exit("no")
if "error" in sys.argv:
    raise LookupError("lost")
if "interrupt" in sys.argv:
    raise KeyboardInterrupt
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "neighbour.py").write_text("numbers = [1.0, 2.0]\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with Context(CACHE=0):
        yield str(path)


def test_a_script_runs_as_main_with_its_arguments(script, capsys):
    assert main(["profile", script, "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("[3.0, 6.0]\n[3.0, 6.0]\n__main__ ['--top', '3']\n\n")
    assert "script.py:8: print((Tensor(numbers) * 3).tolist())" in printed


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("exit", 7, ""),
        ("word", 1, "no\n"),
        ("error", 1, "LookupError: lost\n"),
        ("interrupt", 130, ""),
    ],
)
def test_however_it_ends_what_it_did_is_shown(script, capsys, how, status, said):
    assert main(["profile", script, how]) == status
    out, err = capsys.readouterr()
    assert "script.py:8: print" in out
    assert err.endswith(said)
    assert "runpy" not in err


def test_json_is_all_there_is_on_standard_output(script, capsys):
    assert main(["profile", "--json", "--top", "1", script]) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["rows"]
    assert row["file"] == script
    assert err.startswith("[3.0, 6.0]\n")


def test_files_for_other_tools(script, tmp_path, capsys):
    chrome, stats = tmp_path / "chrome", tmp_path / "stats"
    assert main(["profile", "--chrome", str(chrome), "--pstats", str(stats), script]) == 0
    kernels = [e for e in json.loads(chrome.read_text())["traceEvents"] if e["cat"] == "kernel"]
    assert len(kernels) == 2  # the thread's as well
    assert len({event["tid"] for event in kernels}) == 2
    assert pstats.Stats(str(stats)).stats


def test_a_script_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["profile", str(tmp_path / "nothing.py")]) == 1
    assert "there is no" in capsys.readouterr().err
