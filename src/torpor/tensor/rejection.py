"""Numbers of events: sequential search and transformed rejection, round after round in a loop.

Each element has a stream of random words of its own, whose keys are the element's two drawn words:
so a count takes one draw, however many rounds it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.graph import build
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import make
from torpor.tensor.looping import while_loop
from torpor.tensor.operands import choose
from torpor.tensor.random import threefry

SEARCHED: Final = 10  # Hörmann's bound: his constants hold from this mean on


def _stream(words: tuple[Any, Any], number: Any) -> tuple[Any, Any]:
    """The uniform numbers of a round, in (0, 1), of two words each (float64)."""
    keys = (words[0]._current(), words[1]._current())
    counter = (number.cast(dtypes.uint32) + words[0] * 0)._current()
    zero = build.constant(0, dtypes.uint32, words[0].shape)
    made = (make(node, words[0].device) for node in threefry(keys, (counter, zero)))
    first, second = ((word.cast(dtypes.float64) + 0.5) * 2.0**-32 for word in made)
    return first, second


def _counted(
    words: tuple[Any, Any], searched: Any, none: Any, ratio: Callable[[Any], Any],
    candidate: Callable[[Any, Any], tuple[Any, Any]],
) -> Any:  # fmt: skip
    """Where `searched`: the least k whose cumulative probability is not below a uniform number;
    `none` is the probability of 0, ratio(k) that of k divided by that of k - 1. Elsewhere: the
    first candidate(u, v) = (k, accepted) of uniform u and v that is accepted.
    """
    start = as_tensor(0, dtype=dtypes.int64, device=words[0].device)
    first, second = _stream(words, start)
    found = searched & False
    carry = (start + 1, found, none * 0, first + (second - 0.5) * 2.0**-32, none)

    def round_of(carry: Any) -> Any:
        number, done, k, left, mass = carry
        tried, accepted = candidate(*_stream(words, number))
        after = mass * ratio(k + 1)
        onward = (left > mass) & (after > 0)
        k_next = choose(searched, choose(onward, k + 1, k), tried)
        k = choose(done, k, k_next)
        left, mass = choose(onward, left - mass, left), choose(onward, after, mass)
        return number + 1, done | choose(searched, ~onward, accepted), k, left, mass

    return while_loop(lambda carry: ~carry[1].all(), round_of, carry)[2]


def poisson_counts(rate: Any, words: tuple[Any, Any]) -> Any:
    """Poisson numbers for rates (float64) and two random words for each. Hörmann, "The transformed
    rejection method for generating Poisson random variables", 1993, algorithm PTRS.
    """
    mean = rate.maximum(SEARCHED)
    b = 0.931 + 2.53 * mean.sqrt()
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    safe = 0.9277 - 3.6224 / (b - 2)
    log_mean = mean.log()

    def candidate(u: Any, v: Any) -> tuple[Any, Any]:
        u = u - 0.5
        inside = 0.5 - u.abs()
        k = ((2 * a / inside + b) * u + mean + 0.43).floor()
        height = (v * inverse_alpha / (a / (inside * inside) + b)).log()
        fits = height <= k * log_mean - mean - (k.maximum(0) + 1).lgamma()
        return k, ((inside >= 0.07) & (v <= safe)) | ((k >= 0) & fits)

    low = rate.minimum(SEARCHED)
    return _counted(words, rate < SEARCHED, (-low).exp(), lambda k: low / k, candidate)


def binomial_counts(trials: Any, chance: Any, words: tuple[Any, Any]) -> Any:
    """Successes for trials and chances (float64) and two random words for each. Hörmann, "The
    generation of binomial random variates", 1993, algorithm BTRS; of the rarer outcome.
    """
    rare = chance.minimum(1 - chance)
    searched = trials * rare < SEARCHED
    n, p = choose(searched, 4.0 * SEARCHED, trials), choose(searched, 0.5, rare)
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    safe = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    log_odds = (p / (1 - p)).log()
    mode = ((n + 1) * p).floor()

    def log_ways(k: Any) -> Any:
        return -(k + 1).lgamma() - (n - k + 1).lgamma()

    peak = log_ways(mode)

    def candidate(u: Any, v: Any) -> tuple[Any, Any]:
        u = u - 0.5
        inside = 0.5 - u.abs()
        k = ((2 * a / inside + b) * u + n * p + 0.5).floor()
        height = (v * alpha / (a / (inside * inside) + b)).log()
        possible = (k >= 0) & (k <= n)
        fits = height <= log_ways(k.clamp(0, math.inf).minimum(n)) - peak + (k - mode) * log_odds
        return k, ((inside >= 0.07) & (v <= safe)) | (possible & fits)

    few, unlikely = choose(searched, trials, 0.0), choose(searched, rare, 0.0)
    odds = unlikely / (1 - unlikely)
    none = (few * (-unlikely).log1p()).exp()
    made = _counted(words, searched, none, lambda k: odds * (few - k + 1) / k, candidate)
    return choose(chance > 0.5, trials - made, made)
