"""PyTorch's distributions, by its names: `torpor.distributions`.

Draws have the shape (*sample_shape, *batch_shape, *event_shape). A parameter or a value that does
not satisfy its constraint is a `ValueRangeError`; what has no closed form a `NotImplementedError`.

>>> torpor.distributions.Normal(0.0, 1.0).log_prob(0.0).exp().item()  # doctest: +ELLIPSIS
0.3989...
"""

import sys
from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn.distributions import constraints as constraints
from torpor.nn.distributions.base import Distribution, ExponentialFamily
from torpor.nn.distributions.composite import (
    Independent,
    LogisticNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
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
from torpor.nn.distributions.matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from torpor.nn.distributions.relaxed import (
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from torpor.nn.distributions.scalar_transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    StackTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from torpor.nn.distributions.vector_transforms import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StickBreakingTransform,
    biject_to,
    transform_to,
)
from torpor.nn.distributions.vectors import (
    Categorical,
    Dirichlet,
    Multinomial,
    MultivariateNormal,
    OneHotCategorical,
)

transforms = sys.modules[__name__]  # a room of its own in PyTorch, with some of these names

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull",
    "Wishart", "biject_to", "constraints", "identity_transform", "kl_divergence", "register_kl",
    "transform_to",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.distributions", lambda: __all__, __name__)
