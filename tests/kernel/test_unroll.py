"""Sums written out: products with padding are no terms of them, but where floats are strict."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Context, Tensor


def depthwise(side, **settings):
    """A small depthwise convolution; the weights of its first channel are infinite."""
    image = np.arange(2.0 * 16 * side * side, dtype=np.float32).reshape(2, 16, side, side) + 1
    weight = np.ones((16, 1, 3, 3), np.float32)
    weight[0] = np.inf
    with Context(**settings):
        return Tensor(image).conv2d(Tensor(weight), padding=1, groups=16).numpy()


@pytest.mark.parametrize("side", [2, 3, 7])
def test_infinity_times_padding_is_nan_where_floats_are_strict(side):
    loose, strict = depthwise(side), depthwise(side, STRICT_FLOAT=1)
    assert np.isnan(strict[:, 0, 0]).all()
    np.testing.assert_array_equal(loose[:, 1:], strict[:, 1:])


def test_rows_of_padding_are_no_terms():
    inner = depthwise(7)[:, 0, :, 1:-1]
    assert np.isinf(inner).all()
