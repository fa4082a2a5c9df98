"""The engine, with peers that only pretend to work and a clock that only they move."""

from __future__ import annotations

import dataclasses
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.engine import MOST_CALLS, PIECE, WARMING, Effort, race, relative_error
from bench.libraries import Contender
from bench.workload import Workload

ROUNDS = 4
WARM = 21  # calls of 2.4 ms that take as long as five samples of 10 ms


class FakeClock:
    """Seconds pass when somebody says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakePeer(Contender):
    """Doubles its input; each call takes `seconds`, the first one `cold` more."""

    module = "math"

    def __init__(self, name: str, clock: FakeClock, seconds: float, cold: float = 0.0):
        self.name = self.key = name
        self.clock, self.seconds, self.cold = clock, seconds, cold
        self.seen: list[Any] = []
        self.read_elements = 0

    def arrays(self, given):
        return list(given)

    def prepare(self, workload, inputs):
        function = workload.functions[self.key]
        self.clock.now += self.cold

        def call(x):
            self.clock.now += self.seconds
            self.seen.append(x)
            return function(x)

        return call

    def read(self, output):
        return output

    def element(self, output):
        self.read_elements += 1
        return super().element(output)


def double(x):
    return 2 * x


def doubling(*names: str, **functions: Any) -> Workload:
    return Workload(
        "fake/double",
        lambda generator: (generator.standard_normal(8),),
        {**dict.fromkeys(names, double), **functions},
        double,
        against=("theirs",),
    )


def run(workload, peers, clock, **changes):
    effort = Effort(ROUNDS, sample=0.01, budget=1e9, slow=60.0)
    effort = dataclasses.replace(effort, **changes)
    return race(workload, peers, effort, clock, settle=lambda: None)


@pytest.fixture
def clock():
    return FakeClock()


def test_times_are_a_calls_and_cold_is_the_first_call_with_its_preparation(clock):
    peers = [FakePeer("ours", clock, 0.001, cold=3.0), FakePeer("theirs", clock, 0.5)]
    ours, theirs = run(doubling("ours", "theirs"), peers, clock)
    assert ours.samples == pytest.approx([0.001] * ROUNDS)
    assert theirs.samples == pytest.approx([0.5] * ROUNDS)
    assert (ours.cold, theirs.cold) == pytest.approx((3.001, 0.5))
    assert (ours.median, ours.spread, ours.error) == pytest.approx((0.001, 0.0, 0.0), abs=1e-9)


def test_a_short_call_is_repeated_until_a_sample_is_long_enough(clock):
    quick, slow = FakePeer("ours", clock, 0.0024), FakePeer("theirs", clock, 0.5)
    run(doubling("ours", "theirs"), [quick, slow], clock)
    # The check, some until it has settled, then one unmeasured and the sample itself.
    assert len(quick.seen) == 1 + WARM + ROUNDS * (1 + 4)
    assert len(slow.seen) == 1 + 3 + ROUNDS * (1 + 1)


@pytest.mark.parametrize("seconds", [0.002, 0.0001, 0.00001])
def test_everybody_has_settled_before_the_first_sample(clock, seconds):
    """A library that tries both ways in its first calls has chosen the quick one."""

    def trying(x):
        clock.now += seconds * (len(peer.seen) % 2 and len(peer.seen) < 0.04 / seconds)
        return 2 * x

    peer = FakePeer("ours", clock, seconds)
    (result,) = run(doubling(ours=trying), [peer], clock)
    assert result.samples == pytest.approx([seconds] * ROUNDS)


def test_calls_that_take_no_time_settle_too(clock):
    peer = FakePeer("ours", clock, 1e-9)
    run(doubling("ours"), [peer], clock)
    assert len(peer.seen) <= 1 + WARMING + ROUNDS * (1 + MOST_CALLS)


def test_a_call_that_compiles_does_not_make_samples_short(clock):
    def compiling(x):
        clock.now += 0.4 * (len(peer.seen) in (2, 4))
        return 2 * x

    peer = FakePeer("ours", clock, 0.0001)
    run(doubling(ours=compiling), [peer], clock)
    assert len(peer.seen) > ROUNDS * 100


def test_contenders_take_turns_and_another_one_begins_each_round(clock):
    order: list[str] = []

    def noting(name):
        def function(x):
            order.append(name)
            return 2 * x

        return function

    peers = [FakePeer(name, clock, 0.5) for name in "abc"]
    run(doubling(**{name: noting(name) for name in "abc"}), peers, clock)
    sampled = order[3 * 4 :: 2]
    assert "".join(sampled) == "abc" + "bca" + "cab" + "abc"


def test_inputs_change_from_round_to_round_and_an_element_is_read_after_each(clock):
    peer = FakePeer("ours", clock, 0.5)
    run(doubling("ours"), [peer], clock)
    by_round = peer.seen[4::2]
    assert all(a is not b for a, b in pairwise(by_round))
    assert peer.read_elements == 1 + ROUNDS


def test_a_wrong_answer_has_no_time(clock):
    peer = FakePeer("ours", clock, 0.5)
    (result,) = run(doubling(ours=lambda x: 2 * x + 1e-3), [peer], clock)
    assert (result.status, result.samples) == ("wrong", [])
    assert result.error > 1e-5


def test_without_a_reference_a_result_must_be_finite(clock):
    workload = doubling("theirs", ours=lambda x: x / 0.0)
    workload = dataclasses.replace(workload, reference=None)
    peers = [FakePeer(name, clock, 0.5) for name in ("ours", "theirs")]
    with np.errstate(divide="ignore"):
        ours, theirs = run(workload, peers, clock)
    assert (ours.status, theirs.status) == ("wrong", "ok")


def test_an_operation_that_is_not_there_is_missing_and_the_others_go_on(clock):
    peers = [FakePeer(name, clock, 0.5) for name in ("ours", "theirs", "nobody")]
    workload = doubling("theirs", ours=lambda x: x.no_such_method())
    ours, theirs, nobody = run(workload, peers, clock)
    assert (ours.status, nobody.status) == ("missing", "missing")
    assert "no_such_method" in ours.detail
    assert len(theirs.samples) == ROUNDS


def test_one_that_fails_in_the_middle_loses_only_itself(clock):
    calls = iter(range(100))

    def failing(x):
        if next(calls) > 6:
            raise RuntimeError("out of paper\nand of ink")
        return 2 * x

    peers = [FakePeer(name, clock, 0.5) for name in ("ours", "theirs")]
    ours, theirs = run(doubling("theirs", ours=failing), peers, clock)
    assert (ours.status, ours.detail) == ("failed", "RuntimeError: out of paper")
    assert len(theirs.samples) == ROUNDS


def test_one_that_is_not_installed_is_skipped_and_says_so(clock):
    peer = FakePeer("ours", clock, 0.5)
    peer.module = "no_such_module_anywhere"
    (result,) = run(doubling("ours"), [peer], clock)
    assert (result.status, result.detail) == (
        "skipped",
        "no_such_module_anywhere is not installed",
    )


def test_no_round_begins_after_the_budget_but_there_are_two(clock):
    peer = FakePeer("ours", clock, 0.5)
    (result,) = run(doubling("ours"), [peer], clock, rounds=100, budget=0.1)
    assert len(result.samples) == 2
    (result,) = run(doubling("ours"), [peer], clock, rounds=100, budget=4.5)
    assert len(result.samples) == 5


def wavering(clock, name, seconds, share):
    """A peer whose samples take turns between two times, `share` of the middle apart."""
    peer = FakePeer(name, clock, seconds)

    def call(x):
        clock.now += seconds * share * (peer.read_elements % 2)
        return 2 * x

    return peer, call


@pytest.mark.parametrize(
    ("who", "share", "rounds"),
    [
        ("torpor", 0.5, 12),  # ours wavers
        ("theirs", 0.5, 12),  # so does the best peer
        ("theirs", 0.05, ROUNDS),  # by little
        ("slower", 0.5, ROUNDS),  # a peer that counts but is not the best
        ("nobody", 0.5, ROUNDS),  # one that does not count
    ],
)
def test_where_samples_lie_far_apart_everybody_gets_more_rounds(clock, who, share, rounds):
    times = {"torpor": 0.5, "theirs": 0.6, "slower": 0.9, "nobody": 0.1}
    peers, functions = zip(*(wavering(clock, n, t, share * (n == who)) for n, t in times.items()))
    workload = doubling(**dict(zip(times, functions, strict=True)))
    workload = dataclasses.replace(workload, against=("theirs", "slower"))
    results = run(workload, peers, clock, most=12, extra=1e9)
    assert [len(result.samples) for result in results] == [rounds] * 4


def test_whether_there_are_more_rounds_is_no_matter_of_who_is_faster(clock):
    def rounds(ours, theirs):
        pairs = [wavering(clock, n, t, 0.5) for n, t in (("torpor", ours), ("theirs", theirs))]
        workload = doubling(torpor=pairs[0][1], theirs=pairs[1][1])
        found = run(workload, [peer for peer, _ in pairs], clock, most=9, extra=1e9)
        return [len(result.samples) for result in found]

    assert rounds(0.5, 0.7) == rounds(0.7, 0.5) == [9, 9]


def test_further_rounds_end_with_their_time(clock):
    peer, call = wavering(clock, "torpor", 0.5, 0.5)
    (result,) = run(doubling(torpor=call), [peer], clock, most=100, extra=3.0)
    assert ROUNDS < len(result.samples) <= ROUNDS + 4


def test_quiet_samples_end_further_rounds(clock):
    """The first four waver; once the quartiles are near each other there are no more."""
    peer = FakePeer("torpor", clock, 0.5)

    def call(x):
        clock.now += 0.5 * (peer.read_elements in (1, 2))
        return 2 * x

    (result,) = run(doubling(torpor=call), [peer], clock, most=100, extra=1e9)
    assert len(result.samples) == 2 * ROUNDS + ROUNDS


def test_what_is_slow_is_called_three_times_and_not_again(clock):
    slow, quick = FakePeer("ours", clock, 70.0), FakePeer("theirs", clock, 0.5)
    ours, theirs = run(doubling("ours", "theirs"), [slow, quick], clock)
    assert (ours.samples, len(slow.seen)) == ([pytest.approx(70.0)], 3)
    assert len(theirs.samples) == ROUNDS


def test_a_call_that_was_held_up_is_not_slow(clock):
    def stalling(x):
        clock.now += 100.0 * (len(peer.seen) == 2)
        return 2 * x

    peer = FakePeer("ours", clock, 0.5)
    (result,) = run(doubling(ours=stalling), [peer], clock)
    assert len(result.samples) == ROUNDS


@pytest.mark.parametrize(
    ("output", "expected", "error"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.5], [3.0, 4.0], 0.1),
        ([np.nan, 4.0], [3.0, 4.0], np.inf),
        ([[3.0, 4.0]], [3.0, 4.0], np.inf),
        ([0.25], [0.0], 0.25),
    ],
)
def test_the_error_is_relative_l2(output, expected, error):
    found = relative_error([np.array(output)], [np.array(expected)])
    assert found == pytest.approx(error)


@pytest.mark.parametrize("shape", [(PIECE - 1,), (3, PIECE), (2, PIECE + 1), (5, 7, 301)])
def test_long_outputs_are_compared_as_a_whole(shape):
    """In whatever order they lie."""
    generator = np.random.default_rng(0)
    wanted = generator.standard_normal(shape)
    output = np.asfortranarray(wanted + 1e-3 * generator.standard_normal(shape), np.float32)
    error = np.linalg.norm(output.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    assert relative_error([output], [wanted]) == pytest.approx(error, rel=1e-9)
    output.reshape(-1, order="A")[-1] = np.nan
    assert relative_error([output], [wanted]) == np.inf


def test_an_output_too_few_is_an_error():
    assert relative_error([], [np.ones(2)]) == np.inf


def test_a_result_is_gone_before_the_next_call(clock):
    """A lazy library finds a value that is still there again, and computes nothing."""
    results: list[weakref.ref[np.ndarray]] = []

    def alone(x):
        assert [made() for made in results] == [None] * len(results)
        output = 2 * x
        results.append(weakref.ref(output))
        return output

    peer = FakePeer("ours", clock, 0.0024)
    (result,) = run(doubling(ours=alone), [peer], clock)
    assert (result.status, result.detail) == ("ok", "")
    assert len(results) == 1 + WARM + ROUNDS * (1 + 4)
