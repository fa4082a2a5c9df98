"""Storages: what is computed already, and what is not."""

from contextlib import suppress

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import GradientError
from torpor.tensor.storage import is_settled


def test_settled_is_what_needs_no_computing():
    x = Tensor([1.0, 2.0]).realize()
    y = x + 1
    assert is_settled(x._storage)
    assert not is_settled(y._storage)
    assert is_settled(y.realize()._storage)
    assert is_settled(y.reshape(2, 1).contiguous().realize()._storage)


def test_a_tensor_on_the_way_that_was_looked_at_makes_no_gradient_vanish():
    for look in (str, Tensor.numpy, Tensor.tolist, Tensor.realize):
        x = Tensor([1.0, 2.0])
        y = x * 2
        look(y)
        with pytest.raises(GradientError, match="nothing leads back from computed"):
            (y * y).sum().gradient(x)
    x, other = Tensor([1.0, 2.0]), Tensor([3.0]).realize()
    assert (other * other).sum().gradient(x)[0].tolist() == [0.0, 0.0]


def test_a_long_way_that_was_computed_early_makes_no_part_of_a_gradient_vanish():
    def walked(x):
        state = x
        for _ in range(200):
            state = (state.roll(1, 0) * 0.5 + x).logsumexp(0) + state
            state = (state - state.mean()).contiguous()
        return state.sum() + state[0]

    asked = Tensor([0.5, 1.0, 2.0], requires_grad=True)
    (wanted,) = walked(asked).gradient(asked)
    for _ in range(3):
        x = Tensor([0.5, 1.0, 2.0])
        with suppress(GradientError):  # whether it is computed early is open
            (found,) = walked(x).gradient(x)
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-4)
