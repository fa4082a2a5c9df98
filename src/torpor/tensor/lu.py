"""Triangular factors of matrices by Gauss's elimination, and solutions with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from torpor.base.errors import DTypeError, ValueRangeError
from torpor.tensor import dense
from torpor.tensor.factorisation import eye, inverse
from torpor.tensor.host import Array, known_shape
from torpor.tensor.host_call import host, rule
from torpor.tensor.results import LU, Examined, Factored
from torpor.tensor.spelling import spell
from torpor.tensor.tensor import Tensor


def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """A = P L U of matrices (..., n, m), the largest element of each column being its pivot."""
    found, order, _ = _factors(A, pivot)
    rows = known_shape(A.shape)[-2]
    one = eye(A, rows).expand(*A.shape[:-2], rows, rows)
    return LU(_ordered(one.cast(A.dtype), order).mT, *found)


def lu_factor(A: Tensor, *, pivot: bool = True) -> Factored:
    """L and U of matrices (..., n, m) in one, and the rows that were swapped."""
    return Factored(*lu_factor_ex(A, pivot=pivot)[:2])


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Examined:
    """As `lu_factor`, and which pivot is 0; with `check_errors` one that is raises."""
    (low, high), _, swaps = _factors(A, pivot)
    rows, columns = known_shape(A.shape[-2:])
    side = min(rows, columns)
    below, above = low.tril(-1), high
    below = below.pad((0, columns - side)) if columns > side else below
    above = above.pad((0, 0, 0, rows - side)) if rows > side else above
    zero: Any = high.detach().diagonal(0, -2, -1).eq(0)
    info = zero.any(-1).where(zero.int().argmax(-1) + 1, 0) if side else zero.any(-1)
    if check_errors and info.any():
        raise ValueRangeError(f"lu_factor: a matrix is singular: pivot {info.max().item()} is 0")
    return Examined(below + above, swaps.int() + 1, info.int())


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (or X A = B without `left`) of what `lu_factor` gives; with `adjoint` of A.H
    in place of A. NaN where A is singular.
    """
    permutation, low, high = lu_unpack(LU, pivots)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    if adjoint:
        inner = dense.substituted(high.mH, B, upper=False)
        return permutation @ dense.substituted(low.mH, inner, upper=True)
    inner = dense.substituted(low, permutation.mT @ B, upper=False)
    return dense.substituted(high, inner, upper=True)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> LU:
    """(P, L, U) of what `lu_factor` gives; what is not asked for is empty."""
    rows, columns = known_shape(LU_data.shape[-2:])
    side = min(rows, columns)
    nothing: Any = LU_data.new_zeros((0,))
    permutation = low = high = nothing
    if unpack_pivots:
        if not LU_pivots.dtype.is_int:
            raise DTypeError(f"pivots are integers, not {LU_pivots.dtype}")
        swaps = (LU_pivots.double() - 1).unsqueeze(-2)
        order = _order(swaps, options=(rows,)).long()
        one = eye(LU_data, rows).expand(*LU_data.shape[:-2], rows, rows)
        permutation = _ordered(one.cast(LU_data.dtype), order).mT
    if unpack_data:
        diagonal = eye(LU_data, max(rows, side)).narrow(-1, 0, side)
        low = LU_data.narrow(-1, 0, side).tril(-1) + diagonal
        high = LU_data.narrow(-2, 0, side).triu()
    return LU(permutation, low, high)


# --- elimination ----------------------------------------------------------------------------------
def _factors(a: Any, pivot: bool) -> tuple[tuple[Any, Any], Any, Any]:
    """(L, U), the order of the rows, and the swaps that lead to it, int64. What lies beyond the
    square in front is solved for.
    """
    a = dense.matrices(a, "lu", False)
    rows, columns = known_shape(a.shape[-2:])
    side = min(rows, columns)
    wide = a.detach() if a.is_pair else a.detach().double()
    swaps = _pivots(wide, options=(pivot,))
    order = _order(swaps.unsqueeze(-2), options=(rows,)).long()
    moved = _ordered(a, order) if pivot else a
    low, high = _eliminated(moved.narrow(-1, 0, side).narrow(-2, 0, side))
    if columns > side:
        rest = dense.solve(low, moved.narrow(-1, side, columns - side))
        high = high.cat(rest, dim=-1)
    if rows > side:
        rest = moved.narrow(-2, side, rows - side)
        zero: Any = high.detach().diagonal(0, -2, -1).eq(0)  # there is nothing below such a pivot
        divided = high + zero.cast(high.dtype).diag_embed()
        low = low.cat(dense.substituted(divided.mT, rest.mT, upper=False).mT, dim=-2)
    return (low, high), order, swaps.long()


def _ordered(a: Any, order: Any) -> Any:
    """The rows in this order."""
    return a.take_along_dim(order.unsqueeze(-1), -2)


@host("order")
def _order(swaps: Array, rows: int) -> Sequence[Array]:
    """The rows' order after the swaps (..., 1, n), one after the other."""
    swaps = swaps[..., 0, :].astype(np.int64)
    order = np.broadcast_to(np.arange(rows), (*swaps.shape[:-1], rows)).copy()
    for place in range(swaps.shape[-1]):
        _swap(order[..., None], place, swaps[..., place])
    return [order]


def _swap(array: Array, place: int, others: Array) -> None:
    """Row `place` of each matrix with another one, which may be itself."""
    index = np.asarray(others)[..., None, None]
    there = np.take_along_axis(array, index, -2)
    here = array[..., place : place + 1, :].copy()
    np.put_along_axis(array, index, here, -2)
    array[..., place : place + 1, :] = there


@host("pivots")
def _pivots(a: Array, pivot: bool) -> Sequence[Array]:
    """Which row each one is swapped with: the one whose element in its column is the largest."""
    a, side = a.copy(), min(a.shape[-2:])
    swaps = np.broadcast_to(np.arange(side), (*a.shape[:-2], side)).copy()
    for place in range(side if pivot else 0):
        column = a[..., place:, place]
        swaps[..., place] += (np.abs(column.real) + np.abs(column.imag)).argmax(-1)  # as LAPACK
        _swap(a, place, swaps[..., place])
        _eliminate(a, place)
    return [swaps]


def _eliminate(a: Array, place: int) -> None:
    """Subtract multiples of a row from those below, which stand in its column then."""
    top = a[..., place : place + 1, place]
    a[..., place + 1 :, place] /= np.where(top == 0, 1, top)
    factors = a[..., place + 1 :, place : place + 1]
    a[..., place + 1 :, place + 1 :] -= factors * a[..., place : place + 1, place + 1 :]


@host("lu")
def _eliminated(a: Array) -> Sequence[Array]:
    """L and U of square matrices whose rows are in order."""
    a = a.copy()
    for place in range(a.shape[-1]):
        _eliminate(a, place)
    return [np.tril(a, -1) + np.eye(a.shape[-1], dtype=a.dtype), np.triu(a)]


@rule("lu")
def _lu_rule(made: Sequence[Any], g: Sequence[Any], a: Any) -> Sequence[Any]:
    """dL = L tril(inverse(L) dA inverse(U), -1), dU = triu(inverse(L) dA inverse(U)) U."""
    (low, high), (below, above) = made, g
    inner = (low.mH @ below).tril(-1) + (above @ high.mH).triu()
    return [inverse(low).mH @ inner @ inverse(high).mH]


spell(sys.modules[__name__])
