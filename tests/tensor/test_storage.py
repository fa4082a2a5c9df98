"""Storages: what is computed already, and what is not."""

from contextlib import suppress

import numpy as np
import pytest

import torpor
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


def test_extremes_that_are_known_are_the_elements_that_gradients_compare_with_them():
    """Messages of a graph that nobody holds are computed again for a gradient, which may round
    otherwise: none would be the greatest any more, and the gradient be lost.
    """
    random = np.random.default_rng(0)
    shapes = (6, 8), (8, 16), (8,), (5, 16), (5,), (6, 5)
    x, weight, bias, last, shift, way = (Tensor(random.standard_normal(one)) for one in shapes)
    for one in (x, weight, bias, last, shift):
        one.requires_grad_()
    sources = Tensor([0, 1, 2, 3, 4, 0, 2, 5, 1, 3])
    targets = Tensor([1, 2, 3, 4, 5, 2, 0, 1, 4, 0])

    def greatest(rows):
        pairs = rows.index_select(0, targets).cat(rows.index_select(0, sources), dim=-1)
        messages = torpor.nn.functional.linear(pairs[:, 0], weight, bias).unsqueeze(1)
        places = targets.reshape(-1, 1, 1).expand(10, 1, 8)
        none = messages.new_zeros(6, 1, 8)
        return none.scatter_reduce(0, places, messages, "amax", include_self=False)

    rows = x.reshape(6, 1, 8)
    out = torpor.nn.functional.linear(rows.cat(greatest(rows), dim=-1)[:, 0], last, shift)
    (out * way).sum().backward()
    for looked_at in (out, x.grad, shift.grad, last.grad):
        looked_at.sum().item()
    expected = (way.numpy() @ last.detach().numpy()[:, 8:]).sum(0)  # one message for each element
    np.testing.assert_allclose(bias.grad.numpy(), expected, 1e-12)
