"""The shares of the gamma function below and above a bound: `igamma` and `igammac`.

Four expansions of a fixed number of steps, each taken where it holds. P is the share below x, Q
the one above; mu is x / a - 1, and what all are scaled by is x**a exp(-x) / gamma(a + 1).
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.base.errors import GradientError
from torpor.tensor.handle import floats, located
from torpor.tensor.mode import grad_enabled
from torpor.tensor.operands import promoted, sloped
from torpor.tensor.series import LGAMMA, chebyshev, stirling

UNIFORM: Final = 12  # from which a on Temme's expansion holds, of x near a
RISEN: Final = 8  # from which a on Stirling's series holds
SMALL: Final = 1.5  # up to which x the series hold for every a
FAR: Final = 1500.0  # from where on exp(-x) x**a is 0 in every format, of a up to `RISEN`
STEPS: Final = 64  # of series and continued fraction
# eta / mu without its first term 1, in eta: eta**2 / 2 = mu - log(1 + mu) (DLMF 8.12.2); by the
# power series of mu, from mu mu' = eta (1 + mu), in 80 digits
TEMME: Final = (
    -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
    0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
    -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    -5.830772132550426e-11, 2.4361948020667415e-11, -5.0276692801141755e-12, 1.1004392031956135e-13,
    3.371763262400985e-13, -1.392388722418162e-13, 2.8534893807047445e-14, -5.139111834242572e-16,
    -1.9752288294349442e-15, 8.099521156704561e-16, -1.6522531216398162e-16, 2.5305430097478883e-18,
    1.1686939738559576e-17,
)  # fmt: skip


def share(a: Any, x: Any, upper: bool) -> Any:
    """Q(a, x), or P(a, x), with their ends: P is 0 where x is 0 or a infinite, 1 where a is 0 or x
    infinite; both are NaN where these meet, and of negative numbers.
    """
    a, x = promoted(a, x)
    a, x = floats(a), floats(x)
    if a.requires_grad and grad_enabled():
        what = "igamma and igammac have a gradient for their second operand alone; detach the first"
        raise located(GradientError(what), (a,))
    at, of = a.detach(), x.detach()
    inside = (at > 0) & (of > 0) & ~at.isinf() & ~of.isinf()
    made = shares(inside.where(at, 1), inside.where(of, 1))[upper]
    nothing, whole = of.eq(0) | at.isinf(), at.eq(0) | of.isinf()
    known = nothing.ne(whole) & (at >= 0) & (of >= 0)
    ends = known.where(nothing.eq(upper).cast(made.dtype), math.nan)
    slope = ((a - 1).xlogy(x) - x - a.lgamma()).exp()
    return sloped(inside.where(made, ends), (x, -slope if upper else slope))


def shares(a: Any, x: Any) -> tuple[Any, Any]:
    """P(a, x) and Q(a, x) of a > 0 and x > 0, both to the format's digits where they are small."""
    scale, (lower, upper, near) = _scale(a, x), _uniform(a, x)
    by_series = x < (a + 1).maximum(SMALL)
    low, high = scale * _series(a, x), scale * _fraction(a, x)
    small = (a <= 1) & (x < SMALL)
    above = small.where(_above_small(a, x, scale), 1 - low)
    low, high = by_series.where(low, 1 - high), by_series.where(above, high)
    return near.where(lower, low), near.where(upper, high)


def _scale(a: Any, x: Any) -> Any:
    """x**a exp(-x) / gamma(a + 1), without overflow on the way."""
    few, bound = a.minimum(RISEN), x.minimum(FAR)
    half = (bound * -0.5).exp()
    small = bound**few * half * half * (-(few + 1).lgamma()).exp()
    large = a.maximum(RISEN)
    ratio = x / large
    mu = ratio - 1
    decay = (ratio < 0.5).where(mu - ratio.log(), mu - mu.log1p())
    wide = (-large * decay - stirling(large)).exp() * (large * (2 * math.pi)).rsqrt()
    return (a <= RISEN).where(small, wide)


def _series(a: Any, x: Any) -> Any:
    """The sum of x**k / ((a + 1) … (a + k)): P by it (DLMF 8.7.1, 8.5.1)."""
    made = 1.0
    for k in range(STEPS, 0, -1):
        made = made * x / (a + k) + 1
    return made


def _fraction(a: Any, x: Any) -> Any:
    """a / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)): Q by it (DLMF 8.9.2, contracted)."""
    apart = x - a
    made = apart + (2 * STEPS + 1)
    for k in range(STEPS, 0, -1):
        made = apart + (2 * k - 1) - (k - a) * k / made
    return a / made


def _above_small(a: Any, x: Any, scale: Any) -> Any:
    """Q of a up to 1 and small x, by the alternating series (DLMF 8.7.1):
    1 - x**a / gamma(a + 1), less a x**a / gamma(a + 1) times the sum of (-x)**n / (n! (a + n)).
    """
    log_gamma = a * (a - 1) * chebyshev(a * 2 - 1, LGAMMA)  # of a + 1, which would be rounded
    total, term = 0.0, 1.0
    for n in range(1, 26):
        term = term * -x / n
        total = total + term / (a + n)
    first = a * x.log() - log_gamma
    return -first.expm1() - a * first.exp() * total


def _uniform(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """P, Q, and where they hold: Temme's expansion (DLMF 8.12.3, 8.12.4) by the recurrence
    b(n-1) = f(n) + (n + 1) / a b(n+1) of the coefficients of its rest S = sum of b(n) eta**n, from
    S' - a eta S = a (gamma*(a) - f); gamma*(a) = 1 + b(1) / a. (Gil, Segura and Temme 2012)
    """
    large = a.maximum(UNIFORM)
    mu = (x - large) / large
    half = _half_square(mu)
    near = (a > UNIFORM) & (half < 0.5)
    eta = (half * 2).sqrt() * mu.sign()
    eta = near.where(eta, 0)
    after, now, total = 0.0, 0.0, 0.0
    for n in range(len(TEMME), 0, -1):
        after, now = now, after * ((n + 1) / large) + TEMME[n - 1]
        total = total * eta + now
    stirling = after / large + 1
    rest = (-large * half).exp() * (large * (2 * math.pi)).rsqrt() * total / stirling
    bound = eta * (large / 2).sqrt()
    return (-bound).erfc() / 2 - rest, bound.erfc() / 2 + rest, near


def _half_square(mu: Any) -> Any:
    """mu - log(1 + mu), exact near 0: with r = mu / (2 + mu), log(1 + mu) is 2 artanh(r)."""
    r = mu / (mu + 2)
    square, total = r * r, 0.0
    for k in range(18, 0, -1):
        total = total * square + 1 / (2 * k + 1)
    near = r * (mu - square * total * 2)
    return (mu.abs() < 0.5).where(near, mu - mu.log1p())
