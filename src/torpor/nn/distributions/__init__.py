"""PyTorch's distributions, by its names: `torpor.distributions`.

>>> torpor.distributions.Normal(0.0, 1.0).log_prob(0.0).exp().item()  # doctest: +ELLIPSIS
0.3989...
"""

from torpor.nn.distributions import constraints as constraints
from torpor.nn.distributions.base import Distribution
from torpor.nn.distributions.divergence import kl_divergence, register_kl
from torpor.nn.distributions.families import (
    Bernoulli,
    Beta,
    Binomial,
    Cauchy,
    Chi2,
    ContinuousBernoulli,
    Exponential,
    FisherSnedecor,
    Gamma,
    GeneralizedPareto,
    Geometric,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Normal,
    Pareto,
    Poisson,
    StudentT,
    Uniform,
    VonMises,
    Weibull,
)
from torpor.nn.distributions.relaxed import (
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from torpor.nn.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
)
from torpor.nn.distributions.vectors import (
    Categorical,
    Dirichlet,
    Independent,
    MixtureSameFamily,
    Multinomial,
    MultivariateNormal,
    OneHotCategorical,
    TransformedDistribution,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy",
    "Chi2", "ComposeTransform", "ContinuousBernoulli", "Dirichlet", "Distribution", "ExpTransform",
    "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "Laplace",
    "LogNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial",
    "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StudentT", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "constraints", "kl_divergence",
    "register_kl",
]  # fmt: skip
