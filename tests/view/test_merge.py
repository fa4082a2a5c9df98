"""Merging dimensions: the documented results, and that merged dimensions walk the same."""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.view.oracle import movements, offsets
from torpor.ir import Variable
from torpor.view import View, merge_dims


def test_what_the_documents_show():
    assert merge_dims((2, 2, 2), (4, 2, 1)) == ((8, 1, 8),)
    assert merge_dims((2, 2, 2), (0, 0, 1)) == ((4, 0, 0), (2, 1, 2))


def test_one_valid_index_of_stride_0_merges_into_the_next():
    assert merge_dims((3, 4), (0, 1), ((1, 2), (0, 4))) == ((12, 1, 4),)
    view = View.create((3, 4), mask=((1, 2), (1, 4)))
    assert view.minify() == View.create((12,), mask=((5, 8),))


@pytest.mark.parametrize(("mask", "count"), [(((0, 2), (1, 4)), 2), (((1, 2), (0, 4)), 1)])
def test_a_partial_mask_does_not_merge_backwards(mask, count):
    assert len(merge_dims((2, 4), (4, 1), mask)) == count


def test_symbolic_dimensions_merge():
    size = Variable("n", 1, 10)
    ((merged, stride, real),) = merge_dims((size, 3), (3, 1))
    assert (merged, stride, real) == ((size * 3).simplify(), 1, (size * 3).simplify())


@settings(max_examples=100, deadline=None)
@given(movements(steps=5, most=64))
def test_minify_walks_the_same_in_no_more_dimensions(case):
    for view in case[0].views:
        small = view.minify()
        assert len(small.shape) <= max(len(view.shape), 1)
        np.testing.assert_array_equal(offsets(small).reshape(-1), offsets(view).reshape(-1))
