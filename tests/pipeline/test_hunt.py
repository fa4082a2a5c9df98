"""When a candidate has won."""

from __future__ import annotations

import numpy as np
import pytest

from torpor.pipeline.hunt import MARGIN, ROUNDS, gain_of


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
