"""Boxes of memory that are equal by chance: loops over random places compile nothing more then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torpor
from torpor import Tensor

TABLE = np.random.default_rng(3).standard_normal((37, 3))
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
