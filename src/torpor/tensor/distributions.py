"""Draws from distributions, made of uniform and normal draws: categories, trials, waiting times.

They are lazy as all random numbers are, take `generator`, and have no gradient.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, OutOfBoundsError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.records import Requirement
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import as_tensor, beside
from torpor.tensor.handle import Handle, derive, flat, located
from torpor.tensor.operands import choose
from torpor.tensor.random import (
    Generator,
    Random,
    normal_numbers,
    open_uniform,
    random_uniform,
    random_words,
)
from torpor.tensor.rejection import binomial_counts, poisson_counts
from torpor.tensor.sorting import Sorting
from torpor.tensor.spelling import whole_number, within

PROBABILITY: Final = Requirement("value", "bernoulli takes probabilities between 0 and 1")
TRIALS: Final = Requirement(
    "value", "binomial takes whole counts from 0 and probabilities between 0 and 1"
)
RATE: Final = Requirement("value", "poisson takes finite rates that are not negative")
DEVIATION: Final = Requirement("value", "a standard deviation is not negative")
VARIANCE: Final = Requirement("value", "a variance is not negative")
WEIGHTS: Final = Requirement(
    "value", "multinomial takes finite weights that are not negative, enough of them above 0"
)


def required(value: Any, condition: Any, what: Requirement) -> Any:
    """The value, where what is computed of it raises unless the condition holds."""
    return derive(build.check, (value, condition.expand(value.shape)), what)


class Distributions(Handle):
    """Methods that draw, and in-place forms that fill with draws."""

    __slots__ = ()

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability that each element is (or with probability `p`), else 0; shape and
        format stay. One outside [0, 1] raises at realisation.

        >>> Tensor([0.0, 1.0]).bernoulli().tolist()
        [0.0, 1.0]
        """
        if p is not None:
            within("a probability", p, 0, 1)
        elif not self.dtype.is_float:
            what = f"bernoulli takes probabilities that are floats, not {self.dtype}"
            raise located(DTypeError(what), (self,))
        drawn = random_uniform(self.shape, self.device, None, generator)
        chance: Any = self.detach() if p is None else p
        if p is None:
            chance = required(chance, (chance >= 0) & (chance <= 1), PROBABILITY)
        return flat((drawn < chance).cast(self.dtype), self)

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Indices (int64) drawn with probabilities in proportion to the weights along the last
        axis: (num_samples,) of weights (n,), (rows, num_samples) of weights (rows, n).

        Without replacement no index comes twice in a row. At realisation a `ValueRangeError` for
        weights that are negative, NaN or infinite, and for fewer above 0 than are to be drawn.

        >>> Tensor([0.0, 2.0, 0.0]).multinomial(2, replacement=True).tolist()
        [1, 1]
        """
        count = whole_number(num_samples)
        if not self.dtype.is_float:
            raise DTypeError(f"multinomial takes weights that are floats, not {self.dtype}")
        if self.ndim not in (1, 2):
            raise located(ShapeError("multinomial takes weights (n,) or (rows, n)"), (self,))
        if count < 1:
            raise ValueRangeError(f"multinomial draws at least one sample, not {count}")
        if self.shape[-1] < (1 if replacement else count):
            what = f"multinomial: {count} samples of {self.shape[-1]} categories"
            raise located(OutOfBoundsError(what), (self,))
        given: Any = self.detach().cast(dtypes.float64)
        usable = ((given >= 0) & (given < math.inf)).all(-1, keepdim=True)
        enough = (given > 0).sum(-1, keepdim=True) >= (1 if replacement else count)
        weights = required(given, usable & enough, WEIGHTS)
        weights = weights / weights.amax(-1, keepdim=True)
        draw = _with_replacement if replacement else _without_replacement
        return draw(weights, count, generator)

    def poisson(self, generator: Generator | None = None) -> Tensor:
        """Numbers of events, where each element is the number expected; shape and format stay.
        Sequential search below 10, else Hörmann's transformed rejection (PTRS), 1993. One that is
        negative, NaN or infinite raises at realisation.

        >>> Tensor([0.0]).poisson().tolist()
        [0.0]
        """
        rate: Any = self.detach().cast(dtypes.float64)
        rate = required(rate, (rate >= 0) & (rate < math.inf), RATE)
        words = random_words(self.shape, self.device, generator)
        return flat(poisson_counts(rate, words).cast(self.dtype), self)

    def binomial(self, prob: Any, generator: Generator | None = None) -> Tensor:
        """Numbers of successes, where the elements are the numbers of trials and `prob` is the
        probability of success, broadcast; the format stays. Sequential search where fewer than 10
        are expected, else Hörmann's transformed rejection (BTRS), 1993. A count that is negative
        and a probability outside [0, 1] raise at realisation.

        >>> Tensor([3.0, 4.0]).binomial(Tensor([0.0, 1.0])).tolist()
        [0.0, 4.0]
        """
        chance: Any = beside(prob, self).detach().cast(dtypes.float64)
        trials: Any = self.detach().cast(dtypes.float64) + chance * 0
        chance = chance.expand(trials.shape)
        whole = (trials >= 0) & (trials < math.inf) & (trials.floor() == trials)
        trials = required(trials, whole & (chance >= 0) & (chance <= 1), TRIALS)
        words = random_words(trials.shape, self.device, generator)
        return binomial_counts(trials, chance, words).cast(self.dtype)

    @staticmethod
    def normal(*size: Any, mean: Any = 0.0, std: Any = 1.0, **options: Any) -> Tensor:
        """Normal, of the given mean and standard deviation, which is not negative
        (`ValueRangeError`): `normal(2, 3, mean=0, std=1)`, or `normal(0, 1, (2, 3))`; or with
        tensors of floats for mean, standard deviation or both, broadcast: `normal(mean, std)`.

        >>> Tensor.normal(Tensor([1.0, 2.0]), 0.0).tolist()
        [1.0, 2.0]
        """
        if len(size) == 3 and isinstance(size[2], (tuple, list)):
            mean, std, size = size
        elif any(isinstance(one, Handle) and one.dtype.is_float for one in (*size, mean, std)):
            if len(size) > 2:
                raise TypeError(f"normal takes a mean and a deviation here, not {len(size)} values")
            given = dict(zip(("mean", "std"), size, strict=False))
            return _normal_around(given.get("mean", mean), given.get("std", std), **options)
        within("a standard deviation", std, 0)
        requires = options.pop("requires_grad", None)
        made = Random.randn(*size, **options) * std + mean
        return made.requires_grad_() if requires else made

    # --- in place ---------------------------------------------------------------------------------
    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Filled with 1 with probability `p` (a number or a tensor, broadcast), else 0; itself."""
        if not isinstance(p, Handle):
            within("a probability", p, 0, 1)
            p = as_tensor(float(p), dtype=dtypes.float64, device=self.device)
        return self.copy_(p.detach().expand(self.shape).bernoulli(generator=generator))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Filled with waiting times of events of rate `lambd`, all above 0; itself."""
        _above_zero("a rate", lambd)
        _of_floats(self, "exponential_")
        wide = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
        # -log u, for small ones exact to the last place, so that none is 0
        waited: Any = -(-open_uniform(self.shape, self.device, wide, generator)).log1p()
        return self.copy_(waited / lambd)

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Tensor:
        """Filled with the numbers of trials, 1 or more, up to the first success, which has
        probability `p`, above 0 and below 1; itself.
        """
        if not 0 < p < 1:
            raise ValueRangeError(f"geometric_ takes a probability above 0 and below 1, not {p}")
        waited = open_uniform(self.shape, self.device, dtypes.float64, generator).log()
        return self.copy_((waited / math.log1p(-p)).ceil().maximum(1))

    def cauchy_(
        self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Filled with numbers of Cauchy's distribution around `median`, half of them within
        `sigma` of it; itself.
        """
        _above_zero("sigma", sigma)
        _of_floats(self, "cauchy_")
        place = open_uniform(self.shape, self.device, dtypes.float64, generator) - 0.5
        return self.copy_((place * math.pi).tan() * sigma + median)

    def log_normal_(
        self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Filled with numbers whose logarithms are normal, of the given mean and standard
        deviation; itself.
        """
        _above_zero("a standard deviation", std)
        _of_floats(self, "log_normal_")
        wide = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
        drawn: Any = normal_numbers(self.shape, self.device, wide, generator)
        return self.copy_((drawn * std + mean).exp())

    def random_(self, *ends: int, generator: Generator | None = None) -> Tensor:
        """Filled with whole numbers: `random_(from, to)` from the first below the second,
        `random_(to)` from 0; without ends all that the format holds from 0 on (floats: as far as
        each whole number is there, 2**24 in float32); itself.
        """
        low, high = {0: (0, None), 1: (0, *ends)}.get(len(ends), ends)
        high = _first_beyond(self.dtype) if high is None else high
        drawn = Random.randint(low, high, self.shape, device=self.device, generator=generator)
        return self.copy_(drawn)


def _first_beyond(dtype: Any) -> int:
    """The end of the whole numbers from 0 on that a format has without a gap."""
    if dtype.is_float:
        return int(2 << dtype.fraction)
    return 2 if dtype is dtypes.bool else int(dtype.max) + 1


def _above_zero(what: str, number: float) -> None:
    if not 0 < number < math.inf:
        raise ValueRangeError(f"{what} is finite and above 0, not {number}")


def _of_floats(handle: Handle, name: str) -> None:
    if not handle.dtype.is_float:
        raise DTypeError(f"{name} fills tensors of floats, not of {handle.dtype}")


def _normal_around(
    mean: Any, std: Any, *, generator: Generator | None = None, **options: Any
) -> Tensor:
    center, spread = mean, std
    if isinstance(std, Handle):
        spread = std.detach()
        spread = required(spread, spread >= 0, DEVIATION)
    else:
        within("a standard deviation", std, 0)
    like: Any = mean.detach() if isinstance(mean, Handle) else spread
    center = like if isinstance(mean, Handle) else mean
    zero = like * 0 if like is spread else like * 0 + spread * 0
    kind = {"dtype": zero.dtype, "device": zero.device, **options}
    return Random.randn(zero.shape, generator=generator, **kind) * spread + center


def _with_replacement(weights: Any, count: int, generator: Generator | None) -> Tensor:
    """The first category whose running sum is beyond a uniform number times the whole sum.

    The running sums of categories of weight 0 are those before them, to the bit, whatever the order
    of adding was: so they are never the first.
    """
    reached = choose(weights > 0, weights.cumsum(-1), 0.0).cummax(-1).values
    shape = (*weights.shape[:-1], count)
    drawn = random_uniform(shape, weights.device, dtypes.float64, generator)
    return Sorting.searchsorted(reached, drawn * reached[..., -1:], right=True)


def _without_replacement(weights: Any, count: int, generator: Generator | None) -> Tensor:
    """The greatest of log(weight) + Gumbel's numbers, -log(waiting times): the order of waiting
    times with rates as weights. Efraimidis and Spirakis, 2006.
    """
    waited = -(-open_uniform(weights.shape, weights.device, dtypes.float64, generator)).log1p()
    return (weights / waited).topk(count).indices
