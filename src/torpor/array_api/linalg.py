"""The standard's extension for linear algebra."""

from __future__ import annotations

from typing import Any, NamedTuple

from torpor.array_api.shapes import matmul, matrix_transpose, tensordot, vecdot
from torpor.array_api.sums import sum
from torpor.base.errors import ShapeError
from torpor.tensor import Tensor
from torpor.tensor import linalg as named
from torpor.tensor.dense import QR, Eigen
from torpor.tensor.linalg import Factors


class Determinant(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Triangles L with x = L L.T."""
    return x.cholesky(upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of length 3."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError("cross needs axes of length 3")
    return x1.cross(x2, axis)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return x.det()


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Diagonals of the last two axes."""
    return x.diagonal(offset, -2, -1)


def eigh(x: Tensor, /) -> Eigen:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return named.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric matrices."""
    return named.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses."""
    return x.inverse()


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norms of matrices."""
    return named.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Products of n of them."""
    return x.matrix_power(n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above rtol times the greatest."""
    return named.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of elements of two vectors."""
    return x1.outer(x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudoinverses."""
    return named.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QR:
    """x = Q R."""
    return named.qr(x, mode)


def slogdet(x: Tensor, /) -> Determinant:
    """Signs and logarithms of determinants."""
    return Determinant(*x.slogdet())


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """y with x1 y = x2, which is a vector or matrices."""
    return x1.inverse() @ x2 if x2.ndim == 1 and x1.ndim > 2 else named.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Factors:
    """x = U diag(S) Vh."""
    return named.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values."""
    return named.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sums of the diagonals of the last two axes."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Norms of vectors along axes."""
    return named.vector_norm(x, ord, axis, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
