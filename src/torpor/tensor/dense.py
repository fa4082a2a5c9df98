"""Methods of matrices: factorisations, which are computed on the host at the call, and what is made
of them. Real and complex matrices have the same ones.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from torpor.base.errors import DTypeError, ShapeError
from torpor.ir.infer import product
from torpor.tensor import factorisation
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.factorisation import eye
from torpor.tensor.handle import Handle, located
from torpor.tensor.host import known_shape
from torpor.tensor.host_call import telling
from torpor.tensor.operands import promoted
from torpor.tensor.results import QR, SVD, LogDeterminant, Solved
from torpor.tensor.wide import widely

TERMS: Final = 14  # of Taylor's series of exp, up to norms of 1/2
SQUARES: Final = 12  # most squarings of it: up to norms of 2048, whose exponentials are infinite


def matrices(operand: Any, what: str, square: bool = True) -> Any:
    """The tensor, whose last axes are (square) matrices of floats."""
    if not (operand.dtype.is_float or operand.dtype.is_complex):
        raise located(DTypeError(f"{what} needs floats; cast first"), (operand,))
    if operand.ndim < 2 or (square and operand.shape[-1] != operand.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise located(ShapeError(f"{what} needs {kind} (..., n, {'n' if square else 'm'})"),
                      (operand,))  # fmt: skip
    return operand


def solve(a: Any, b: Any) -> Any:
    """X with A X = B, of matrices (..., n, n) and (..., n, k)."""
    shape = np.broadcast_shapes(known_shape(a.shape[:-2]), known_shape(b.shape[:-2]))
    a, b = a.expand(*shape, *a.shape[-2:]), b.expand(*shape, *b.shape[-2:])
    return factorisation.solve(matrices(a, "solve"), b)


def svd(a: Any, square: bool = False) -> tuple[Any, Any, Any]:
    """(U, S, V) with A = U diag(S) V; U and V are `square` or of the lesser side's length."""
    return factorisation.svd(matrices(a, "svd", False), square)


def qr(a: Any, complete: bool = False) -> QR:
    """Q and R of the lesser side's length, or Q square."""
    matrices(a, "qr", False)
    rows, columns = known_shape(a.shape[-2:])
    q, r = factorisation.qr(a if rows >= columns else a.narrow(-1, 0, rows), complete)
    if rows < columns:
        return QR(q, r.cat(q.mH @ a.narrow(-1, rows, columns - rows), dim=-1))
    return QR(q, r)


class Dense(Handle):
    """Factorisations of matrices (..., n, m) of floats, whose values are computed at the call, and
    what is made of them. 16-bit floats are computed in float32.
    """

    __slots__ = ()

    @widely
    def inverse(self) -> Tensor:
        """The inverses of square matrices; one that has none is a `ValueRangeError`.

        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).inverse().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        return factorisation.inverse(matrices(self, "inverse"))

    @widely
    def det(self) -> Tensor:
        """The determinants of square matrices: (..., n, n) to (...)."""
        return factorisation.det(matrices(self, "det"))

    def slogdet(self) -> LogDeterminant:
        """(sign, logabsdet) of the determinants."""
        return LogDeterminant(*factorisation.slogdet(matrices(self, "slogdet")))

    def logdet(self) -> Tensor:
        """log of the determinants: NaN of negative ones."""
        sign, log = self.slogdet()
        return log + sign.log()

    @widely
    def cholesky(self, upper: bool = False) -> Tensor:
        """Triangles L with A = L L.H, or L.H with `upper`, of positive definite matrices (else
        `ValueRangeError`).
        """
        low: Tensor = factorisation.cholesky(matrices(self, "cholesky"))
        return low.mH if upper else low

    def cholesky_solve(self, input2: Tensor, upper: bool = False) -> Tensor:
        """X with A X = self, A being given by its Cholesky factor. NaN where A is singular."""
        with telling():
            return solve(input2.mH @ input2 if upper else input2 @ input2.mH, self)

    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        """The inverse of a matrix that is given by its Cholesky factor."""
        low = matrices(self, "cholesky_inverse")
        return factorisation.cholesky_inverse(low.mH if upper else low)

    def triangular_solve(
        self, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> Solved:
        """X with A X = self, of triangles A; with `transpose` of their transposes."""
        triangle = triangular(A, upper, unitriangular)
        triangle = triangle.mT if transpose else triangle
        return Solved(substituted(triangle, self, upper != transpose), A.clone())

    def qr(self, some: bool = True) -> QR:
        """A = Q R; Q is square unless `some`."""
        return qr(self, not some)

    def svd(self, some: bool = True, compute_uv: bool = True) -> SVD:
        """A = U diag(S) V.H; U and V are square unless `some`, 0 without `compute_uv`."""
        u, s, v = svd(self, not some and compute_uv)
        if not compute_uv:
            rows, columns = self.shape[-2:]
            return SVD(u.new_zeros((*self.shape[:-2], rows, rows)), s,
                       v.new_zeros((*self.shape[:-2], columns, columns)))  # fmt: skip
        return SVD(u, s, v.mH)

    @widely
    def pinverse(self, rcond: float = 1e-15) -> Tensor:
        """The pseudoinverses of Moore and Penrose."""
        return factorisation.pinv(matrices(self, "pinverse", False), rcond)

    @widely
    def matrix_exp(self) -> Tensor:
        """The exponentials of square matrices: by Taylor's series of a part, squared again and
        again. Moler and Van Loan, "Nineteen dubious ways to compute the exponential", 1978.
        """
        a = matrices(self, "matrix_exp")
        if not product(a.shape):
            return a.clone()
        norm = a.detach().abs().sum(-1).amax(-1).reshape(*a.shape[:-2], 1, 1)
        times = (norm * 2).log2().ceil().clamp(0, SQUARES)
        part = a * (-times).exp2()
        one = eye(a, a.shape[-1])
        made = one + part / TERMS
        for term in range(TERMS - 1, 0, -1):
            made = one + (part @ made) / term
        for step in range(SQUARES):
            made = (times > step).where(made @ made, made).contiguous()
        return made


def triangular(a: Any, upper: bool, unit: bool) -> Any:
    """The triangle of a matrix, with ones on the diagonal if asked for."""
    triangle = a.triu() if upper else a.tril()
    if not unit:
        return triangle
    one = eye(a, a.shape[-1])
    return triangle * (1 - one) + one


def substituted(triangle: Any, b: Any, upper: bool) -> Any:
    """X with A X = B of triangles A, NaN where the diagonal of one has a 0. Elimination leaves an
    upper triangle as it is, and a lower one whose rows and columns are in the opposite order.
    """
    with telling():
        if upper:
            return solve(triangle, b)
        return solve(triangle.flip(-2, -1), b.flip(-2)).flip(-2)


def of_vectors(a: Any, b: Any, left: bool = True) -> tuple[Any, Any, bool]:
    """Both promoted, and whether the right sides are vectors, which are made columns."""
    a, b = promoted(a, beside(b, a))
    alone = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = b.unsqueeze(-1) if alone else b
    if a.ndim < 2 or columns.ndim < 2 or columns.shape[-2 if left else -1] != a.shape[-2]:
        what = f"matrices {tuple(a.shape)} have no right sides {tuple(b.shape)}"
        raise located(ShapeError(what), (a, b))
    return a, columns, alone
