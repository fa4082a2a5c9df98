"""The standard's linear algebra: `torpor.linalg`, where that means the same."""

from __future__ import annotations

from typing import Any, Final

from torpor.array_api.shapes import matmul, matrix_transpose, tensordot, vecdot
from torpor.array_api.sums import sum
from torpor.base.errors import ShapeError
from torpor.tensor import Tensor
from torpor.tensor import linalg as named
from torpor.tensor.namespace import function_of

_SAME: Final = """
    cholesky det diagonal eigh eigvalsh inv matrix_power matrix_rank pinv qr slogdet svd svdvals
    """.split()  # noqa: SIM905 (a table that is read)
globals().update({name: getattr(named, name) for name in _SAME})
outer = function_of("outer")


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of length 3."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError("cross needs axes of length 3")
    return x1.cross(x2, axis)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norms of matrices."""
    return named.matrix_norm(x, ord, (-2, -1), keepdims)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """y with x1 y = x2, which is a vector or matrices."""
    return x1.inverse() @ x2 if x2.ndim == 1 and x1.ndim > 2 else named.solve(x1, x2)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sums of the diagonals of the last two axes."""
    return sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Norms of vectors along axes."""
    return named.vector_norm(x, ord, axis, keepdims)


__all__ = [
    *_SAME, "cross", "matmul", "matrix_norm", "matrix_transpose", "outer", "solve", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
