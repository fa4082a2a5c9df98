"""Remembered arithmetic on shapes, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torpor import Variable
from torpor.graph import plain

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(SHAPES, st.lists(st.integers(-1, 8), max_size=4).map(tuple))
def test_is_reshape(old, new):
    try:
        fits = -1 not in new and np.empty(old).reshape(new).shape == new
    except ValueError:
        fits = False
    assert plain.is_reshape(old, new) == fits


@given(SHAPES, st.data())
def test_permuted(old, data):
    order = tuple(data.draw(st.permutations(range(len(old)))))
    moves = order != tuple(range(len(old)))
    assert plain.permuted(old, order) == (np.empty(old).transpose(order).shape if moves else None)
    assert plain.permuted(old, (*order, 0)) is None
    if order:
        assert plain.permuted(old, (order[0] - len(old), *order[1:])) is None


@given(SHAPES, st.lists(st.integers(-1, 4), max_size=5).map(tuple))
def test_aligned(old, new):
    try:
        fits = -1 not in new and np.broadcast_to(np.empty(old), new).shape == new
    except ValueError:
        fits = False
    wanted = (1,) * (len(new) - len(old)) + old if fits else None
    assert plain.aligned(old, new) == wanted


@given(SHAPES)
def test_reduced(old):
    array = np.empty(old)
    for count in range(len(old) + 1):
        for axes in itertools.permutations(range(len(old)), count):
            found = plain.reduced(old, axes)
            if 0 in old:
                assert found is None
                continue
            over, ones, left = found
            assert array.sum(axes, keepdims=True).shape == ones
            assert array.sum(axes).shape == left
            assert list(over) == [axis for axis in sorted(axes) if old[axis] != 1]


def test_what_needs_a_closer_look():
    n = Variable("n", 1, 4)
    assert not plain.is_reshape((n, 2), (2, 4))
    assert plain.aligned((n,), (2, 4)) is None
    assert plain.reduced((n, 2), (1,)) is None
    assert plain.permuted((n, 2), (1, 0)) == (2, n)
    for axes in ((0, 0), (2,), (-1,)):
        assert plain.reduced((3, 4), axes) is None
