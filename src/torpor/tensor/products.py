"""Products of several tensors: what is added to products, outer and cross products, covariance."""

from __future__ import annotations

from typing import Any, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.records import Requirement
from torpor.tensor.amp import lowered
from torpor.tensor.annotated import Tensor
from torpor.tensor.contraction import added_to
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, flat, floats, located
from torpor.tensor.operands import need, promoted, scaled, sized
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import one_axis, whole_number
from torpor.tensor.wide import widely

NOT_NEGATIVE: Final = Requirement("value", "cov takes weights that are not negative")


def _beside(wide: Any, one: Any) -> Any:
    """A factor in the format of what its product is added to, if both are floats and that is wider:
    the product is rounded once.
    """
    floats = isinstance(one, Handle) and one.dtype.kind == wide.dtype.kind == "float"
    return one.cast(wide.dtype) if floats and one.dtype.bits < wide.dtype.bits else one


class Products(Handle):
    """Products, in formats as `matmul`. `beta` multiplies this tensor, `alpha` the product; a
    factor of 0 gives 0, whatever it is of (but for `alpha` of `addr`).
    """

    __slots__ = ()

    @widely
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * (mat @ vec): (n,)."""
        return added_to(self, mat.mv(vec), beta, alpha)

    @widely
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * outer(vec1, vec2): (n, m)."""
        product = scaled(vec1.outer(vec2), alpha)  # unlike in products of matrices, 0 keeps NaN
        return added_to(self, product, beta, 1)

    @lowered
    @widely
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha times the sum of the products of two batches of matrices."""
        return added_to(self, batch1.bmm(batch2).sum(0).cast(batch1.dtype), beta, alpha)

    @lowered
    @widely
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * (batch1 @ batch2): (batch, n, m)."""
        return added_to(self, batch1.bmm(batch2), beta, alpha)

    @widely
    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """self + value * tensor1 * tensor2."""
        return self.add(_beside(self, tensor1) * tensor2, alpha=value)

    @widely
    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """self + value * tensor1 / tensor2."""
        return self.add(_beside(self, tensor1) / tensor2, alpha=value)

    def vdot(self, other: Any) -> Tensor:
        """The sum of the products of two vectors' elements, the conjugates of this one's."""
        return self.conj().dot(other)

    def inner(self, other: Any) -> Tensor:
        """Sums of products along both last axes: (..., k) by (*, k) to (..., *)."""
        other = beside(other, self)
        if not self.ndim or not other.ndim:
            return self * other
        return self.tensordot(other, ([self.ndim - 1], [other.ndim - 1]))

    def kron(self, other: Any) -> Tensor:
        """Kronecker's product: blocks of `other` times each element.

        >>> Tensor([1, 2]).kron(Tensor([1, 10])).tolist()
        [1, 10, 2, 20]
        """
        x, y = promoted(self, beside(other, self))
        axes = max(x.ndim, y.ndim)
        ours = (*(1,) * (axes - x.ndim), *x.shape)
        theirs = (*(1,) * (axes - y.ndim), *y.shape)
        left = x.reshape(*[size for one in ours for size in (one, 1)])
        right = y.reshape(*[size for one in theirs for size in (1, one)])
        return (left * right).reshape(*[one * two for one, two in zip(ours, theirs, strict=True)])

    @repeated
    def cross(self, other: Any, dim: int | None = None) -> Tensor:
        """The cross product of vectors of length 3 along an axis (None: the first of length 3)."""
        other = beside(other, self)
        shape = build.broadcast_shapes(self.shape, other.shape)
        x, y = self.expand(*shape), other.expand(*shape)
        first = self.shape.index(3) - self.ndim if dim is None and 3 in self.shape else -1
        axis = one_axis(first if dim is None else dim, len(shape))
        lengths = {x.shape[axis - len(shape)] for x in (self, other) if x.ndim >= len(shape) - axis}
        if lengths != {3}:
            raise located(ShapeError("cross needs an axis of length 3"), (self, other))
        return x.roll(-1, axis) * y.roll(1, axis) - x.roll(1, axis) * y.roll(-1, axis)

    def vecdot(self, other: Any, dim: int = -1) -> Tensor:
        """Sums of products, of this one's conjugates, along an axis, the other axes broadcast."""
        made: Any = self.conj() * beside(other, self)
        return made.sum(dim).cast(made.dtype)

    def matrix_power(self, n: int) -> Tensor:
        """Square matrices (..., k, k) multiplied n times with themselves: by squares."""
        if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
            raise located(ShapeError("matrix_power needs square matrices"), (self,))
        n = whole_number(n)
        if n < 0:
            return self.inverse().matrix_power(-n)
        if n == 0:
            one = Handle._type.eye(self.shape[-1], dtype=self.dtype, device=self.device)
            return flat(one.expand(*self.shape).clone(), self)
        half: Any = self.matrix_power(n // 2) if n > 1 else None
        if half is None:
            return self.clone()
        square = half @ half
        return square @ self if n % 2 else square

    def dist(self, other: Any, p: float = 2) -> Tensor:
        """The p-norm of the difference."""
        return (self - other).norm(p)

    # --- covariance -------------------------------------------------------------------------------
    @widely
    def cov(self, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        """Covariances of the rows of a matrix, whose columns are observations: (rows, rows), 0-d of
        a vector. fweights: how often each observation counts, whole numbers;
        aweights: how much it weighs. One that is negative raises at realisation.
        """
        if self.ndim > 2:
            raise located(ShapeError("cov is of rows of a matrix, or of a vector"), (self,))
        x: Any = floats(self)
        x = x.reshape(1, -1) if x.ndim < 2 else x
        weight: Any = None
        kind = x.dtype.part
        for given in (fweights, aweights):
            if given is not None:
                part = sized(beside(given, self), x.shape[1:], "a weight for each observation")
                need(given is not fweights or part.dtype.is_int, "fweights are whole numbers", part)
                part = derive(build.check, (part.cast(kind), part >= 0), NOT_NEGATIVE)
                weight = part if weight is None else weight * part
        if weight is None:
            count, mean = float(x.shape[1]), x.mean(1, True)
            centered = x - mean
            divisor: Any = max(count - correction, 0.0)
            made = centered @ centered.mH
        else:
            total = weight.sum()
            centered = x - (x * weight).sum(1, True) / total
            less = (weight * beside(aweights, self).cast(kind)).sum() / total if (
                aweights is not None) else 1.0  # fmt: skip
            divisor = (total - less * correction).clamp(0)
            made = (centered * weight) @ centered.mH
        made = made / divisor
        return made.reshape(()) if x.shape[0] == 1 else made

    @widely
    def corrcoef(self) -> Tensor:
        """Correlations of the rows of a matrix: covariances divided by both standard deviations."""
        made: Any = self.cov()
        if not made.ndim:
            return made / made
        deviation = made.diagonal().real.sqrt()
        made = made / deviation.unsqueeze(1) / deviation
        return made._of([part.clamp(-1, 1) for part in made._parts])

    # --- integrals --------------------------------------------------------------------------------
    def trapezoid(self, x: Any = None, dx: Any = None, dim: int = -1) -> Tensor:
        """The integral along an axis by the trapezoidal rule: between points `x`, or `dx` apart."""
        return _trapezoids(self, x, dx, dim).sum(dim)

    trapz = trapezoid

    def cumulative_trapezoid(self, x: Any = None, dx: Any = None, dim: int = -1) -> Tensor:
        """The integrals up to each point but the first, as `trapezoid`."""
        return _trapezoids(self, x, dx, dim).cumsum(dim)

    # --- norms ------------------------------------------------------------------------------------
    def renorm(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """The slices along an axis, those whose p-norm is above `maxnorm` scaled down to it."""
        axis = one_axis(dim, self.ndim)
        if self.ndim < 2:
            raise located(ShapeError("renorm is of the slices of two axes or more"), (self,))
        if not p > 0 or maxnorm < 0:
            raise ValueRangeError(f"renorm takes p > 0 and maxnorm >= 0, not {p} and {maxnorm}")
        norm: Any = self.norm(p, [a for a in range(self.ndim) if a != axis], True)
        return self * (norm > maxnorm).where(maxnorm / (norm + 1e-7), 1.0)


def _trapezoids(y: Any, x: Any, dx: Any, dim: int) -> Any:
    axis = one_axis(dim, y.ndim)
    count = y.shape[axis]
    mean: Any = floats(y)
    mean = (mean.narrow(axis, 1, count - 1) + mean.narrow(axis, 0, count - 1)) * 0.5 if (
        count) else mean  # fmt: skip
    if x is None:
        return mean if dx is None else mean * dx
    x = beside(x, y)
    if x.shape[axis if x.ndim > 1 else -1 :][:1] != (count,):
        what = f"points of shape {x.shape} are not those of axis {axis} of {y.shape}"
        raise located(ShapeError(what), (y, x))
    if x.ndim == 1 and y.ndim != 1:
        return mean * x.diff().reshape(-1, *(1,) * (y.ndim - 1 - axis))
    return mean * x.diff(dim=dim)
