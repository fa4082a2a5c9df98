"""When a candidate has won, and what a killed process leaves to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from torpor import Context, Tensor
from torpor.pipeline import found, search
from torpor.pipeline.hunt import MARGIN, ROUNDS, Hunt, gain_of
from torpor.pipeline.watch import Watch


def turns(*ratios):
    """Times of both: the candidate takes a second where it wins, and two where it does not."""
    return [(ratio, 1.0) if ratio > 1 else (2 * ratio, 2.0) for ratio in ratios]


@pytest.mark.parametrize(
    ("ratios", "gain"),
    [
        ([1.5] * 40, 1.5),
        ([1.04] * 40, 1.04),
        ([1.02] * 40, 1.0),  # too little
        ([1.0] * 40, 1.0),
        ([0.5] * 40, 1.0),
        ([1.5] * 30 + [0.8] * 10, 1.5),
        ([1.5] * 3, 1.5),
        ([1.5] * 2 + [1.0], 1.0),  # of three turns all have to be won
        ([1.5] * 10, 1.5),
        ([1.5] * 9 + [1.0], 1.0),
        ([1.5] * 29 + [1.0] * 11, 1.0),  # could be luck
    ],
)
def test_it_wins_by_a_margin_and_oftener_than_by_luck(ratios, gain):
    assert gain_of(turns(*ratios)) == gain


def test_one_best_run_of_the_heuristics_choice_is_enough_to_keep_it():
    assert gain_of([(1.5, 1.0)] * 39 + [(0.9, 1.0)]) == 1.0


def test_equals_hardly_ever_win_however_noisy_the_machine():
    random = np.random.default_rng(0)
    noise = 1 + random.exponential(0.3, (1000, ROUNDS, 2))
    assert sum(gain_of([tuple(pair) for pair in pairs]) > 1 for pairs in noise) <= 5


def test_what_is_a_third_faster_mostly_wins_in_spite_of_noise():
    random = np.random.default_rng(0)
    noise = (1 + random.exponential(0.2, (1000, ROUNDS, 2))) * (1.33, 1.0)
    gains = [gain_of([tuple(pair) for pair in pairs]) for pairs in noise]
    assert np.mean([gain > MARGIN for gain in gains]) > 0.9


# --- what a killed process leaves -----------------------------------------------------------------
SEARCHING = """
from torpor import Context, Tensor
from torpor.pipeline import hunt, judge
hunt.SAVING = 0.0
judge.subprocess.DEVNULL = None  # the other processes keep this one's standard error open
a, b = (Tensor.empty(64, 64) for _ in range(2))
with Context(BEAM=2, BEAM_SECONDS=300):
    (a @ b).realize()
"""


class Nobody:
    """Measures nothing."""

    def ask(self, patience, *request):
        raise AssertionError(request)


def kernel():
    a, b = (Tensor.empty(64, 64) for _ in range(2))
    (item,) = (a @ b).schedule()
    return item.ast


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_after_kill_9_nothing_runs_on_and_the_next_search_goes_on_from_there(tmp_path):
    environment = {**os.environ, "TORPOR_CACHE_DIR": str(tmp_path), "TORPOR_CHECK": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCHING], stderr=subprocess.PIPE, env=environment
    )
    with process:
        known = {}
        while not any(len(entry.tried) > 3 for entry in known.values()):
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.02)
            with Context(CACHE_DIR=str(tmp_path)):
                known = found.read()
        process.kill()
        process.communicate(timeout=60)  # until all who could write there are gone
        assert process.returncode == -signal.SIGKILL
    with Context(CACHE_DIR=str(tmp_path), BEAM=2, BEAM_SECONDS=300):
        (kept,) = (entry for entry in found.read().values() if len(entry.tried) > 3)
        made = search.task_for(kernel(), "CPU")
    assert made.entry == kept, "it is the same kernel"
    assert kept.opts is None, "what was not compared is not used"
    assert not search.is_settled(made)
    goes_on = Hunt(made, Nobody(), Watch(), time.monotonic)
    assert goes_on.before == kept.spent > 0
    assert goes_on.search.tried == set(kept.tried)
