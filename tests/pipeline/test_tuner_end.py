"""When a candidate has won, in which launches, and what a killed process leaves to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.pipeline.searches import product
from torpor import Context
from torpor.pipeline import tuner
from torpor.pipeline import tuning_database as found
from torpor.pipeline.tuner import MARGIN, ROUNDS, gain_of, typical


@pytest.fixture(autouse=True)
def fresh(tmp_path):
    with Context(CACHE_DIR=str(tmp_path), BEAM=2):
        yield


# --- what has won ---------------------------------------------------------------------------------
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


# --- which launches stand for the others ----------------------------------------------------------
def blocks(heads, rows):
    return [{"v0": head, "v1": row} for head in range(heads) for row in range(rows)]


@pytest.mark.parametrize(("heads", "rows"), [(1, 9), (12, 8), (3, 32), (5, 1)])
def test_the_middle_comes_first_then_both_ends(heads, rows):
    """Of the middle head neither the first block of rows, which does least, nor the last one."""
    middle, first, last = typical(blocks(heads, rows))
    assert abs(2 * middle["v0"] - (heads - 1)) <= 1
    assert abs(2 * middle["v1"] - (rows - 1)) <= 1
    assert first == {"v0": 0, "v1": 0}
    assert last == {"v0": heads - 1, "v1": rows - 1}


def test_every_one_is_a_launch_that_there_is_and_none_comes_twice():
    launches = [{"start": n % 3, "count": 9 - n} for n in range(9)]
    assert all(one in launches for one in typical(launches))
    assert typical([]) == typical([{}, {}, {}]) == [{}]
    assert typical([{"v0": 4}] * 5) == [{"v0": 4}]


# --- what a killed process leaves -----------------------------------------------------------------
SEARCHING = """
from torpor import Context, Tensor
from torpor.pipeline import timing_worker, tuner
tuner.SAVING = 0.0
timing_worker.subprocess.DEVNULL = None  # the other process keeps this one's standard error open
a, b = (Tensor.empty(64, 64) for _ in range(2))
with Context(BEAM=2, BEAM_SECONDS=300):
    (a @ b).realize()
"""


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
            known = found.read()
        process.kill()
        process.communicate(timeout=60)  # until all who could write there are gone
        assert process.returncode == -signal.SIGKILL
    (kept,) = (entry for entry in found.read().values() if len(entry.tried) > 3)
    with Context(BEAM_SECONDS=300):
        made = tuner.task_for(product(64), "CPU")
        assert made.entry == kept, "it is the same kernel"
        assert kept.opts is None, "what was not compared is not used"
        assert kept.spent > 0
        assert not tuner.is_settled(made)
