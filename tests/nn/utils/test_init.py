"""Norms of gradients against NumPy."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import TorporError

VALUES = [np.arange(6.0, dtype="f4").reshape(2, 3) - 2, np.array(3.0, "f4")]


def parameters():
    made = [Tensor(value, requires_grad=True) for value in VALUES]
    for one, value in zip(made, VALUES, strict=True):
        one.grad = Tensor(value * 2)
    return [*made, Tensor([1.0], requires_grad=True)]


@pytest.mark.parametrize("order", [1, 2, 3, np.inf])
@pytest.mark.parametrize("most", [1.0, 100.0])
def test_gradients_are_scaled_together(order, most):
    made = parameters()
    norm = nn.utils.clip_grad_norm_(made, most, norm_type=order)
    flat = np.concatenate([value.ravel() * 2 for value in VALUES])
    expected = np.linalg.norm(flat, order)
    np.testing.assert_allclose(norm.item(), expected, rtol=1e-6)
    share = min(1.0, most / (expected + 1e-6))
    for one, value in zip(made, VALUES, strict=False):
        np.testing.assert_allclose(one.grad.numpy(), value * 2 * share, rtol=1e-5)
    assert made[-1].grad is None


def test_norms_that_are_not_finite():
    (one, *_) = parameters()
    one.grad = Tensor([[np.inf, 0, 0], [0, 0, 0]])
    with pytest.raises(TorporError, match="norm of the gradients is inf"):
        nn.utils.clip_grad_norm_(one, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_([], 1.0, foreach=True).item() == 0
    with pytest.raises(TorporError, match="norm of the gradients is nan"):
        nn.utils.get_total_norm([Tensor([np.nan])], error_if_nonfinite=True)


def test_gradients_are_clipped_each():
    made = parameters()
    nn.utils.clip_grad_value_(made, 1.5)
    assert made[0].grad.tolist() == [[-1.5, -1.5, 0], [1.5, 1.5, 1.5]]


def test_parameters_as_a_vector():
    made = parameters()
    flat = nn.utils.parameters_to_vector(made)
    assert flat.tolist() == [-2, -1, 0, 1, 2, 3, 3, 1]
    nn.utils.vector_to_parameters(flat * 2, made)
    assert made[1].item() == 6 and made[0].tolist() == [[-4, -2, 0], [2, 4, 6]]
    with pytest.raises(TorporError, match="7 elements"):
        nn.utils.vector_to_parameters(flat[:7], made)


def test_gradients_are_scaled_to_a_known_norm():
    made = parameters()
    nn.utils.clip_grads_with_norm_(made, 1.0, Tensor(4.0))
    np.testing.assert_allclose(made[1].grad.numpy(), VALUES[1] * 0.5, rtol=1e-5)
    assert nn.utils.skip_init(nn.Linear, 2, 3).weight.shape == (3, 2)


def test_gradients_are_clipped_in_place():
    one, other = (Tensor.ones(2, requires_grad=True) for _ in range(2))
    (one + other).sum().backward()
    before, view = one.grad, one.grad.reshape(2, 1)
    nn.utils.clip_grad_value_([one], 0.5)
    nn.utils.clip_grad_norm_([one], 0.5)
    assert one.grad is before and view.tolist() == [[before[0].item()], [before[1].item()]]
    assert abs(before.norm().item() - 0.5) < 1e-5 and other.grad.tolist() == [1.0, 1.0]
    turned = Tensor([3 + 4j], requires_grad=True)
    turned.abs().sum().backward()
    kept = turned.grad
    nn.utils.clip_grad_norm_([turned], 0.25)
    assert abs(kept.abs().item() - 0.25) < 1e-5
