"""Storages: what is computed already, and what is not."""

from torpor import Tensor
from torpor.tensor.storage import is_settled


def test_settled_is_what_needs_no_computing():
    x = Tensor([1.0, 2.0]).realize()
    y = x + 1
    assert is_settled(x._storage)
    assert not is_settled(y._storage)
    assert is_settled(y.realize()._storage)
    assert is_settled(y.reshape(2, 1).contiguous().realize()._storage)
