"""Reductions, searching, sorting and sets. `axis`: one, several, or None for all."""

from __future__ import annotations

from typing import Any

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ShapeError
from torpor.base.missing import own_functions
from torpor.tensor import Tensor
from torpor.tensor.creation import as_tensor
from torpor.tensor.results import All, Counts, Inverse


def _none(axis: Any) -> bool:
    """Whether an empty tuple names no axis."""
    return isinstance(axis, tuple) and not axis


def _wide(x: Tensor, dtype: DType | None) -> DType | None:
    return dtypes.uint64 if dtype is None and x.dtype.kind == "uint" else dtype


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sums: of integers int64, of unsigned ones uint64."""
    kind = _wide(x, dtype)
    return x.unsqueeze(0).sum(0, dtype=kind) if _none(axis) else x.sum(axis, keepdims, dtype=kind)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Products, in formats as `sum`."""
    kind = _wide(x, dtype)
    return x.unsqueeze(0).prod(0, dtype=kind) if _none(axis) else x.prod(axis, keepdims, dtype=kind)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Arithmetic means of floats."""
    return x.clone() if _none(axis) else x.mean(axis, keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: Any = 0.0, keepdims: bool = False) -> Tensor:
    """Variances: squared deviations divided by the count less `correction`."""
    return x.var(axis, correction, keepdims)


def std(x: Tensor, /, *, axis: Any = None, correction: Any = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviations: the roots of variances."""
    return x.std(axis, correction, keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The greatest elements."""
    return x.clone() if _none(axis) else x.amax(axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The least elements."""
    return x.clone() if _none(axis) else x.amin(axis, keepdims)


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether no element is 0."""
    return x.cast(dtypes.bool).all(axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not 0."""
    return x.cast(dtypes.bool).any(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0."""
    return sum(x.cast(dtypes.bool), axis=axis, keepdims=keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sums; with `include_initial` 0 stands before them."""
    return _running(x, "cumsum", axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running products; with `include_initial` 1 stands before them."""
    return _running(x, "cumprod", axis, dtype, 1 if include_initial else None)


def _running(x: Tensor, method: str, axis: int | None, dtype: Any, initial: Any) -> Tensor:
    if axis is None and x.ndim > 1:
        raise ShapeError("running sums need an axis, of arrays of more axes than one")
    x = x if x.ndim else x.reshape(1)
    place = 0 if axis is None else axis % x.ndim
    made: Tensor = getattr(x, method)(place, dtype=_wide(x, dtype))
    if initial is None:
        return made
    padding: list[Any] = [None] * x.ndim
    padding[place] = (1, 0)
    return made.pad(padding, value=initial)


def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours, n times; options by place too, as NumPy takes them."""
    return x.diff(n, axis, prepend, append)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element is one of others."""
    return as_tensor(x1).isin(x2, invert=invert)


# --- searching and sorting ------------------------------------------------------------------------
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first greatest element stands."""
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first least element stands."""
    return x.argmin(axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Where elements are not 0: a vector for each axis."""
    if not x.ndim:
        raise ShapeError("nonzero needs at least one axis")
    return x.nonzero(as_tuple=True)  # type: ignore[no-any-return]


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """How many elements of the sorted vector x1 stand before each of x2."""
    return Tensor.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The values in order along an axis."""
    made: Tensor = x.sort(axis, descending).values
    return made


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Indices that put an axis in order."""
    return x.argsort(axis, descending)


# --- sets -----------------------------------------------------------------------------------------
def unique_all(x: Tensor, /) -> All:
    """The values that occur, where each occurs first, which each element is, and how often."""
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    flat = inverse.reshape(-1)
    places = Tensor.arange(flat.shape[0], device=x.device)
    first = Tensor.full(values.shape, flat.shape[0], device=x.device)
    return All(values, first.scatter_reduce(0, flat, places, "amin"), inverse, counts)


def unique_counts(x: Tensor, /) -> Counts:
    """The values that occur and how often."""
    return Counts(*x.unique(return_counts=True))


def unique_inverse(x: Tensor, /) -> Inverse:
    """The values that occur and which each element is."""
    return Inverse(*x.unique(return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The values that occur."""
    made: Tensor = x.unique()
    return made


__all__ = own_functions(globals())
