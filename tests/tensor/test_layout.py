"""Whether views are in row-major order, against NumPy's views of the same memory."""

import numpy as np
import pytest

from torpor import Tensor

CASES = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:3],
    "every other row": lambda x: x[::2],
    "columns": lambda x: x[:, 1:3],
    "one row": lambda x: x[2],
    "one column": lambda x: x[:, 2],
    "one row of columns": lambda x: x[2:3, 1:4],
    "new axis": lambda x: x[:, None],
    "cube": lambda x: x.reshape(2, 2, 6),
    "planes of a cube": lambda x: x.reshape(2, 2, 6)[1],
    "parts of a cube": lambda x: x.reshape(2, 2, 6)[:, 1],
    "nothing": lambda x: x[:, 3:3],
}


@pytest.mark.parametrize("name", CASES)
def test_order_of_views(name):
    array = np.arange(24).reshape(4, 6)
    assert CASES[name](Tensor(array)).is_contiguous() == CASES[name](array).flags.c_contiguous


def test_transposed_expanded_reversed_and_windowed_views_are_not():
    x = Tensor.arange(24).reshape(4, 6)
    for view in (x.T, x.unsqueeze(0).expand(2, 4, 6), x.unfold(1, 2, 1), x.diagonal()):
        assert not view.is_contiguous()
    assert not x.T.reshape(-1).is_contiguous()
    assert x.T.T.is_contiguous()
    assert x.unsqueeze(0).expand(1, 4, 6).is_contiguous()
    assert x.unfold(1, 2, 2).is_contiguous()


def test_what_was_computed_lies_in_order():
    x = Tensor.arange(24).reshape(4, 6)
    assert (x.T + 1).is_contiguous()
    assert x.T.contiguous().is_contiguous()
    assert x.flip(0).is_contiguous()
    leaf = Tensor.ones(2, 3, requires_grad=True)
    assert leaf.is_contiguous()
    assert not leaf.T.is_contiguous()
