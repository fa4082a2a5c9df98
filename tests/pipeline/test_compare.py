"""Bits, distances, and what rounding allows."""

from __future__ import annotations

import numpy as np

from torpor import Tensor
from torpor.pipeline.compare import allowed, distance, longest_sum, same


def test_nan_is_nan_and_minus_zero_is_zero():
    one = np.array([np.nan, 0.0, np.inf, 1.0])
    assert same(one, np.array([np.nan, -0.0, np.inf, 1.0]))
    assert not same(one, np.array([np.nan, 0.0, -np.inf, 1.0]))
    assert distance(one, np.array([np.nan, 0.0, np.inf, 2.0])) == 0.5
    assert distance(one, np.array([1.0, 0.0, np.inf, 1.0])) == float("inf")
    assert distance(np.array([np.nan]), np.array([1.0])) == float("inf")


def test_whole_numbers_have_no_rounding():
    assert allowed(np.array([1]), 1000) == 0.0
    assert allowed(np.array([1], np.float32), 10_000) < 1.5e-5
    assert allowed(np.array([1], np.float64), 100) < 1e-14


def test_the_longest_sum():
    (item,) = (Tensor.empty(8, 50, 3).sum((1, 2)) + Tensor.empty(8, 7).sum(1)).schedule()
    assert longest_sum(list(item.ast.toposort())) == 150
    (item,) = (Tensor.empty(8) + 1).schedule()
    assert longest_sum(list(item.ast.toposort())) == 1


def test_two_orders_of_a_sum_are_no_further_apart_than_allowed():
    numbers = np.random.default_rng(3).standard_normal((50, 4096)).astype(np.float32)
    forth, parts = np.zeros(50, np.float32), np.zeros((50, 16), np.float32)
    for column in range(4096):
        forth += numbers[:, column]
        parts[:, column % 16] += numbers[:, column]
    apart = distance(parts.sum(1), forth)
    assert 0 < apart < allowed(forth, 4096)
    assert distance(forth + 0.01, forth) > allowed(forth, 4096)
