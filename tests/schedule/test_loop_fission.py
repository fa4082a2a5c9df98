"""Loops that do not nest get ranges of their own, with all that runs inside of them."""

import numpy as np
import pytest

from torpor import Tensor


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_a_reduction_inside_a_store_on_the_way_moves_with_it(device: str) -> None:
    """The sum over 17 rows runs in the loop over 7 of another sum, and in that of its own store."""
    x = np.arange(17 * 5 * 7, dtype=np.float64).reshape(17, 5, 7) % 11
    tensor = Tensor(x, device=device)
    rows = tensor.sum(0)
    whole = (tensor - rows).sum((0, 2))
    Tensor.realize(whole, rows)
    np.testing.assert_array_equal(rows.numpy(), x.sum(0))
    np.testing.assert_array_equal(whole.numpy(), (x - x.sum(0)).sum((0, 2)))
