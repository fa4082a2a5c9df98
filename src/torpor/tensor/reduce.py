"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.infer import Size, product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import (
    Handle,
    as_number,
    derive,
    float_dtype,
    floats,
    located,
    make,
    weak_constant,
    with_rule,
)
from torpor.tensor.iota import iota
from torpor.tensor.repeated import repeated
from torpor.tensor.results import Extremes, Selected
from torpor.tensor.spelling import one_axis, some_axes, within
from torpor.tensor.wide import wide_dtype, widely


def _reduce_node(node: UOp, op: Ops, axes: tuple[int, ...], keepdim: bool, wide: DType) -> UOp:
    """The reduction computed in `wide`; the result keeps the format unless it is an integer's."""
    own = node.dtype
    made = build.reduce(build.cast(node, wide), op, axes, keepdim)
    return build.cast(made, own) if own.kind == "float" else made


def _mean_node(node: UOp, axes: tuple[int, ...], keepdim: bool, count: int) -> UOp:
    """The mean over axes, computed in the wide format."""
    total = build.reduce(build.cast(node, wide_dtype(node.dtype)), Ops.ADD, axes, keepdim)
    divisor = weak_constant(count, total.dtype, shape_of(total))
    return build.cast(build.elementwise(Ops.FDIV, total, divisor), node.dtype)


def _reduced(
    operand: Any, op: Ops, dim: Any, keepdim: bool, wide: DType, dtype: Any = None
) -> Tensor:
    rank = operand.ndim
    axes = tuple(range(rank)) if dim is None else _axes(dim, rank)
    if dtype is not None:
        operand = operand.cast(as_dtype(dtype))
        if operand.is_pair:
            return (operand.sum if op is Ops.ADD else operand.prod)(dim, keepdim)
        wide = wide_dtype(operand.dtype) if operand.dtype.is_float else operand.dtype
    return derive(_reduce_node, (operand,), op, axes, keepdim, wide)


def _axes(dim: Any, ndim: int) -> tuple[int, ...]:
    """The axes that go: all also for an empty sequence, as in PyTorch."""
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    return some_axes(dim, ndim) or tuple(range(ndim))


def _logic(operand: Any, op: Ops, dim: Any, keepdim: bool) -> Tensor:
    """`any` and `all`, for which an empty sequence names no axis; of uint8 they are uint8."""
    none = dim is not None and not some_axes(dim, operand.ndim)
    flags = operand.bool()
    made = flags if none else _reduced(flags, op, dim, keepdim, dtypes.bool)
    return made.cast(dtypes.uint8) if operand.dtype is dtypes.uint8 else made


def _count(operand: Any, dim: Any) -> Size:
    shape = operand.shape
    return product([shape[axis] for axis in _axes(dim, len(shape))])


def _needs_elements(operand: Any, dim: Any, what: str) -> None:
    if isinstance(count := _count(operand, dim), int) and count == 0:
        raise located(ShapeError(f"{what} of no elements has no value"), (operand,))


def _divisor(count: Any, operand: Any) -> Any:
    """A count, which may be symbolic, as a 0-d tensor of the operand's format."""
    if isinstance(count, UOp):
        return as_number(count, operand.device).cast(operand.dtype)
    return make(weak_constant(count, operand.dtype), operand.device)


def _degrees(operand: Any, dim: Any, correction: Any, unbiased: Any) -> Any:
    """What sums of squared deviations are divided by, no less than 0: a 0-d tensor."""
    if not operand.dtype.is_float:
        raise located(DTypeError("var and std need floats; cast first"), (operand,))
    count = _count(operand, dim)
    if correction is not None:
        within("correction", correction, -math.inf)
    less = (1 if correction is None else correction) if unbiased is None else int(unbiased)
    left = max(count - less, 0) if isinstance(count, int) else count - less
    return _divisor(left, operand.cast(wide_dtype(operand.dtype)))


def _unbiased_first(dim: Any, unbiased: Any) -> tuple[Any, Any]:
    """(dim, unbiased) where, as in PyTorch, a bool may stand first: `x.var(False)`."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


@repeated
def _scale(operand: Any, dim: Any) -> Any:
    """The power of two by which squares of the elements along axes neither are too large nor
    vanish, that is mostly 1. After Blue, "A portable Fortran program to find the Euclidean norm of
    a vector", 1978.
    """
    x = floats(operand.detach())
    near, far = (2.0**400, 2.0**700) if x.dtype is dtypes.float64 else (2.0**45, 2.0**90)
    top = x.abs().amax(dim, True)
    return (top > near).where(1 / far, (top < 1 / near).where(top.full_like(far), 1.0))


def _with_mean(name: str) -> Callable[..., Any]:
    """`var_mean` or `std_mean`."""

    def method(
        self: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
    ) -> tuple[Tensor, Tensor]:
        dim, unbiased = _unbiased_first(dim, unbiased)
        return getattr(self, name)(dim, correction, keepdim, unbiased), self.mean(dim, keepdim)

    method.__name__, method.__doc__ = f"{name}_mean", f"(`{name}`, `mean`)."
    return method


def _extreme(op: Ops, which: str, text: str) -> Callable[..., Any]:
    """`amax` or `amin`."""

    def method(self: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
        _needs_elements(self, dim, f"the {which} element")
        return _reduced(self, op, dim, keepdim, self.dtype)

    method.__name__, method.__doc__ = f"a{op.name.lower()}", text
    return method


def _chosen(name: str, text: str) -> Callable[..., Any]:
    """`max` or `min`."""

    def method(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Handle):
            return getattr(self, f"{name}imum")(dim)
        extreme = getattr(self, f"a{name}")
        if dim is None:
            return _shared(extreme(), self)
        where = getattr(self, f"arg{name}")(dim, keepdim)
        found = extreme(dim, keepdim)
        if self.dtype.is_float and self.ndim:  # the first of equal ones has the gradient
            found = with_rule(found, (self,), "first", one_axis(dim, self.ndim))
        return Selected(found, where)

    method.__name__, method.__doc__ = name, text
    return method


class Reduce(Handle):
    """Reductions. `dim` is an axis, several, or None or () for all; those axes go, or have length 1
    with `keepdim`. Their splits come from the shape alone: results are the same on each run.
    """

    __slots__ = ()

    def sum(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Sum. Bools and integers give int64; floats keep their format, and 16-bit ones are summed
        in float32. With `dtype`, x is cast first. The sum of nothing is 0.

        >>> Tensor([[1, 2], [3, 4]]).sum(0).tolist(), Tensor([True, True]).sum().item()
        ([4, 6], 2)
        """
        return _reduced(self, Ops.ADD, dim, keepdim, wide_dtype(self.dtype), dtype)

    def prod(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Product, in formats as `sum`. The product of nothing is 1."""
        return _reduced(self, Ops.MUL, dim, keepdim, wide_dtype(self.dtype), dtype)

    def mean(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Arithmetic mean of floats, in their format; of other formats only with a float `dtype`,
        else a `DTypeError`. The mean of nothing is NaN.
        """
        if dtype is None and not self.dtype.is_float:
            raise located(DTypeError("mean needs floats; give dtype= or cast first"), (self,))
        operand: Any = self if dtype is None else self.cast(dtype)
        if not operand.dtype.is_float:
            raise located(DTypeError(f"a mean is a float, not {operand.dtype}"), (self,))
        count = _count(self, dim)
        if type(count) is int:
            return derive(_mean_node, (operand,), _axes(dim, operand.ndim), keepdim, count)
        wide = operand.cast(wide_dtype(operand.dtype))
        return (wide.sum(dim, keepdim) / _divisor(count, wide)).cast(operand.dtype)

    def var(
        self, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
    ) -> Tensor:
        """Variance of floats: the sum of squared deviations from the mean, divided by the count
        less `correction` (1: unbiased, 0: of a whole population).

        >>> Tensor([1.0, 2.0, 3.0]).var().item(), Tensor([1.0, 2.0, 3.0]).var(correction=0).item()
        (1.0, 0.6666666865348816)
        """
        dim, unbiased = _unbiased_first(dim, unbiased)
        divisor = _degrees(self, dim, correction, unbiased)
        wide: Any = self.cast(wide_dtype(self.dtype))
        mean = wide.mean(dim, True)
        squares = (wide - mean).square().sum(dim, keepdim)
        axes = some_axes(dim, self.ndim)
        made = with_rule(squares / divisor, (wide, mean, divisor), "variance", *axes)
        return made.cast(self.dtype)

    def std(
        self, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
    ) -> Tensor:
        """Standard deviation: the square root of `var`, also where that is too large or too small
        for the format; its gradient is 0 where it is 0, NaN where it is NaN.
        """
        dim, unbiased = _unbiased_first(dim, unbiased)
        divisor = _degrees(self, dim, correction, unbiased)
        wide: Any = self.cast(wide_dtype(self.dtype))
        return _length(wide - wide.mean(dim, True), dim, keepdim, divisor).cast(self.dtype)

    var_mean, std_mean = _with_mean("var"), _with_mean("std")

    # --- extremes ---------------------------------------------------------------------------------
    amax = _extreme(
        Ops.MAX,
        "greatest",
        """The greatest element, NaN if one is. Of no elements it is a `ShapeError`. Equal greatest
        ones share the gradient.
        """,
    )
    amin = _extreme(Ops.MIN, "least", "The least element, as `amax`.")
    max = _chosen(
        "max",
        """Without `dim` the greatest element, equal ones sharing the gradient; along an axis
        (values, indices), the first index of equal ones, which the gradient goes to; of two tensors
        `maximum`.

        >>> Tensor([[1, 5], [7, 2]]).max(1).indices.tolist()
        [1, 0]
        """,
    )
    min = _chosen("min", "The least element, as `max`; of two tensors `minimum`.")

    def aminmax(self, dim: Any = None, keepdim: bool = False) -> Extremes:
        """(`amin`, `amax`), as min and max."""
        return Extremes(self.amin(dim, keepdim), self.amax(dim, keepdim))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index (int64) of the first greatest element, or of the first NaN; in the flattened tensor
        without `dim`.
        """
        return _first_where_extreme(self, dim, keepdim, greatest=True)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index (int64) of the first least element, as `argmax`."""
        return _first_where_extreme(self, dim, keepdim, greatest=False)

    # --- logic ------------------------------------------------------------------------------------
    def any(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Whether some element is not 0: bool, and uint8 of uint8. False of no elements."""
        return _logic(self, Ops.ADD, dim, keepdim)

    def all(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Whether no element is 0: bool, and uint8 of uint8. True of no elements."""
        return _logic(self, Ops.MUL, dim, keepdim)

    def count_nonzero(self, dim: Any = None) -> Tensor:
        """How many elements are not 0: int64."""
        return self.bool().sum(dim)

    # --- exponentials -----------------------------------------------------------------------------
    def logsumexp(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """log of the sum of exponentials, without overflow: the greatest element is taken out
        first.

        >>> Tensor([1000.0, -1000.0]).logsumexp().item()
        1000.0
        """
        if _count(self, dim) == 0:
            return self.exp().sum(dim, keepdim).log()  # -inf; there is no greatest element
        dtype = float_dtype(self.dtype)
        wide: Any = self.cast(wide_dtype(dtype))
        top = wide.detach().real.amax(dim, True)
        most = float(np.finfo(wide.dtype.part.numpy).max)
        top = top.clamp(-most, most)  # inf - inf were NaN, and numbers beside inf infinite
        total = ((wide - top).exp().sum(dim, True).log() + top).cast(dtype)
        return total if keepdim else total.squeeze(_axes(dim, self.ndim))

    @repeated
    def softmax(self, dim: int = -1, dtype: Any = None) -> Tensor:
        """Exponentials divided by their sum along `dim`, without overflow; the shape stays. With
        `dtype`, x is cast first.
        """
        # one division a row, not an element
        return _below_greatest(
            self, dim, dtype, lambda x: (grown := x.exp()) * grown.sum(dim, True).reciprocal()
        )

    @repeated
    def log_softmax(self, dim: int = -1, dtype: Any = None) -> Tensor:
        """log(softmax(x)), without underflow."""
        return _below_greatest(self, dim, dtype, lambda x: x - x.exp().sum(dim, True).log())

    def softmin(self, dim: int = -1, dtype: Any = None) -> Tensor:
        """softmax(-x)."""
        return (-self).softmax(dim, dtype)

    # --- norms ------------------------------------------------------------------------------------
    @widely
    def norm(self, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """(sum of |x|**p) ** (1/p), of all elements or along axes; p may be 0 (how many are not 0),
        inf (the greatest magnitude), -inf (the least), "fro", which is 2, or "nuc", the sum of a
        matrix' singular values. Squares may be too large or too small for the format, which is
        `dtype` where that is given.

        >>> Tensor([3.0, 4.0]).norm().item()
        5.0

        Its gradient is 0 where it is, as for elements that are 0.
        """
        if dtype is not None:
            return self.cast(dtype).norm(p, dim, keepdim)
        if p == "nuc":
            rows, columns = (-2, -1) if dim is None else dim
            sums = self.movedim((rows, columns), (-2, -1)).svd().S.sum(-1, True).unsqueeze(-1)
            kept = sums.movedim((-2, -1), (rows, columns))
            return kept if keepdim else kept.squeeze((rows, columns))
        if isinstance(p, str) and p != "fro":
            raise ValueRangeError(f"norm's p is a number, 'fro' or 'nuc', not {p!r}")
        if self.is_pair:
            return self.abs().norm(p, dim, keepdim)
        size = self.abs()
        if p in ("fro", None) or p == 2:
            return _length(self, dim, keepdim, 1.0)
        if p == 1:
            return size.sum(dim, keepdim)
        if p in (math.inf, -math.inf):
            made = size.amax(dim, keepdim) if p > 0 else size.amin(dim, keepdim)
            return _shared(made, size, dim)
        if p == 0:
            return with_rule(self.ne(0).cast(self.dtype), (self,), "step").sum(dim, keepdim)
        if p < 0:
            _needs_elements(self, dim, f"the norm with p = {p}")
        return _power(_power(size, float(p)).sum(dim, keepdim), 1 / float(p))

    @widely
    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
        """x divided by its p-norm along an axis, or by `eps` where that is greater."""
        return self / self.norm(p, dim, True).clamp(eps)

    @repeated
    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
        """Differences of neighbours along an axis, taken n times: length to length - n, or to 0. Of
        bools, whether they differ. `prepend` and `append` are laid before and behind first.

        >>> Tensor([1, 4, 9, 16]).diff(2).tolist()
        [2, 2]
        """
        ends: Any = [one for one in (prepend, self, append) if one is not None]
        made: Any = self if len(ends) == 1 or n == 0 else Handle._type.cat(ends, dim=dim)
        if not self.ndim or n < 0:
            what = f"differences are along an axis, and not taken {n} times of {self.ndim} axes"
            raise located(ShapeError(what), (self,))
        for _ in range(n):
            size = made.shape[one_axis(dim, self.ndim)]
            if isinstance(size, int) and not size:
                break
            later, earlier = made.narrow(dim, 1, size - 1), made.narrow(dim, 0, size - 1)
            made = later ^ earlier if self.dtype is dtypes.bool else later - earlier
        return made.clone() if made is self else made


def _below_greatest(given: Any, dim: int, dtype: Any, function: Callable[[Any], Any]) -> Any:
    """`function` of the elements less the greatest along `dim`, in the wide format."""
    operand = floats(given if dtype is None else given.cast(dtype))
    if _count(operand, dim) == 0:
        return operand
    wide = operand.cast(wide_dtype(operand.dtype))
    return function(wide - wide.detach().real.amax(dim, True)).cast(operand.dtype)


def _length(operand: Any, dim: Any, keepdim: bool, divisor: Any) -> Tensor:
    """sqrt(sum of squares / divisor); the squares may be too large or too small for the format."""
    axes = _axes(dim, operand.ndim)
    scale: Any = 1.0 if _count(operand, dim) == 0 else _scale(operand.detach(), axes)
    made: Any = root((operand * scale).square().sum(dim, True) / divisor) / scale
    return made if keepdim else made.squeeze(axes)


def root(operand: Any) -> Tensor:
    """The square root, whose gradient is 0 at 0."""
    return with_rule(operand.sqrt(), (operand,), "root")


def _power(operand: Any, exponent: float) -> Tensor:
    return with_rule(operand**exponent, (operand,), "power", exponent)


def _shared(value: Any, operand: Any, dim: Any = None) -> Tensor:
    """An extreme element, equal ones, or all that are NaN, sharing the gradient."""
    if not operand.dtype.is_float:
        return value
    return with_rule(value, (operand,), "evenly", *_axes(dim, operand.ndim))


def _first_where_extreme(operand: Any, dim: int | None, keepdim: bool, greatest: bool) -> Tensor:
    if dim is None:
        flat = _first_where_extreme(operand.reshape(-1), 0, False, greatest)
        return flat.reshape((1,) * operand.ndim) if keepdim else flat
    _needs_elements(operand, dim, "the index of an extreme element")
    if not operand.ndim:
        return operand.zeros_like(dtypes.int64)
    return _first_along(operand.detach(), one_axis(dim, operand.ndim), bool(keepdim), greatest)


@repeated
def _first_along(operand: Any, axis: int, keepdim: bool, greatest: bool) -> Any:
    """Where the first of the extreme elements of an axis stands."""
    length = operand.shape[axis]
    extreme = operand.amax(axis, True) if greatest else operand.amin(axis, True)
    there = operand.eq(extreme)
    if operand.dtype.is_float:
        there = there | operand.isnan()
    index = make(iota(length, operand.device), operand.device)
    index = index.reshape(length, *(1,) * (operand.ndim - 1 - axis))
    return there.where(index, as_number(length, operand.device)).amin(axis, keepdim)
