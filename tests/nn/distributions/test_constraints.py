"""What is asked of parameters and values, and when."""

import pickle

import numpy as np
import pytest
from torpor.distributions import constraints as c

import torpor
from torpor import Tensor
from torpor import distributions as d
from torpor.base.errors import ValueRangeError

EYE = np.eye(2)
# A constraint, what satisfies it, and what does not.
ROWS = {
    "real": (c.real, 0.0, np.nan),
    "positive": (c.positive, 1.0, 0.0),
    "nonnegative": (c.nonnegative, 0.0, -1.0),
    "unit": (c.unit_interval, 1.0, 1.1),
    "half open": (c.half_open_interval(0, 1), 0.0, 1.0),
    "less": (c.less_than(2), 1.9, 2.0),
    "boolean": (c.boolean, 1.0, 0.5),
    "count": (c.nonnegative_integer, 0.0, -1.0),
    "whole": (c.positive_integer, 1.0, 1.5),
    "up to": (c.integer_interval(1, 3), 3.0, 4.0),
    "one hot": (c.one_hot, [0.0, 1.0], [1.0, 1.0]),
    "simplex": (c.simplex, [0.25, 0.75], [0.25, 0.5]),
    "counts": (c.multinomial(3), [1.0, 2.0], [1.0, 3.0]),
    "vector": (c.real_vector, [0.0, 1.0], [0.0, np.nan]),
    "square": (c.square, EYE, np.ones((2, 3))),
    "symmetric": (c.symmetric, EYE, [[1.0, 2.0], [0.0, 1.0]]),
    "lower": (c.lower_triangular, [[0.0, 0.0], [2.0, -1.0]], [[1.0, 2.0], [0.0, 1.0]]),
    "cholesky": (c.lower_cholesky, [[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]),
    "correlations": (c.corr_cholesky, [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]),
    "definite": (c.positive_definite, [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]),
    "semidefinite": (c.positive_semidefinite, np.ones((2, 2)), [[1.0, 2.0], [2.0, 1.0]]),
    "stack": (c.stack([c.positive, c.real]), [1.0, -1.0], [-1.0, 1.0]),
    "cat": (c.cat([c.positive, c.real], 0, [1, 2]), [1.0, -1.0, -2.0], [-1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_tells_its_own_from_others(name):
    constraint, inside, outside = ROWS[name]
    assert np.all(constraint.check(Tensor(np.array(inside))).numpy())
    assert not np.all(constraint.check(Tensor(np.array(outside))).numpy())
    if name not in ("stack", "cat"):
        several = constraint.check(Tensor(np.stack([inside, inside])))
        assert several.shape == (2,) and several.all().item()


def test_an_error_names_the_parameter_its_constraint_and_the_offender():
    said = r"scale of Normal must satisfy greater_than\(lower_bound=0.0\); found -1.0"
    with pytest.raises(ValueRangeError, match=said):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueRangeError, match=r"found -2\.0, -3\.0$"):
        d.Gamma(Tensor([1.0, -2.0, -3.0]), 1.0)
    with pytest.raises(ValueRangeError, match=r"low of Uniform must .*less_than.*found 1\.0"):
        d.Uniform(1.0, 0.0)
    with pytest.raises(ValueRangeError, match="a value of Bernoulli must satisfy boolean"):
        d.Bernoulli(0.5).log_prob(0.5)
    with pytest.raises(ValueRangeError, match="upper_bound=1"):
        d.Categorical(Tensor([0.5, 0.5])).log_prob(Tensor(2))
    with pytest.raises(ValueRangeError, match="covariance_matrix of MultivariateNormal must"):
        d.MultivariateNormal(Tensor([0.0, 0.0]), Tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValueRangeError, match="and 94 more"):
        d.Exponential(Tensor(-np.ones(100)))


def test_unknown_values_are_asked_when_they_are_computed():
    scale = Tensor([1.0, 2.0]).realize() - 1.5
    drawn = d.Normal(0.0, scale).sample()
    with pytest.raises(ValueRangeError, match="scale of Normal must satisfy"):
        drawn.realize()

    @torpor.jit
    def density(scale):
        return d.Normal(0.0, scale).log_prob(0.5)

    for _ in range(3):
        assert np.isfinite(density(Tensor([2.0]).realize()).numpy()).all()
    with pytest.raises(ValueRangeError, match="scale of Normal must satisfy"):
        density(Tensor([-2.0]).realize()).numpy()


def test_bounds_have_names_and_mixtures_the_bounds_of_all():
    made = c.interval(upper_bound=2.0, lower_bound=1.0)
    assert made.bounds == (1.0, 2.0) and made.lower_bound == 1.0
    with pytest.raises(TypeError, match="lower_bound"):
        c.greater_than()
    parts = d.Uniform(Tensor([0.0, 0.5]), Tensor([2.0, 3.0]))
    mixed = d.MixtureSameFamily(d.Categorical(Tensor([0.5, 0.5])), parts)
    assert mixed.support.check(Tensor([0.2, 1.0, 2.5])).tolist() == [False, True, False]
    assert np.isclose(mixed.log_prob(Tensor(1.0)).exp().item(), 0.25 + 0.2)


def test_validation_is_a_choice():
    assert np.isnan(d.Normal(0.0, -1.0, validate_args=False).log_prob(0.0).item())
    assert d.Uniform(0.0, 1.0, validate_args=False).log_prob(2.0).item() == -np.inf
    assert d.HalfNormal(1.0, validate_args=False).log_prob(-1.0).item() == -np.inf
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0)
        with pytest.raises(ValueRangeError):
            d.Normal(0.0, -1.0, validate_args=True)
    finally:
        d.Distribution.set_default_validate_args(True)


def test_classes_of_users_are_asked_by_their_table():
    class Point(d.Distribution):
        arg_constraints = {"size": c.positive}
        support = c.positive
        has_rsample = True

        def __init__(self, size, validate_args=None):
            self.size = Tensor(size)
            super().__init__(self.size.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return self.size.expand((*sample_shape, *self.batch_shape))

        def log_prob(self, value):
            return self._validate_sample(value) * 0

    assert Point([1.0, 2.0]).sample((3,)).shape == (3, 2)
    with pytest.raises(ValueRangeError, match=r"size of Point must .*; found -2\.0"):
        Point([1.0, -2.0])
    with pytest.raises(ValueRangeError, match="a value of Point"):
        Point([1.0]).log_prob(Tensor([-1.0]))


def test_classes_of_users_are_written_as_for_pytorch():
    class Shifted(d.Distribution):
        arg_constraints = {"place": c.real_vector}
        has_rsample = True

        def __init__(self, place, validate_args=None):
            self.place = place
            super().__init__(place.shape[:-1], place.shape[-1:], validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.place = self.place.expand(torpor.Size(batch_shape) + self._event_shape)
            super(Shifted, new).__init__(batch_shape, self._event_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        def rsample(self, sample_shape=()):
            return self.place + torpor.ones(self._extended_shape(sample_shape))

    class Wide(Shifted):
        @property
        def event_shape(self):
            return (1, *self._event_shape)

    one = Shifted(Tensor([1.0, 2.0])).expand((3,))
    assert (one.batch_shape, one.event_shape, one._batch_shape) == ((3,), (2,), (3,))
    assert one.sample((4,)).shape == (4, 3, 2) and one._extended_shape().numel() == 6
    assert d.Normal(torpor.zeros(3, 2), 1.0).batch_shape.numel() == 6
    assert Wide(Tensor([1.0, 2.0])).event_shape == (1, 2)


def test_all_values_of_a_support():
    assert d.Bernoulli(Tensor([0.5, 0.2])).enumerate_support().tolist() == [[0, 0], [1, 1]]
    one = d.Binomial(3.0, Tensor([0.5, 0.2]))
    assert one.enumerate_support(expand=False).tolist() == [[0], [1], [2], [3]]
    assert np.allclose(one.log_prob(one.enumerate_support()).exp().sum(0).numpy(), 1)
    hot = d.OneHotCategorical(Tensor([[0.5, 0.5]]))
    assert hot.enumerate_support().tolist() == [[[1, 0]], [[0, 1]]]
    assert c.is_dependent(d.Uniform.support) and not c.is_dependent(d.Uniform(0, 1).support)
    with pytest.raises(NotImplementedError, match="same for all"):
        d.Binomial(Tensor([1.0, 2.0]), 0.5).enumerate_support()
    with pytest.raises(NotImplementedError, match="values of Multinomial cannot be counted"):
        d.Multinomial(2, Tensor([0.5, 0.5])).enumerate_support()


def test_what_has_constraints_can_be_pickled():
    made = d.TransformedDistribution(
        d.Normal(Tensor([0.0, 1.0]), 1.0), [d.AffineTransform(1.0, 2.0), d.SigmoidTransform()]
    )
    again = pickle.loads(pickle.dumps(made))
    value = Tensor([0.5, 0.25])
    assert again.log_prob(value).tolist() == made.log_prob(value).tolist()
    assert again.transforms[0].domain is c.real
