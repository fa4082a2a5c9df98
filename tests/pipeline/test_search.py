"""`BEAM=n`: budget, comparison with the heuristics' choice, resumption; times from formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.pipeline.processes import as_a_new_process
from tests.pipeline.searches import DEVICE, Clock, Fake, product, settled, shorter, task
from torpor import Context, Tensor, lower, pipeline
from torpor.device import Device
from torpor.device.pool import cores
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.pipeline import found, hunt, search
from torpor.pipeline.judge import Lost, Refused
from torpor.pipeline.watch import Watch, described


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing found, nothing compiled, all the time in the world."""
    monkeypatch.setitem(search._spent, "seconds", 0.0)
    with Context(CACHE_DIR=str(tmp_path), BEAM=2, BEAM_SECONDS=10):
        yield


# --- what wins ------------------------------------------------------------------------------------
def test_a_faster_list_wins_and_is_kept():
    entry, judge, _ = settled(shorter)
    assert judge.own == tuple(choose(Kernel(product(), Device[DEVICE].target)))
    assert entry.opts == ()
    assert entry.gain == 2.0
    assert found.read()[entry.key] == entry


def test_where_all_others_are_slower_the_heuristics_choice_stays():
    entry, judge, _ = settled(lambda opts: 1.01)
    assert (entry.opts, entry.gain) == (None, 1.0)
    assert entry.seconds == 1e-3
    assert not any(request[0] == "duel" for request in judge.asked), "nothing to compare"


def test_a_win_within_noise_is_none():
    entry, judge, _ = settled(shorter, [1.02] * 40)
    assert (entry.opts, entry.gain) == (None, 1.0)
    assert sum(request[0] == "duel" for request in judge.asked) == hunt.FINALISTS


def test_a_machine_that_was_slow_at_first_makes_no_winners():
    """What seems to be faster is, as the heuristics' choice by then."""

    class Waking(Fake):
        def ask(self, patience, name, *arguments):
            taken = super().ask(patience, name, *arguments)
            slow = name == "measure" and len(self.asked) < 6
            return 3 * taken if slow else taken

    clock = Clock()
    judge = Waking(clock, lambda opts: 1.01 + 0.1 * len(opts))
    entry = search.settle(task(), judge, Watch(), clock)
    assert entry.seconds == 1e-3
    assert entry.beam[0] == (1e-3, judge.own), "its neighbours are tried"
    assert not any(request[0] == "duel" for request in judge.asked)


# --- budgets --------------------------------------------------------------------------------------
class Patient(Fake):
    """Ends what takes too long, as a `Judge` does."""

    def ask(self, patience, name, *arguments):
        if self.each > patience:
            self.clock.now += patience
            self.asked.append(("late", name))
            raise Lost("it took too long")
        return super().ask(patience, name, *arguments)


@pytest.mark.parametrize("each", [0.01, 0.2, 0.5, 0.9, 2.4, 4.0, 20.0])
def test_the_time_for_a_kernel_is_kept(each):
    """All that is asked counts: to be given the kernel, the heuristics' choice, the comparison."""
    clock = Clock()
    judge = Patient(clock, shorter, each=each)
    entry = search.settle(task(), judge, Watch(), clock)
    assert clock.now <= 10.001
    assert entry.done or clock.now >= 7
    assert (entry.gain > 1) == (each < 1)


def test_what_ended_before_time_says_how_long_it_took():
    entry, _, clock = settled(lambda opts: 2.5, each=0.01)
    assert entry.done
    assert entry.spent == pytest.approx(clock.now, abs=0.1)
    assert entry.suffices(2, 10)


def test_no_kernel_is_searched_once_all_time_is_spent():
    with Context(BEAM_TOTAL=60):
        assert not search.is_settled(task())
        search._spent["seconds"] = 60.0
        assert search.is_settled(task())
        assert search.usable(task()) is None


def test_what_is_searched_counts():
    _, _, clock = settled(shorter)
    assert search._spent["seconds"] == clock.now > 0


# --- what goes wrong ------------------------------------------------------------------------------
def test_a_candidate_that_crashes_or_hangs_is_out_and_the_search_goes_on():
    class Crashing(Fake):
        def ask(self, patience, name, *arguments):
            other = name == "measure" and self.own and arguments[0] != self.own
            if other and len(arguments[0]) % 3 == 2:
                self.asked.append(("crash",))
                raise Lost("it ended its process (-11)")
            return super().ask(patience, name, *arguments)

    clock = Clock()
    judge = Crashing(clock, shorter, each=0.1)
    entry = search.settle(task(), judge, Watch(), clock)
    crashes = judge.asked.count(("crash",))
    assert crashes > 3
    assert sum(request[0] == "open" for request in judge.asked) == 1 + crashes
    assert entry.gain > 1


def test_nothing_is_started_again_when_time_is_up():
    class Hanging(Fake):
        def ask(self, patience, name, *arguments):
            if name == "measure" and self.own and arguments[0] != self.own:
                self.asked.append(("hang",))
                self.clock.now += patience
                raise Lost("it took too long")
            return super().ask(patience, name, *arguments)

    clock = Clock()
    judge = Hanging(clock, shorter)
    entry = search.settle(task(), judge, Watch(), clock)
    assert [request[0] for request in judge.asked[-2:]] == ["measure", "hang"]
    assert entry.opts is None
    assert clock.now <= 10


def test_a_process_that_does_not_come_back_costs_no_more_than_the_time_there_is():
    class Ending(Fake):
        """The process ends with the 20th request, and the next takes for ever to start."""

        def ask(self, patience, name, *arguments):
            if len(self.asked) > 20:
                self.clock.now += patience
                raise Lost("it took too long")
            if len(self.asked) == 20:
                self.asked.append(("crash",))
                raise Lost("it ended its process (-11)")
            return super().ask(patience, name, *arguments)

    clock = Clock()
    entry = search.settle(task(), Ending(clock, shorter), Watch(), clock)
    assert clock.now <= 10
    assert entry.opts is None, "what could not be compared is not used"
    (kept,) = found.read().values()
    assert kept.beam[0][0] < entry.seconds, "but is known"


def test_a_candidate_that_cannot_be_compiled_is_out():
    class Refusing(Fake):
        def ask(self, patience, name, *arguments):
            if name == "measure" and self.own is not None and arguments[0] == ():
                raise Refused("CompileError: no")
            return super().ask(patience, name, *arguments)

    clock = Clock()
    entry = search.settle(task(), Refusing(clock, shorter), Watch(), clock)
    assert entry.opts is not None
    assert entry.opts != ()


def test_without_another_process_the_heuristics_choice_is_taken():
    class Gone:
        def ask(self, patience, *request):
            raise Lost("no process to time candidates can be started")

    entry = search.settle(task(), Gone(), Watch(), Clock())
    assert entry.opts is None
    assert found.read() == {}, "the next process tries again"


class Interrupted(Fake):
    def ask(self, patience, name, *arguments):
        if len(self.asked) == 30:
            raise KeyboardInterrupt
        return super().ask(patience, name, *arguments)


def test_ctrl_c_keeps_what_there_is_and_the_next_search_goes_on():
    clock = Clock()
    judge = Interrupted(clock, shorter)
    with pytest.raises(KeyboardInterrupt):
        search.settle(task(), judge, Watch(), clock)
    (kept,) = found.read().values()
    assert kept.opts is None, "nothing was compared yet"
    assert len(kept.tried) == len(set(judge.measured())) > 20
    assert not kept.suffices(2, 10)
    entry, later, _ = settled(shorter)
    again = set(judge.measured()) & set(later.measured())
    assert again <= {opts for _, opts in kept.beam} | {judge.own}
    assert entry.gain > 1
    assert set(kept.tried) <= set(entry.tried)


def test_a_process_that_is_killed_loses_seconds_only():
    class Killed(BaseException):
        """Nothing is left to do after it, as after SIGKILL."""

    class Dying(Fake):
        def ask(self, patience, name, *arguments):
            if len(self.asked) == 30:
                raise Killed
            return super().ask(patience, name, *arguments)

    judge = Dying(Clock(), shorter)
    with pytest.raises(Killed):
        search.settle(task(), judge, Watch(), judge.clock)
    (kept,) = found.read().values()
    assert not kept.suffices(2, 10)
    lost = (hunt.SAVING + judge.each) / judge.each
    assert len(judge.measured()) - 2 - lost <= len(kept.tried)
    entry, later, _ = settled(shorter)
    again = set(judge.measured()) & set(later.measured())
    assert len(again) <= len(kept.beam) + 1 + lost
    assert entry.gain > 1


class Compiling:
    """In the place of `Builders`: each list takes a tenth of a second, one after the other."""

    def __init__(self, clock, fault=None):
        self.clock, self.fault, self.open, self.handed, self.dropped = clock, fault, [], [], 0

    def submit(self, ast, device, opts, patience, seconds):
        self.open.append(opts)
        self.handed.append(opts)
        assert 0 < seconds <= 10
        assert patience == max(hunt.ALLOWED, hunt.DEARER * 0.25)  # of what the first one took

    def take(self, opts):
        self.clock.now += 0.1 * len(self.open)
        self.open.clear()
        return self.fault if self.fault and len(opts) % 2 else f"object of {opts}".encode()

    def drop(self):
        self.dropped += 1
        self.open.clear()


def test_what_was_compiled_meanwhile_is_what_is_measured():
    clock = Clock()
    judge, compiling = Fake(clock, shorter), Compiling(clock)
    entry = search.settle(task(), judge, Watch(), clock, compiling)
    assert entry.gain == 2.0
    asked = [request[1:] for request in judge.asked if request[0] == "measure"]
    assert len(asked) > 10
    others = [request for request in asked if request[0] != judge.own]
    assert all(made == f"object of {opts}".encode() for opts, _, made in others)
    assert {opts for opts, *_ in others} <= set(compiling.handed)
    assert clock.now <= 10


def test_nothing_is_compiled_while_the_last_two_are_compared():
    clock = Clock()
    compiling = Compiling(clock)

    class Watching(Fake):
        def ask(self, patience, name, *arguments):
            assert not compiling.open, f"{name} is disturbed"
            return super().ask(patience, name, *arguments)

    entry = search.settle(task(), Watching(clock, shorter), Watch(), clock, compiling)
    assert entry.gain == 2.0


def test_what_cannot_be_compiled_is_out_and_not_measured():
    clock = Clock()
    judge, compiling = Fake(clock, shorter), Compiling(clock, "CompileError: no")
    search.settle(task(), judge, Watch(), clock, compiling)
    assert all(len(opts) % 2 == 0 for opts in judge.measured() if opts != judge.own)
    assert len(set(compiling.handed)) > len(set(judge.measured()))


def test_no_kernel_of_many_gets_more_than_what_is_left_of_all_time(monkeypatch):
    """A program may hand in hundreds of kernels at once."""
    given = []

    def settle(task, judge, watch, builders):
        given.append(task.seconds)
        search._spent["seconds"] += task.seconds
        return task.entry

    monkeypatch.setattr(search, "settle", settle)
    monkeypatch.setattr(search, "Judge", Nobody)
    monkeypatch.setattr(search, "Builders", Nobody)
    kernels = [search.Wanted(product(size), DEVICE) for size in (16, 24, 32, 40, 48)]
    with Context(BEAM_TOTAL=25):
        assert search.opts_for(kernels) == [None] * 5
    assert given == [10, 10, pytest.approx(5, abs=0.1)]


class Nobody:
    """Neither measures nor compiles."""

    def __init__(self, settings):
        pass

    def start(self, patience):
        pass

    def ask(self, patience, *request):
        pass

    def close(self):
        pass


# --- what is kept ---------------------------------------------------------------------------------
def test_what_was_found_is_used_without_another_search():
    entry, _, _ = settled(shorter, each=0.5)
    assert search.is_settled(task())
    assert search.usable(task()) == entry.opts
    assert not search.is_settled(task(BEAM=3)), "wider"
    assert not search.is_settled(task(BEAM_SECONDS=20)), "longer"


def test_lower_shows_what_was_found_and_searches_nothing():
    entry, _, _ = settled(shorter)
    x = Tensor.empty(32, 32)
    (program,) = lower(x @ Tensor.empty(32, 32))
    assert program.opts == entry.opts == ()
    (other,) = lower(x @ Tensor.empty(32, 32), target="c")
    assert other.opts != ()
    with Context(BEAM=0):
        assert lower(x @ Tensor.empty(32, 32))[0].opts != ()
    assert lower(x + 1)
    assert len(found.read()) == 1


def test_times_of_another_compiler_are_measured_again(monkeypatch):
    first, _, _ = settled(shorter)
    monkeypatch.setattr(search, "code", lambda: "another")
    monkeypatch.setattr(hunt, "code", lambda: "another")
    assert not search.is_settled(task())
    assert search.usable(task()) is None
    entry, judge, _ = settled(lambda opts: 1.2)
    assert first.opts in judge.measured(), "what won is a candidate"
    assert entry.opts is None
    assert entry.code == "another"


def keys_by_threads(**context):
    return {task(THREADS=n, **context).entry.key for n in (1, 2, 3)}


def test_what_is_best_for_one_number_of_threads_is_not_used_for_another():
    assert len(keys_by_threads()) == 3
    with Context(THREADS=3):
        assert search.settings_for_candidates()["THREADS"] == 3


def test_splits_of_sums_do_not_depend_on_the_number_of_threads():
    assert len(keys_by_threads(BEAM_SPLITS=1)) == 1
    with Context(THREADS=3, BEAM_SPLITS=1):
        assert search.settings_for_candidates()["THREADS"] == cores()


@pytest.mark.parametrize("other", [{"BEAM_SPLITS": 1}, {"STRICT_FLOAT": 1}])
def test_what_changes_the_candidates_is_part_of_the_key(other):
    assert task(**other).entry.key != task().entry.key


def test_what_other_hardware_found_is_not_used():
    entry, _, _ = settled(shorter)
    found.clear()
    found.add([replace(entry, hardware="another processor 2 threads")])
    assert not search.is_settled(task())
    assert search.usable(task()) is None
    found.add([entry])
    assert search.usable(task()) == entry.opts == ()


def test_opts_that_do_not_fit_are_not_used():
    made = task()
    with Context(BEAM_SECONDS=0):
        found.add([found.Entry(*made.entry.key, "x", search.code(), (Opt(OptOps.UPCAST, 9, 4),))])
        assert search.usable(task()) is None


def test_what_is_not_searched():
    target = Device[DEVICE].target
    assert "twice" in search.why_not(product(16384), target)
    assert "timing" in search.why_not(product(), Device["PYTHON"].target)
    with Context(NOOPT=1):
        assert search.task_for(product(), DEVICE) is None


def test_a_line_says_what_was_found():
    entry, _, _ = settled(shorter)
    assert "2.00 times as fast with []" in described(entry)
    entry, _, _ = settled(lambda opts: 2.0, made=task(BEAM=3))
    assert "heuristics' choice stays" in described(entry)


# --- the whole way --------------------------------------------------------------------------------
def test_a_true_search_gives_the_same_bits_and_is_used_again(capsys):
    as_a_new_process()
    numbers = np.random.default_rng(1).standard_normal((2, 24, 40)).astype(np.float32)
    before = numbers.copy()

    def compute():
        a, b = Tensor(numbers[0]), Tensor(numbers[1])
        with pipeline.measuring() as measured:
            got = (a @ b.T).numpy()
        return got, measured.compiles

    with Context(BEAM=0):
        expected, _ = compute()
    with Context(BEAM=1, BEAM_SECONDS=1):
        got, ((program, _, _),) = compute()
        np.testing.assert_array_equal(got, expected)
        (entry,) = found.read().values()
        assert len(entry.tried) >= 2
        assert entry.opts in (None, program.opts)
        as_a_new_process()
        again, ((second, _, from_disk),) = compute()
        assert from_disk
        assert second.opts == program.opts
        np.testing.assert_array_equal(again, expected)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(numbers, before)


def test_where_nothing_can_be_kept_it_is_said_once(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with Context(CACHE_DIR=str(tmp_path / "file")):
        entry, _, _ = settled(shorter)
        settled(shorter)
    assert entry.gain == 2.0
    (complaint,) = capsys.readouterr().err.splitlines()
    assert complaint.startswith("beam: what was found cannot be kept: ")
