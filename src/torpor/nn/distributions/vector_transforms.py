"""Transforms of vectors and matrices, and those that lead from all numbers to a constraint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torpor.base.errors import ShapeError
from torpor.nn.distributions import constraints as C
from torpor.nn.distributions import scalar_transforms as T
from torpor.nn.distributions.scalar_transforms import Shape, Transform, transform_of
from torpor.tensor import Tensor, as_tensor

SoftmaxTransform = transform_of(
    "SoftmaxTransform", lambda x: x.softmax(-1), lambda y: y.log(), None, C.simplex,
    C.real_vector, None,
)  # fmt: skip


def _to_lower(x: Any) -> Any:
    return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()


def _from_lower(y: Any) -> Any:
    return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


_MATRIX = C.independent(C.real, 2)
LowerCholeskyTransform = transform_of(
    "LowerCholeskyTransform", _to_lower, _from_lower, None, C.lower_cholesky, _MATRIX, None
)
PositiveDefiniteTransform = transform_of(
    "PositiveDefiniteTransform", lambda x: _to_lower(x) @ _to_lower(x).mT,
    lambda y: _from_lower(y.cholesky()), None, C.positive_definite, _MATRIX, None,
)  # fmt: skip


class StickBreakingTransform(Transform):
    """Vectors (..., n - 1) to vectors (..., n) with sum 1: each takes its share, a sigmoid, of what
    those before it left. Zeros become equal shares.
    """

    bijective, domain, codomain = True, C.real_vector, C.simplex

    def _shares(self, x: Any) -> Any:
        """Logits of the shares."""
        return x - as_tensor(np.log(np.arange(x.shape[-1], 0, -1)), dtype=x.dtype, device=x.device)

    def _call(self, x: Any) -> Any:
        share = self._shares(x)
        left = (-share.softplus()).cumsum(-1).exp()
        before = Tensor.cat([left[..., :1] * 0 + 1, left], dim=-1)
        return Tensor.cat([before[..., :-1] * share.sigmoid(), left[..., -1:]], dim=-1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - y[..., :-1].cumsum(-1)
        log = y[..., :-1].log() - left.clamp_min(2.0**-126).log()
        return log - self._shares(log * 0)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        share = self._shares(x)
        return (y[..., :-1].log() - share.softplus()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


class CorrCholeskyTransform(Transform):
    """Vectors (..., n (n - 1) / 2) to the Cholesky factors (..., n, n) of correlation matrices, by
    partial correlations: Lewandowski, Kurowicka and Joe, 2009, doi:10.1016/j.jmva.2009.04.008.
    """

    bijective, domain, codomain = True, C.real_vector, C.corr_cholesky

    @staticmethod
    def _size(count: int) -> int:
        size = round((1 + math.sqrt(1 + 8 * count)) / 2)
        if size * (size - 1) // 2 != count:
            raise ShapeError(f"{count} numbers are no triangle below the diagonal")
        return size

    def _placed(self, x: Any) -> Any:
        """The numbers row by row below the diagonal, zeros elsewhere."""
        size = self._size(x.shape[-1])
        place = np.zeros((size, size), np.int64)
        place[np.tril_indices(size, -1)] = np.arange(x.shape[-1])
        return x[..., as_tensor(place.reshape(-1))].reshape(*x.shape[:-1], size, size).tril(-1)

    def _call(self, x: Any) -> Any:
        z = self._placed(x.tanh())
        left = (1 - z * z).cumprod(-1).sqrt()  # what is left of the row's length behind each
        before = Tensor.cat([left[..., :1] * 0 + 1, left[..., :-1]], dim=-1)
        return before * (z + as_tensor(np.eye(z.shape[-1]), dtype=z.dtype, device=z.device))

    def _inverse(self, y: Any) -> Any:
        size = y.shape[-1]
        taken = (y * y).cumsum(-1) - y * y
        z = (y / (1 - taken).clamp_min(2.0**-126).sqrt()).atanh()
        rows, columns = (as_tensor(one) for one in np.tril_indices(size, -1))
        return z[..., rows, columns]

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = self._placed((math.log(2) - x - (x * -2).softplus()) * 2)  # log(1 - tanh(x)^2)
        size = left.shape[-1]
        # column k stands below the root in those of the row behind it
        behind = np.clip(np.arange(size)[:, None] - np.arange(size) - 1, 0, None)
        return (left * as_tensor(behind / 2 + 1, dtype=x.dtype, device=x.device)).sum((-2, -1))

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        size = self._size(shape[-1])
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class ReshapeTransform(Transform):
    """Events of shape `in_shape` to events of `out_shape`."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ShapeError(f"{self.in_shape} and {self.out_shape} have other numbers of elements")
        self.domain = C.independent(C.real, len(self.in_shape))
        self.codomain = C.independent(C.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return Tensor.zeros(*x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Sequence[int], old: Shape, new: Shape) -> Shape:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != old:
        raise ShapeError(f"events have shape {old}, unlike the end of {tuple(shape)}")
    return (*shape[:cut], *new)


# --- from all numbers to a constraint -------------------------------------------------------------
Maker = Callable[[Any], Transform]


class ConstraintRegistry:
    """Gives the transform that leads from all numbers to a constraint, by its class."""

    def __init__(self, about: str) -> None:
        self._makers: dict[type, Maker] = {}
        self.__doc__ = about

    def register(self, constraint: Any, factory: Maker | None = None) -> Any:
        """Have a function make the transform of constraints of this class, or of an instance's."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        known = constraint if isinstance(constraint, type) else type(constraint)
        self._makers[known] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        for known in type(constraint).__mro__:
            if known in self._makers:
                return self._makers[known](constraint)
        raise NotImplementedError(f"no transform leads to {constraint!r}")


biject_to = ConstraintRegistry(
    """`biject_to(constraint)`: the transform that leads from all numbers to a constraint and can be
    undone, with its slope. `NotImplementedError` where none is known; `register` has it known.

    >>> positive = torpor.distributions.constraints.positive
    >>> torpor.distributions.biject_to(positive)(Tensor(0.0)).item()
    1.0
    """
)
transform_to = ConstraintRegistry(
    """`transform_to(constraint)`: the transform that leads from all numbers to a constraint, which
    is to be trained through; it may be one of which `biject_to` knows no like.

    >>> simplex = torpor.distributions.constraints.simplex
    >>> torpor.distributions.transform_to(simplex)(Tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
)


def _beyond(constraint: Any, way: int = 1) -> Transform:
    return T.ComposeTransform([T.ExpTransform(), T.AffineTransform(constraint.bounds[0], way)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.bounds
    if (low, high) == (0, 1):
        return T.SigmoidTransform()
    return T.ComposeTransform([T.SigmoidTransform(), T.AffineTransform(low, high - low)])


def _fill(registry: ConstraintRegistry, simplex: Maker) -> None:
    table: dict[Any, Maker] = {
        C.real: lambda _: T.identity_transform, C.greater_than: _beyond,
        C.greater_than_eq: _beyond, C.less_than: lambda c: _beyond(c, -1), C.interval: _between,
        C.half_open_interval: _between,
        C.simplex: simplex, C.corr_cholesky: lambda _: CorrCholeskyTransform(),
        C.independent: lambda c: T.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        C.cat: lambda c: T.CatTransform([registry(one) for one in c.cseq], c.dim, c.lengths),
        C.stack: lambda c: T.StackTransform([registry(one) for one in c.cseq], c.dim),
    }  # fmt: skip
    for constraint, factory in table.items():
        registry.register(constraint, factory)


_fill(biject_to, lambda _: StickBreakingTransform())
_fill(transform_to, lambda _: SoftmaxTransform())
transform_to.register(C.lower_cholesky, lambda _: LowerCholeskyTransform())
transform_to.register(C.positive_definite, lambda _: PositiveDefiniteTransform())
transform_to.register(C.positive_semidefinite, lambda _: PositiveDefiniteTransform())


__all__ = [
    "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "ReshapeTransform", "SoftmaxTransform", "StickBreakingTransform", "biject_to",
    "transform_to",
]  # fmt: skip
