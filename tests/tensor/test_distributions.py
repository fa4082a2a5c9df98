"""Draws: their distributions within bounds from the sample size, seeds, formats, errors."""

import math

import numpy as np
import pytest

import torpor
from torpor import Generator, Tensor, jit, manual_seed
from torpor.base.errors import DTypeError

COUNT = 4000
# Kolmogorov's: a distance beyond this has a probability of 2 exp(-2 * 2.4²) = 2e-5.
FARTHEST = 2.4 / COUNT**0.5


def distance(drawn, cumulative):
    """Between the distribution of what was drawn and the one that is meant."""
    values = np.sort(drawn.astype(np.float64))
    meant = np.array([cumulative(v) for v in values])
    steps = np.arange(COUNT + 1) / COUNT
    return max(abs(meant - steps[1:]).max(), abs(meant - steps[:-1]).max())


def has_moments(drawn, mean, variance, fourth):
    """Within five standard errors; `fourth` is the fourth central moment."""
    drawn = drawn.astype(np.float64)
    error = 5 * (variance / COUNT) ** 0.5
    assert abs(drawn.mean() - mean) < error
    assert (
        abs(((drawn - mean) ** 2).mean() - variance) < 5 * ((fourth - variance**2) / COUNT) ** 0.5
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("fill", "cumulative"),
    [
        (lambda x: x.exponential_(2.0), lambda v: 1 - math.exp(-2 * v)),
        (lambda x: x.cauchy_(1.0, 2.0), lambda v: 0.5 + math.atan((v - 1) / 2) / math.pi),
        (
            lambda x: x.log_normal_(1.0, 0.5),
            lambda v: 0.5 + 0.5 * math.erf((math.log(v) - 1) / 0.5 / 2**0.5),
        ),
    ],
    ids=["exponential", "cauchy", "log_normal"],
)
def test_continuous_distributions(dtype, fill, cumulative):
    manual_seed(4)
    x = Tensor.zeros(COUNT, dtype=dtype)
    assert fill(x) is x
    assert distance(x.numpy(), cumulative) < FARTHEST


def test_waiting_times_are_above_zero_and_finite():
    manual_seed(0)
    drawn = Tensor.zeros(10**6).exponential_().numpy()
    assert 0 < drawn.min() < 1e-4
    assert 10 < drawn.max() < math.inf


@pytest.mark.parametrize("rate", [0.5, 9.5, 30.0, 10000.0])
def test_poisson(rate):
    manual_seed(1)
    drawn = torpor.poisson(Tensor([rate], dtype="float64").expand(COUNT)).numpy()
    has_moments(drawn, rate, rate, rate + 3 * rate**2)
    assert (drawn == np.floor(drawn)).all()


@pytest.mark.parametrize("rate", [3.0, 15.0])
def test_poisson_numbers_come_as_often_as_they_should(rate):
    manual_seed(2)
    drawn = Tensor([rate]).expand(COUNT).poisson().numpy().astype(int)
    ends = range(int(rate - 2 * rate**0.5), int(rate + 2 * rate**0.5))
    for k in ends:
        chance = math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))
        assert abs((drawn == k).mean() - chance) < 5 * (chance / COUNT) ** 0.5


@pytest.mark.parametrize(("trials", "chance"), [(5, 0.3), (60, 0.9), (60, 0.4), (10**6, 0.75)])
def test_binomial(trials, chance):
    manual_seed(1)
    drawn = torpor.binomial(Tensor([float(trials)]).expand(COUNT), Tensor(chance)).numpy()
    variance = trials * chance * (1 - chance)
    fourth = variance * (1 + 3 * (trials - 2) * chance * (1 - chance))
    has_moments(drawn, trials * chance, variance, fourth)
    assert drawn.max() <= trials


def test_rates_and_chances_differ_by_element():
    manual_seed(3)
    rates = np.array([[0.0, 4.0], [400.0, 40000.0]])
    drawn = Tensor(np.broadcast_to(rates, (COUNT, 2, 2)).copy()).poisson().numpy()
    assert (abs(drawn.mean(0) - rates) <= 5 * (rates / COUNT) ** 0.5).all()
    chances = Tensor([0.0, 1.0, 0.5])
    assert Tensor([[7.0], [0.0]]).binomial(chances).tolist()[1] == [0, 0, 0]
    assert Tensor([[7.0], [0.0]]).binomial(chances).tolist()[0][:2] == [0, 7]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_trials_and_whole_numbers(dtype):
    manual_seed(5)
    x = Tensor.zeros(COUNT, dtype=dtype)
    drawn, p = x.geometric_(0.3).numpy(), 0.3
    assert drawn.min() == 1
    for k in range(1, 8):
        chance = p * (1 - p) ** (k - 1)
        assert abs((drawn == k).mean() - chance) < 5 * (chance / COUNT) ** 0.5
    has_moments(x.bernoulli_(0.3).numpy(), 0.3, 0.21, 0.21 * 0.37)
    ends = x.random_(-3, 4).numpy()
    counts = np.bincount(ends.astype(int) + 3, minlength=7)
    assert len(counts) == 7
    assert ((counts / COUNT - 1 / 7) ** 2 * 7 * COUNT).sum() < 27.9  # chi-squared, p = 1e-4
    assert set(x.random_(2).tolist()) == {0, 1}


def test_whole_numbers_without_ends():
    manual_seed(0)
    assert set(Tensor.zeros(4000, dtype="uint8").random_().tolist()) == set(range(256))
    assert 2**23 < Tensor.zeros(1000).random_().numpy().max() <= 2**24
    assert Tensor.zeros(1000, dtype="int64").random_().numpy().max() > 2**61
    assert set(Tensor.zeros(50, dtype="bool").random_().tolist()) == {False, True}


def test_normal_around_tensors():
    manual_seed(6)
    mean, std = Tensor([1.0, -2.0]), Tensor([[0.0], [0.5]]).expand(2, 1)
    assert torpor.normal(mean, std).numpy()[0].tolist() == [1.0, -2.0]
    assert torpor.normal(mean, 0.0).tolist() == [1.0, -2.0]
    drawn = torpor.normal(3.0, Tensor([0.5]).expand(COUNT)).numpy()
    has_moments(drawn, 3.0, 0.25, 3 * 0.25**2)
    assert torpor.normal(mean=mean.cast("float64"), std=1.0).dtype is torpor.float64


# --- categories -----------------------------------------------------------------------------------
WEIGHTS = [0.0, 1.0, 0.0, 5.0, 2.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_categories_with_replacement(dtype):
    manual_seed(7)
    weights = Tensor(WEIGHTS, dtype=dtype)
    drawn = weights.multinomial(COUNT, replacement=True)
    assert drawn.dtype is torpor.int64
    found = np.bincount(drawn.numpy(), minlength=6) / COUNT
    meant = np.array(WEIGHTS) / 8
    assert (abs(found - meant) <= 5 * (meant / COUNT) ** 0.5).all()


def test_categories_without_replacement():
    manual_seed(8)
    drawn = Tensor([WEIGHTS]).expand(COUNT, 6).multinomial(2).numpy()
    assert drawn.shape == (COUNT, 2)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    w = np.array(WEIGHTS) / 8
    for i in range(6):
        for j in range(6):
            chance = 0 if i == j else w[i] * w[j] / (1 - w[i])
            found = ((drawn[:, 0] == i) & (drawn[:, 1] == j)).mean()
            assert abs(found - chance) <= 5 * (chance / COUNT) ** 0.5
    assert sorted(Tensor([1e-30, 1.0, 1e30]).multinomial(3).tolist()) == [0, 1, 2]


# --- seeds, the jit, sizes ------------------------------------------------------------------------
def everything(x):
    halves = x * 0 + 0.5
    return [
        halves.bernoulli(),
        halves.multinomial(3, True),
        halves.multinomial(3),
        torpor.poisson(halves * 8),
        torpor.poisson(halves * 80),
        torpor.binomial(halves * 0 + 90, halves),
        torpor.normal(halves, halves),
        (halves * 1).exponential_(),
        (halves * 1).geometric_(0.2),
        (halves * 1).cauchy_(),
        (halves * 1).log_normal_(),
        (halves * 1).random_(100),
        (halves * 1).bernoulli_(0.5),
    ]


def test_a_seed_gives_the_same_numbers_in_a_jit():
    x, compiled = Tensor.ones(5, 4), jit(everything)
    for seed in (1, 2, 3):
        manual_seed(seed)
        plain = [made.numpy() for made in everything(x)]
        manual_seed(seed)
        for one, other in zip(plain, compiled(x), strict=True):
            np.testing.assert_array_equal(one, other.numpy())


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: Tensor.ones(9).multinomial(3, generator=g),
        lambda g: torpor.multinomial(Tensor.ones(9), 3, True, generator=g),
        lambda g: torpor.poisson(Tensor.ones(9) * 4, generator=g),
        lambda g: torpor.binomial(Tensor.ones(9) * 40, Tensor(0.5), generator=g),
        lambda g: torpor.normal(Tensor.zeros(9), 1.0, generator=g),
        lambda g: torpor.bernoulli(Tensor.ones(30), 0.5, generator=g),
        lambda g: Tensor.zeros(30).bernoulli_(generator=g),
        lambda g: Tensor.zeros(9).exponential_(generator=g),
        lambda g: Tensor.zeros(30).geometric_(0.3, generator=g),
        lambda g: Tensor.zeros(9).cauchy_(generator=g),
        lambda g: Tensor.zeros(9).log_normal_(generator=g),
        lambda g: Tensor.zeros(9).random_(generator=g),
    ],
)
def test_a_generator_gives_its_own_numbers(draw):
    stream = Generator(11)
    first, second = draw(stream).tolist(), draw(stream).tolist()
    assert first != second
    assert draw(Generator(11)).tolist() == first


def test_no_elements():
    none = Tensor.zeros(0, 3)
    assert none.multinomial(2).shape == none.multinomial(2, True).shape == (0, 2)
    for made in (none.poisson(), none.binomial(0.5), none.exponential_(), none.geometric_(0.5)):
        assert made.numpy().shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Tensor([1.0, -1.0]).multinomial(1).numpy(), "not negative"),
        (lambda: Tensor([1.0, math.nan]).multinomial(1, True).numpy(), "not negative"),
        (lambda: Tensor([1.0, math.inf]).multinomial(1).numpy(), "finite"),
        (lambda: Tensor([0.0, 0.0]).multinomial(1, True).numpy(), "above 0"),
        (lambda: Tensor([1.0, 0.0]).multinomial(2).numpy(), "above 0"),
        (lambda: Tensor([1.0, 0.0]).multinomial(0), "at least one"),
        (lambda: Tensor([-1.0]).poisson().numpy(), "not negative"),
        (lambda: Tensor([math.nan]).poisson().numpy(), "not negative"),
        (lambda: Tensor([2.5]).binomial(0.5).numpy(), "whole counts"),
        (lambda: Tensor([2.0]).binomial(1.5).numpy(), "between 0 and 1"),
        (lambda: torpor.normal(Tensor([1.0]), Tensor([-1.0])).numpy(), "standard deviation"),
        (lambda: Tensor([1.0]).exponential_(0), "above 0"),
        (lambda: Tensor([1.0]).geometric_(1.0), "below 1"),
        (lambda: Tensor([1.0]).cauchy_(0, -1), "above 0"),
        (lambda: Tensor([1.0]).log_normal_(0, 0), "above 0"),
        (lambda: Tensor([1.0]).random_(3, 3), "low < high"),
        (lambda: Tensor([1.0]).bernoulli_(2), "between 0 and 1"),
        (lambda: Tensor([1.0]).bernoulli(-1), "between 0 and 1"),
    ],
)
def test_impossible_distributions(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_draws_that_cannot_be():
    with pytest.raises(IndexError, match="3 samples of 2 categories"):
        Tensor([1.0, 2.0]).multinomial(3)
    for call in (
        lambda: Tensor([1, 2]).multinomial(1),
        lambda: Tensor([1, 2]).exponential_(),
        lambda: Tensor([1, 2]).cauchy_(),
        lambda: Tensor([1, 2]).log_normal_(),
    ):
        with pytest.raises(DTypeError, match="float"):
            call()


def test_counts_have_the_gradient_0_for_their_rates():
    rates = Tensor([0.5, 20.0], requires_grad=True)
    rates.poisson().sum().backward()
    assert rates.grad.tolist() == [0.0, 0.0]
