"""Linear algebra by the names of `torch.linalg`, for real and complex matrices (..., n, m).

Factorisations are computed by LAPACK at the call; everything else, gradients too, is generated.
Matrices that do not fit are a `ShapeError`, one that has no such factors a `ValueRangeError`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from torpor.base.errors import LinAlgError, ShapeError, ValueRangeError
from torpor.base.missing import names_of
from torpor.tensor import dense, factorisation
from torpor.tensor.amp import raised
from torpor.tensor.creation import beside
from torpor.tensor.host import known_shape
from torpor.tensor.host_call import telling
from torpor.tensor.lu import lu, lu_factor, lu_factor_ex, lu_solve
from torpor.tensor.namespace import function_of
from torpor.tensor.reflections import householder_product
from torpor.tensor.results import (
    QR,
    Checked,
    CheckedInverse,
    CheckedTriangle,
    Eigen,
    Factors,
    Least,
    Polar,
)
from torpor.tensor.spelling import among, some_axes, spell, spelled
from torpor.tensor.tensor import Tensor
from torpor.tensor.wide import widely

DRIVERS: Final = ("gels", "gelsd", "gelss")  # routines of LAPACK that `lstsq` is asked for by name

ORDERS: Final = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)  # of `matrix_norm`

cholesky, det, inv, slogdet = map(function_of, ("cholesky", "det", "inverse", "slogdet"))
matmul, matrix_exp, matrix_power, vecdot = map(
    function_of, ("matmul", "matrix_exp", "matrix_power", "vecdot")
)


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R; mode "complete" has Q square, "r" has no Q."""
    among("qr's mode", mode, "reduced", "complete", "r")
    made = dense.qr(A, mode == "complete")
    return QR(A.new_zeros((0,)), made.R) if mode == "r" else made


def svd(A: Tensor, full_matrices: bool = True) -> Factors:
    """A = U diag(S) Vh, S descending; U and Vh square with `full_matrices`."""
    u, s, v = A.svd(some=not full_matrices)
    return Factors(u, s, v.mH)


def svdvals(A: Tensor) -> Tensor:
    """The singular values, descending."""
    dense.matrices(A, "svdvals", False)
    return dense.svd(A)[1] if A.requires_grad else factorisation.svdvals(A)  # slopes need vectors


def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueRangeError(f"UPLO is 'L' or 'U', not {UPLO!r}")
    return Eigen(*factorisation.eigh(dense.matrices(A, "eigh"), UPLO in ("U", "u")))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending."""
    return eigh(A, UPLO).eigenvalues


def eig(A: Tensor) -> Eigen:
    """Eigenvalues and, as columns of length 1, eigenvectors of square matrices: both complex. The
    gradient is that of what no turn of an eigenvector by a complex number changes.
    """
    return Eigen(*factorisation.eig(dense.matrices(A, "eig")))


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices: complex."""
    return eig(A).eigenvalues


def polar(A: Tensor) -> Polar:
    """A = U H of matrices (..., n, m), n >= m: U has orthonormal columns, H is Hermitian and has no
    negative eigenvalue.
    """
    rows, columns = known_shape(A.shape[-2:])
    if rows < columns:
        raise ShapeError(f"polar needs no fewer rows than columns, not {(rows, columns)}")
    u, s, v = dense.svd(A)
    return Polar(u @ v, (v.mH * s.unsqueeze(-2)) @ v)


@widely
def matrix_sqrth(A: Tensor) -> Tensor:
    """X with X X = A, both positive definite and Hermitian; of A the lower triangle counts."""
    return factorisation.matrix_sqrth(dense.matrices(A, "matrix_sqrth"))


# --- equations ------------------------------------------------------------------------------------
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B without `left`; B may hold vectors."""
    a, b, alone = dense.of_vectors(A, B, left)
    made: Tensor = dense.solve(a, b) if left else dense.solve(a.mT, b.mT).mT
    return made.squeeze(-1) if alone else made


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """`solve` of triangles: what lies beside them is not looked at. NaN where one is singular."""
    a, b, alone = dense.of_vectors(A, B, left)
    triangle = dense.triangular(a, upper, unitriangular)
    made: Tensor = (
        dense.substituted(triangle, b, upper) if left
        else dense.substituted(triangle.mT, b.mT, not upper).mT
    )  # fmt: skip
    return made.squeeze(-1) if alone else made


def _checked(function: Callable[..., Any], kind: Any) -> Any:
    """The function with `check_errors=False`: where it raises, it gives NaN and says why."""

    def method(A: Tensor, *arguments: Any, check_errors: bool = False, **options: Any) -> Any:
        with telling() as told:
            made = function(A, *arguments, **options)
        info, words = told[0]
        if check_errors and info.any():
            raise LinAlgError(words)
        return kind(made, info.int())

    method.__name__ = f"{function.__name__}_ex"
    method.__doc__ = f"(`{function.__name__}`, info): NaN and which pivot, where there is none."
    return spelled(method)


cholesky_ex = _checked(cholesky, CheckedTriangle)
inv_ex, solve_ex = _checked(inv, CheckedInverse), _checked(solve, Checked)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: Any = None) -> Least:
    """X for which |A X - B| is least, of all such the shortest: solution, residuals (of
    the drivers but "gelsy", PyTorch's own, where A has more rows than columns and full rank), rank,
    and singular values (of "gelsd" and "gelss").
    """
    among("lstsq's driver", driver, None, "gelsy", *DRIVERS)
    a, b, alone = dense.of_vectors(A, B)
    rows, columns = known_shape(a.shape[-2:])
    tolerance = _epsilon(a) * max(rows, columns) if rcond is None else rcond
    made = factorisation.pinv(dense.matrices(a, "lstsq", False), tolerance) @ b
    values = svdvals(a.detach())
    rank = (values > values.amax(-1, True) * tolerance).sum(-1) if min(rows, columns) else (
        a.new_zeros(a.shape[:-2], dtype="int64"))  # fmt: skip
    nothing = a.new_zeros((0,), dtype=a.dtype.part)
    full = rows > columns and driver in DRIVERS and bool(rank.eq(columns).all())
    residuals = (a @ made - b).abs().square().sum(-2) if full else nothing
    kept = values if driver in ("gelsd", "gelss") else nothing
    rank = a.new_zeros((0,), dtype="int64") if driver == "gels" else rank
    return Least(made.squeeze(-1) if alone else made, residuals, rank, kept)


@widely
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudoinverses of Moore and Penrose: singular values up to max(atol, rtol times the
    greatest) count as 0. With `hermitian` only the lower triangle of A is looked at.
    """
    rows, columns = known_shape(dense.matrices(A, "pinv", hermitian).shape[-2:])
    rtol = rcond if rtol is None else rtol
    share: Any = (
        (_epsilon(A) * max(rows, columns) if atol is None else 0.0) if rtol is None else rtol
    )
    if atol is not None and rows and columns:
        top: Any = svdvals(A.detach()).amax(-1)
        share = (beside(atol, top) / top.clamp(min=top.dtype.smallest_normal)).maximum(share)
    return factorisation.pinv(dense.matrices(A, "pinv", hermitian), share, hermitian)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot`, of the first `ind` axes against the others."""
    count = math.prod(known_shape(A.shape[:ind]))
    return A.reshape(count, -1).inverse().reshape(*A.shape[ind:], *A.shape[:ind])


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; the axes `dims` of A are moved behind the others."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    return solve(A.reshape(math.prod(known_shape(B.shape)), -1), B.reshape(-1)).reshape(*shape)


# --- norms ----------------------------------------------------------------------------------------
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of vectors along axes (None: of all elements), as `Tensor.norm`."""
    operand = x if dtype is None else x.cast(dtype)
    return operand.norm(float(ord), dim, keepdim)


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The norm of matrices: "fro", "nuc", 1 and -1 (columns' sums), inf and -inf (rows' sums), 2
    and -2 (the greatest and the least singular value).
    """
    x: Any = A if dtype is None else A.cast(dtype)
    axes = some_axes(dim, x.ndim)
    if len(axes) != 2:
        raise ShapeError(f"matrix_norm is along two axes, not {dim!r}")
    if ord not in ORDERS:
        what = "matrix_norm's ord is 'fro', 'nuc', or 1, 2, inf and these negative"
        raise ValueRangeError(f"{what}, not {ord!r}")
    rows, columns = axes
    if ord == "fro":
        return x.norm(2, (rows, columns), keepdim)
    moved = x.movedim((rows, columns), (-2, -1))
    if ord == "nuc" or abs(ord) == 2:
        values = svdvals(moved)
    else:
        values = moved.abs().sum(-2 if abs(ord) == 1 else -1)
    if ord == "nuc" or (ord > 0 and values.shape[-1] == 0):  # the greatest of nothing is 0
        made = values.sum(-1)
    else:
        made = values.amax(-1) if ord > 0 else values.amin(-1)
    if keepdim:
        for axis in sorted((rows, columns)):
            made = made.unsqueeze(axis)
    return made


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """`matrix_norm` of two axes, `vector_norm` of one or, without `ord`, of any."""
    axes = dim if dim is None or isinstance(dim, int) else tuple(dim)
    if ord is None or isinstance(axes, int) or (isinstance(axes, tuple) and len(axes) == 1) or (
        axes is None and A.ndim == 1
    ):  # fmt: skip
        return vector_norm(A, 2 if ord is None else ord, axes, keepdim, dtype=dtype)
    if (axes is None and A.ndim != 2) or (axes is not None and len(axes) != 2):
        raise ShapeError("a norm of matrices needs two axes")
    return matrix_norm(A, ord, (-2, -1) if axes is None else axes, keepdim, dtype=dtype)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition: the norm times that of the inverse, of p None or 2 by singular values; 0 of
    matrices without elements.
    """
    if A.shape[-1] == 0:
        return A.abs().sum((-2, -1))
    if p in (None, 2, -2):
        values: Any = svdvals(A)
        most, least = values.amax(-1), values.amin(-1)
        return least / most if p == -2 else most / least
    inverse, info = inv_ex(A)
    return info.ne(0).where(math.inf, matrix_norm(A, p) * matrix_norm(inverse, p))


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values are above max(atol, rtol times the greatest): int64."""
    rows, columns = known_shape(dense.matrices(A, "matrix_rank", hermitian).shape[-2:])
    if not rows or not columns:
        return A.new_zeros(A.shape[:-2], dtype="int64")
    values: Any = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    atol = tol if atol is None else atol
    if rtol is None:
        rtol = _epsilon(A) * max(rows, columns) if atol is None else 0.0
    least: Any = values.amax(-1) * rtol
    least = least if atol is None else least.maximum(atol)
    return (values > least.unsqueeze(-1)).sum(-1)


# --- products -------------------------------------------------------------------------------------
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of length 3 along an axis, the last one.

    >>> cross(Tensor([1.0, 0.0, 0.0]), Tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return input.cross(other, dim)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, the first and the last of which may be vectors, in the order that
    takes the fewest multiplications.
    """
    parts = list(tensors)
    if isinstance(tensors, Tensor) or len(parts) < 2:
        raise ShapeError("multi_dot is of a sequence of two matrices or more")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0].unsqueeze(0) if first else parts[0]
    parts[-1] = parts[-1].unsqueeze(1) if last else parts[-1]
    sizes = [known_shape(one.shape) for one in parts]
    count = len(parts)
    best: dict[tuple[int, int], tuple[float, int]] = {(i, i): (0.0, i) for i in range(count)}
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i][0] * sizes[k][1] * sizes[j][1], k)
                for k in range(i, j)
            )

    def multiplied(i: int, j: int) -> Tensor:
        if i == j:
            return parts[i]
        middle = best[i, j][1]
        return multiplied(i, middle) @ multiplied(middle + 1, j)

    made = multiplied(0, count - 1)
    made = made.squeeze(-1) if last else made
    return made.squeeze(0) if first else made


def chain_matmul(*matrices: Tensor) -> Tensor:
    """`multi_dot` of matrices that are given apart."""
    return multi_dot(matrices)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers of the last axis' elements as rows, 1 first."""
    return (x if x.ndim else x.reshape(1)).vander(N, increasing=True)


def _epsilon(x: Any) -> float:
    """The gap behind 1 of the format that a matrix is computed in."""
    return 2.0**-52 if x.dtype.part.name == "float64" else 2.0**-23


__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip
_PRODUCTS = {"LinAlgError", "matmul", "multi_dot", "vecdot"}
globals().update({name: raised(globals()[name]) for name in __all__ if name not in _PRODUCTS})
spell(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.linalg", lambda: __all__)
