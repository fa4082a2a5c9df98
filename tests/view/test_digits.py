"""Composition by digits agrees with visiting every element, and misses little."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.view.oracle import fits_one_view, movements, offsets
from torpor.view import View
from torpor.view.digits import Digit, compose_digits, merged, tighten


@settings(max_examples=200, deadline=None)
@given(movements(steps=4, most=48), st.data())
def test_what_digits_find_walks_the_same(case, data):
    tracker, array = case
    if len(tracker.views) != 1 or not array.size:
        return
    outer, picked = data.draw(movements(steps=3, most=48))
    if len(outer.views) != 1 or picked.max(initial=-1) >= array.size:
        return
    one = compose_digits(tracker.views[0], outer.views[0])
    expected = np.where(picked >= 0, array.reshape(-1)[np.maximum(picked, 0)], -1)
    if one is not None:
        np.testing.assert_array_equal(offsets(one), expected)


def test_digits_alone_find_every_reshape_of_unmasked_views():
    shapes = [(12,), (2, 6), (6, 2), (3, 4), (4, 3), (2, 2, 3), (3, 2, 2), (2, 3, 2)]
    for old, new in itertools.product(shapes, shapes):
        for order in itertools.permutations(range(len(old))):
            inner = View.create(old).permute(order)
            array = np.arange(12).reshape(old).transpose(order).reshape(new)
            one = compose_digits(inner, View.create(new))
            assert (one is not None) == fits_one_view(array)
            if one is not None:
                np.testing.assert_array_equal(offsets(one), array)


@settings(max_examples=60, deadline=None)
@given(movements(steps=5, most=64))
def test_merged_dimensions_walk_the_same(case):
    tracker, array = case
    for view in tracker.views[-1:]:
        dimensions, offset = merged(view)
        flat = View.create(
            [d.size for d in dimensions],
            [d.stride for d in dimensions],
            offset,
            tuple((d.low, d.high) for d in dimensions),
        )
        np.testing.assert_array_equal(offsets(flat).reshape(-1), offsets(view).reshape(-1))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-6, 6),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(1, 4)), max_size=3),
    st.integers(-6, 6),
    st.integers(0, 6),
)
def test_tightening_loses_no_valid_point(start, axes, low, length):
    digit = Digit(start, tuple(step for step, _, _ in axes))
    box = [(first, first + size) for _, first, size in axes]
    found = tighten(digit, low, low + length, box)
    for point in itertools.product(*(range(*limits) for limits in box)):
        value = start + sum(s * x for s, x in zip(digit.steps, point, strict=True))
        if low <= value < low + length:
            assert found is not None
            assert all(a <= x < b for x, (a, b) in zip(point, found, strict=True))
