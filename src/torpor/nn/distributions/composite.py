"""Distributions that are made of others."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.nn.distributions import constraints as C
from torpor.nn.distributions.base import Distribution, Shape
from torpor.nn.distributions.families import Normal
from torpor.nn.distributions.scalar_transforms import ComposeTransform, Transform, raised, summed
from torpor.nn.distributions.vector_transforms import StickBreakingTransform
from torpor.nn.distributions.vectors import Categorical
from torpor.tensor import Tensor, as_tensor
from torpor.tensor.operands import choose


def need_distributions(*given: Any) -> None:
    """Raise unless all are distributions."""
    for one in given:
        if not isinstance(one, Distribution):
            raise DTypeError(f"a distribution is expected, not {one!r}")


class Independent(Distribution):
    """Another distribution whose last axes of the batch are axes of an event."""

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._validate(validate_args)
        need_distributions(base_distribution)
        self.base_dist, self._count = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        if not 0 <= reinterpreted_batch_ndims <= len(shape):
            raise ValueRangeError(f"{reinterpreted_batch_ndims} axes of a batch of shape {shape}")
        cut = len(shape) - reinterpreted_batch_ndims
        self._batch_shape = shape[:cut]
        self._event_shape = (*shape[cut:], *base_distribution.event_shape)
        self.has_rsample = base_distribution.has_rsample

    support = C.dependent_property(lambda self: C.independent(self.base_dist.support, self._count))

    def expand(self, batch_shape: Sequence[int]) -> Any:
        inner = self.base_dist.batch_shape[len(self.batch_shape) :]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), self._count)

    def _draw(self, shape: Shape) -> Tensor:
        return self.base_dist._draw(shape)

    def log_prob(self, value: Any) -> Tensor:
        return summed(self.base_dist.log_prob(value), self._count)

    def entropy(self) -> Tensor:
        return summed(self.base_dist.entropy(), self._count)

    mean = property(lambda self: self.base_dist.mean)
    variance = property(lambda self: self.base_dist.variance)
    mode = property(lambda self: self.base_dist.mode)


class MixtureSameFamily(Distribution):
    """One of the components, along the last axis of their batch, by a Categorical."""

    support = C.dependent_property(
        lambda self: C.MixtureSameFamilyConstraint(self.component_distribution.support)
    )

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any,
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._validate(validate_args)
        need_distributions(mixture_distribution, component_distribution)
        if not isinstance(mixture_distribution, Categorical):
            raise DTypeError(f"a mixture is by a Categorical, not by {mixture_distribution!r}")
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        self._batch_shape = component_distribution.batch_shape[:-1]
        self._event_shape = component_distribution.event_shape
        self._axis = -1 - len(self.event_shape)

    def expand(self, batch_shape: Sequence[int]) -> Any:
        made, batch = copy.copy(self), tuple(batch_shape)
        each = (*batch, self.component_distribution.batch_shape[-1])
        made.mixture_distribution = self.mixture_distribution.expand(batch)
        made.component_distribution = self.component_distribution.expand(each)
        made._batch_shape = batch
        return made

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    def _draw(self, shape: Shape) -> Tensor:
        chosen = self.mixture_distribution.expand(self.batch_shape)._draw(shape)
        drawn = self.component_distribution._draw(shape)
        one = chosen.reshape(*chosen.shape, *[1] * (1 + len(self.event_shape)))
        whole = one.expand((*chosen.shape, 1, *self.event_shape))
        return drawn.gather(self._axis, whole).squeeze(self._axis)

    def log_prob(self, value: Any) -> Tensor:
        weights = self.mixture_distribution.logits
        given = self._beside(value, weights).unsqueeze(self._axis)
        return (self.component_distribution.log_prob(given) + weights).logsumexp(-1)

    def cdf(self, value: Any) -> Tensor:
        weights = self.mixture_distribution.probs
        given = self._beside(value, weights).unsqueeze(-1)
        return (self.component_distribution.cdf(given) * weights).sum(-1)

    mean = property(
        lambda self: (self._weights() * self.component_distribution.mean).sum(self._axis)
    )

    @property
    def variance(self) -> Tensor:
        each, weights = self.component_distribution, self._weights()
        around = (each.mean - self.mean.unsqueeze(self._axis)).square()
        return (weights * (each.variance + around)).sum(self._axis)


class TransformedDistribution(Distribution):
    """What transforms make of draws of another distribution. Events have as many axes as the
    transforms need.
    """

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None):
        self._validate(validate_args)
        need_distributions(base_distribution)
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self._whole = ComposeTransform(self.transforms)
        self.base_dist = base = self._fitting(base_distribution)
        axes = len(base.event_shape) - self._whole.domain.event_dim
        shape = self._whole.forward_shape((*base.batch_shape, *base.event_shape))
        cut = len(shape) - self._whole.codomain.event_dim - axes
        self._batch_shape, self._event_shape = shape[:cut], shape[cut:]
        self.has_rsample = base.has_rsample

    def _fitting(self, base: Any) -> Any:
        """The base with the batch and the axes of events that the transforms need."""
        shape, needed = (*base.batch_shape, *base.event_shape), self._whole.domain.event_dim
        if len(shape) < needed:
            raise ShapeError(f"{self._whole!r} needs {needed} axes; {base!r} has {len(shape)}")
        shape = self._whole.inverse_shape(self._whole.forward_shape(shape))
        batch = shape[: len(shape) - len(base.event_shape)]
        base = base if batch == tuple(base.batch_shape) else base.expand(batch)
        missing = needed - len(base.event_shape)
        return Independent(base, missing) if missing > 0 else base

    support = C.dependent_property(lambda self: raised(self._whole.codomain, len(self.event_shape)))

    def expand(self, batch_shape: Sequence[int]) -> Any:
        shape = self._whole.inverse_shape((*batch_shape, *self.event_shape))
        batch = shape[: len(shape) - len(self.base_dist.event_shape)]
        made = copy.copy(self)
        made.base_dist, made._batch_shape = self.base_dist.expand(batch), tuple(batch_shape)
        return made

    def _draw(self, shape: Shape) -> Tensor:
        return self._whole(self.base_dist._draw(shape))

    def log_prob(self, value: Any) -> Tensor:
        given = self._validate_sample(as_tensor(value))
        before = self._whole._inverse(given)
        slope = self._whole.log_abs_det_jacobian(before, given)
        axes = len(self.base_dist.event_shape) - self._whole.domain.event_dim
        return self.base_dist.log_prob(before) - summed(slope, axes)

    def cdf(self, value: Any) -> Tensor:
        made = self.base_dist.cdf(self._whole._inverse(self._validate_sample(as_tensor(value))))
        return choose(as_tensor(self._whole.sign) > 0, made, 1 - made)

    def icdf(self, value: Any) -> Tensor:
        asked = choose(as_tensor(self._whole.sign) > 0, value, 1 - value)
        return self._whole(self.base_dist.icdf(asked))


class LogisticNormal(TransformedDistribution):
    """Vectors (..., n) with sum 1 that `StickBreakingTransform` makes of normal vectors of n - 1
    independent numbers.
    """

    arg_constraints = Normal.arg_constraints
    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            raise ShapeError("LogisticNormal needs an axis")
        super().__init__(base, StickBreakingTransform(), validate_args)


__all__ = ["Independent", "LogisticNormal", "MixtureSameFamily", "TransformedDistribution"]
