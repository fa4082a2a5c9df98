"""Divergences of distributions of different classes."""

import numpy as np
import pytest

from torpor import Tensor, distributions

FIRST = {
    "Normal": (0.3, 0.8), "Gumbel": (0.3, 0.8), "Laplace": (0.3, 0.8), "Exponential": (2.0,),
    "Gamma": (2.5, 1.3), "Pareto": (1.2, 4.5), "Beta": (2.0, 3.0), "ContinuousBernoulli": (0.3,),
    "Uniform": (0.1, 0.8), "HalfNormal": (0.5,), "Cauchy": (0.3, 0.8),
}  # fmt: skip
SECOND = {
    "Normal": (-0.2, 1.1), "Gumbel": (-0.2, 1.1), "Exponential": (0.7,), "Gamma": (1.5, 0.7),
    "Pareto": (1.0, 3.0), "ContinuousBernoulli": (0.6,), "HalfNormal": (1.5,),
    "Cauchy": (-0.2, 1.1),
    "Uniform": (0.0, 1.0),
}  # fmt: skip
# What PyTorch 2.13 gives in float64.
ROWS = [
    ("Gumbel", "Normal", 0.4774345358), ("Laplace", "Normal", 0.1764764887),
    ("Exponential", "Normal", 1.0131810175), ("Exponential", "Gamma", 1.0925587816),
    ("Gamma", "Normal", 2.0205268705), ("Gamma", "Exponential", 0.2352451451),
    ("Pareto", "Normal", 2.4564033461), ("Pareto", "Exponential", 1.5362085617),
    ("Pareto", "Gamma", 1.3914919065), ("Beta", "Normal", 1.414444619),
    ("Beta", "Exponential", 0.8715815937), ("Beta", "Gamma", 1.4708034947),
    ("Beta", "ContinuousBernoulli", 0.2822938817), ("Uniform", "Normal", 1.562383712),
    ("ContinuousBernoulli", "Normal", 1.2409925818),
    ("ContinuousBernoulli", "Exponential", 0.687216897),
    ("Normal", "Exponential", np.inf), ("Gamma", "Uniform", np.inf), ("Beta", "Pareto", np.inf),
]  # fmt: skip


def made(table, name):
    return getattr(distributions, name)(*(Tensor(np.array(one)) for one in table[name]))


@pytest.mark.parametrize(("first", "second", "expected"), ROWS)
def test_classes_that_differ(first, second, expected):
    found = distributions.kl_divergence(made(FIRST, first), made(SECOND, second)).item()
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Gumbel", np.linspace(-6, 30, 200_001)),
        ("Pareto", np.exp(np.linspace(np.log(1.2), 12, 200_001))),
        ("HalfNormal", np.linspace(0, 12, 200_001)),
        ("ContinuousBernoulli", np.linspace(0, 1, 200_001)),
        ("Cauchy", np.tan(np.linspace(-1.5707, 1.5707, 200_001))),
    ],
)
def test_classes_that_are_equal_against_sums(name, line):
    p, q = made(FIRST, name), made(SECOND, name)
    first, second = (one.log_prob(Tensor(line)).numpy() for one in (p, q))
    parts = np.exp(first) * (first - second)
    expected = ((parts[1:] + parts[:-1]) / 2 * np.diff(line)).sum()
    np.testing.assert_allclose(distributions.kl_divergence(p, q).item(), expected, atol=2e-4)


@pytest.mark.parametrize(
    ("p", "q", "low", "high"),
    [
        (("Normal", 0.3, 0.8), ("Gumbel", -0.2, 1.1), -8, 8),
        (("Exponential", 2.0), ("Gumbel", -0.2, 1.1), 0, 20),
        (("Gamma", 2.5, 1.3), ("Gumbel", -0.2, 1.1), 0, 30),
        (("Uniform", 0.1, 0.8), ("Gumbel", -0.2, 1.1), 0.1, 0.8),
        (("Normal", 0.3, 0.8), ("Laplace", -0.2, 1.1), -8, 8),
        (("Uniform", 0.1, 0.8), ("Exponential", 0.7), 0.1, 0.8),
        (("Uniform", 0.1, 0.8), ("Gamma", 1.5, 0.7), 0.1, 0.8),
        (("Uniform", 1.1, 2.8), ("Pareto", 1.0, 3.0), 1.1, 2.8),
        (("Uniform", 0.1, 0.8), ("Beta", 2.0, 3.0), 0.1, 0.8),
        (("Uniform", 0.1, 0.8), ("ContinuousBernoulli", 0.6), 0.1, 0.8),
        (("ContinuousBernoulli", 0.6), ("Uniform", -0.5, 1.5), 0, 1),
        (("Beta", 2.0, 3.0), ("Uniform", 0.0, 1.0), 0, 1),
    ],
)
def test_classes_that_differ_against_sums(p, q, low, high):
    places = low + (np.arange(200_000) + 0.5) / 200_000 * (high - low)
    one, other = (
        getattr(distributions, name)(*(Tensor(np.array(value)) for value in values))
        for name, *values in (p, q)
    )
    first, second = (each.log_prob(Tensor(places)).numpy() for each in (one, other))
    expected = (np.exp(first) * (first - second)).mean() * (high - low)
    np.testing.assert_allclose(
        distributions.kl_divergence(one, other).item(), expected, rtol=1e-5, atol=1e-7
    )


def test_whole_numbers_that_differ():
    one, other = distributions.Bernoulli(0.3), distributions.Poisson(0.7)
    expected = 0.7 * np.log(0.7 / np.exp(-0.7)) + 0.3 * np.log(0.3 / (0.7 * np.exp(-0.7)))
    assert np.isclose(distributions.kl_divergence(one, other).item(), expected)
    assert distributions.kl_divergence(other, one).item() == np.inf
    wide = distributions.Uniform(0.0, 1.5)
    assert distributions.kl_divergence(wide, distributions.Beta(2.0, 3.0)).item() == np.inf


def test_chi2_is_a_gamma():
    df = Tensor([3.0, 5.0])
    one, same = distributions.Chi2(df), distributions.Gamma(df / 2, Tensor(0.5))
    other = distributions.Gamma(Tensor(2.0), Tensor(3.0))
    for p, q, r, s in ((one, other, same, other), (other, one, other, same)):
        found, wanted = distributions.kl_divergence(p, q), distributions.kl_divergence(r, s)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    assert distributions.kl_divergence(one, one).tolist() == [0, 0]


def test_what_transforms_make_is_as_far_apart_as_what_they_are_of():
    d = distributions
    pairs = [
        (d.InverseGamma(1.0, 3.0), d.InverseGamma(2.0, 1.0), d.Gamma(1.0, 3.0), d.Gamma(2.0, 1.0)),
        (d.LogisticNormal(Tensor([0.0, 1.0]), Tensor([1.0, 2.0])),
         d.LogisticNormal(Tensor([1.0, 1.0]), Tensor([2.0, 2.0])),
         d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)),
    ]  # fmt: skip
    for p, q, first, second in pairs:
        found, expected = d.kl_divergence(p, q), d.kl_divergence(first, second)
        assert np.isclose(found.item(), expected.item())
    half = d.kl_divergence(d.HalfCauchy(1.0), d.HalfCauchy(2.0))
    assert np.isclose(half.item(), np.log(9 / 8))
    for kind in (d.Kumaraswamy, d.Weibull):
        assert d.kl_divergence(kind(1.0, 2.0), kind(1.0, 2.0)).item() == 0
        with pytest.raises(NotImplementedError):
            d.kl_divergence(kind(1.0, 2.0), kind(2.0, 2.0))


def test_transforms_are_equal_where_their_numbers_are():
    d = distributions

    def scaled(scale, mean=0.0):
        parts = [d.ExpTransform(), d.AffineTransform(Tensor([0.0, 1.0]), scale)]
        return d.TransformedDistribution(d.Normal(mean, 1.0), parts)

    found = d.kl_divergence(scaled(2.0), scaled(2.0, 1.0))
    assert found.tolist() == [0.5, 0.5]
    with pytest.raises(NotImplementedError, match="transforms that differ"):
        d.kl_divergence(scaled(2.0), scaled(3.0))
    assert d.ExpTransform() == d.ExpTransform() != d.SigmoidTransform()
    assert d.PowerTransform(2.0).inv == d.PowerTransform(2.0).inv
    assert len({d.ExpTransform(), d.ExpTransform()}) == 2
