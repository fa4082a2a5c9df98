"""Categories, vectors, mixtures, transforms, divergences: against sums and formulas in float64."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor import distributions as d

RANDOM = np.random.default_rng(0)
PROBS = RANDOM.uniform(0.1, 1, (2, 4))
LOC, SCALE = RANDOM.standard_normal((2, 3)), RANDOM.uniform(0.5, 2, (2, 3))
TRIANGLE = np.linalg.cholesky(np.eye(3) + 0.3)
DRAWN = 4000


def normal(x, loc, scale):
    return -0.5 * ((x - loc) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)


def has_mean(one):
    torpor.manual_seed(2)
    error = 5 * (one.variance.numpy() / DRAWN) ** 0.5
    assert (abs(one.sample((DRAWN,)).numpy().mean(0) - one.mean.numpy()) < error).all()


def test_categories():
    shares = PROBS / PROBS.sum(1, keepdims=True)
    one = d.Categorical(Tensor(PROBS))
    assert np.allclose(one.log_prob(Tensor([[1, 2], [3, 0]])).exp().numpy(),
                       shares[[0, 1], [[1, 2], [3, 0]]])  # fmt: skip
    assert np.allclose(one.entropy().numpy(), -(shares * np.log(shares)).sum(1))
    assert one.mode.tolist() == shares.argmax(1).tolist()
    drawn = one.sample((DRAWN,)).numpy()
    found = np.stack([(drawn == n).mean(0) for n in range(4)], 1)
    assert (abs(found - shares) < 5 * np.sqrt(shares / DRAWN)).all()
    assert one.enumerate_support().shape == (4, 2)
    hot = d.OneHotCategorical(logits=Tensor(np.log(PROBS)))
    assert hot.sample((7,)).sum(-1).tolist() == [[1, 1]] * 7
    assert np.allclose(hot.log_prob(hot.mode).numpy(), np.log(shares.max(1)))
    has_mean(hot)


def test_counts_of_categories():
    one = d.Multinomial(3, Tensor(PROBS[0]))
    shares = PROBS[0] / PROBS[0].sum()
    assert np.isclose(one.log_prob(Tensor([2.0, 0.0, 1.0, 0.0])).exp().item(),
                      3 * shares[0] ** 2 * shares[2])  # fmt: skip
    assert one.sample((5,)).sum(-1).tolist() == [3] * 5
    has_mean(one)


def test_entropy_of_counts_of_categories():
    one = d.Multinomial(3, Tensor(PROBS[0]))
    counts = [c for c in np.ndindex(4, 4, 4, 4) if sum(c) == 3]
    log = one.log_prob(Tensor(np.array(counts, float))).numpy()
    assert np.isclose(np.exp(log).sum(), 1)
    assert np.isclose(one.entropy().item(), -(np.exp(log) * log).sum())
    with pytest.raises(NotImplementedError, match="no mode"):
        one.mode  # noqa: B018


def test_the_most_probable_vector():
    one = d.Dirichlet(Tensor([[1.5, 2.0, 0.7], [0.3, 0.5, 0.4]]))
    assert np.allclose(one.mode.numpy(), [[1 / 3, 2 / 3, 0], [0, 1, 0]])


def test_vectors_with_sum_one():
    one = d.Dirichlet(Tensor([1.5, 2.5]))
    beta = d.Beta(Tensor(1.5), Tensor(2.5))
    assert np.isclose(one.log_prob(Tensor([0.3, 0.7])).item(), beta.log_prob(0.3).item())
    assert np.isclose(one.entropy().item(), beta.entropy().item())
    assert np.allclose(one.sample((6,)).sum(-1).numpy(), 1)
    has_mean(one)


def test_normal_vectors():
    covariance = TRIANGLE @ TRIANGLE.T
    x = RANDOM.standard_normal((5, 2, 3))
    apart = x - LOC
    distance = np.einsum("abi,ij,abj->ab", apart, np.linalg.inv(covariance), apart)
    expected = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * covariance)[1])
    for given in (
        {"scale_tril": TRIANGLE}, {"covariance_matrix": covariance},
        {"precision_matrix": np.linalg.inv(covariance)},
    ):  # fmt: skip
        one = d.MultivariateNormal(Tensor(LOC), **{k: Tensor(v) for k, v in given.items()})
        assert np.allclose(one.log_prob(Tensor(x)).numpy(), expected)
    assert np.isclose(one.entropy().numpy()[0],
                      0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1])  # fmt: skip
    assert np.allclose(np.cov(one.sample((DRAWN,)).numpy()[:, 0].T), covariance, atol=0.2)
    has_mean(one)
    with pytest.raises(ValueError, match="one of"):
        d.MultivariateNormal(Tensor(LOC))


def test_axes_of_the_batch_as_events_and_mixtures():
    base = d.Normal(Tensor(LOC), Tensor(SCALE))
    x = RANDOM.standard_normal((5, 2, 3))
    joint = d.Independent(base, 1)
    assert (joint.batch_shape, joint.event_shape) == ((2,), (3,))
    each = normal(x, LOC, SCALE)
    assert np.allclose(joint.log_prob(Tensor(x)).numpy(), each.sum(-1))
    shares = PROBS[:, :3] / PROBS[:, :3].sum(1, keepdims=True)
    mixed = d.MixtureSameFamily(d.Categorical(Tensor(shares)), base)
    one = x[:, :, 0]
    expected = np.log((shares * np.exp(normal(one[..., None], LOC, SCALE))).sum(-1))
    assert np.allclose(mixed.log_prob(Tensor(one)).numpy(), expected)
    assert np.allclose(mixed.mean.numpy(), (shares * LOC).sum(1))
    has_mean(mixed)
    wide = mixed.expand((5, 2))
    assert (wide.batch_shape, wide.sample((4,)).shape) == ((5, 2), (4, 5, 2))
    assert np.allclose(wide.log_prob(Tensor(one)).numpy(), expected)


def test_transforms():
    base = d.Normal(Tensor(0.5), Tensor(0.4))
    made = d.TransformedDistribution(base, [d.AffineTransform(0.2, 0.7), d.ExpTransform()])
    plain = d.LogNormal(Tensor(0.2 + 0.7 * 0.5), Tensor(0.7 * 0.4))
    x = Tensor([0.5, 1.0, 3.0])
    for what in ("log_prob", "cdf"):
        assert np.allclose(getattr(made, what)(x).numpy(), getattr(plain, what)(x).numpy(),
                           atol=1e-5)  # fmt: skip
    x = Tensor(np.linspace(-2, 2, 9), requires_grad=True)
    for one in (d.ExpTransform(), d.SigmoidTransform(), d.TanhTransform(), d.SoftplusTransform(),
                d.AffineTransform(1.0, -3.0)):  # fmt: skip
        y = one(x)
        assert np.allclose(one.inv(y).numpy(), x.numpy(), atol=1e-6)
        slope = y.sum().gradient(x)[0].numpy()
        assert np.allclose(one.log_abs_det_jacobian(x, y).numpy(), np.log(abs(slope)), atol=1e-9)


def test_divergences_are_the_mean_of_differences():
    t = np.linspace(-12, 12, 60_001)
    p, q = d.Laplace(Tensor(0.3), Tensor(0.8)), d.Laplace(Tensor(-0.2), Tensor(1.1))
    first, second = (one.log_prob(Tensor(t)).numpy() for one in (p, q))
    expected = (np.exp(first) * (first - second)).sum() * (t[1] - t[0])
    assert np.isclose(d.kl_divergence(p, q).item(), expected, rtol=1e-4)
    t = (np.arange(60_000) + 0.5) / 3000
    for p, q in (
        (d.Gamma(Tensor(2.5), Tensor(1.3)), d.Gamma(Tensor(1.5), Tensor(0.7))),
        (d.LogNormal(Tensor(0.5), Tensor(0.4)), d.LogNormal(Tensor(0.2), Tensor(0.9))),
        (d.Exponential(Tensor(2.0)), d.Exponential(Tensor(0.7))),
        (d.Beta(Tensor(2.0), Tensor(3.0)), d.Beta(Tensor(1.5), Tensor(1.2))),
    ):
        places = t[t < 1] if isinstance(p, d.Beta) else t
        first, second = (one.log_prob(Tensor(places)).numpy() for one in (p, q))
        expected = (np.exp(first) * (first - second)).sum() / 3000
        assert np.isclose(d.kl_divergence(p, q).item(), expected, rtol=1e-3)
    counts = np.arange(60.0)
    for kind, one, other in (
        ("Poisson", 3.5, 2.0), ("Geometric", 0.6, 0.3), ("Bernoulli", 0.6, 0.3)
    ):  # fmt: skip
        p, q = (getattr(d, kind)(Tensor(value)) for value in (one, other))
        places = Tensor(counts[:2] if kind == "Bernoulli" else counts)
        first, second = (each.log_prob(places).numpy() for each in (p, q))
        expected = (np.exp(first) * (first - second)).sum()
        assert np.isclose(d.kl_divergence(p, q).item(), expected, rtol=1e-5)
    a, b = d.Categorical(Tensor(PROBS[0])), d.Categorical(Tensor(PROBS[1]))
    shares = PROBS / PROBS.sum(1, keepdims=True)
    assert np.isclose(d.kl_divergence(a, b).item(),
                      (shares[0] * np.log(shares[0] / shares[1])).sum())  # fmt: skip
    with pytest.raises(NotImplementedError, match="Poisson from Categorical"):
        d.kl_divergence(d.Poisson(1.0), a)
