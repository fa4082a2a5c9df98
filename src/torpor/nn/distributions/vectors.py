"""Distributions of categories and vectors, and distributions made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.distributions import constraints as C
from torpor.nn.distributions.base import EPSILON, Distribution, Noise, Shape, floats, numbers
from torpor.nn.distributions.families import LOG_TAU, Binomial
from torpor.tensor import Tensor, as_tensor
from torpor.tensor.operands import choose
from torpor.tensor.spelling import within


class Categorical(Distribution):
    """Whole numbers (int64) with probabilities in proportion to `probs`, or to e to the power of
    `logits`, along the last axis.
    """

    _axes = {"logits": 1, "probs": 1}
    logits: Any
    probs: Any
    has_enumerate_support = True
    arg_constraints: Any = MappingProxyType({"probs": C.simplex, "logits": C.real_vector})
    support: Any = C.dependent_property(
        lambda self: C.integer_interval(0, self.logits.shape[-1] - 1)
    )

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._validate(validate_args)
        if (probs is None) is (logits is None):
            raise ValueRangeError(f"{type(self).__name__} takes either probs or logits")
        (given,) = numbers(logits if probs is None else probs)
        if not given.ndim:
            raise ShapeError(f"{type(self).__name__} needs an axis of categories")
        if probs is not None:
            if self._validate_args:
                given = C.required(given, f"probs of {type(self).__name__}", C.nonnegative)
            given = given / given.sum(-1, keepdim=True)
            logs = given.clamp(EPSILON, 1 - EPSILON).log().log_softmax(-1)
        else:
            logs = self._checked("logits", given).log_softmax(-1)
            given = logs.exp()
        self._spread(given.shape[:-1], logits=logs, probs=given)

    def _draw(self, shape: Shape) -> Tensor:
        """By Gumbel's numbers: the greatest logarithm of a probability with noise."""
        noise = Noise((*shape, *self.logits.shape), self.logits).uniform()
        return (self.probs.log() - (-noise.log()).log()).argmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        return self._logits_at(self._validate_sample(as_tensor(value)).long())

    def _logits_at(self, category: Tensor) -> Tensor:
        shape = Tensor.broadcast_shapes(tuple(category.shape), self.batch_shape)
        table = self.logits.expand((*shape, self.logits.shape[-1]))
        return table.gather(-1, category.expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.probs * self.logits).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most probable one."""
        return self.probs.argmax(-1)

    mean = variance = property(lambda self: self.probs.sum(-1) * math.nan)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(Tensor.arange(self.logits.shape[-1]), expand)


class OneHotCategorical(Categorical):
    """Categories as vectors with a 1."""

    support = C.one_hot

    def _spread(self, batch: Sequence[Any], **parameters: Any) -> None:
        super()._spread(batch, **parameters)
        self._event_shape = tuple(self.logits.shape[-1:])

    def _vectors(self, categories: Tensor) -> Tensor:
        return categories.one_hot(self.logits.shape[-1]).cast(self.logits.dtype)

    def _draw(self, shape: Shape) -> Tensor:
        return self._vectors(super()._draw(shape))

    def log_prob(self, value: Any) -> Tensor:
        given = self._validate_sample(self._beside(value, self.logits))
        return self._logits_at(given.argmax(-1))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(Tensor.eye(self.logits.shape[-1]).cast(self.logits.dtype), expand)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        """The most probable vector."""
        return self._vectors(self.probs.argmax(-1))


class Multinomial(OneHotCategorical):
    """How often each category comes in `total_count` draws."""

    has_enumerate_support = False
    enumerate_support = Distribution.enumerate_support
    support = C.dependent_property(lambda self: C.multinomial(self.total_count))

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        within("total_count", total_count, 0)
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    def _draw(self, shape: Shape) -> Tensor:
        return super()._draw((self.total_count, *shape)).sum(0)

    def log_prob(self, value: Any) -> Tensor:
        given = self._validate_sample(self._beside(value, self.logits))
        ways = (given.sum(-1) + 1).lgamma() - (given + 1).lgamma().sum(-1)
        return ways + choose(given == 0, 0.0, given * self.logits).sum(-1)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.probs * (1 - self.probs) * self.total_count)
    mode = Distribution.mode

    def entropy(self) -> Tensor:
        """By the mean of log x! of each category, whose counts x are binomial."""
        count = self.total_count
        each = Tensor.arange(count + 1).cast(self.logits.dtype)
        counts = Binomial(count, self.probs, validate_args=False)
        places = each.reshape(-1, *[1] * self.probs.ndim)
        means = (counts.log_prob(places).exp() * (places + 1).lgamma()).sum(0).sum(-1)
        return Categorical.entropy(self) * count - math.lgamma(count + 1) + means


class Dirichlet(Distribution):
    """Vectors with sum 1: the product of x^(a - 1), a the concentration, over B(a)."""

    _axes = {"concentration": 1}
    concentration: Any
    has_rsample = True
    arg_constraints: Any = MappingProxyType({"concentration": C.independent(C.positive, 1)})
    support = C.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None):
        self._validate(validate_args)
        (given,) = floats(concentration)
        if not given.ndim:
            raise ShapeError("Dirichlet needs an axis")
        self._event_shape = tuple(given.shape[-1:])
        self._spread(given.shape[:-1], concentration=self._checked("concentration", given))

    def _spread(self, batch: Sequence[Any], **parameters: Any) -> None:
        super()._spread(batch, **parameters)
        self._whole: Any = self.concentration.sum(-1)

    def _draw(self, shape: Shape) -> Tensor:
        a = self.concentration
        drawn = Noise((*shape, *a.shape), a).gamma(a)
        return drawn / drawn.sum(-1, keepdim=True)

    def _log_beta(self) -> Tensor:
        return self.concentration.lgamma().sum(-1) - self._whole.lgamma()

    def log_prob(self, value: Any) -> Tensor:
        given = self._validate_sample(self._beside(value, self.concentration))
        return (self.concentration - 1).xlogy(given).sum(-1) - self._log_beta()

    mean = property(lambda self: self.concentration / self._whole.unsqueeze(-1))
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._whole + 1).unsqueeze(-1))

    @property
    def mode(self) -> Tensor:
        """The most probable vector; where no concentration is above 1, a corner."""
        above = (self.concentration - 1).clamp_min(0)
        whole = above.sum(-1, keepdim=True)
        corner = self.concentration.argmax(-1).one_hot(self.event_shape[0]).cast(above.dtype)
        return choose(whole == 0, corner, above / choose(whole == 0, 1.0, whole))

    def entropy(self) -> Tensor:
        a, size = self.concentration, self.event_shape[0]
        inner = ((a - 1) * a.digamma()).sum(-1)
        return self._log_beta() - (size - self._whole) * self._whole.digamma() - inner


class OfMatrix(Distribution):
    """What has a positive definite matrix, its inverse, or its lower triangle by Cholesky."""

    has_rsample = True
    scale_tril: Any

    def _triangle(self, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any) -> Any:
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }  # fmt: skip
        if list(given.values()).count(None) != 2:
            what = "one of covariance_matrix, precision_matrix and scale_tril"
            raise ValueRangeError(f"{type(self).__name__} takes {what}")
        (name,) = (name for name in given if given[name] is not None)
        (matrix,) = floats(given[name])
        if matrix.ndim < 2:
            raise ShapeError(f"{name} of {type(self).__name__} needs two axes or more")
        matrix = self._checked(name, matrix)
        if name == "scale_tril":
            return matrix
        return (matrix.inverse() if name == "precision_matrix" else matrix).cholesky()

    def _log_volume(self) -> Any:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    @property
    def covariance_matrix(self) -> Tensor:
        """The matrix L L^T of the triangle L, of the normal vectors."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self.scale_tril.cholesky_inverse()


class MultivariateNormal(OfMatrix):
    """Normal vectors of mean `loc`, with a covariance matrix, its inverse, or its lower triangle by
    Cholesky.
    """

    _axes = {"loc": 1, "scale_tril": 2}
    loc: Any
    arg_constraints: Any = MappingProxyType({
        "loc": C.real_vector, "covariance_matrix": C.positive_definite,
        "precision_matrix": C.positive_definite, "scale_tril": C.lower_cholesky,
    })  # fmt: skip
    support = C.real_vector

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ):  # fmt: skip
        self._validate(validate_args)
        scale_tril = self._triangle(covariance_matrix, precision_matrix, scale_tril)
        batch = Tensor.broadcast_shapes(tuple(loc.shape[:-1]), tuple(scale_tril.shape[:-2]))
        self._event_shape = tuple(loc.shape[-1:])
        self._spread(batch, loc=self._checked("loc", loc), scale_tril=scale_tril)

    def _draw(self, shape: Shape) -> Tensor:
        noise = Noise((*shape, *self.loc.shape), self.loc).normal()
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _distance(self, apart: Any) -> Any:
        """The squared length of what L makes vectors so far from the mean of."""
        scale = self.scale_tril.expand((*apart.shape[:-1], *self.scale_tril.shape[-2:]))
        solved = apart.unsqueeze(-1).triangular_solve(scale, upper=False)[0]
        return solved.square().sum((-2, -1))

    def log_prob(self, value: Any) -> Tensor:
        given = self._validate_sample(self._beside(value, self.loc))
        distance = self._distance(given - self.loc) + self.event_shape[0] * LOG_TAU
        return distance * -0.5 - self._log_volume()

    def entropy(self) -> Tensor:
        return self._log_volume() + self.event_shape[0] * (0.5 + 0.5 * LOG_TAU)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.scale_tril.square().sum(-1))


__all__ = ["Categorical", "Dirichlet", "Multinomial", "MultivariateNormal", "OneHotCategorical"]
