"""The file of what searches found."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from torpor import Context
from torpor.base.errors import TorporError
from torpor.kernel import Opt, OptOps
from torpor.pipeline import tuning_database as found
from torpor.pipeline.tuning_database import Entry, from_line, to_line

OPTS = (Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.THREAD, 0, 0), Opt(OptOps.NOLOCALS))
ENTRY = Entry("a cpu", "k1", "r_8_8", "code", OPTS, 1.25, 3e-6, (2, 1.5), 30)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with Context(CACHE_DIR=str(tmp_path)):
        yield tmp_path


@pytest.mark.parametrize("entry", [ENTRY, Entry("a", "b", "c", "d"), replace(ENTRY, opts=())])
def test_a_line_comes_back_as_it_was(entry):
    line = to_line(entry)
    assert "\n" not in line
    assert json.loads(line)["torpor_search"] == found.VERSION
    assert from_line(line) == entry


def test_the_last_line_counts():
    found.add([ENTRY, replace(ENTRY, kernel="k2")])
    found.add([replace(ENTRY, gain=2.0)])
    assert {key[1]: e.gain for key, e in found.read().items()} == {"k1": 2.0, "k2": 1.25}


def edited(**fields):
    return json.dumps(json.loads(to_line(ENTRY)) | fields)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not JSON",
        "[1]",
        "3",
        "{}",
        "[" * 100_000,
        "\x00\ufffd{",
        to_line(ENTRY)[:-20],
        edited(torpor_search=99),
        edited(opts=[["EXPLODE", 0, 4]]),
        edited(opts=[["UPCAST", "0", 4]]),
        edited(opts=3),
        edited(extent=[1]),
        edited(extent=[1, 10**400]),
        edited(extent=["wide", 1.0]),
        edited(gain=None),
        edited(more=1),
    ],
)
def test_what_cannot_be_read_is_passed_over(line):
    assert from_line(line) is None
    found.path().write_text(line + "\n")
    assert found.read() == {}
    found.add([ENTRY])
    assert found.read() == {ENTRY.key: ENTRY}


def test_a_line_that_a_crash_cut_short_spoils_no_other():
    found.add([ENTRY])
    with found.path().open("a") as file:
        file.write(to_line(replace(ENTRY, kernel="k2"))[:50])
    found.add([replace(ENTRY, kernel="k3")])
    assert [key[1] for key in found.read()] == ["k1", "k3"]


def test_several_may_write_at_once():
    def write(writer):
        for n in range(20):
            found.add([replace(ENTRY, kernel=f"{writer} {n}")], file)

    file = found.path()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    assert len(found.read()) == 160
    assert len([line for line in file.read_text().splitlines() if line]) == 160


def test_export_and_import(folder):
    found.add([ENTRY, replace(ENTRY, kernel="k2", gain=3.0), replace(ENTRY, gain=1.5)])
    shared = folder / "shared.jsonl"
    assert found.export(shared) == 2
    assert len(shared.read_text().splitlines()) == 2
    with Context(CACHE_DIR=str(folder / "other")):
        assert found.import_from(shared) == 2
        assert found.import_from(shared) == 0, "nothing new"
        assert {e.gain for e in found.read().values()} == {1.5, 3.0}
        assert all(e.opts == OPTS for e in found.read().values())


def test_two_files_become_one(folder):
    """Each machine knows a kernel that the other has not seen, and one of both better."""
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    better = replace(ENTRY, extent=(4, 1.5), gain=2.0)
    other = replace(ENTRY, hardware="another cpu", gain=7.0)
    found.add([ENTRY, replace(ENTRY, kernel="k2")], first)
    found.add([better, replace(ENTRY, kernel="k3"), other], second)
    for order in ((first, second), (second, first)):
        found.clear()
        assert all(found.import_from(file) > 0 for file in order)
        known = found.read()
        assert not any(found.import_from(file) for file in order), "once is enough"
        assert {key: e.gain for key, e in known.items()} == {
            ("a cpu", "k1"): 2.0, ("a cpu", "k2"): 1.25, ("a cpu", "k3"): 1.25,
            ("another cpu", "k1"): 7.0,
        }  # fmt: skip


def test_what_is_whole_of_a_damaged_file_is_taken(folder):
    shared = folder / "shared.jsonl"
    found.add([ENTRY, replace(ENTRY, kernel="k2")], shared)
    damaged = shared.read_bytes()
    shared.write_bytes(b"\xff\xfe\x00\n" + damaged[:-40] + b"\n" + damaged)
    assert found.import_from(shared) == 2
    shared.write_bytes(b"\xff" * 1000 + damaged[:40])
    with pytest.raises(TorporError, match="nothing that a search"):
        found.import_from(shared)


@pytest.mark.parametrize("extent", [(1, 60.0), (4, 1.0)])
def test_an_import_never_replaces_more_by_less(folder, extent):
    """More is what is as wide and as long."""
    shared = folder / "shared.jsonl"
    found.add([replace(ENTRY, extent=extent, gain=9.0)], shared)
    found.add([ENTRY])
    assert found.import_from(shared) == 0
    assert found.read()[ENTRY.key].gain == 1.25


def test_importing_something_else_is_an_error(folder):
    (folder / "text").write_text("hello\n")
    with pytest.raises(TorporError, match="nothing that a search"):
        found.import_from(folder / "text")
    with pytest.raises(FileNotFoundError):
        found.import_from(folder / "missing")


def test_clearing_counts():
    assert found.clear() == 0
    found.add([ENTRY, replace(ENTRY, kernel="k2")])
    assert found.clear() == 2
    assert found.read() == {}
