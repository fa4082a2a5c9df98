"""Boxes of memory that are equal by chance: loops over random places compile nothing more then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torpor
from torpor import Tensor
from torpor.pipeline import likeness

TABLE = np.random.default_rng(3).standard_normal((37, 3))
SIZES = [(9, 9, 9, 10), (8, 12, 8, 9), (9, 5, 12, 11), (5, 5, 13, 14)]
SIZES += [(9, 9, 9, 10), (3, 2, 2, 30), (30, 2, 3, 2), (1, 20, 4, 12), (30, 2, 4, 1)]
FEW = st.lists(st.integers(0, 4), min_size=3, max_size=3)


def batches(passes: int, width: int, places: int) -> list[list[int]]:
    random = np.random.default_rng(width)
    return random.integers(0, places, (passes, width)).tolist()


def stacked(table, places: Sequence[int]):
    join = np.stack if isinstance(table, np.ndarray) else torpor.stack
    return join([table[n : n + 5] for n in places])


@pytest.mark.parametrize(("width", "places"), [(3, 4), (7, 9), (12, 30), (12, 3)])
def test_batches_of_random_parts_compile_nothing_after_a_few_passes(
    width: int, places: int, compiled: list[str]
) -> None:
    x, seen = Tensor(TABLE * width).realize(), []
    for chosen in batches(16, width, places):
        found = (stacked(x, chosen) * 3).sum(1).numpy()
        wanted = (stacked(TABLE * width, chosen) * 3).sum(1)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        seen.append(len(compiled))
    assert seen[5] == seen[-1], seen


def test_inputs_and_targets_one_further(compiled: list[str]) -> None:
    """Where the parts of a batch follow each other, an input is another one's target."""
    x, seen = Tensor(TABLE).realize(), []
    for chosen in batches(16, 8, 6):
        shifted = [n + 1 for n in chosen]
        found = (stacked(x, chosen) * stacked(x, shifted)).sum(2).numpy()
        wanted = (stacked(TABLE, chosen) * stacked(TABLE, shifted)).sum(2)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
        seen.append(len(compiled))
    assert seen[5] == seen[-1], seen


@given(st.lists(st.tuples(FEW, st.integers(1, 3)), min_size=2, max_size=6))
def test_any_places_that_meet_and_part(passes: list[tuple[list[int], int]]) -> None:
    """Boxes used twice, boxes that are equal, both, and neither; places and sizes that change."""
    x = Tensor(TABLE).realize()
    for (a, b, c), rows in passes:
        one, other = x[a : a + 4], x[b : b + 4]
        tail = x[c : c + rows].sum(0)
        found = (one * other + one.exp() - other[:, :1] * tail + x[a : a + 4, 1:2]).numpy()
        first, second = TABLE[a : a + 4], TABLE[b : b + 4]
        rest = TABLE[c : c + rows].sum(0)
        wanted = first * second + np.exp(first) - second[:, :1] * rest + first[:, 1:2]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


@given(st.lists(FEW, min_size=2, max_size=5))
def test_writes_to_places_that_meet(passes: list[list[int]]) -> None:
    x = Tensor(TABLE).realize()
    for a, b, c in passes:
        cache, kept = Tensor(np.zeros((9, 3))).realize(), np.zeros((9, 3))
        for to, of in ((a, b), (b, c), (c, a)):
            cache[to : to + 3] = cache[to : to + 3] + x[of : of + 3]
            kept[to : to + 3] = kept[to : to + 3] + TABLE[of : of + 3]
        np.testing.assert_allclose(cache.numpy(), kept, rtol=1e-13)


@given(st.lists(FEW, min_size=2, max_size=5))
def test_gradients_of_boxes_that_meet(passes: list[list[int]]) -> None:
    for a, b, _ in passes:
        x = Tensor(TABLE, requires_grad=True)
        (x[a : a + 4] * x[b : b + 4].square()).sum().backward()
        wanted = np.zeros_like(TABLE)
        wanted[a : a + 4] += TABLE[b : b + 4] ** 2
        wanted[b : b + 4] += 2 * TABLE[a : a + 4] * TABLE[b : b + 4]
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def test_parts_whose_sizes_depend_on_data(compiled: list[str]) -> None:
    """Four experts, each for the rows that chose it; often two of them have as many."""
    random, seen = np.random.default_rng(7), []
    weights = random.standard_normal((4, 3, 3))
    experts = [Tensor(one, requires_grad=True) for one in weights]
    x = Tensor(TABLE).realize()
    for sizes in SIZES:
        chosen = random.permutation(np.repeat(np.arange(4), sizes))
        wanted, slopes, total = np.zeros_like(TABLE), [], Tensor(np.zeros((37, 3)))
        for number, expert in enumerate(experts):
            (rows,) = torpor.where(Tensor(chosen) == number)
            total = total.index_add(0, rows, (x[rows] @ expert).relu())
            (where,) = np.nonzero(chosen == number)
            hidden = TABLE[where] @ weights[number]
            wanted[where] = np.maximum(hidden, 0)
            slopes.append(TABLE[where].T @ (hidden > 0))
            expert.grad = None
        total.sum().backward()
        np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-10, atol=1e-12)
        for expert, slope in zip(experts, slopes):
            np.testing.assert_allclose(expert.grad.numpy(), slope, rtol=1e-10, atol=1e-12)
        seen.append(len(compiled))
    assert seen[3] == seen[6], seen  # one row alone is another graph


def test_sizes_that_are_in_no_pattern_are_not_looked_at_each_time(monkeypatch) -> None:
    """As of the weights of many layers: their product is that of three sizes."""
    made = []
    graph = likeness.Graph

    def noted(*given):
        made.append(given)
        return graph(*given)

    monkeypatch.setattr(likeness, "Graph", noted)
    random, seen = np.random.default_rng(5), []
    for _ in range(24):
        shape = tuple(random.integers(2, 30, 3).tolist())
        x = random.standard_normal(shape)
        found = Tensor(x.reshape(-1)).reshape(*shape).sum(1).numpy()
        np.testing.assert_allclose(found, x.sum(1), rtol=1e-12, atol=1e-12)
        seen.append(len(made))
    assert seen[4] >= 4 and seen[-1] - seen[11] <= 4


def test_what_was_asked_for_first_goes_where_there_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not all: a loop that is at it would compile its kernels once more."""
    monkeypatch.setattr(likeness, "MOST", 3)
    known: dict[str, list[str]] = {}
    for name in "abcade":
        likeness.remembered(known, name, list).append(name)
    assert known == {"a": ["a", "a"], "d": ["d"], "e": ["e"]}
