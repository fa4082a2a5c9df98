"""Distributions of matrices: by special cases, sums over the density, and moments of draws."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor import distributions as d
from torpor.base.errors import ShapeError, ValueRangeError

RANDOM = np.random.default_rng(3)
COVARIANCE = np.eye(3) + 0.4
DRAWN = 20_000


@pytest.mark.parametrize("concentration", [0.7, 1.0, 3.0])
def test_correlations(concentration):
    """Of a correlation r of two, the density is in proportion to (1 - r^2)^(concentration - 1); of
    any two of n, it is so with (n - 2) / 2 more: Lewandowski et al., 2009, section 3.
    """
    torpor.manual_seed(0)
    two, four = (d.LKJCholesky(n, Tensor(np.array(concentration))) for n in (2, 4))
    angle = (np.arange(4000) + 0.5) / 4000 * np.pi
    zero, r, root = np.zeros_like(angle), np.cos(angle), np.sin(angle)
    factors = np.stack([zero + 1, zero, r, root], -1).reshape(-1, 2, 2)
    mass = np.exp(two.log_prob(Tensor(factors)).numpy()) * root * np.pi / 4000
    assert np.isclose(mass.sum(), 1, atol=1e-3)
    drawn = four.sample((DRAWN,))
    assert four.support.check(drawn).all().item()
    whole = (drawn @ drawn.mT).numpy()
    spread = whole[:, *np.tril_indices(4, -1)].var(0)
    assert np.allclose(spread, 1 / (2 * concentration + 3), rtol=0.06)
    assert four.expand((2,)).log_prob(drawn[:5].unsqueeze(1)).shape == (5, 2)
    with pytest.raises(ValueRangeError, match="dim of 2 or more"):
        d.LKJCholesky(1)


def test_squares_of_normal_vectors():
    torpor.manual_seed(1)
    small, gamma = d.Wishart(Tensor(3.5), Tensor([[2.0]])), d.Gamma(1.75, 0.25)
    assert np.isclose(small.log_prob(Tensor([[1.5]])).item(), gamma.log_prob(1.5).item())
    assert np.isclose(small.entropy().item(), gamma.entropy().item())
    degrees = Tensor(np.array([4.0, 7.5]))
    one = d.Wishart(degrees, Tensor(COVARIANCE))
    drawn = one.sample((DRAWN,))
    assert one.support.check(drawn[:50]).all().item()
    error = 5 * (one.variance.numpy() / DRAWN) ** 0.5
    assert (abs(drawn.numpy().mean(0) - one.mean.numpy()) < error).all()
    assert np.allclose(drawn.numpy().var(0), one.variance.numpy(), rtol=0.2)
    assert np.allclose(-one.log_prob(drawn).mean(0).numpy(), one.entropy().numpy(), atol=0.1)
    again = d.Wishart(degrees, precision_matrix=one.precision_matrix)
    assert np.allclose(again.log_prob(drawn[0]).numpy(), one.log_prob(drawn[0]).numpy())
    assert np.isnan(d.Wishart(4.0, Tensor(COVARIANCE)).mode.numpy()).all()
    with pytest.raises(ValueRangeError, match=r"df of Wishart must .*found 2\.0"):
        d.Wishart(2.0, Tensor(COVARIANCE))


def test_covariances_of_low_rank():
    torpor.manual_seed(2)
    loc, factor = RANDOM.standard_normal((2, 4)), RANDOM.standard_normal((4, 2))
    diagonal = RANDOM.uniform(0.2, 1, 4)
    one = d.LowRankMultivariateNormal(Tensor(loc), Tensor(factor), Tensor(diagonal))
    full = d.MultivariateNormal(Tensor(loc), Tensor(factor @ factor.T + np.diag(diagonal)))
    x = Tensor(RANDOM.standard_normal((5, 2, 4)))
    assert np.allclose(one.log_prob(x).numpy(), full.log_prob(x).numpy())
    for what in ("mean", "variance", "covariance_matrix", "precision_matrix", "scale_tril"):
        assert np.allclose(getattr(one, what).numpy(), getattr(full, what).numpy())
    assert np.allclose(one.entropy().numpy(), full.entropy().numpy())
    assert np.allclose(d.kl_divergence(one, full).numpy(), 0, atol=1e-9)
    drawn = one.expand((3, 2)).sample((DRAWN,)).numpy()[:, 1, 0]
    assert np.allclose(np.cov(drawn.T), full.covariance_matrix.numpy()[0], atol=0.2)
    with pytest.raises(ShapeError, match="differ in n"):
        d.LowRankMultivariateNormal(Tensor(loc), Tensor(factor.T), Tensor(diagonal))


def test_normal_numbers_as_shares():
    one = d.LogisticNormal(Tensor([0.3]), Tensor([0.8]))
    share = (np.arange(20_000) + 0.5) / 20_000
    density = np.exp(one.log_prob(Tensor(np.stack([share, 1 - share], -1))).numpy())
    assert np.isclose(density.mean(), 1, atol=1e-4)
    assert one.expand((3,)).sample((2,)).sum(-1).shape == (2, 3)
    with pytest.raises(ValueRangeError, match="scale of Normal"):
        d.LogisticNormal(Tensor([0.3]), Tensor([-0.8]))


def test_entropy_of_an_exponential_family():
    class Waiting(d.ExponentialFamily):
        """The exponential distribution."""

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, natural):
            return -(-natural).log()

    rate = Tensor([0.5, 2.0])
    assert np.allclose(Waiting(rate).entropy().numpy(), 1 - np.log([0.5, 2.0]))
    assert isinstance(d.Normal(0.0, 1.0), d.ExponentialFamily)
