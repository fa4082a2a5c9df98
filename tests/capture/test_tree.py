"""Argument trees: what tells two calls apart."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor import Tensor
from torpor.capture.tree import Exchange, flatten, same


def structure(tree: Any) -> Any:
    return flatten(tree, [], [], [])


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0), (1, True), (1j, 2j), ([1], (1,)), ((1, 2), Pair(1, 2)), ({"a": 1}, {"b": 1}),
        (None, 0), ("a", b"a"), ({1: 2}, {1.0: 2}), ([], {}), (np.float32(1), np.float64(1)),
        ([[1], 2], [[1, 2]]), (slice(1), slice(1, None)),
    ],
)  # fmt: skip
def test_what_a_program_can_tell_apart_differs(left: Any, right: Any) -> None:
    assert structure(left) != structure(right)
    assert structure(left) == structure(left)


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
trees = st.recursive(
    plain, lambda t: st.lists(t) | st.tuples(t, t) | st.dictionaries(st.text(), t), max_leaves=8
)


@given(trees)
def test_equal_trees_have_equal_hashable_structures(tree: Any) -> None:
    again = copy.deepcopy(tree)
    assert structure(tree) == structure(again)
    assert hash(structure(tree)) == hash(structure(again))


def test_tensors_and_objects_come_out_in_order() -> None:
    first, second, thing = Tensor([1]), Tensor([2]), object()
    tensors: list[Any] = []
    objects: list[Any] = []
    flatten([first, {"a": (thing, second)}, first], tensors, [], objects)
    assert [id(t) for t in tensors] == [id(first), id(second), id(first)]
    assert objects == [thing]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True), (1, 1.0, False), (0.0, -0.0, False), (float("nan"), float("nan"), True),
        ("a", "a", True), ([1], [1], False),
    ],
)  # fmt: skip
def test_same(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected


def test_numbers_come_out_in_order() -> None:
    found: list[Any] = []
    left = flatten([1, {"a": (2.5, True)}, 3], [], found, [])
    assert found == [1, 2.5, 3]
    assert left == flatten([4, {"a": (0.5, True)}, 6], [], [], [])
    assert left != flatten([4, {"a": (5, True)}, 6], [], [], [])


def test_an_exchange_keeps_lists_and_dicts_and_is_undone() -> None:
    inner: list[Any] = [1, 2]
    pair, names = (1, inner), {"a": 3}
    tree = [pair, names]
    exchange = Exchange()

    def written(leaf: Any) -> Any:
        return str(leaf) if type(leaf) is int else leaf

    def read(leaf: Any) -> Any:
        return int(leaf) if type(leaf) is str else leaf

    assert exchange.put(tree, written) is tree
    assert tree == [("1", ["1", "2"]), {"a": "3"}]
    assert tree[0][1] is inner
    inner.append("7")
    exchange.take_back(tree, read)
    assert tree[0] is pair
    assert tree[1] is names
    assert tree == [(1, [1, 2, 7]), {"a": 3}]
