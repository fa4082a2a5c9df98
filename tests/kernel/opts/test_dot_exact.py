"""Sums of 8-bit products are exact to the last unit, also beyond what float32 holds."""

import numpy as np
import pytest

from torpor import Tensor


@pytest.mark.parametrize(
    ("format", "extreme", "terms"),
    [("int8", -128, 1024), ("int8", -128, 1025), ("uint8", 255, 258), ("uint8", 255, 259)],
)
def test_the_longest_sum(format, extreme, terms):
    row = Tensor(np.full((3, terms), extreme, format)).realize()
    column = Tensor(np.full((terms, 5), extreme, format)).realize()
    result = row.int() @ column.int()
    assert (result.numpy() == extreme * extreme * terms).all()


@pytest.mark.parametrize("size", [31, 64])
def test_random_products_are_exact(size):
    generator = np.random.default_rng(size)
    a, b = (generator.integers(-128, 128, (size, size)).astype(np.int8) for _ in "ab")
    for x, y, want in ((a, b, (a, b)), (a.T, b.view(np.uint8), (a.T, b.view(np.uint8)))):
        got = (Tensor(x).int() @ Tensor(y).int()).numpy()
        assert got.dtype == np.int32
        assert (got == want[0].astype(np.int64) @ want[1].astype(np.int64)).all()
