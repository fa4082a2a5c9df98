"""The distributions of numbers, each a row of formulas: of the value x, noise n or probability q,
and then the parameters. Where nothing is said of draws they are made by `icdf` of uniform numbers.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.nn.distributions import constraints as C
from torpor.nn.distributions.base import family
from torpor.tensor import Tensor
from torpor.tensor.operands import choose
from torpor.tensor.special import bessel_one

FAR: Final = 60.0  # from here on expansions of Bessel functions are right to 1e-8
EULER: Final = 0.5772156649015329  # -digamma(1)
_ROOT: Final = math.sqrt(2)
LOG_TAU: Final = math.log(2 * math.pi)
_MOMENTS: Final = ("draw", "mean", "variance", "mode")


def log_beta(a: Any, b: Any) -> Any:
    """log(gamma(a) gamma(b) / gamma(a + b))."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


def entropy_of_logits(z: Any) -> Any:
    """-p log p - (1 - p) log(1 - p)."""
    return z.softplus() - z * z.sigmoid()


def _moment(n: int, a: Any, b: Any) -> Any:
    """Of Kumaraswamy's distribution: b B(1 + n / a, b)."""
    return (b.log() + log_beta(1 + n / a, b)).exp()


def _above(bound: float, x: Any, value: Any, otherwise: float = math.inf) -> Any:
    """The value where x is above the bound."""
    return choose(x > bound, value, otherwise)


def _gammas(n: Any, a: Any, b: Any) -> Any:
    """Beta: x / (x + y) of two gammas."""
    x, y = n.gamma(a), n.gamma(b)
    return x / (x + y)


def _poisson(n: Any, rate: Any) -> Any:
    return rate.detach().expand(n.shape).poisson()


def _beyond(d: Any) -> Any:
    """From loc on, up to -scale / k beyond it where k is negative."""
    low = d.concentration < 0
    end = d.loc - d.scale / choose(low, d.concentration, -1.0)
    return C.interval(d.loc, choose(low, end, math.inf))


def _up_to(count: Any, z: Any) -> Any:
    """0 to a count that is the same for all."""
    most = int(count.max().item())
    if (count != most).any():
        raise NotImplementedError("trials that are not the same for all cannot be counted")
    return Tensor.arange(most + 1).cast(z.dtype)


def _log_ways(x: Any, c: Any, z: Any) -> Any:
    """log of the probability of x successes among c."""
    ways = (c + 1).lgamma() - (x + 1).lgamma() - (c - x + 1).lgamma()
    return ways + x * z - c * z.softplus()


def _entropy_of_counts(count: Any, z: Any) -> Any:
    each = _up_to(count, z).reshape(-1, *[1] * z.ndim)
    log = _log_ways(each, count, z)
    return -(log.exp() * log).sum(0)


def _stretched(z: Any, k: Any) -> Any:
    """log(1 + k z) / k."""
    return choose(k == 0, z, (k * z).log1p() / choose(k == 0, 1.0, k))


def _near_zero(z: Any, formula: Any, series: Any) -> Any:
    """The formula, and its series where |z| is too small for that."""
    near = z.abs() < 0.02
    return choose(near, series(z), formula(choose(near, 1.0, z)))


def _log_norm(z: Any) -> Any:
    """log of 2 artanh(1 - 2 p) / (1 - 2 p) for the logit z: z / tanh(z / 2)."""
    return _near_zero(
        z, lambda z: (z / (z / 2).tanh()).log(), lambda z: math.log(2) + z.square() / 12
    )


def _shrunk(z: Any) -> Any:
    """The mean of x with density in proportion to exp(z x) from 0 to 1."""
    return _near_zero(z, lambda z: 1 / -(-z).expm1() - 1 / z, lambda z: 0.5 + z / 12)


def _log_bessel(k: Any) -> Any:
    """log of the modified Bessel function of order 0; by its expansion where that is large."""
    t = 1 / k.maximum(FAR)
    far = k - (k.maximum(FAR) * (2 * math.pi)).log() / 2 + _series(t, 1 / 8, 1 / 16, 25 / 384)
    return choose(k < FAR, k.minimum(FAR).i0().log(), far)


def _mean_cosine(k: Any) -> Any:
    """The quotient of the modified Bessel functions of order 1 and 0."""
    near, t = k.minimum(FAR), 1 / k.maximum(FAR)
    far = 1 - _series(t, 1 / 2, 1 / 8, 1 / 8)
    return choose(k < FAR, bessel_one(near) / near.i0(), far)


def _series(t: Any, first: float, second: float, third: float) -> Any:
    return t * (first + t * (second + t * third))


Normal = family(
    "Normal", "exp(-z²/2) / (scale sqrt(2 pi)) of z = (x - loc) / scale.", "loc scale+", C.real,
    draw=lambda n, m, s: m + n.normal() * s, smooth=True,
    log_prob=lambda x, m, s: ((x - m) / s).square() * -0.5 - s.log() - LOG_TAU / 2,
    cdf=lambda x, m, s: (((x - m) / (s * _ROOT)).erf() + 1) * 0.5,
    icdf=lambda q, m, s: m + (q * 2 - 1).erfinv() * (s * _ROOT),
    mean=lambda m, s: m, variance=lambda m, s: s * s, mode=lambda m, s: m,
    entropy=lambda m, s: s.log() + (0.5 + LOG_TAU / 2),
)  # fmt: skip
LogNormal = family(
    "LogNormal", "e to the power of normal numbers.", "loc scale+", C.positive,
    draw=lambda n, m, s: (m + n.normal() * s).exp(), smooth=True,
    log_prob=lambda x, m, s: (
        ((x.log() - m) / s).square() * -0.5 - s.log() - x.log() - LOG_TAU / 2
    ),
    cdf=lambda x, m, s: (((x.log() - m) / (s * _ROOT)).erf() + 1) * 0.5,
    icdf=lambda q, m, s: (m + (q * 2 - 1).erfinv() * (s * _ROOT)).exp(),
    mean=lambda m, s: (m + s * s / 2).exp(), mode=lambda m, s: (m - s * s).exp(),
    variance=lambda m, s: (s * s).expm1() * (m * 2 + s * s).exp(),
    entropy=lambda m, s: m + s.log() + (0.5 + LOG_TAU / 2),
)  # fmt: skip
Laplace = family(
    "Laplace", "exp(-|x - loc| / scale) / (2 scale).", "loc scale+", C.real,
    log_prob=lambda x, m, b: -(x - m).abs() / b - (b * 2).log(),
    cdf=lambda x, m, b: 0.5 - (x - m).sign() * (-(x - m).abs() / b).expm1() * 0.5,
    icdf=lambda q, m, b: m - b * (q - 0.5).sign() * ((q - 0.5).abs() * -2).log1p(),
    mean=lambda m, b: m, variance=lambda m, b: b * b * 2, mode=lambda m, b: m,
    entropy=lambda m, b: (b * 2).log() + 1,
)  # fmt: skip
Cauchy = family(
    "Cauchy", "1 / (pi scale (1 + z²)) of z = (x - loc) / scale.", "loc scale+", C.real,
    log_prob=lambda x, m, s: -(s * math.pi).log() - ((x - m) / s).square().log1p(),
    cdf=lambda x, m, s: ((x - m) / s).atan() / math.pi + 0.5,
    icdf=lambda q, m, s: m + ((q - 0.5) * math.pi).tan() * s,
    mean=lambda m, s: m * math.nan, variance=lambda m, s: s + math.inf,
    mode=lambda m, s: m, entropy=lambda m, s: (s * (4 * math.pi)).log(),
)  # fmt: skip
Gumbel = family(
    "Gumbel", "exp(-z - exp(-z)) / scale of z = (x - loc) / scale.", "loc scale+", C.real,
    log_prob=lambda x, m, s: -((x - m) / s + (-(x - m) / s).exp()) - s.log(),
    cdf=lambda x, m, s: (-(-(x - m) / s).exp()).exp(),
    icdf=lambda q, m, s: m - (-q.log()).log() * s,
    mean=lambda m, s: m + s * EULER, variance=lambda m, s: s * s * (math.pi**2 / 6),
    mode=lambda m, s: m, entropy=lambda m, s: s.log() + (1 + EULER),
)  # fmt: skip
Exponential = family(
    "Exponential", "rate exp(-rate x).", "rate+", C.nonnegative,
    log_prob=lambda x, r: r.log() - r * x, cdf=lambda x, r: -(-r * x).expm1(),
    icdf=lambda q, r: -(-q).log1p() / r, mean=lambda r: 1 / r, variance=lambda r: 1 / (r * r),
    mode=lambda r: r * 0, entropy=lambda r: 1 - r.log(),
)  # fmt: skip
Uniform = family(
    "Uniform", "1 / (high - low) between the two, else 0.", "low high",
    lambda d: C.interval(d.low, d.high),
    {"low": C.dependent_property(lambda d: C.less_than(d.high))},
    log_prob=lambda x, a, b: choose((x >= a) & (x < b), -(b - a).log(), -math.inf),
    cdf=lambda x, a, b: ((x - a) / (b - a)).clamp(0, 1), icdf=lambda q, a, b: a + q * (b - a),
    mean=lambda a, b: (a + b) / 2, variance=lambda a, b: (b - a).square() / 12,
    mode=lambda a, b: a * math.nan, entropy=lambda a, b: (b - a).log(),
)  # fmt: skip
HalfNormal = family(
    "HalfNormal", "Normal numbers without their sign.", "scale+", C.nonnegative,
    log_prob=lambda x, s: choose(
        x < 0, -math.inf, (x / s).square() * -0.5 - s.log() + (math.log(2) - LOG_TAU / 2)
    ),
    cdf=lambda x, s: (x / (s * _ROOT)).erf(), icdf=lambda q, s: q.erfinv() * (s * _ROOT),
    mean=lambda s: s * math.sqrt(2 / math.pi), variance=lambda s: s * s * (1 - 2 / math.pi),
    mode=lambda s: s * 0, entropy=lambda s: s.log() + (0.5 * math.log(math.pi / 2) + 0.5),
)  # fmt: skip
HalfCauchy = family(
    "HalfCauchy", "Cauchy's numbers without their sign.", "scale+", C.nonnegative,
    log_prob=lambda x, s: choose(
        x < 0, -math.inf, math.log(2 / math.pi) - s.log() - (x / s).square().log1p()
    ),
    cdf=lambda x, s: (x / s).atan() * (2 / math.pi),
    icdf=lambda q, s: (q * (math.pi / 2)).tan() * s, mean=lambda s: s + math.inf,
    variance=lambda s: s + math.inf, mode=lambda s: s * 0,
    entropy=lambda s: (s * (2 * math.pi)).log(),
)  # fmt: skip
Weibull = family(
    "Weibull", "k/scale (x/scale)^(k-1) exp(-(x/scale)^k), k the concentration.",
    "scale+ concentration+", C.positive,
    log_prob=lambda x, s, k: (k / s).log() + (x / s).log() * (k - 1) - (x / s) ** k,
    cdf=lambda x, s, k: -(-((x / s) ** k)).expm1(),
    icdf=lambda q, s, k: s * (-(-q).log1p()) ** (1 / k),
    mean=lambda s, k: s * (1 + 1 / k).lgamma().exp(),
    variance=lambda s, k: s * s * ((1 + 2 / k).lgamma().exp() - ((1 + 1 / k).lgamma() * 2).exp()),
    mode=lambda s, k: s * ((k - 1) / k).clamp_min(0) ** (1 / k),
    entropy=lambda s, k: (1 - 1 / k) * EULER + (s / k).log() + 1,
)  # fmt: skip
Pareto = family(
    "Pareto", "alpha scale^alpha / x^(alpha+1) from the scale on.", "scale+ alpha+",
    lambda d: C.greater_than_eq(d.scale),
    log_prob=lambda x, s, a: choose(x >= s, a.log() + s.log() * a - x.log() * (a + 1), -math.inf),
    cdf=lambda x, s, a: 1 - (s / x.maximum(s)) ** a, icdf=lambda q, s, a: s * (1 - q) ** (-1 / a),
    mean=lambda s, a: _above(1, a, a * s / (a - 1)), mode=lambda s, a: s,
    variance=lambda s, a: _above(2, a, s * s * a / ((a - 1).square() * (a - 2))),
    entropy=lambda s, a: (s / a).log() + 1 + 1 / a,
)  # fmt: skip
Kumaraswamy = family(
    "Kumaraswamy", "a b x^(a-1) (1 - x^a)^(b-1), of the concentrations 1 and 0.",
    "concentration1+ concentration0+", C.unit_interval,
    log_prob=lambda x, a, b: (a * b).log() + x.log() * (a - 1) + (-(x**a)).log1p() * (b - 1),
    cdf=lambda x, a, b: 1 - (1 - x**a) ** b,
    icdf=lambda q, a, b: (1 - (1 - q) ** (1 / b)) ** (1 / a), mean=lambda a, b: _moment(1, a, b),
    variance=lambda a, b: _moment(2, a, b) - _moment(1, a, b).square(),
    entropy=lambda a, b: (
        1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()
    ),
    mode=lambda a, b: _above(1, a.minimum(b), ((a - 1) / (a * b - 1)) ** (1 / a), math.nan),
)  # fmt: skip
GeneralizedPareto = family(
    "GeneralizedPareto",
    "(1 + k z)^(-1/k - 1) / scale of z = (x - loc) / scale, k the concentration.",
    "loc scale+ concentration", _beyond,
    log_prob=lambda x, m, s, k: (
        choose(
            (x < m) | ((x - m) / s * k < -1), -math.inf,
            -(k + 1) * _stretched((x - m) / s, k) - s.log(),
        )
    ),
    cdf=lambda x, m, s, k: -(-_stretched(((x - m) / s).clamp_min(0), k)).expm1(),
    icdf=lambda q, m, s, k: m + s * choose(
        k == 0, -(-q).log1p(), ((-q).log1p() * -k).expm1() / choose(k == 0, 1.0, k)
    ),
    mean=lambda m, s, k: choose(k < 1, m + s / (1 - k), math.inf),
    variance=lambda m, s, k: choose(
        k < 0.5, (s / (1 - k)).square() / (1 - 2 * k), math.inf
    ),
    mode=lambda m, s, k: m, entropy=lambda m, s, k: s.log() + k + 1,
)  # fmt: skip
ContinuousBernoulli = family(
    "ContinuousBernoulli",
    "p^x (1 - p)^(1 - x) by its integral: Loaiza-Ganem and Cunningham, 2019, arXiv:1907.06845.",
    "logits", C.unit_interval,
    log_prob=lambda x, z: x * z - z.softplus() + _log_norm(z),
    cdf=lambda x, z: _near_zero(
        z, lambda z: (z * x.clamp(0, 1)).expm1() / z.expm1(),
        lambda z: x.clamp(0, 1) * (1 + z * (x.clamp(0, 1) - 1) / 2),
    ),
    icdf=lambda q, z: _near_zero(
        z, lambda z: (q * z.expm1()).log1p() / z, lambda z: q * (1 + z * (1 - q) / 2)
    ),
    mean=lambda z: _shrunk(z),
    variance=lambda z: _near_zero(
        z, lambda z: 1 / z.square() - 1 / ((z / 2).sinh() * 2).square(),
        lambda z: 1 / 12 - z.square() / 240,
    ),
    entropy=lambda z: z.softplus() - _log_norm(z) - _shrunk(z) * z,
)  # fmt: skip
Gamma = family(
    "Gamma", "rate^a x^(a-1) exp(-rate x) / gamma(a), a the concentration.",
    "concentration+ rate+", C.nonnegative, draw=lambda n, a, r: n.gamma(a) / r,
    smooth=True,
    log_prob=lambda x, a, r: r.log() * a + (a - 1).xlogy(x) - r * x - a.lgamma(),
    mean=lambda a, r: a / r, variance=lambda a, r: a / (r * r),
    mode=lambda a, r: ((a - 1) / r).clamp_min(0), cdf=lambda x, a, r: a.igamma(x * r),
    entropy=lambda a, r: a - r.log() + a.lgamma() + (1 - a) * a.digamma(),
)  # fmt: skip
InverseGamma = family(
    "InverseGamma", "1 / x of Gamma's x.", "concentration+ rate+", C.positive,
    draw=lambda n, a, r: r / n.gamma(a), smooth=True,
    log_prob=lambda x, a, r: r.log() * a - x.log() * (a + 1) - r / x - a.lgamma(),
    mean=lambda a, r: _above(1, a, r / (a - 1)), mode=lambda a, r: r / (a + 1),
    cdf=lambda x, a, r: a.igammac(r / x),
    variance=lambda a, r: _above(2, a, (r / (a - 1)).square() / (a - 2)),
    entropy=lambda a, r: a + r.log() + a.lgamma() - (1 + a) * a.digamma(),
)  # fmt: skip
Chi2 = family(
    "Chi2", "Gamma of half the degrees of freedom and rate 1/2.", "df+", C.nonnegative,
    draw=lambda n, d: n.gamma(d / 2) * 2, smooth=True, mean=lambda d: d, variance=lambda d: d * 2,
    log_prob=lambda x, d: (d / 2 - 1).xlogy(x) - x / 2 - (d / 2).lgamma() - d * (math.log(2) / 2),
    mode=lambda d: (d - 2).clamp_min(0), cdf=lambda x, d: (d / 2).igamma(x / 2),
    entropy=lambda d: d / 2 + math.log(2) + (d / 2).lgamma() + (1 - d / 2) * (d / 2).digamma(),
)  # fmt: skip


def _mode_of_beta(a: Any, b: Any) -> Any:
    """Where the density is greatest; an end where both concentrations are below 1."""
    above, below = (a - 1).clamp_min(0), (b - 1).clamp_min(0)
    ends = (a >= b).cast(a.dtype)
    return choose((a < 1) & (b < 1), ends, above / (above + below))


Beta = family(
    "Beta", "x^(a-1) (1-x)^(b-1) / B(a, b), of the concentrations 1 and 0.",
    "concentration1+ concentration0+", C.unit_interval, draw=_gammas, smooth=True,
    log_prob=lambda x, a, b: (a - 1).xlogy(x) + (b - 1).xlogy(1 - x) - log_beta(a, b),
    mean=lambda a, b: a / (a + b), variance=lambda a, b: a * b / ((a + b).square() * (a + b + 1)),
    mode=_mode_of_beta,
    entropy=lambda a, b: (
        log_beta(a, b) - (a - 1) * a.digamma() - (b - 1) * b.digamma()
        + (a + b - 2) * (a + b).digamma()
    ),
)  # fmt: skip
StudentT = family(
    "StudentT", "The mean of df + 1 normal numbers by their deviation.", "df+ loc=0 scale+=1",
    C.real, draw=lambda n, d, m, s: m + s * n.normal() / (n.gamma(d / 2) * 2 / d).sqrt(),
    smooth=True,
    log_prob=lambda x, d, m, s: (
        (((x - m) / s).square() / d).log1p() * (d + 1) * -0.5 - s.log() - d.log() / 2
        - log_beta(d / 2, d * 0 + 0.5)
    ),
    mean=lambda d, m, s: _above(1, d, m, math.nan),
    mode=lambda d, m, s: m,
    variance=lambda d, m, s: _above(1, d, _above(2, d, s * s * d / (d - 2)), math.nan),
    entropy=lambda d, m, s: (
        (d + 1) / 2 * (((d + 1) / 2).digamma() - (d / 2).digamma()) + d.log() / 2
        + log_beta(d / 2, d * 0 + 0.5) + s.log()
    ),
)  # fmt: skip
FisherSnedecor = family(
    "FisherSnedecor", "The quotient of two Chi2, each by its degrees of freedom.", "df1+ df2+",
    C.positive, draw=lambda n, c, d: n.gamma(c / 2) * d / (n.gamma(d / 2) * c),
    smooth=True,
    log_prob=lambda x, c, d: (
        (c / d).log() * (c / 2) + x.log() * (c / 2 - 1) - (x * c / d).log1p() * ((c + d) / 2)
        - log_beta(c / 2, d / 2)
    ),
    mean=lambda c, d: _above(2, d, d / (d - 2), math.nan),
    variance=lambda c, d: _above(
        4, d, d.square() * (c + d - 2) * 2 / (c * (d - 2).square() * (d - 4)), math.nan
    ),
    mode=lambda c, d: _above(2, c, (c - 2) / c * d / (d + 2), math.nan),
)  # fmt: skip
VonMises = family(
    "VonMises", "exp(concentration cos(x - loc)) by its integral: angles from -pi to pi.",
    "loc concentration+", C.real, draw=lambda n, m, k: n.angle(k, m),
    log_prob=lambda x, m, k: (x - m).cos() * k - _log_bessel(k) - LOG_TAU,
    mean=lambda m, k: m, mode=lambda m, k: m, variance=lambda m, k: 1 - _mean_cosine(k),
)  # fmt: skip
Bernoulli = family(
    "Bernoulli", "1 with a probability, else 0.", "logits", C.boolean, by_probs=_MOMENTS,
    values=lambda z: Tensor([0, 1]).cast(z.dtype),
    draw=lambda n, p: (n.uniform() < p).cast(p.dtype),
    log_prob=lambda x, z: x * z - z.softplus(), entropy=entropy_of_logits,
    mean=lambda p: p, variance=lambda p: p * (1 - p),
    mode=lambda p: choose(p == 0.5, math.nan, (p > 0.5).cast(p.dtype)),
)  # fmt: skip
Geometric = family(
    "Geometric", "Failures before the first success, which has a probability.", "logits",
    C.nonnegative_integer, by_probs=_MOMENTS,
    draw=lambda n, p: (n.uniform().log() / (-p).log1p()).floor(),
    log_prob=lambda x, z: z.logsigmoid() - x * z.softplus(),
    mean=lambda p: 1 / p - 1, variance=lambda p: (1 / p - 1) / p, mode=lambda p: p * 0,
    entropy=lambda z: entropy_of_logits(z) / z.sigmoid(),
)  # fmt: skip
Binomial = family(
    "Binomial", "Successes among so many trials, each with a probability.",
    "total_count#=1 logits", lambda d: C.integer_interval(0, d.total_count),
    values=_up_to, by_probs=_MOMENTS,
    draw=lambda n, c, p: c.expand(n.shape).binomial(p.expand(n.shape)),
    log_prob=_log_ways, entropy=_entropy_of_counts,
    mean=lambda c, p: c * p, variance=lambda c, p: c * p * (1 - p),
    mode=lambda c, p: ((c + 1) * p).floor().minimum(c),
)  # fmt: skip
NegativeBinomial = family(
    "NegativeBinomial", "Successes, each with a probability, before so many failures.",
    "total_count~ logits", C.nonnegative_integer,
    {"probs": C.half_open_interval(0.0, 1.0)},
    draw=lambda n, c, z: _poisson(n, n.gamma(c) * z.exp()),
    log_prob=lambda x, c, z: (
        x * z.logsigmoid() - c * z.softplus() - (x + 1).lgamma()
        + choose(c + x == 0, 0.0, (c + x).lgamma() - c.lgamma())
    ),
    mean=lambda c, z: c * z.exp(), variance=lambda c, z: c * z.exp() / (-z).sigmoid(),
    mode=lambda c, z: ((c - 1) * z.exp()).floor().clamp_min(0),
)  # fmt: skip
Poisson = family(
    "Poisson", "exp(-rate) rate^x / x!", "rate~", C.nonnegative_integer, draw=_poisson,
    log_prob=lambda x, r: x.xlogy(r) - r - (x + 1).lgamma(), mean=lambda r: r,
    variance=lambda r: r, mode=lambda r: r.floor(),
)  # fmt: skip


__all__ = [
    "Bernoulli", "Beta", "Binomial", "Cauchy", "Chi2", "ContinuousBernoulli", "Exponential",
    "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
    "HalfNormal", "InverseGamma", "Kumaraswamy", "Laplace", "LogNormal", "NegativeBinomial",
    "Normal", "Pareto", "Poisson", "StudentT", "Uniform", "VonMises", "Weibull",
]  # fmt: skip
