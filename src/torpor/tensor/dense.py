"""Factorisations of dense matrices: by LAPACK on the host, at the call; their gradients are graphs.

Every one is `on_host` under a name, whose gradient a rule gives that is written with tensors, so
that gradients of it can be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.graph.gradient_function import FUNCTIONS
from torpor.ir.infer import product
from torpor.ir.uop import UOp
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, located, make, with_rule
from torpor.tensor.host import Array, known_shape
from torpor.tensor.operands import promoted
from torpor.tensor.wide import widely

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

TERMS: Final = 14  # of Taylor's series of exp, up to norms of 1/2
SQUARES: Final = 12  # most squarings of it: up to norms of 2048, whose exponentials are infinite

Rule = Callable[..., Sequence[Any]]


class QR(NamedTuple):
    """A = Q R: Q has orthonormal columns, R is an upper triangle."""

    Q: Any
    R: Any


class SVD(NamedTuple):
    """A = U diag(S) V.T of `Tensor.svd`, S descending."""

    U: Any
    S: Any
    V: Any


class Eigen(NamedTuple):
    """What `eigh` gives: eigenvalues ascending, eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class LogDeterminant(NamedTuple):
    """The sign of a determinant and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


class Solved(NamedTuple):
    """What `triangular_solve` gives: the solution and a copy of the triangle."""

    solution: Any
    cloned_coefficient: Any


def rule(name: str) -> Callable[[Rule], Rule]:
    """Make a function the gradient of what is computed on the host under a name: of tensors, the
    result, its gradient and the operands, it gives the gradient of each operand.
    """

    def register(function: Rule) -> Rule:
        def through(node: UOp, g: UOp) -> tuple[UOp | None, ...]:
            tensors = [make(one, node.arg[1]) for one in (node, g, *node.src[1:])]
            return tuple(one._current() for one in function(*tensors))

        FUNCTIONS[name] = through
        return function

    return register


def on_host(name: str, function: Callable[..., Sequence[Array]], *operands: Any) -> tuple[Any, ...]:
    """The arrays that a function of arrays gives, computed now; they are one tensor for the rule,
    each flattened but for the axes of the batch: `parts_of` takes it apart.
    """
    arrays = [one.detach().numpy() for one in operands]
    batch = arrays[0].shape[:-2]
    try:
        made = [np.asarray(one, arrays[0].dtype) for one in function(*arrays)]
    except np.linalg.LinAlgError as error:
        raise located(ValueRangeError(f"{name}: {error}"), operands) from None
    flat = np.concatenate([one.reshape(*batch, math.prod(one.shape[len(batch) :])) for one in made],
                          -1)  # fmt: skip
    device = operands[0].device
    packed = with_rule(Handle._type(flat, device=device), operands, name, str(device))
    return parts_of(packed, [one.shape[len(batch) :] for one in made])


def parts_of(packed: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Tensors of these shapes that stand side by side in the last axis."""
    made, start = [], 0
    for shape in shapes:
        count = math.prod(shape)
        made.append(packed.narrow(-1, start, count).reshape(*packed.shape[:-1], *shape))
        start += count
    return tuple(made)


def matrices(operand: Any, what: str, square: bool = True) -> Any:
    """The tensor, whose last axes are (square) matrices of floats."""
    if not operand.dtype.is_float:
        raise located(DTypeError(f"{what} needs floats; cast first"), (operand,))
    if operand.ndim < 2 or (square and operand.shape[-1] != operand.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise located(ShapeError(f"{what} needs {kind} (..., n, {'n' if square else 'm'})"),
                      (operand,))  # fmt: skip
    return operand


def _eye(like: Any, size: int) -> Any:
    return Handle._type.eye(size, dtype=like.dtype, device=like.device)


def _half(x: Any) -> Any:
    """The lower triangle with half of its diagonal."""
    return x.tril() - x.tril().triu() / 2


# --- gradients ------------------------------------------------------------------------------------
@rule("inverse")
def _inverse_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """dY = -Y dA Y."""
    (y,), (gy,) = (parts_of(one, [known_shape(a.shape[-2:])]) for one in (made, g))
    return [-(y.mT @ gy @ y.mT)]


@rule("solve")
def _solve_rule(made: Any, g: Any, a: Any, b: Any) -> list[Any]:
    """dX = inverse(A) (dB - dA X)."""
    (x,), (gx,) = (parts_of(one, [known_shape(b.shape[-2:])]) for one in (made, g))
    gb = inverse(a).mT @ gx
    return [-(gb @ x.mT), gb]


@rule("det")
def _det_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """d det(A) = sum of cofactors dA: det(A) inverse(A).T, or by singular values, of U cof(S) V."""
    if (made.detach().numpy() != 0).all():
        return [(made * g).unsqueeze(-1) * inverse(a).mT]
    u, s, v = svd(a)
    sign = np.linalg.det(u.detach().numpy()) * np.linalg.det(v.detach().numpy())
    others = _eye(s, s.shape[-1]).eq(1).where(1.0, s.unsqueeze(-2)).prod(-1)
    factor = beside(np.asarray(sign.round(), u.detach().numpy().dtype), a).unsqueeze(-1)
    return [g.unsqueeze(-1) * ((u * (others * factor).unsqueeze(-2)) @ v)]


@rule("slogdet")
def _slogdet_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """d log|det(A)| = trace(inverse(A) dA)."""
    return [g.narrow(-1, 1, 1).unsqueeze(-1) * inverse(a).mT]


@rule("cholesky")
def _cholesky_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """Murray, 2016, arXiv:1602.07527, equation 9."""
    (low,), (gl,) = (parts_of(one, [known_shape(a.shape[-2:])]) for one in (made, g))
    back = inverse(low)
    whole = back.mT @ _half(low.mT @ gl) @ back
    return [(whole + whole.mT) / 2]


@rule("qr")
def _qr_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """Of rows no fewer than columns. Walter, Lehmann and Lamour, 2012: (G_Q + Q copied lower
    triangle of (R G_R.T - G_Q.T Q)) inverse(R).T.
    """
    rows, columns = known_shape(a.shape[-2:])
    (q, r), (gq, gr) = (parts_of(one, [(rows, columns), (columns, columns)]) for one in (made, g))
    inner = r @ gr.mT - gq.mT @ q
    return [(gq + q @ (inner.tril() + inner.tril(-1).mT)) @ inverse(r).mT]


def _apart(values: Any) -> Any:
    """values[j] - values[i], 1 on the diagonal."""
    return values.unsqueeze(-2) - values.unsqueeze(-1) + _eye(values, values.shape[-1])


@rule("eigh")
def _eigh_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """dw = diag(V.T dA V), dV = V (V.T dA V / (w[j] - w[i])) beside the diagonal."""
    size = known_shape(a.shape)[-1]
    (w, v), (gw, gv) = (parts_of(one, [(size,), (size, size)]) for one in (made, g))
    inner = (v.mT @ gv) / _apart(w)
    diagonal = _eye(w, size)
    whole = v @ (inner * (1 - diagonal) + diagonal * gw.unsqueeze(-1)) @ v.mT
    return [(whole + whole.mT) / 2]


@rule("svd")
def _svd_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """Townsend, "Differentiating the singular value decomposition", 2016."""
    rows, columns = known_shape(a.shape[-2:])
    k = min(rows, columns)
    shapes = [(rows, k), (k,), (k, columns)]
    (u, s, v), (gu, gs, gv) = (parts_of(one, shapes) for one in (made, g))
    apart = _apart(s * s)
    left, right = u.mT @ gu, v @ gv.mT
    inner = (left - left.mT) / apart * s.unsqueeze(-2)
    inner = inner + s.unsqueeze(-1) * ((right - right.mT) / apart) + _eye(s, k) * gs.unsqueeze(-1)
    total = u @ inner @ v
    if rows > k:
        total = total + ((gu - u @ left) / s.unsqueeze(-2)) @ v
    if columns > k:
        total = total + (u / s.unsqueeze(-2)) @ (gv - right.mT @ v)
    return [total]


@rule("pinv")
def _pinv_rule(made: Any, g: Any, a: Any) -> list[Any]:
    """dP = -P dA P + P P.T dA.T (1 - A P) + (1 - P A) dA.T P.T P. Golub and Pereyra, 1973."""
    rows, columns = known_shape(a.shape[-2:])
    (p,), (gp,) = (parts_of(one, [(columns, rows)]) for one in (made, g))
    beyond, before = _eye(a, rows) - a @ p, _eye(a, columns) - p @ a
    outer = beyond @ gp.mT @ p @ p.mT + p.mT @ p @ gp.mT @ before
    return [outer - p.mT @ gp.mT.mT @ p.mT]


# --- factorisations -------------------------------------------------------------------------------
def inverse(a: Any) -> Any:
    """The inverses of square matrices; one that has none is a `ValueRangeError`."""
    return on_host("inverse", lambda x: [np.linalg.inv(x)], matrices(a, "inverse"))[0]


def solve(a: Any, b: Any) -> Any:
    """X with A X = B, of matrices (..., n, n) and (..., n, k)."""
    shape = np.broadcast_shapes(known_shape(a.shape[:-2]), known_shape(b.shape[:-2]))
    a, b = a.expand(*shape, *a.shape[-2:]), b.expand(*shape, *b.shape[-2:])
    return on_host("solve", lambda x, y: [np.linalg.solve(x, y)], matrices(a, "solve"), b)[0]


def eigh(a: Any, upper: bool = False) -> Eigen:
    """Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is looked at."""

    def function(x: Array) -> Sequence[Array]:
        return np.linalg.eigh(x, "U" if upper else "L")

    return Eigen(*on_host("eigh", function, matrices(a, "eigh")))


def svd(a: Any) -> tuple[Any, Any, Any]:
    """(U, S, V) with A = U diag(S) V, of the lesser side's length."""
    return on_host("svd", lambda x: np.linalg.svd(x, False), matrices(a, "svd", False))


def full(part: Any, whole: Array, axis: int) -> Any:
    """A factor with further orthonormal columns (axis -1) or rows, which have no gradient."""
    count = known_shape(part.shape)[axis]
    rest = whole[..., count:] if axis == -1 else whole[..., count:, :]
    return part.cat(beside(np.ascontiguousarray(rest), part), dim=axis)


def qr(a: Any, complete: bool = False) -> QR:
    """Q and R of the lesser side's length, or Q square."""
    matrices(a, "qr", False)
    rows, columns = known_shape(a.shape[-2:])
    square = a if rows >= columns else a.narrow(-1, 0, rows)
    q, r = on_host("qr", lambda x: np.linalg.qr(x), square)
    if rows < columns:
        return QR(q, r.cat(q.mT @ a.narrow(-1, rows, columns - rows), dim=-1))
    if complete and rows > columns:
        whole = np.linalg.qr(a.detach().numpy(), "complete")[0]
        return QR(full(q, whole, -1), r.pad([*[None] * (a.ndim - 2), (0, rows - columns), None]))
    return QR(q, r)


def pinv(a: Any, rtol: Any) -> Any:
    """The pseudoinverse: singular values up to rtol times the greatest count as 0."""

    def function(x: Array) -> Sequence[Array]:
        return [np.linalg.pinv(x, rtol)]

    return on_host("pinv", function, matrices(a, "pinv", False))[0]


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
        made: Tensor = inverse(self)
        return made

    @widely
    def det(self) -> Tensor:
        """The determinants of square matrices: (..., n, n) to (...)."""
        (made,) = on_host("det", lambda x: [np.linalg.det(x)[..., None]], matrices(self, "det"))
        flat: Tensor = made.squeeze(-1)
        return flat

    def slogdet(self) -> LogDeterminant:
        """(sign, logabsdet) of the determinants."""

        def function(x: Array) -> Sequence[Array]:
            return [one[..., None] for one in np.linalg.slogdet(x)]

        sign, log = on_host("slogdet", function, matrices(self, "slogdet"))
        return LogDeterminant(sign.squeeze(-1).detach(), log.squeeze(-1))

    def logdet(self) -> Tensor:
        """log of the determinants: NaN of negative ones."""
        sign, log = self.slogdet()
        return (sign < 0).where(math.nan, log)

    @widely
    def cholesky(self, upper: bool = False) -> Tensor:
        """Triangles L with A = L L.T, or L.T with `upper`, of positive definite matrices (else
        `ValueRangeError`).
        """
        (made,) = on_host("cholesky", lambda x: [np.linalg.cholesky(x)], matrices(self, "cholesky"))
        low: Tensor = made
        return low.mT if upper else low

    def cholesky_solve(self, input2: Tensor, upper: bool = False) -> Tensor:
        """X with A X = self, A being given by its Cholesky factor."""
        made: Tensor = solve(input2.mT @ input2 if upper else input2 @ input2.mT, self)
        return made

    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        """The inverse of a matrix that is given by its Cholesky factor."""
        factor = self.triu() if upper else self.tril()
        return (factor.mT @ factor if upper else factor @ factor.mT).inverse()

    def triangular_solve(
        self, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> Solved:
        """X with A X = self, of triangles A; with `transpose` of their transposes."""
        triangle = triangular(A, upper, unitriangular)
        return Solved(solve(triangle.mT if transpose else triangle, self), A.clone())

    def qr(self, some: bool = True) -> QR:
        """A = Q R; Q is square unless `some`."""
        return qr(self, not some)

    def svd(self, some: bool = True, compute_uv: bool = True) -> SVD:
        """A = U diag(S) V.T; U and V are square unless `some`, 0 without `compute_uv`."""
        u, s, v = svd(self)
        if not compute_uv:
            rows, columns = self.shape[-2:]
            return SVD(u.new_zeros((*self.shape[:-2], rows, rows)), s,
                       v.new_zeros((*self.shape[:-2], columns, columns)))  # fmt: skip
        if not some:
            whole = np.linalg.svd(self.detach().numpy())
            u, v = full(u, whole[0], -1), full(v, whole[2], -2)
        return SVD(u, s, v.mT)

    @widely
    def pinverse(self, rcond: float = 1e-15) -> Tensor:
        """The pseudoinverses of Moore and Penrose."""
        made: Tensor = pinv(self, rcond)
        return made

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
        one = _eye(a, a.shape[-1])
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
    one = _eye(a, a.shape[-1])
    return triangle * (1 - one) + one


def of_vectors(a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Both promoted, and whether the right sides are vectors, which are made columns."""
    a, b = promoted(a, beside(b, a))
    alone = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    return a, b.unsqueeze(-1) if alone else b, alone
