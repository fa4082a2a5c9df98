"""`BEAM=n`: budget, comparison with the heuristics' choice; times from formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.pipeline.processes import as_a_new_process
from tests.pipeline.searches import DEVICE, Clock, Fake, entry, product, settled, shorter, task
from torpor import Context, Tensor, lower, pipeline
from torpor.device import Device
from torpor.kernel import Opt, OptOps
from torpor.kernel.choose.heuristics import choose, is_short
from torpor.pipeline import disk, tuner
from torpor.pipeline import tuning_database as database
from torpor.pipeline.timing_worker import ROUNDS
from torpor.pipeline.tuner import MARGIN, described, gain_of, typical


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing found, nothing compiled, all the time in the world."""
    monkeypatch.setitem(tuner._spent, "seconds", 0.0)
    with Context(CACHE_DIR=str(tmp_path), BEAM=2, BEAM_SECONDS=10):
        yield


# --- what wins ------------------------------------------------------------------------------------
def test_a_faster_list_wins_and_is_kept():
    found, worker, _ = settled(shorter)
    assert worker.own == tuple(choose(task().kernel))
    assert found.opts == ()
    assert found.gain == 2.0
    assert database.read()[found.key] == found


def test_where_all_others_are_slower_the_heuristics_choice_stays():
    found, worker, _ = settled(lambda opts: 1.01)
    assert (found.opts, found.gain) == (None, 1.0)
    assert found.seconds == 1e-3
    assert len(worker.asked) == len(set(worker.asked)), "nothing to compare again"


def test_a_win_that_is_none_the_second_time_is_none():
    found, worker, _ = settled(shorter, last=1.02)
    assert (found.opts, found.gain) == (None, 1.0)
    assert len(worker.asked) > len(set(worker.asked))


def test_the_best_amounts_are_found_from_nothing():
    """Fastest with one axis written out 8 times and another twice."""

    def times(opts):
        copies = sorted([1, 1, *(o.arg for o in opts if o.op is OptOps.UPCAST)])[-2:]
        return 0.1 + 0.1 * (abs(copies[0] - 2) + abs(copies[1] - 8))

    found, worker, _ = settled(times, each=0.05)
    assert times(found.opts) == 0.1
    kernels = [task().kernel.apply(opts).ast for opts in set(worker.asked)]
    assert len(set(kernels)) == len(kernels) == found.tried, "no kernel is timed twice"


def test_endless_code_is_not_even_compiled():
    _, worker, _ = settled(lambda opts: 1 / (1 + len(opts)), each=0.2)
    assert len(worker.asked) > 10
    assert all(is_short(task().kernel.apply(opts)) for opts in worker.asked)


def turns(*ratios):
    """Times of both: the candidate takes a second where it wins, and two where it does not."""
    return [(ratio, 1.0) if ratio > 1 else (2 * ratio, 2.0) for ratio in ratios]


@pytest.mark.parametrize(
    ("ratios", "gain"),
    [
        ([1.5] * 40, 1.5),
        ([1.04] * 40, 1.04),
        ([1.02] * 40, 0),  # too little
        ([0.5] * 40, 0),
        ([1.5] * 30 + [0.8] * 10, 1.5),
        ([1.5] * 3, 1.5),
        ([1.5] * 2 + [1.0], 0),  # of three turns all have to be won
        ([1.5] * 9 + [1.0], 0),
        ([1.5] * 29 + [1.0] * 11, 0),  # could be luck
    ],
)
def test_it_wins_by_a_margin_and_oftener_than_by_luck(ratios, gain):
    assert gain_of(turns(*ratios)) == gain


def test_one_best_run_of_the_heuristics_choice_is_enough_to_keep_it():
    assert not gain_of([(1.5, 1.0)] * 39 + [(0.9, 1.0)])


def test_equals_hardly_ever_win_however_noisy_the_machine():
    random = np.random.default_rng(0)
    noise = 1 + random.exponential(0.3, (1000, ROUNDS, 2))
    assert sum(gain_of([tuple(pair) for pair in pairs]) > 1 for pairs in noise) <= 5


def test_what_is_a_third_faster_mostly_wins_in_spite_of_noise():
    random = np.random.default_rng(0)
    noise = (1 + random.exponential(0.2, (1000, ROUNDS, 2))) * (1.33, 1.0)
    gains = [gain_of([tuple(pair) for pair in pairs]) for pairs in noise]
    assert np.mean([gain > MARGIN for gain in gains]) > 0.9


@pytest.mark.parametrize(("heads", "rows"), [(1, 9), (12, 8), (3, 32), (5, 1)])
def test_launches_that_stand_for_all_do_little_much_and_something_between(heads, rows):
    launches = [{"v0": head, "v1": row} for head in range(heads) for row in range(rows)]
    first, middle, last = typical(launches)
    assert first == {"v0": 0, "v1": 0}
    assert abs(2 * sum(middle.values()) - (heads + rows - 2)) <= 1
    assert last == {"v0": heads - 1, "v1": rows - 1}


def test_every_one_is_a_launch_that_there_is_and_none_comes_twice():
    launches = [{"start": n % 3, "count": 9 - n} for n in range(9)]
    assert all(one in launches for one in typical(launches))
    assert typical([]) == typical([{}, {}, {}]) == [{}]
    assert typical([{"v0": 4}] * 5) == [{"v0": 4}]


# --- budgets --------------------------------------------------------------------------------------
@pytest.mark.parametrize("each", [0.01, 0.2, 0.5, 0.9, 2.4, 4.0, 20.0])
def test_the_time_for_a_kernel_is_kept(each):
    """All that is asked counts: the heuristics' choice and the second comparison, too."""
    found, _, clock = settled(shorter, each=each)
    assert clock.now <= 10.001
    assert (found.gain > 1) == (each < 1)


def test_no_kernel_is_searched_once_all_time_is_spent(monkeypatch):
    monkeypatch.setattr(tuner, "search", lambda *arguments: pytest.fail("it is searched"))
    monkeypatch.setitem(tuner._spent, "seconds", 60.0)
    with Context(BEAM_TOTAL=60):
        assert tuner.opts_for([task()]) == [None]


def test_no_kernel_of_many_gets_more_than_what_is_left_of_all_time(monkeypatch):
    """A program may hand in hundreds of kernels at once."""
    given = []

    def search(task, entry, ask, clock, seconds):
        given.append(seconds)
        tuner._spent["seconds"] += seconds

    monkeypatch.setattr(tuner, "search", search)
    with Context(BEAM_TOTAL=25):
        assert tuner.opts_for(list(map(task, (16, 24, 32, 40, 48)))) == [None] * 5
    assert given == [10, 10, pytest.approx(5, abs=0.1)]


def test_what_is_searched_counts():
    _, _, clock = settled(shorter)
    assert tuner._spent["seconds"] == clock.now > 0


# --- what goes wrong ------------------------------------------------------------------------------
def test_a_candidate_that_crashes_or_is_refused_is_out_and_the_search_goes_on():
    class Crashing(Fake):
        def ask(self, patience, *request):
            times = super().ask(patience, *request)
            *_, first, second = request
            return times if first == second or len(second) % 3 != 2 else "CompileError: no"

    found, worker, _ = settled(shorter, worker=Crashing(Clock(), shorter, each=0.1))
    assert sum(len(opts) % 3 == 2 for opts in worker.asked) > 3
    assert found.gain > 1


def test_a_candidate_that_hangs_costs_no_more_than_the_time_there_is():
    class Hanging(Fake):
        def ask(self, patience, *request):
            *_, first, second = request
            self.each = 0.1 if first == second else 1e9
            return super().ask(patience, *request)

    found, _, clock = settled(shorter, worker=Hanging(Clock(), shorter))
    assert found.opts is None
    assert clock.now <= 10


def test_where_nothing_can_be_timed_the_heuristics_choice_is_taken():
    found = tuner.settle(task(), entry(), lambda *request: "no process can be started", Clock())
    assert found.opts is None
    assert database.read() == {}, "the next process tries again"


def test_ctrl_c_is_raised_and_no_search_counts_as_made():
    class Interrupted(Fake):
        def ask(self, patience, *request):
            if len(self.asked) == 30:
                raise KeyboardInterrupt
            return super().ask(patience, *request)

    with pytest.raises(KeyboardInterrupt):
        settled(shorter, worker=Interrupted(Clock(), shorter))
    assert tuner.is_open(entry())


# --- what is kept ---------------------------------------------------------------------------------
def test_what_was_found_is_used_without_another_search():
    found, _, _ = settled(shorter, each=0.5)
    assert not tuner.is_open(entry())
    assert tuner.usable(task(), entry()) == found.opts
    with Context(BEAM=3):
        assert tuner.is_open(entry()), "wider"
    with Context(BEAM_SECONDS=20):
        assert tuner.is_open(entry()), "longer"
    with Context(BEAM=1, BEAM_SECONDS=20):
        assert tuner.is_open(entry()), "longer, if not wider"


UNLIKELY = (Opt(OptOps.UPCAST, 0, 2), Opt(OptOps.UPCAST, 1, 2), Opt(OptOps.UNROLL, 0, 2))


def known(times, each, **more):
    """What a wider search finds where `UNLIKELY` is known."""
    before = replace(entry(), opts=UNLIKELY, gain=2.0, extent=(1, 10.0))
    database.add([before])
    return before, settled(times, each=each, **more)


def test_a_wider_search_begins_with_what_is_known():
    """There is time for it, and to compare nothing twice."""
    _, (found, worker, _) = known(lambda opts: 0.5 if opts == UNLIKELY else 0.4, each=2.9)
    assert worker.asked[:2] == [worker.own, UNLIKELY]
    assert (found.opts, found.gain, found.extent) == (UNLIKELY, 2.0, (2, 10.0))


def test_a_wider_search_keeps_nothing_that_others_beat():
    _, (found, _, _) = known(lambda opts: 0.8 if opts == UNLIKELY else shorter(opts), each=0.1)
    assert found.opts == ()
    database.clear()
    _, (found, _, _) = known(lambda opts: 1.0, each=0.1)
    assert found.opts is None


def test_what_is_known_stays_where_it_cannot_be_timed_again():
    before, (found, _, _) = known(shorter, each=6.0)
    assert found == before == entry()


def test_lower_shows_what_was_found_and_searches_nothing():
    found, _, _ = settled(shorter)
    x = Tensor.empty(32, 32)
    (program,) = lower(x @ Tensor.empty(32, 32))
    assert program.opts == found.opts == ()
    (other,) = lower(x @ Tensor.empty(32, 32), target="c")
    assert other.opts != ()
    with Context(BEAM=0):
        assert lower(x @ Tensor.empty(32, 32))[0].opts != ()
    assert lower(x + 1)
    assert len(database.read()) == 1


def test_times_of_another_compiler_are_measured_again(monkeypatch):
    settled(shorter)
    monkeypatch.setattr(disk, "code_version", lambda: "another")
    assert tuner.is_open(entry())
    assert tuner.usable(task(), entry()) is None
    found, _, _ = settled(lambda opts: 1.2)
    assert (found.opts, found.code) == (None, "another")


def test_what_is_best_for_one_number_of_threads_is_not_used_for_another():
    assert len({entry(THREADS=n).key for n in (1, 2, 3)}) == 3
    with Context(THREADS=3):
        assert tuner.settings_for_candidates()["THREADS"] == 3


def test_what_changes_the_candidates_is_part_of_the_key():
    assert entry(STRICT_FLOAT=1).key != entry().key


def test_what_other_hardware_found_is_not_used():
    found, _, _ = settled(shorter)
    database.clear()
    database.add([replace(found, hardware="another processor 2 threads")])
    assert tuner.is_open(entry())
    database.add([found])
    assert tuner.usable(task(), entry()) == found.opts == ()


def test_opts_that_do_not_fit_are_not_used():
    assert tuner.usable(task(), replace(entry(), opts=(Opt(OptOps.UPCAST, 9, 4),))) is None


def test_what_is_not_searched():
    target = Device[DEVICE].target
    assert "twice" in tuner.why_not(product(16384), target)
    assert "timing" in tuner.why_not(product(), Device["PYTHON"].target)
    assert entry(NOOPT=1) is None


def test_a_line_says_what_was_found():
    found, _, _ = settled(shorter)
    assert "2.00 times as fast with []" in described(found, 3.0)
    with Context(BEAM=3):
        found, _, _ = settled(lambda opts: 2.0)
    assert "heuristics' choice stays" in described(found, 3.0)


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
        (found,) = database.read().values()
        assert found.tried >= 2
        assert found.opts in (None, program.opts)
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
        found, _, _ = settled(shorter)
        settled(shorter)
    assert found.gain == 2.0
    (complaint,) = capsys.readouterr().err.splitlines()
    assert complaint.startswith("beam: what was found cannot be kept: ")


def test_a_long_search_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(tuner, "EVERY", 0.0)
    monkeypatch.setattr(tuner, "search", lambda *arguments: None)
    with Context(DEBUG=0):
        tuner.opts_for([task(16), task()])
    first, second = capsys.readouterr().err.splitlines()
    assert (first, second) == (
        "search: 1 of 2 kernels, r_16_16_16", "search: 2 of 2 kernels, r_32_32_32",
    )  # fmt: skip
