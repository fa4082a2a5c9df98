"""Distributions of numbers: log_prob as PyTorch gives it, and all else by sums over it in NumPy."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, distributions
from torpor.base.errors import ValueRangeError
from torpor.tensor.rejection import gamma_slopes

# Parameters, a value, and what PyTorch 2.13 gives for log_prob in float64.
ROWS = {
    "Normal": ((0.5, 2.0), 1.5, -1.73708571376),
    "LogNormal": ((0.5, 0.4), 1.5, -0.436040552517),
    "Laplace": ((0.5, 2.0), 1.5, -1.88629436112),
    "Cauchy": ((0.5, 2.0), 1.5, -2.06102061772),
    "Gumbel": ((0.5, 2.0), 1.5, -1.79967784027),
    "Exponential": ((2.5,), 0.7, -0.833709268126),
    "Uniform": ((-1.0, 3.0), 0.5, -1.38629436112),
    "HalfNormal": ((2.0,), 1.5, -1.2001885332),
    "HalfCauchy": ((2.0,), 1.5, -1.59101698848),
    "Weibull": ((2.0, 1.7), 1.5, -0.977099206347),
    "Pareto": ((1.2, 4.5), 1.5, 0.0944663077542),
    "Kumaraswamy": ((2.0, 3.0), 0.4, 0.526761963064),
    "Gamma": ((2.5, 1.3), 1.5, -0.970574547142),
    "InverseGamma": ((5.5, 3.0), 0.8, -0.215013296402),
    "Chi2": ((5.0,), 3.0, -1.86963238887),
    "Beta": ((2.0, 3.0), 0.4, 0.546964670382),
    "StudentT": ((7.0, 0.5, 2.0), 1.5, -1.78804661038),
    "FisherSnedecor": ((4.0, 12.0), 1.5, -1.29781071581),
    "Bernoulli": ((0.3,), 1.0, -1.20397280433),
    "Geometric": ((0.3,), 2.0, -1.9173226922),
    "Binomial": ((7.0, 0.3), 2.0, -1.14679789062),
    "NegativeBinomial": ((3.0, 0.4), 2.0, -1.57329886582),
    "GeneralizedPareto": ((0.5, 2.0, 0.2), 1.5, -1.26500825939),
    "ContinuousBernoulli": ((0.3,), 0.4, 0.0549936627868),
    "VonMises": ((0.5, 2.0), 1.0, -0.906705486287),
    "Poisson": ((3.5,), 2.0, -1.68762124357),
}
# Draws of these are `icdf` of uniform numbers, as those of Exponential.
BY_ICDF = {
    "Laplace", "Cauchy", "Gumbel", "Uniform", "HalfNormal", "HalfCauchy", "Weibull", "Pareto",
    "Kumaraswamy", "GeneralizedPareto", "ContinuousBernoulli",
}  # fmt: skip
CUT = {"Uniform", "GeneralizedPareto"}  # their support starts at a parameter
WITHOUT_MOMENTS = {"Cauchy", "HalfCauchy", "VonMises"}  # on a line
DRAWN = 3000
FARTHEST = 2.4 / DRAWN**0.5  # Kolmogorov's distance, beyond with a probability of 2e-5
GRID = 40_000


# Concentrations, draws of Gamma, and how a quantile moves there with the concentration.
SHAPES = [0.1, 0.5, 1.0, 2.5, 10.0, 100.0, 0.05]
QUANTILES = [0.001, 0.2, 3.0, 1.0, 15.0, 110.0, 1e-20]
SLOPES = [
    0.0649072474,
    0.7940505663,
    1.937911694,
    0.6507938597,
    1.236787473,
    1.050160621,
    9.11077e-18,
]


def made(name):
    parameters, *_ = ROWS[name]
    return getattr(distributions, name)(*(Tensor(float(p), dtype="float64") for p in parameters),
                                        validate_args=False)  # fmt: skip


def masses(one):
    """Places, and the probability of a piece around each."""
    name = type(one).__name__
    if one.support.is_discrete:
        places = np.arange(200.0)
        places = places[one.support.check(Tensor(places)).numpy()]
        return places, np.exp(one.log_prob(Tensor(places)).numpy())
    t = (np.arange(GRID) + 0.5) / GRID
    if one.support is distributions.constraints.unit_interval:
        places, width = t, np.ones(GRID)
    elif name == "VonMises":
        places, width = 2 * np.pi * t - np.pi, np.full(GRID, 2 * np.pi)
    elif one.support is distributions.constraints.real or name in CUT:
        t = 2 * t - 1
        places, width = t / (1 - t * t), 2 * (1 + t * t) / (1 - t * t) ** 2
    else:
        places, width = t / (1 - t), 1 / (1 - t) ** 2
    return places, np.exp(one.log_prob(Tensor(places)).numpy()) * width / GRID


@pytest.mark.parametrize("name", ROWS)
def test_formulas_agree_with_the_density(name):
    one = made(name)
    _, value, expected = ROWS[name]
    assert np.isclose(one.log_prob(value).item(), expected, rtol=1e-8)
    places, mass = masses(one)
    assert np.isclose(mass.sum(), 1, atol=2e-4)  # pieces at the ends of Uniform
    if name not in WITHOUT_MOMENTS:
        mean = (places * mass).sum()
        assert np.isclose(one.mean.item(), mean, rtol=2e-3, atol=1e-4)
        spread = ((places - mean) ** 2 * mass).sum()
        assert np.isclose(one.variance.item(), spread, rtol=2e-2)
    for what, given in (("cdf", value), ("icdf", 0.3)):
        if what in one.formulas:
            found = getattr(one, what)(given).item()
            end, share = (given, found) if what == "cdf" else (found, given)
            assert np.isclose(mass[places <= end].sum(), share, atol=1e-3)
    if "entropy" in one.formulas:
        held = mass[mass > 0]
        shown = np.exp(one.log_prob(Tensor(places)).numpy())[mass > 0]
        assert np.isclose(one.entropy().item(), -(held * np.log(shown)).sum(), atol=3e-3)
    if "mode" in one.formulas and name != "Uniform":
        top = one.log_prob(one.mode).item() if name != "HalfCauchy" else 0
        assert name == "HalfCauchy" or top >= one.log_prob(Tensor(places)).numpy().max() - 1e-3


@pytest.mark.parametrize("name", [name for name in ROWS if name not in BY_ICDF])
def test_draws_are_distributed_as_the_density_says(name):
    torpor.manual_seed(5)
    one = made(name)
    drawn = np.sort(one.sample((DRAWN,)).numpy())
    places, mass = masses(one)
    if one.support.is_discrete:
        found = np.array([(drawn == place).mean() for place in places])
        assert (abs(found - mass) < 5 * np.sqrt(mass / DRAWN) + 1e-3).all()
    else:
        meant = np.interp(drawn, places, mass.cumsum())
        assert abs(meant - np.arange(DRAWN) / DRAWN).max() < FARTHEST


@pytest.mark.parametrize("name", ["Normal", "Weibull", "Gumbel", "Laplace"])
def test_draws_have_gradients_for_the_parameters(name):
    parameters, *_ = ROWS[name]
    given = [Tensor(p, dtype="float64", requires_grad=True) for p in parameters]
    one = getattr(distributions, name)(*given)
    torpor.manual_seed(1)
    slope = one.rsample((50,)).sum().gradient(given[1])[0].item()
    sums = []
    for shift in (1e-6, -1e-6):
        torpor.manual_seed(1)
        moved = getattr(distributions, name)(given[0].detach(), given[1].detach() + shift)
        sums.append(moved.sample((50,)).sum().item())
    assert np.isclose(slope, (sums[0] - sums[1]) / 2e-6, rtol=1e-4)
    assert one.sample().requires_grad is False


def test_draws_of_gammas_move_with_their_quantiles():
    torpor.manual_seed(3)
    a = Tensor(np.array(SHAPES), requires_grad=True)
    drawn = distributions.Gamma(a, 1.0).rsample()
    assert np.isfinite(drawn.detach().numpy()).all()
    places = Tensor(np.array(QUANTILES))
    np.testing.assert_allclose(gamma_slopes(a.detach(), places).numpy(), SLOPES, rtol=1e-6)
    for one in (distributions.Beta(a, 2.0), distributions.StudentT(a), distributions.Chi2(a)):
        assert np.isfinite(one.rsample((3,)).sum().gradient(a)[0].numpy()).all()
    one = distributions.Dirichlet(a).rsample()
    assert one.sum().gradient(a)[0].abs().max().item() < 1e-6


def test_angles_have_a_mean_direction():
    torpor.manual_seed(1)
    one = distributions.VonMises(Tensor(np.array([0.5, -3.0])), Tensor(np.array([2.0, 100.0])))
    drawn = one.sample((DRAWN,)).numpy()
    length = 1 - one.variance.numpy()
    np.testing.assert_allclose(np.cos(drawn - one.loc.numpy()).mean(0), length, atol=0.05)
    np.testing.assert_allclose(one.variance.numpy(), [0.302225342, 0.005012626995], rtol=1e-6)


def test_shapes_and_parameters():
    one = distributions.Normal(Tensor.zeros(3, 1), Tensor.ones(2))
    assert (one.batch_shape, one.event_shape) == ((3, 2), ())
    assert one.sample((4,)).shape == (4, 3, 2) and one.log_prob(0.5).shape == (3, 2)
    assert one.expand((5, 3, 2)).sample().shape == (5, 3, 2)
    chance = distributions.Bernoulli(logits=Tensor([0.0, 2.0]))
    assert np.allclose(chance.probs.numpy(), [0.5, 1 / (1 + np.exp(-2))])
    assert distributions.StudentT(3.0).mean.item() == 0
    with pytest.raises(ValueRangeError, match="either probs or logits"):
        distributions.Bernoulli(0.5, 0.5)
    with pytest.raises(NotImplementedError, match="have no gradient"):
        distributions.Poisson(1.0).rsample()
    with pytest.raises(ValueRangeError, match="scale of Normal must satisfy"):
        distributions.Normal(0.0, -1.0)
    with pytest.raises(ValueRangeError, match="value of Poisson must satisfy"):
        distributions.Poisson(1.0).log_prob(0.5)
    assert np.isnan(distributions.Normal(0.0, -1.0, validate_args=False).log_prob(0.5).item())


def test_texts_have_the_parameters():
    families = torpor.distributions
    assert repr(families.Normal(0.0, 2.5)) == "Normal(loc: 0.0, scale: 2.5)"
    assert repr(families.Bernoulli(Tensor([0.25, 0.5]))) == "Bernoulli(probs: (2,))"


def test_the_mode_of_beta_may_be_an_end():
    a, b = Tensor([2.0, 0.5, 2.0, 0.5, 0.4]), Tensor([3.0, 2.0, 0.5, 0.4, 0.5])
    mode = distributions.Beta(a, b).mode
    np.testing.assert_allclose(mode.numpy(), [1 / 3, 0, 1, 1, 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["Bernoulli", "Geometric", "ContinuousBernoulli", "Binomial",
                                  "NegativeBinomial"])  # fmt: skip
def test_probabilities_are_kept_as_they_are_given(name):
    probs = [1e-6, 0.1, 0.3, 0.75]
    count = {"total_count": 5} if "inomial" in name else {}
    ours = getattr(distributions, name)(probs=Tensor(probs), **count)
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    theirs = getattr(torch.distributions, name)(probs=torch.tensor(probs), **count)
    assert ours.probs.tolist() == theirs.probs.tolist()
    assert ours.expand((2, 4)).probs[1].tolist() == ours.probs.tolist()
    for moment in ("mean", "variance"):
        expected = getattr(theirs, moment).numpy()
        np.testing.assert_allclose(getattr(ours, moment).numpy(), expected, rtol=1e-5)


def test_what_has_no_probability_is_never_drawn():
    ends = Tensor([0.0, 1.0])
    assert distributions.Bernoulli(ends).mean.tolist() == [0.0, 1.0]
    assert distributions.Bernoulli(ends).variance.tolist() == [0.0, 0.0]
    assert distributions.Binomial(5, ends).mean.tolist() == [0.0, 5.0]
    weights = Tensor([1.0, 0.0, 3.0])
    assert distributions.Categorical(weights).probs.tolist() == [0.25, 0.0, 0.75]
    assert distributions.Multinomial(4, weights).expand((2,)).mean.tolist() == [[1.0, 0.0, 3.0]] * 2
    torpor.manual_seed(0)
    many = 10**7  # some would be drawn that have a probability of 2**-23
    assert distributions.Bernoulli(ends).sample((many,)).sum(0).tolist() == [0, many]
    assert (distributions.Categorical(Tensor([0.0, 1.0])).sample((many,)) == 1).all()
