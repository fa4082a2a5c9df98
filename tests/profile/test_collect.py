"""What a profile has of a program, line by line."""

import inspect
import json
import pstats

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor, jit, profile
from torpor.base.errors import SettingError


@pytest.fixture(autouse=True)
def empty_cache():
    with Context(CACHE=0):
        yield


def line(back=0):
    """The number of the line that calls, or of one before it."""
    return inspect.currentframe().f_back.f_lineno - back


def row_at(found, number):
    (row,) = [row for row in found.rows if row.file == __file__ and row.line == number]
    return row


def test_a_line_has_what_it_built_and_what_it_asked_for():
    x = Tensor(np.ones((3, 701), np.float32)).realize()
    with profile() as found:
        y = (x * 2.5).sum(1)
        assert y.tolist() == [701 * 2.5] * 3
    built, asked = row_at(found, line(2)), row_at(found, line(1))
    assert (built.kernels, built.made, asked.calls) == (1, 1, 1)
    assert built.text == "y = (x * 2.5).sum(1)"
    assert built.operations >= 3 * 701
    assert built.bytes >= 3 * 701 * 4
    assert built.seconds["compile"] > 0
    assert built.seconds["kernel"] > 0
    assert asked.seconds["schedule"] > 0
    assert "compile" not in asked.seconds


def test_what_recurs_is_launched_and_nothing_else():
    x = Tensor(np.ones(709, np.float32)).realize()

    def run():
        return ((x * 1.5).sum() * 2).item()

    run()
    with profile() as found:
        assert run() == run() == 709 * 3
    assert found.totals["schedule"] == found.totals["compile"] == found.totals["graph"] == 0
    assert sum(row.kernels for row in found.rows) == 2


def test_equal_graphs_of_several_lines_are_each_ones_own():
    x = Tensor(np.ones(719, np.float32)).realize()

    def one():
        return (x * 7.5).sum()

    def other():
        return (x * 7.5).sum()

    assert one().item() == 719 * 7.5
    with profile() as found:
        for _ in range(3):
            other().item()
        one().item()
    first = one.__code__.co_firstlineno + 1
    second = other.__code__.co_firstlineno + 1
    assert (row_at(found, first).kernels, row_at(found, second).kernels) == (1, 3)


def test_phases_and_the_rest_make_up_the_whole_time():
    with profile() as found:
        (Tensor(np.ones(711, np.float32)) + 1).realize()
    assert sum(found.totals.values()) == pytest.approx(found.seconds, rel=1e-6)
    assert sum(row.total for row in found.rows) == pytest.approx(
        found.seconds - found.totals["python"], rel=1e-6
    )


def test_it_says_why_kernels_were_compiled_again():
    def run(size, number):
        return (Tensor(np.ones(size, np.float32)) * number).sqrt().amin().item()

    with profile() as found:
        for size, number in ((720, 4.0), (721, 4.0), (722, 9.0), (723, 16.0)):
            assert run(size, number) == number**0.5
    why = list(row_at(found, line(5)).why)
    assert [one.partition(" up to")[0] for one in why] == ["size 720 ->", "size 721 ->"]
    assert why[1].endswith(", number 4 -> any")
    assert "size 720 -> up to" in str(found)


def test_a_jitted_function_is_traced_once_and_launched_at_each_call():
    @jit
    def double(x):
        return x * 2

    x = Tensor(np.ones(727, np.float32)).realize()
    with profile() as found:
        for _ in range(6):
            assert double(x).tolist() == [2.0] * 727
    asked = row_at(found, line(1))
    assert asked.counts["trace"] == 1
    assert sum(row.kernels for row in found.rows) == 6
    with profile() as found:
        double(x)
    assert found.totals["trace"] == 0
    assert sum(row.kernels for row in found.rows) == 1


def test_a_second_trace_says_what_was_missed():
    @jit
    def double(x):
        return x * 2

    with profile() as found:
        double(Tensor.ones(3))
        double(Tensor.ones(4))
    assert row_at(found, line(1)).why["axis 0 of x"] == 1


def test_an_error_goes_through_and_what_was_done_is_there(tmp_path):
    path = tmp_path / "trace.json"
    seen = []

    def fail():
        with profile(path) as found:
            seen.append(found)
            (Tensor([1.0, 2.0]) + 3).realize()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sum(row.kernels for row in seen[0].rows) == 1
    assert json.loads(path.read_text())["traceEvents"]


def test_nested_blocks_hear_what_is_inside_them():
    with profile() as outer:
        with profile() as inner:
            (Tensor([1.0, 2.0]) + 3).realize()
        (Tensor([1.0, 2.0]) + 3).realize()
    assert sum(row.kernels for row in inner.rows) == 1
    assert sum(row.kernels for row in outer.rows) == 2


def test_imports_are_times_of_the_line(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.02)\nVALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with profile() as found:
        import slow_to_import
    assert slow_to_import.VALUE == 3
    assert row_at(found, line(2)).seconds["import"] >= 0.02
    assert "exec_module" not in vars(slow_to_import.__loader__)


def test_a_chrome_trace_has_an_event_for_each_kernel(tmp_path):
    with profile() as found:
        (Tensor(np.ones(731, np.float32)) + 1).realize()
    found.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (kernel,) = [event for event in events if event["cat"] == "kernel"]
    (launch,) = [event for event in events if event["cat"] == "launch"]
    assert kernel["ph"] == "X"
    assert launch["ts"] <= kernel["ts"] <= kernel["ts"] + kernel["dur"]
    assert kernel["ts"] + kernel["dur"] <= launch["ts"] + launch["dur"] + 1e-3
    assert "test_collect.py" in kernel["args"]["built at"]


def test_statistics_can_be_read_by_pstats(tmp_path):
    path = tmp_path / "profile.pstats"
    with profile(path) as found:
        (Tensor(np.ones(733, np.float32)) + 1).realize()
    stats = pstats.Stats(str(path)).stats
    assert stats["~", 0, "<torpor kernel>"][2] == pytest.approx(found.totals["kernel"])
    callers = stats["~", 0, "<torpor kernel>"][4]
    assert [file for file, *_ in callers] == [__file__]


def test_a_file_of_another_kind_is_refused_before_anything_runs():
    with pytest.raises(SettingError, match=r"one of \.json"), profile("profile.xyz"):
        pytest.fail("the block must not run")


def test_rows_can_be_written_as_json():
    with profile() as found:
        (Tensor(np.ones(739, np.float32)) + 1).realize()
    known = json.loads(found.as_json())
    assert {row["line"] for row in known["rows"]} == {row.line for row in found.rows}
    assert known["totals"] == found.totals


def test_it_is_a_name_of_torpor():
    assert torpor.profile is profile
