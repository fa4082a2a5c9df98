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


def gamma_numbers(shape: Any, words: tuple[Any, Any]) -> Any:
    """Gamma numbers of rate 1, above 0, for shapes (float64) and two random words for each.
    Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: for shapes below 1
    those of one more, times a uniform number to the power of 1 / shape.
    """
    small = shape < 1
    d = choose(small, shape + 1, shape) - 1 / 3
    c = 1 / (d * 9).sqrt()

    def candidate(number: Any) -> tuple[Any, Any]:
        u, v = _stream(words, number)
        x = (u.log() * -2).sqrt() * (v * (2 * math.pi)).cos()
        cube = (x * c + 1) ** 3
        height = _stream(words, number + 1)[0].log()
        tried = choose(cube > 0, cube, 1.0)
        return tried, (cube > 0) & (height < x * x / 2 + d * (1 - tried + tried.log()))

    start = as_tensor(0, dtype=dtypes.int64, device=words[0].device)
    raised = _stream(words, start)[0] ** (1 / choose(small, shape, 1.0))
    made = _first(words, shape, candidate) * d
    return (made * choose(small, raised, 1.0)).maximum(2.0**-1022)


def gamma_slopes(shape: Any, drawn: Any) -> Any:
    """How gamma numbers change with their shapes while as many as before lie below them: by the
    series P(a, x) = x**a exp(-x) sum(x**n / gamma(a + n + 1)), -(dP / da) / (dP / dx). Figurnov,
    Mohamed and Mnih, "Implicit reparameterization gradients", 2018, arXiv:1805.08498.
    """
    log, first = drawn.log(), (shape + 1).digamma()

    def more(carry: Any) -> Any:
        number, term, psi, total = carry
        small = term * (log - psi).abs() <= total.abs() * 2.0**-53
        return ~(small & (shape + number > drawn)).all()

    def add(carry: Any) -> Any:
        number, term, psi, total = carry
        term, psi = term * drawn / (shape + number), psi + 1 / (shape + number)
        return number + 1, term, psi, total + term * (log - psi)

    one = as_tensor(1, dtype=dtypes.int64, device=shape.device)
    carry = (one, shape * 0 + 1, first, log - first)
    return while_loop(more, add, carry)[3] * drawn / -shape


def angles(concentration: Any, words: tuple[Any, Any]) -> Any:
    """Angles around 0, with density in proportion to exp(concentration cos x), for concentrations
    (float64) and two random words for each. Best and Fisher, "Efficient simulation of the von Mises
    distribution", 1979, with r = (1 + rho²) / 2 rho; 1 / k for small k.
    """
    k = concentration
    tau = 1 + (1 + 4 * k * k).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * k)
    r = choose(k < 1e-4, 1 / k + k, (1 + rho * rho) / (2 * rho))

    def candidate(number: Any) -> tuple[Any, Any]:
        u, v = _stream(words, number)
        z = (u * math.pi).cos()
        f = (1 + r * z) / (r + z)
        c = k * (r - f)
        side = _stream(words, number + 1)[0] < 0.5
        size = f.clamp(-1, 1).acos()
        return choose(side, -size, size), (c * (2 - c) > v) | ((c / v).log() + 1 >= c)

    return _first(words, k, candidate)


def _first(words: tuple[Any, Any], like: Any, candidate: Callable[[Any], tuple[Any, Any]]) -> Any:
    """For each element the first tried of candidate(number) = (tried, accepted) that is accepted;
    each takes two numbers.
    """

    def round_of(carry: Any) -> Any:
        number, done, found = carry
        tried, fits = candidate(number)
        accepted = fits & ~done
        return number + 2, done | accepted, choose(accepted, tried, found)

    start = as_tensor(1, dtype=dtypes.int64, device=words[0].device)
    carry = (start, (like > 0) & False, like * 0)
    return while_loop(lambda carry: ~carry[1].all(), round_of, carry)[2]
