"""Distributions of matrices, and of normal vectors whose covariance is nearly diagonal."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.distributions import constraints as C
from torpor.nn.distributions.base import Distribution, Noise, Shape, floats
from torpor.nn.distributions.vectors import MultivariateNormal, OfMatrix
from torpor.tensor import Tensor, as_tensor


def _steps(like: Any, count: int) -> Any:
    return Tensor.arange(count, device=like.device).cast(like.dtype)


class LKJCholesky(Distribution):
    """Cholesky factors (..., dim, dim) of correlation matrices, with density in proportion to the
    determinant of these to the power of concentration - 1: Lewandowski, Kurowicka and Joe, 2009,
    doi:10.1016/j.jmva.2009.04.008.
    """

    _axes = {"concentration": 0}
    concentration: Any
    arg_constraints: Any = MappingProxyType({"concentration": C.positive})
    support = C.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueRangeError(f"LKJCholesky needs a dim of 2 or more, not {dim}")
        self._validate(validate_args)
        self.dim, self._event_shape = dim, (dim, dim)
        (given,) = floats(concentration)
        self._spread(given.shape, concentration=self._checked("concentration", given))

    def _draw(self, shape: Shape) -> Tensor:
        """Row i: a direction of i numbers, of squared length by Beta(i / 2, rest)."""
        size, concentration = self.dim, self.concentration
        whole = (*shape, *self.batch_shape)
        rows = _steps(concentration, size - 1) + 1
        first = (rows / 2).expand((*whole, size - 1))
        other = concentration.unsqueeze(-1) + (size - 1 - rows) / 2
        noise = Noise((*whole, size - 1), concentration)
        x, y = noise.gamma(first), noise.gamma(other)
        length = x / (x + y)
        normal = Noise((*whole, size - 1, size - 1), concentration).normal().tril().pad((0, 1))
        unit = normal / normal.square().sum(-1, keepdim=True).sqrt()
        below = (unit * length.unsqueeze(-1).sqrt()).pad((0, 0, 1, 0))
        return below + (1 - length).sqrt().pad((1, 0), value=1.0).diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        """log of the density of factors (..., dim, dim), by their elements below the diagonal."""
        given: Any = self._validate_sample(self._beside(value, self.concentration))
        size, concentration = self.dim, self.concentration
        power = (concentration.unsqueeze(-1) - 1) * 2 + (size - 2 - _steps(concentration, size - 1))
        density = (power * given.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        count = size - 1
        alpha = concentration + count / 2
        volume = count / 2 * math.log(math.pi) + (alpha - 0.5).mvlgamma(count)
        return density - volume + alpha.lgamma() * count


class Wishart(OfMatrix):
    """Positive definite matrices (..., n, n): the sum of the squares x x^T of `df` normal vectors x
    of this covariance.
    """

    _axes = {"df": 0, "scale_tril": 2}
    df: Any
    arg_constraints: Any = MappingProxyType({
        "df": C.dependent_property(lambda self: C.greater_than(self.event_shape[-1] - 1)),
        "covariance_matrix": C.positive_definite, "precision_matrix": C.positive_definite,
        "scale_tril": C.lower_cholesky,
    })  # fmt: skip
    support = C.positive_definite

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ):  # fmt: skip
        self._validate(validate_args)
        scale = self._triangle(covariance_matrix, precision_matrix, scale_tril)
        (degrees,) = floats(df)
        self._event_shape = tuple(scale.shape[-2:])
        degrees = self._checked("df", degrees).cast(scale.dtype)
        batch = Tensor.broadcast_shapes(tuple(degrees.shape), tuple(scale.shape[:-2]))
        self._spread(batch, df=degrees, scale_tril=scale)

    def _halves(self) -> Any:
        """(df - i) / 2 for each axis i."""
        return (self.df.unsqueeze(-1) - _steps(self.df, self.event_shape[-1])) / 2

    def _draw(self, shape: Shape) -> Tensor:
        """By Bartlett's triangle of normal numbers with chi numbers on the diagonal."""
        whole, size = (*shape, *self.batch_shape), self.event_shape[-1]
        normal = Noise((*whole, size, size), self.df).normal().tril(-1)
        chi = (Noise((*whole, size), self.df).gamma(self._halves()) * 2).sqrt()
        lower = self.scale_tril @ (normal + chi.diag_embed())
        return lower @ lower.mT

    def _log_norm(self) -> Any:
        size = self.event_shape[-1]
        power = self.df * self._log_volume() + self.df * (size * math.log(2) / 2)
        return power + (self.df / 2).mvlgamma(size)

    def log_prob(self, value: Any) -> Tensor:
        given: Any = self._validate_sample(self._beside(value, self.df))
        size = self.event_shape[-1]
        batch = Tensor.broadcast_shapes(tuple(given.shape[:-2]), self.batch_shape)
        scale = self.scale_tril.expand((*batch, *self.event_shape))
        root = given.cholesky().expand((*batch, *self.event_shape))
        solved = root.triangular_solve(scale, upper=False)[0]
        log = root.diagonal(0, -2, -1).log().sum(-1) * 2
        power = (self.df - size - 1) / 2
        return power * log - solved.square().sum((-2, -1)) / 2 - self._log_norm()

    def entropy(self) -> Tensor:
        size = self.event_shape[-1]
        mean = self._halves().digamma().sum(-1) + size * math.log(2) + self._log_volume() * 2
        return self._log_norm() - (self.df - size - 1) / 2 * mean + self.df * size / 2

    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        """The most probable matrix; NaN where there is none."""
        factor = self.df - self.event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        own = matrix.diagonal(0, -2, -1)
        return self.df[..., None, None] * (matrix.square() + own.unsqueeze(-1) * own.unsqueeze(-2))


class LowRankMultivariateNormal(MultivariateNormal):
    """Normal vectors (..., n) of covariance W W^T + D: `cov_factor` W (..., n, rank) and the
    diagonal `cov_diag` D (..., n). What costs grows with n, not with its square, by Woodbury's
    formula.
    """

    _axes = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
    cov_factor: Any
    cov_diag: Any
    arg_constraints: Any = MappingProxyType({
        "loc": C.real_vector, "cov_factor": C.independent(C.real, 2),
        "cov_diag": C.independent(C.positive, 1),
    })  # fmt: skip

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None):
        self._validate(validate_args)
        if loc.shape[-1] != cov_factor.shape[-2] or cov_diag.shape[-1] != loc.shape[-1]:
            raise ShapeError(
                "loc (..., n), cov_factor (..., n, rank) and cov_diag (..., n) differ in n: "
                f"{tuple(loc.shape)}, {tuple(cov_factor.shape)} and {tuple(cov_diag.shape)}"
            )
        batch = Tensor.broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        given = {"loc": loc, "cov_factor": cov_factor, "cov_diag": cov_diag}
        self._event_shape = tuple(loc.shape[-1:])
        self._spread(batch, **{name: self._checked(name, one) for name, one in given.items()})

    def _inner(self) -> Any:
        """The Cholesky factor of 1 + W^T D^-1 W."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        inner = self.cov_factor.mT @ scaled
        one = as_tensor(1.0, dtype=inner.dtype, device=inner.device).expand(inner.shape[-1:])
        return (inner + one.diag_embed()).cholesky()

    def _draw(self, shape: Shape) -> Tensor:
        along = Noise((*shape, *self.batch_shape, self.cov_factor.shape[-1]), self.loc).normal()
        own = Noise((*shape, *self.loc.shape), self.loc).normal()
        moved = (self.cov_factor @ along.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self.cov_diag.sqrt() * own

    def _log_volume(self) -> Any:
        return self.cov_diag.log().sum(-1) / 2 + self._inner().diagonal(0, -2, -1).log().sum(-1)

    def _distance(self, apart: Any) -> Any:
        scaled = apart / self.cov_diag
        along = self.cov_factor.mT @ scaled.unsqueeze(-1)
        inner = self._inner()
        inner = inner.expand((*along.shape[:-2], *inner.shape[-2:]))
        solved = along.triangular_solve(inner, upper=False)[0]
        return (apart * scaled).sum(-1) - solved.square().sum((-2, -1))

    @property
    def covariance_matrix(self) -> Tensor:
        """W W^T + D."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance matrix."""
        return self.covariance_matrix.cholesky()

    variance = property(lambda self: self.cov_factor.square().sum(-1) + self.cov_diag)


__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "Wishart"]
