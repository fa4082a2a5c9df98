"""`torpor`: commands, help texts, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from torpor.base.errors import TorporError
from torpor.cli import info, main

COMMANDS = ("demo", "info", "cache", "profile", "explore")


def status_of(*arguments):
    """The exit status, whether returned or raised by the parser."""
    try:
        return main(list(arguments))
    except SystemExit as error:
        return error.code


@pytest.mark.parametrize("arguments", [("--help",), *((name, "--help") for name in COMMANDS)])
def test_help_succeeds_and_shows_how_to_call(arguments, capsys):
    assert status_of(*arguments) == 0
    assert capsys.readouterr().out.startswith("usage: torpor")


def test_help_lists_exactly_the_commands_there_are(capsys):
    status_of("--help")
    lines = capsys.readouterr().out.partition("COMMAND")[2].splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("    ")}
    assert listed == set(COMMANDS)


def test_without_a_command_help_and_a_failure(capsys):
    assert status_of() == 2
    assert "usage: torpor" in capsys.readouterr().out


def test_version(capsys):
    assert status_of("--version") == 0
    assert capsys.readouterr().out.strip() == metadata.version("torpor")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("explode",), "invalid choice: 'explode'"),
        (("demo", "--epochs", "0"), "at least 1"),
        (("demo", "--epochs", "many"), "'many' is not a number"),
        (("demo", "--images", "63"), "a batch takes 64"),
        (("demo", "--seed", "-1"), "at least 0"),
        (("demo", "--seed", str(1 << 63)), "below 2**63"),
        (("demo", "--seed", "1.5"), "'1.5' is not a number"),
        (("demo", "--images", "8001"), "there are 8000"),
        (("demo", "--against", "abacus"), "invalid choice: 'abacus'"),
        (("info", "--colour"), "unrecognized arguments: --colour"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments, complaint, capsys):
    assert status_of(*arguments) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("error", [TorporError("no such luck"), OSError("no such luck")])
def test_an_error_is_one_line_and_exit_status_1(error, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr(info, "facts", fail)
    assert status_of("info") == 1
    assert capsys.readouterr() == ("", "torpor: no such luck\n")


def test_ctrl_c_is_exit_status_130_and_one_line(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "facts", interrupt)
    assert status_of("info") == 130
    assert capsys.readouterr() == ("", "\ninterrupted\n")


def test_info_as_json(capsys):
    assert status_of("info", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["torpor"] == metadata.version("torpor")
    assert found["devices"]["CPU"] == "ready"
    assert found["cores"] >= 1
    assert found["vector width"] in ("128 bits", "256 bits", "512 bits")


def test_info_as_a_table_has_every_fact(capsys):
    assert status_of("info") == 0
    text = capsys.readouterr().out
    for name in info.facts():
        assert name in text or f"{name[:-1]} CPU" in text
    assert "\x1b" not in text


STRANGE = {
    "processor": "A [long] name :bug: " * 10,
    "devices": {"FAR": "not available: pip install torpor[opencl]"},
    "kernel cache": "/größe/[red]",
}


def test_what_stands_in_a_table_is_neither_markup_nor_cut(monkeypatch, capsys):
    monkeypatch.setattr(info, "facts", lambda: STRANGE)
    monkeypatch.setenv("COLUMNS", "40")
    assert status_of("info") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 40
    shown = "".join(line[15:].strip() for line in text.splitlines())
    for words in (STRANGE["processor"], STRANGE["devices"]["FAR"], STRANGE["kernel cache"]):
        assert words.replace(" ", "") in shown.replace(" ", "")


def run_torpor(*arguments, **names):
    """A process of its own: status, output, complaints."""
    command = [sys.executable, "-m", "torpor", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **names}, capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii")


@pytest.mark.parametrize("command", [("info",), ("info", "--json"), ("cache",)])
def test_what_the_terminal_cannot_write_is_written_in_escapes(command, tmp_path):
    names = {"PYTHONIOENCODING": "ascii", "TORPOR_CACHE_DIR": str(tmp_path / "größe")}
    status, shown, complaint = run_torpor(*command, **names, COLUMNS="200")
    assert (status, complaint) == (0, "")
    assert r"gr\xf6\xdfe" in shown or r"gr\u00f6\u00dfe" in shown


@pytest.mark.parametrize("command", [("info",), ("info", "--json"), ("cache",), ("--version",)])
def test_a_reader_that_has_seen_enough_is_no_reason_to_complain(command):
    process = subprocess.Popen(
        [sys.executable, "-m", "torpor", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 1


def test_no_color_is_obeyed_where_there_is_a_terminal():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    code = "from rich.console import Console; Console().print('[red]word[/red] 1 True')"
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        environment |= {"TERM": "xterm-256color", **variables}
        subprocess.run([sys.executable, "-c", code], stdout=theirs, env=environment, check=True)
        assert (b"\x1b[31m" in os.read(ours, 4096)) is coloured
    os.close(ours)
    os.close(theirs)


def test_cache_counts_and_clears(tmp_path, monkeypatch, capsys):
    from torpor import Context

    folder = tmp_path / "kernels"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_bytes(b"12345")
    (folder / "somebody else's").mkdir()
    with Context(CACHE_DIR=str(tmp_path)):
        assert status_of("cache", "--json") == 0
        found = json.loads(capsys.readouterr().out)
        expected = {"folder": str(folder), "kernels": 2, "bytes": 10, "removed": 0}
        nothing = {"imported": 0, "searched": 0, "exported": 0, "forgotten": 0}
        assert found == expected | nothing
        assert status_of("cache", "--clear") == 0
        assert capsys.readouterr().out == f"removed 2 kernels from {folder}\n"
        assert status_of("cache") == 0
        first, second = capsys.readouterr().out.splitlines()
        assert first == f"0 kernels, 0.0 MB in {folder}"
        assert second == f"searches for 0 kernels in {tmp_path / 'search.jsonl'}"
    assert [path.name for path in folder.iterdir()] == ["somebody else's"]


def test_what_searches_found_is_shared_and_cleared(tmp_path, capsys):
    from torpor import Context
    from torpor.pipeline import tuning_database as found

    shared = str(tmp_path / "shared.jsonl")
    with Context(CACHE_DIR=str(tmp_path / "here")):
        found.add([found.Entry("cpu", name, "r_8", "code") for name in ("a", "b")])
        assert status_of("cache", "--export", shared) == 0
        assert capsys.readouterr().out == f"wrote what is known on 2 kernels to {shared}\n"
        assert status_of("cache", "--clear-search", "--json") == 0
        assert json.loads(capsys.readouterr().out)["forgotten"] == 2
        assert found.read() == {}
        assert status_of("cache", "--import", shared) == 0
        assert capsys.readouterr().out == f"learnt of 2 kernels from {shared}\n"
        assert status_of("cache", "--import", str(tmp_path / "missing")) == 1
        assert "missing" in capsys.readouterr().err


def test_python_m_torpor_is_torpor():
    command = [sys.executable, "-m", "torpor", "cache", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["removed"] == 0
