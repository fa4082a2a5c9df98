"""`BEAM=n`: budget, comparison with the heuristics' choice, resumption; times from formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.pipeline.processes import as_a_new_process
from tests.pipeline.searches import DEVICE, Clock, Fake, product, settled, shorter, task
from torpor import Context, Tensor, lower, pipeline
from torpor.device import Device
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.candidates import after
from torpor.kernel.choose.heuristics import choose, is_short
from torpor.pipeline import tuner
from torpor.pipeline import tuning_database as found
from torpor.pipeline.timing_worker import Lost, Refused
from torpor.pipeline.tuner import described


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing found, nothing compiled, all the time in the world."""
    monkeypatch.setitem(tuner._spent, "seconds", 0.0)
    with Context(CACHE_DIR=str(tmp_path), BEAM=2, BEAM_SECONDS=10):
        yield


# --- what wins ------------------------------------------------------------------------------------
def test_a_faster_list_wins_and_is_kept():
    entry, worker, _ = settled(shorter)
    assert worker.own == tuple(choose(Kernel(product(), Device[DEVICE].target)))
    assert entry.opts == ()
    assert entry.gain == 2.0
    assert found.read()[entry.key] == entry


def test_where_all_others_are_slower_the_heuristics_choice_stays():
    entry, worker, _ = settled(lambda opts: 1.01)
    assert (entry.opts, entry.gain) == (None, 1.0)
    assert entry.seconds == 1e-3
    assert not any(request[0] == "compare" for request in worker.asked), "nothing to compare"


def test_a_win_within_noise_is_none():
    entry, worker, _ = settled(shorter, [1.02] * 40)
    assert (entry.opts, entry.gain) == (None, 1.0)
    assert sum(request[0] == "compare" for request in worker.asked) == 1


# --- budgets --------------------------------------------------------------------------------------
class Patient(Fake):
    """Ends what takes too long, as a `TimingWorker` does."""

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
    worker = Patient(clock, shorter, each=each)
    entry = tuner.settle(task(), worker, clock)
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
        assert not tuner.is_settled(task())
        tuner._spent["seconds"] = 60.0
        assert tuner.is_settled(task())
        assert tuner.usable(task()) is None


def test_what_is_searched_counts():
    _, _, clock = settled(shorter)
    assert tuner._spent["seconds"] == clock.now > 0


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
    worker = Crashing(clock, shorter, each=0.1)
    entry = tuner.settle(task(), worker, clock)
    crashes = worker.asked.count(("crash",))
    assert crashes > 3
    assert sum(request[0] == "open" for request in worker.asked) == 1 + crashes
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
    worker = Hanging(clock, shorter)
    entry = tuner.settle(task(), worker, clock)
    assert [request[0] for request in worker.asked[-2:]] == ["measure", "hang"]
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
    entry = tuner.settle(task(), Ending(clock, shorter), clock)
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
    entry = tuner.settle(task(), Refusing(clock, shorter), clock)
    assert entry.opts is not None
    assert entry.opts != ()


def test_without_another_process_the_heuristics_choice_is_taken():
    class Gone:
        def ask(self, patience, *request):
            raise Lost("no process to time candidates can be started")

    entry = tuner.settle(task(), Gone(), Clock())
    assert entry.opts is None
    assert found.read() == {}, "the next process tries again"


class Interrupted(Fake):
    def ask(self, patience, name, *arguments):
        if len(self.asked) == 30:
            raise KeyboardInterrupt
        return super().ask(patience, name, *arguments)


def test_ctrl_c_keeps_what_there_is_and_the_next_search_goes_on():
    clock = Clock()
    worker = Interrupted(clock, shorter)
    with pytest.raises(KeyboardInterrupt):
        tuner.settle(task(), worker, clock)
    (kept,) = found.read().values()
    assert kept.opts is None, "nothing was compared yet"
    assert len(kept.tried) == len(set(worker.measured())) > 20
    assert not kept.suffices(2, 10)
    entry, later, _ = settled(shorter)
    again = set(worker.measured()) & set(later.measured())
    assert again <= {opts for _, opts in kept.beam} | {worker.own}
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

    worker = Dying(Clock(), shorter)
    with pytest.raises(Killed):
        tuner.settle(task(), worker, worker.clock)
    (kept,) = found.read().values()
    assert not kept.suffices(2, 10)
    lost = (tuner.SAVING + worker.each) / worker.each
    assert len(worker.measured()) - 2 - lost <= len(kept.tried)
    entry, later, _ = settled(shorter)
    again = set(worker.measured()) & set(later.measured())
    assert len(again) <= len(kept.beam) + 1 + lost
    assert entry.gain > 1


def test_no_kernel_of_many_gets_more_than_what_is_left_of_all_time(monkeypatch):
    """A program may hand in hundreds of kernels at once."""
    given = []

    def settle(task, worker, title):
        given.append(task.seconds)
        tuner._spent["seconds"] += task.seconds
        return task.entry

    monkeypatch.setattr(tuner, "settle", settle)
    monkeypatch.setattr(tuner, "TimingWorker", Nobody)
    kernels = [tuner.Wanted(product(size), DEVICE) for size in (16, 24, 32, 40, 48)]
    with Context(BEAM_TOTAL=25):
        assert tuner.opts_for(kernels) == [None] * 5
    assert given == [10, 10, pytest.approx(5, abs=0.1)]


class Nobody:
    """Measures nothing."""

    def __init__(self, settings):
        pass

    def ask(self, patience, *request):
        pass

    def close(self):
        pass


# --- what is kept ---------------------------------------------------------------------------------
def test_what_was_found_is_used_without_another_search():
    entry, _, _ = settled(shorter, each=0.5)
    assert tuner.is_settled(task())
    assert tuner.usable(task()) == entry.opts
    assert not tuner.is_settled(task(BEAM=3)), "wider"
    assert not tuner.is_settled(task(BEAM_SECONDS=20)), "longer"


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
    monkeypatch.setattr(tuner, "code", lambda: "another")
    assert not tuner.is_settled(task())
    assert tuner.usable(task()) is None
    entry, worker, _ = settled(lambda opts: 1.2)
    assert first.opts in worker.measured(), "what won is a candidate"
    assert entry.opts is None
    assert entry.code == "another"


def test_what_is_best_for_one_number_of_threads_is_not_used_for_another():
    assert len({task(THREADS=n).entry.key for n in (1, 2, 3)}) == 3
    with Context(THREADS=3):
        assert tuner.settings_for_candidates()["THREADS"] == 3


def test_what_changes_the_candidates_is_part_of_the_key():
    assert task(STRICT_FLOAT=1).entry.key != task().entry.key


def test_what_other_hardware_found_is_not_used():
    entry, _, _ = settled(shorter)
    found.clear()
    found.add([replace(entry, hardware="another processor 2 threads")])
    assert not tuner.is_settled(task())
    assert tuner.usable(task()) is None
    found.add([entry])
    assert tuner.usable(task()) == entry.opts == ()


def test_opts_that_do_not_fit_are_not_used():
    made = task()
    with Context(BEAM_SECONDS=0):
        found.add([found.Entry(*made.entry.key, "x", tuner.code(), (Opt(OptOps.UPCAST, 9, 4),))])
        assert tuner.usable(task()) is None


def test_what_is_not_searched():
    target = Device[DEVICE].target
    assert "twice" in tuner.why_not(product(16384), target)
    assert "timing" in tuner.why_not(product(), Device["PYTHON"].target)
    with Context(NOOPT=1):
        assert tuner.task_for(product(), DEVICE) is None


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
    with Context(BEAM=1, BEAM_SECONDS=3):
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


# --- what is tried --------------------------------------------------------------------------------
def test_the_best_amounts_are_found_from_nothing():
    """Fastest with one axis written out 8 times and another twice."""

    def times(opts):
        copies = sorted([1, 1, *(o.arg for o in opts if o.op is OptOps.UPCAST)])[-2:]
        return 0.1 + 0.1 * (abs(copies[0] - 2) + abs(copies[1] - 8))

    entry, worker, _ = settled(times, each=0.05)
    assert times(entry.opts) == 0.1
    assert len(set(worker.measured())) == len(entry.tried), "no kernel is timed twice"
    _, again, _ = settled(times, each=0.05, made=replace(task(), entry=replace(entry, tried=())))
    assert again.measured()


def test_endless_code_is_not_even_compiled():
    _, worker, _ = settled(lambda opts: 1 / (1 + len(opts)), each=0.2)
    made = [after(Kernel(product(), Device[DEVICE].target), opts) for opts in worker.measured()]
    assert len(made) > 10
    assert all(map(is_short, made))


# --- what is seen ---------------------------------------------------------------------------------
def test_a_long_search_says_how_far_it_is(capsys):
    clock = Clock()
    with Context(BEAM_SECONDS=60, DEBUG=0):
        tuner.settle(task(BEAM_SECONDS=60), Fake(clock, shorter), clock, "2 of 5 kernels")
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("search: 2 of 5 kernels, r_32_32_32: ")
    assert "s more at most" in first
