"""Smooth categories: densities as PyTorch gives them, draws and their gradients."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, distributions

SHARES = np.array([0.2, 0.3, 0.5])


def test_densities():
    one = distributions.RelaxedOneHotCategorical(Tensor(np.array(0.7)), Tensor(SHARES))
    x = Tensor(np.array([0.1, 0.3, 0.6]))
    np.testing.assert_allclose(one.log_prob(x).item(), 0.6587486501)
    assert one.expand((2,)).log_prob(x).shape == (2,)
    with pytest.raises(NotImplementedError):
        distributions.kl_divergence(one, one)
    half = distributions.RelaxedBernoulli(Tensor(np.array(0.7)), Tensor(np.array(0.3)))
    np.testing.assert_allclose(half.log_prob(0.4).item(), -0.3941998359)


def test_draws_lean_to_the_likelier_and_have_gradients():
    torpor.manual_seed(0)
    logits = Tensor(np.log(SHARES), requires_grad=True)
    one = distributions.RelaxedOneHotCategorical(Tensor(0.3), logits=logits)
    drawn = one.rsample((3000,))
    np.testing.assert_allclose(drawn.sum(-1).detach().numpy(), 1, atol=1e-6)
    found = np.bincount(drawn.argmax(-1).numpy(), minlength=3) / 3000
    np.testing.assert_allclose(found, SHARES, atol=0.04)
    assert abs(drawn[:, 0].sum().gradient(logits)[0].numpy()).max() > 1
    hard = distributions.OneHotCategoricalStraightThrough(logits=logits)
    made = hard.rsample((4,))
    assert set(np.unique(made.detach().numpy().round(12))) == {0.0, 1.0}
    slope = made[:, 0].sum().gradient(logits)[0].numpy()
    shares = np.exp(np.log(SHARES))
    np.testing.assert_allclose(slope, 4 * shares[0] * (np.eye(3)[0] - shares), atol=1e-6)
    chance = Tensor(np.array(0.3))
    smooth = distributions.RelaxedBernoulli(0.2, chance).sample((3000,)).numpy()
    assert abs((smooth > 0.5).mean() - 0.3) < 0.04
