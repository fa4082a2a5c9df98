"""Categories made smooth: draws through which gradients flow."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torpor.nn.distributions.base import Distribution, Noise, Shape, family, floats
from torpor.nn.distributions.constraints import simplex, unit_interval
from torpor.nn.distributions.vectors import OneHotCategorical
from torpor.tensor import Tensor


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Vectors with a 1, whose gradients are those of the probabilities: Bengio et al., 2013,
    arXiv:1308.3432.
    """

    has_rsample = True

    def _draw(self, shape: Shape) -> Tensor:
        return super()._draw(shape).detach() + (self.probs - self.probs.detach())


class RelaxedOneHotCategorical(Distribution):
    """Vectors with sum 1, the nearer to a 1 the lower the temperature: Maddison et al., 2016,
    arXiv:1611.00712; Jang et al., 2016, arXiv:1611.01144.
    """

    has_rsample = True
    arg_constraints = OneHotCategorical.arg_constraints
    support = simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._validate(validate_args)
        self._fill(OneHotCategorical(probs, logits, validate_args))
        (self.temperature,) = floats(temperature)

    def _fill(self, hard: Any) -> None:
        self._hard, self.logits, self.probs = hard, hard.logits, hard.probs
        self._batch_shape, self._event_shape = hard.batch_shape, hard.event_shape

    def expand(self, batch_shape: Sequence[int]) -> Any:
        made = copy.copy(self)
        made._fill(self._hard.expand(batch_shape))
        return made

    def _draw(self, shape: Shape) -> Tensor:
        noise = Noise((*shape, *self.logits.shape), self.logits).uniform()
        return ((self.logits - (-noise.log()).log()) / self.temperature).softmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        given: Any = self._validate_sample(self._beside(value, self.logits))
        count = self.logits.shape[-1]
        score = self.logits - given.log() * self.temperature
        scale = (given.detach()[..., 0] * 0 + count).lgamma() + self.temperature.log() * (count - 1)
        return (score - score.logsumexp(-1, keepdim=True) - given.log()).sum(-1) + scale


def _near(x: Any) -> Any:
    return x.clamp(2.0**-23, 1 - 2.0**-23)


RelaxedBernoulli = family(
    "RelaxedBernoulli", "Numbers from 0 to 1, the nearer to either the lower the temperature.",
    "temperature logits", unit_interval, smooth=True,
    draw=lambda n, t, z: ((z + n.uniform().logit()) / t).sigmoid(),
    log_prob=lambda x, t, z: (
        t.log() + (z - _near(x).logit() * t) - (z - _near(x).logit() * t).softplus() * 2
        - (_near(x).log() + (-_near(x)).log1p())
    ),
)  # fmt: skip


__all__ = ["OneHotCategoricalStraightThrough", "RelaxedBernoulli", "RelaxedOneHotCategorical"]
