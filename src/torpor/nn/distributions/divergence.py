"""How far one distribution is from another: `kl_divergence`, by a table of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.nn.distributions import composite as M
from torpor.nn.distributions import families as F
from torpor.nn.distributions import vectors as V
from torpor.nn.distributions.matrices import LowRankMultivariateNormal
from torpor.nn.distributions.scalar_transforms import equal, summed
from torpor.tensor.operands import choose

Rule = Callable[[Any, Any], Any]
_rules: Final[dict[tuple[type, type], Rule]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Have a function give the divergence of distributions of these classes.

    >>> class Own(torpor.distributions.Normal):
    ...     pass
    >>> @torpor.distributions.register_kl(Own, Own)
    ... def rule(p, q):
    ...     return (p.loc - q.loc).abs()
    >>> torpor.distributions.kl_divergence(Own(1.0, 1.0), Own(3.0, 1.0)).item()
    2.0
    """

    def register(rule: Rule) -> Rule:
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """The mean of log(p / q) over draws of p, by the rule of their classes or nearest bases."""
    p, q = _as_gamma(p), _as_gamma(q)
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            if (first, second) in _rules:
                return _rules[first, second](p, q)
    both = f"{type(p).__name__} from {type(q).__name__}"
    raise NotImplementedError(f"no divergence of {both} is known")


def _as_gamma(one: Any) -> Any:
    """Chi2 as the Gamma that it is."""
    if type(one) is not F.Chi2:
        return one
    return F.Gamma(one.df / 2, one.df.full_like(0.5), validate_args=False)


def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()) * 0.5


def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        (a - b) * a.digamma() - a.lgamma() + b.lgamma()
        + b * (p.rate.log() - q.rate.log()) + a * (q.rate / p.rate - 1)
    )  # fmt: skip


def _beta(p: Any, q: Any) -> Any:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    whole = ((a + b) - (c + d)) * (a + b).digamma()
    parts = (a - c) * a.digamma() + (b - d) * b.digamma()
    return F.log_beta(c, d) - F.log_beta(a, b) + parts - whole


def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    apart = a.digamma() - a.sum(-1, keepdim=True).digamma()
    return q._log_beta() - p._log_beta() + ((a - b) * apart).sum(-1)


def _laplace(p: Any, q: Any) -> Any:
    apart, ratio = (p.loc - q.loc).abs(), p.scale / q.scale
    return apart / q.scale + ratio * (-apart / p.scale).exp() - ratio.log() - 1


def _uniform(p: Any, q: Any) -> Any:
    outside = (p.low < q.low) | (p.high > q.high)
    return choose(outside, float("inf"), ((q.high - q.low) / (p.high - p.low)).log())


def _bernoulli(p: Any, q: Any) -> Any:
    return p.probs * (p.logits - q.logits) - p.logits.softplus() + q.logits.softplus()


def _multivariate(p: Any, q: Any) -> Any:
    size = p.event_shape[0]
    both = p.scale_tril.cat((p.loc - q.loc).unsqueeze(-1), dim=-1)
    solved = both.triangular_solve(q.scale_tril, upper=False)[0]
    return q._log_volume() - p._log_volume() + (solved.square().sum((-2, -1)) - size) * 0.5


def _gumbel(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return apart - ratio.log() + (ratio - 1) * F.EULER + (-apart + (1 + ratio).lgamma()).exp() - 1


def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    inside = (p.scale / q.scale).log() * q.alpha - ratio.log() + ratio - 1
    return choose(p.scale < q.scale, math.inf, inside)


def _half_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return (ratio - 1 - ratio.log()) * 0.5


def _cauchy(p: Any, q: Any) -> Any:
    whole = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return (whole / (p.scale * q.scale * 4)).log()


def _alone(p: Any, q: Any) -> Any:
    """0 of equal ones; others PyTorch knows not either."""
    if not equal(p._parameters, q._parameters):
        raise NotImplementedError(f"no divergence of a {type(p).__name__} from another is known")
    return p._parameters[0] * 0


def _transformed(p: Any, q: Any) -> Any:
    """That of what is transformed, if it is by the same."""
    if p._whole != q._whole:
        raise NotImplementedError("no divergence is known of what transforms that differ make")
    axes = len(p.event_shape) - len(p.base_dist.event_shape)
    return summed(kl_divergence(p.base_dist, q.base_dist), axes)


# --- of different classes: -entropy(p) - the mean of log(q), by the moments that this needs -------
LOGARITHM: Final[dict[type, Callable[[Any], Any]]] = {  # the mean of log(x)
    F.Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    F.Exponential: lambda p: -p.rate.log() - F.EULER,
    F.Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    F.Pareto: lambda p: p.scale.log() + 1 / p.alpha,
    F.Uniform: lambda p: (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1,
}  # fmt: skip
EXPONENTIAL: Final[dict[type, Callable[[Any, Any], Any]]] = {  # the mean of exp(-x / s)
    F.Exponential: lambda p, s: p.rate / (p.rate + 1 / s),
    F.Gamma: lambda p, s: (1 + 1 / (s * p.rate)) ** -p.concentration,
    F.Normal: lambda p, s: ((p.scale / s).square() / 2 - p.loc / s).exp(),
    F.Uniform: lambda p, s: ((-p.low / s).exp() - (-p.high / s).exp()) * s / (p.high - p.low),
}  # fmt: skip


def _to_normal(p: Any, q: Any) -> Any:
    apart = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return -p.entropy() + apart / 2 + q.scale.log() + F.LOG_TAU / 2


def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _to_gamma(p: Any, q: Any) -> Any:
    a, log = q.concentration, LOGARITHM[type(p)](p)
    return -p.entropy() - q.rate.log() * a + a.lgamma() - (a - 1) * log + q.rate * p.mean


def _to_gumbel(p: Any, q: Any) -> Any:
    tail = (q.loc / q.scale).exp() * EXPONENTIAL[type(p)](p, q.scale)
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + tail


def _to_laplace(p: Any, q: Any) -> Any:
    """By the mean distance of normal numbers from a place."""
    z = (p.loc - q.loc) / p.scale
    apart = (z.square() / -2).exp() * math.sqrt(2 / math.pi) + z * (z / math.sqrt(2)).erf()
    return -p.entropy() + (q.scale * 2).log() + apart * p.scale / q.scale


def _to_pareto(p: Any, q: Any) -> Any:
    log = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * LOGARITHM[type(p)](p)
    return choose(p.low < q.scale, math.inf, -p.entropy() - log)


def _to_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = LOGARITHM[F.Uniform](F.Uniform(1 - p.high, 1 - p.low, validate_args=False))
    log = (a - 1) * LOGARITHM[F.Uniform](p) + (b - 1) * mirrored - F.log_beta(a, b)
    return -p.entropy() - log


def _to_uniform(p: Any, q: Any) -> Any:
    outside = (q.low > 0) | (q.high < 1)
    return choose(outside, math.inf, -p.entropy() + (q.high - q.low).log())


def _within(low: float, high: float, rule: Rule) -> Rule:
    """The rule for uniform numbers from `low` to `high`; else some draws of p are none of q."""
    return lambda p, q: choose((p.low < low) | (p.high > high), math.inf, rule(p, q))


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - q.log_prob(0.0) - p.mean * q.logits


def _infinite(p: Any, q: Any) -> Any:
    """Some draws of p are none of q."""
    return (p._parameters[0] + q._parameters[0]) * 0 + math.inf


LINE: Final = (F.Gumbel, F.Laplace, F.Normal)  # whose numbers go from -inf to inf
HALF: Final = (F.Exponential, F.Gamma, F.Pareto)  # from 0, or above, to inf
UNIT: Final = (F.Beta, F.ContinuousBernoulli)  # from 0 to 1
ACROSS: Final[Sequence[tuple[Sequence[type], Sequence[type], Rule]]] = (
    ((F.Gumbel, F.Laplace, *HALF, *UNIT, F.Uniform), (F.Normal,), _to_normal),
    ((F.Gamma, F.Pareto, *UNIT), (F.Exponential,), _to_exponential),
    ((F.Exponential, F.Pareto, F.Beta), (F.Gamma,), _to_gamma),
    ((F.Beta,), (F.ContinuousBernoulli,), _to_continuous_bernoulli),
    ((F.Exponential, F.Gamma, F.Normal, F.Uniform), (F.Gumbel,), _to_gumbel),
    ((F.Normal,), (F.Laplace,), _to_laplace),
    ((F.Uniform,), (F.Exponential,), _within(0, math.inf, _to_exponential)),
    ((F.Uniform,), (F.Gamma,), _within(0, math.inf, _to_gamma)),
    ((F.Uniform,), (F.Pareto,), _to_pareto),
    ((F.Uniform,), (F.Beta,), _within(0, 1, _to_beta)),
    ((F.Uniform,), (F.ContinuousBernoulli,), _within(0, 1, _to_continuous_bernoulli)),
    (UNIT, (F.Uniform,), _to_uniform),
    ((F.Bernoulli,), (F.Poisson,), lambda p, q: q.rate - p.entropy() - p.mean * q.rate.log()),
    (LINE, (*HALF, *UNIT, F.Uniform), _infinite),
    (HALF, (*UNIT, F.Uniform), _infinite),
    ((F.Exponential, F.Gamma, *UNIT), (F.Pareto,), _infinite),
    ((F.Poisson,), (F.Bernoulli, F.Binomial), _infinite),
)


TABLE: Final[dict[type, Rule]] = {
    F.Gumbel: _gumbel, F.Pareto: _pareto, F.HalfNormal: _half_normal, F.Cauchy: _cauchy,
    F.ContinuousBernoulli: _to_continuous_bernoulli,
    F.HalfCauchy: lambda p, q: ((p.scale + q.scale).square() / (p.scale * q.scale * 4)).log(),
    F.InverseGamma: _gamma, F.Kumaraswamy: _alone, F.Weibull: _alone,
    M.TransformedDistribution: _transformed,
    F.Normal: _normal, F.LogNormal: _normal, F.Gamma: _gamma, F.Beta: _beta,
    F.Laplace: _laplace, F.Uniform: _uniform, F.Bernoulli: _bernoulli, V.Dirichlet: _dirichlet,
    V.MultivariateNormal: _multivariate, LowRankMultivariateNormal: _multivariate,
    F.Exponential: lambda p, q: (p.rate / q.rate).log() + q.rate / p.rate - 1,
    F.Poisson: lambda p, q: p.rate * (p.rate / q.rate).log() - p.rate + q.rate,
    F.Geometric: lambda p, q: _bernoulli(p, q) / p.probs,
    F.Binomial: lambda p, q: _bernoulli(p, q) * p.total_count,
    V.Categorical: lambda p, q: (p.probs * (p.logits - q.logits)).sum(-1),
    M.Independent: lambda p, q: summed(kl_divergence(p.base_dist, q.base_dist), p._count),
}  # fmt: skip
_rules.update({(p, q): rule for ps, qs, rule in ACROSS for p in ps for q in qs})
_rules.update({(kind, kind): rule for kind, rule in TABLE.items()})
