"""Reductions over axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.infer import Size, product, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, derive, float_dtype, located, make
from torpor.tensor.iota import iota
from torpor.tensor.spelling import one_axis, some_axes, spelled

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


class Extreme(NamedTuple):
    """What `max(dim)` and `min(dim)` give."""

    values: Any
    indices: Any


def _reduce_node(node: UOp, op: Ops, axes: tuple[int, ...], keepdim: bool, wide: DType) -> UOp:
    """The reduction computed in `wide`; the result keeps the format unless it is an integer's."""
    own = node.dtype
    made = build.reduce(build.cast(node, wide), op, axes, keepdim)
    return build.cast(made, own) if own.kind == "float" else made


def wide_dtype(dtype: DType) -> DType:
    """The format that sums and products of `dtype` are taken in."""
    if dtype.kind == "float":
        return dtypes.float32 if dtype.bits < 32 else dtype
    return dtypes.int64


def _reduced(
    operand: Any, op: Ops, dim: Any, keepdim: bool, wide: DType, dtype: Any = None
) -> Tensor:
    axes = some_axes(dim, operand.ndim)
    if dtype is not None:
        operand = operand.cast(as_dtype(dtype))
        wide = wide_dtype(operand.dtype) if operand.dtype.is_float else operand.dtype
    return derive(_reduce_node, (operand,), op, axes, keepdim, wide)


def _count(operand: Any, dim: Any) -> Size:
    shape = operand.shape
    return product([shape[axis] for axis in some_axes(dim, len(shape))])


def _needs_elements(operand: Any, dim: Any, what: str) -> None:
    if isinstance(count := _count(operand, dim), int) and count == 0:
        raise located(ShapeError(f"{what} of no elements has no value"), (operand,))


def _divided(operand: Any, count: Any) -> Tensor:
    """Gives operand / count, where the count may be symbolic."""
    if isinstance(count, UOp):
        count = make(count.cast(dtypes.int64), operand.device).cast(operand.dtype)
    return operand / count


class Reduce(Handle):
    """Reductions. `dim` is an axis, several, or None for all."""

    __slots__ = ()

    @spelled
    def sum(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Sum; of bools and integers as int64, of 16-bit floats taken in float32."""
        return _reduced(self, Ops.ADD, dim, keepdim, wide_dtype(self.dtype), dtype)

    @spelled
    def prod(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Product; of bools and integers as int64."""
        return _reduced(self, Ops.MUL, dim, keepdim, wide_dtype(self.dtype), dtype)

    @spelled
    def mean(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Arithmetic mean of floats."""
        if dtype is None and not self.dtype.is_float:
            raise located(DTypeError("mean needs floats; give dtype= or cast first"), (self,))
        operand: Any = self if dtype is None else self.cast(dtype)
        wide = operand.cast(wide_dtype(operand.dtype))
        total = _divided(wide.sum(dim, keepdim), _count(self, dim))
        return total.cast(operand.dtype)

    @spelled
    def var(
        self, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
    ) -> Tensor:
        """Variance: squared deviations summed, divided by count - correction."""
        if unbiased is not None:
            correction = int(unbiased)
        if not self.dtype.is_float:
            raise located(DTypeError("var and std need floats; cast first"), (self,))
        wide = self.cast(wide_dtype(self.dtype))
        squares = (wide - wide.mean(dim, True)).square().sum(dim, keepdim)
        count = _count(self, dim)
        divisor = max(count - correction, 0) if isinstance(count, int) else count - correction
        return _divided(squares, divisor).cast(self.dtype)

    @spelled
    def std(
        self, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
    ) -> Tensor:
        """Standard deviation: the root of `var`."""
        return self.var(dim, correction, keepdim, unbiased).sqrt()

    @spelled
    def var_mean(self, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
        """(variance, mean)."""
        return self.var(dim, correction, keepdim), self.mean(dim, keepdim)

    @spelled
    def std_mean(self, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
        """(standard deviation, mean)."""
        return self.std(dim, correction, keepdim), self.mean(dim, keepdim)

    # --- extremes ---------------------------------------------------------------------------------
    @spelled
    def amax(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The greatest element; NaN if one is."""
        _needs_elements(self, dim, "the greatest element")
        return _reduced(self, Ops.MAX, dim, keepdim, self.dtype)

    @spelled
    def amin(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The least element; NaN if one is."""
        _needs_elements(self, dim, "the least element")
        return _reduced(self, Ops.MIN, dim, keepdim, self.dtype)

    @spelled
    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The greatest element; along one axis (values, indices); of two tensors `maximum`."""
        if isinstance(dim, Handle):
            return self.maximum(dim)
        if dim is None:
            return self.amax()
        return Extreme(self.amax(dim, keepdim), self.argmax(dim, keepdim))

    @spelled
    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The least element; along one axis (values, indices); of two tensors `minimum`."""
        if isinstance(dim, Handle):
            return self.minimum(dim)
        if dim is None:
            return self.amin()
        return Extreme(self.amin(dim, keepdim), self.argmin(dim, keepdim))

    @spelled
    def aminmax(self, dim: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        """(least, greatest)."""
        return self.amin(dim, keepdim), self.amax(dim, keepdim)

    @spelled
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index (int64) of the first greatest element, of the first NaN if there is one."""
        return _first_where_extreme(self, dim, keepdim, greatest=True)

    @spelled
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index (int64) of the first least element, of the first NaN if there is one."""
        return _first_where_extreme(self, dim, keepdim, greatest=False)

    # --- logic ------------------------------------------------------------------------------------
    @spelled
    def any(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Whether some element is not zero."""
        return _reduced(self.bool(), Ops.ADD, dim, keepdim, dtypes.bool)

    @spelled
    def all(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Whether no element is zero."""
        return _reduced(self.bool(), Ops.MUL, dim, keepdim, dtypes.bool)

    @spelled
    def count_nonzero(self, dim: Any = None) -> Tensor:
        """How many elements are not zero."""
        return self.bool().sum(dim)

    # --- exponentials -----------------------------------------------------------------------------
    @spelled
    def logsumexp(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Gives log of the sum of exponentials, without overflow."""
        if _count(self, dim) == 0:
            return self.exp().sum(dim, keepdim).log()  # -inf; there is no greatest element
        top = self.detach().amax(dim, True)
        top = top.isfinite().where(top, 0)  # all -inf gives -inf, an inf gives inf
        total = (self - top).exp().sum(dim, True).log() + top
        return total if keepdim else total.squeeze(some_axes(dim, self.ndim))

    @spelled
    def softmax(self, dim: int = -1, dtype: Any = None) -> Tensor:
        """Exponentials divided by their sum along an axis."""
        operand: Any = self if dtype is None else self.cast(dtype)
        operand = operand.cast(float_dtype(operand.dtype))
        if _count(operand, dim) == 0:
            return operand
        grown = (operand - operand.detach().amax(dim, True)).exp()
        return grown / grown.sum(dim, True)

    @spelled
    def log_softmax(self, dim: int = -1, dtype: Any = None) -> Tensor:
        """Gives log of `softmax`."""
        operand: Any = self if dtype is None else self.cast(dtype)
        operand = operand.cast(float_dtype(operand.dtype))
        if _count(operand, dim) == 0:
            return operand
        moved = operand - operand.detach().amax(dim, True)
        return moved - moved.exp().sum(dim, True).log()

    @spelled
    def softmin(self, dim: int = -1) -> Tensor:
        """softmax(-x)."""
        return (-self).softmax(dim)

    # --- norms ------------------------------------------------------------------------------------
    @spelled
    def norm(self, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The p-norm of all elements or along axes."""
        size = self.abs()
        if p in ("fro", None) or p == 2:
            return self.square().sum(dim, keepdim).sqrt()
        if p == 1:
            return size.sum(dim, keepdim)
        if p in (math.inf, -math.inf):
            return size.amax(dim, keepdim) if p > 0 else size.amin(dim, keepdim)
        if p == 0:
            return self.ne(0).cast(self.dtype).sum(dim, keepdim)
        return (size ** float(p)).sum(dim, keepdim) ** (1 / float(p))

    @spelled
    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
        """Divided by its norm along an axis, or by `eps` where that is greater."""
        return self / self.norm(p, dim, True).maximum(eps)

    @spelled
    def diff(self, n: int = 1, dim: int = -1) -> Tensor:
        """Differences of neighbours along an axis, taken n times."""
        made: Any = self
        for _ in range(n):
            size = made.shape[one_axis(dim, self.ndim)]
            later, earlier = made.narrow(dim, 1, size - 1), made.narrow(dim, 0, size - 1)
            made = later ^ earlier if self.dtype is dtypes.bool else later - earlier
        return made


def _first_where_extreme(operand: Any, dim: int | None, keepdim: bool, greatest: bool) -> Tensor:
    if dim is None:
        flat = _first_where_extreme(operand.reshape(-1), 0, False, greatest)
        return flat.reshape((1,) * operand.ndim) if keepdim else flat
    _needs_elements(operand, dim, "the index of an extreme element")
    operand = operand.detach()
    if not operand.ndim:
        return operand.zeros_like(dtypes.int64)
    axis = one_axis(dim, operand.ndim)
    length = operand.shape[axis]
    extreme = operand.amax(axis, True) if greatest else operand.amin(axis, True)
    there = operand.eq(extreme)
    if operand.dtype.is_float:
        there = there | operand.isnan()
    index = make(iota(length, operand.device), operand.device)
    index = index.reshape(length, *(1,) * (operand.ndim - 1 - axis))
    return there.where(index, _as_number(length, operand)).amin(axis, keepdim)


def _as_number(length: Size, operand: Any) -> Any:
    """The size as a number, or as a 0-d tensor where it is symbolic."""
    if isinstance(length, int):
        return length
    return make(size_node(length).cast(dtypes.int64), operand.device)
