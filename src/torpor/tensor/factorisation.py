"""What is computed on the host, and the gradients of it: factorisations of matrices, by LAPACK.

Every one is `on_host` under a name, whose gradient a rule gives that is written with tensors, so
that gradients of it can be taken. The rules are written for complex matrices: the gradient of a
real number L is G with dL = Re(trace(G.mH dA)). For real ones `.mH` is `.mT` and `.conj()` nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.graph.gradient import LOOKING
from torpor.graph.gradient_function import FUNCTIONS
from torpor.ir.uop import UOp
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, located, standing_for, with_rule
from torpor.tensor.host import Array, known_shape
from torpor.tensor.inside import UnknownValueError
from torpor.tensor.mode import enable_grad
from torpor.tensor.realisation import compute_all
from torpor.tensor.watch import active

Results = Sequence[Any]
Rule = Callable[..., Sequence[Any]]
COMPLEX, REAL = "c", "r"
Layout = str  # of results in one tensor: for each "c" or "r" and its lengths, as in "r3 c3,3"


class HostError(ValueRangeError):
    """What is computed on the host, of a value that nobody knows yet."""


# --- the host operation ---------------------------------------------------------------------------
def on_host(name: str, function: Callable[..., Sequence[Array]], *operands: Any) -> tuple[Any, ...]:
    """The arrays that a function of arrays gives, computed now. They are one tensor for the rule of
    this name: flattened side by side, but for the axes of the batch; complex ones in two parts.
    """
    arrays = known_values(name, *operands)
    batch = arrays[0].shape[:-2]
    wide = [one.astype(np.float32) if one.itemsize < 4 else one for one in arrays]
    try:
        made = [np.asarray(one) for one in function(*wide)]
    except np.linalg.LinAlgError as error:
        raise located(ValueRangeError(f"{name}: {error}"), operands) from None
    parts = [part for one in made
             for part in ((one.real, one.imag) if np.iscomplexobj(one) else (one,))]  # fmt: skip
    shapes = [one.shape[len(batch) :] for one in parts]
    flat = [one.reshape(*batch, math.prod(shape)) for one, shape in zip(parts, shapes, strict=True)]
    packed = np.concatenate(flat, -1).astype(arrays[0].real.dtype, copy=False)
    layout = " ".join(layout_of(np.iscomplexobj(one), one.shape[len(batch) :]) for one in made)
    return ruled(name, Handle._type(packed, device=operands[0].device), layout, operands)


def known_values(name: str, *operands: Any) -> list[Array]:
    """The elements of tensors; a `HostError` where nobody knows them yet."""
    plain = [one.detach() for one in operands]
    try:
        if len(plain) > 1 and not active:  # together: a matrix and its right side often share work
            parts = [part for one in plain for part in one._parts]
            compute_all([(part._current(), part.device) for part in parts])
        return [one.numpy() for one in plain]
    except UnknownValueError as error:
        what = f"{name} is computed of values that are known. {error}"
        raise HostError(what) from None


def ruled(name: str, packed: Any, layout: Layout, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results in a tensor, with the gradient for `operands` by the rule of this name."""
    kinds = "".join(COMPLEX if one.is_pair else REAL for one in operands)
    parts = [part for one in operands for part in one._parts]
    return apart(with_rule(packed, parts, name, str(packed.device), kinds, layout), layout)


def layout_of(is_complex: bool, shape: Sequence[int]) -> Layout:
    """Of one result, whose shape is this behind the axes of the batch."""
    return (COMPLEX if is_complex else REAL) + ",".join(map(str, shape))


def apart(packed: Any, layout: Layout) -> tuple[Any, ...]:
    """The results in a tensor."""
    made: list[Any] = []
    start = 0
    for word in layout.split(" "):
        shape = [int(size) for size in word[1:].split(",") if size]
        parts = []
        for _ in "ri" if word[0] == COMPLEX else "r":
            part = packed.narrow(-1, start, math.prod(shape))
            parts.append(part.reshape(*packed.shape[:-1], *shape))
            start += math.prod(shape)
        made.append(_joined(parts))
    return tuple(made)


def _joined(parts: Sequence[Any]) -> Any:
    """A real tensor, or a complex one of two parts."""
    return parts[0] if len(parts) == 1 else Handle._pairs.of(*parts)


def rule(name: str) -> Callable[[Rule], Rule]:
    """Make a function the gradient of what is computed on the host under a name: of the results,
    their gradients and the operands, it gives the gradients of the operands, None for no gradient.
    """

    def register(function: Rule) -> Rule:
        def through(node: UOp, g: UOp) -> tuple[UOp | None, ...]:
            device, kinds, layout = node.arg[1:]
            nodes = (node, g, *node.src[1:])
            packed, slopes, *rest = [standing_for(one, device, True) for one in nodes]
            given = iter(rest)
            operands = [_joined([next(given) for _ in ("ri" if kind == COMPLEX else "r")])
                        for kind in kinds]  # fmt: skip
            with enable_grad():  # what is computed on the way keeps its graph
                found = function(apart(packed, layout), apart(slopes, layout), *operands)
            return tuple(part for one, kind in zip(found, kinds, strict=True)
                         for part in _nodes(one, kind))  # fmt: skip

        FUNCTIONS[name] = through
        LOOKING.add(name)
        return function

    return register


def _nodes(gradient: Any, kind: str) -> Sequence[UOp | None]:
    """The parts of a gradient for an operand of a kind."""
    if gradient is None:
        return [None] * (2 if kind == COMPLEX else 1)
    if kind == REAL:
        return [gradient._parts[0]._current()]
    return [part._current() for part in Handle._pairs.with_real(gradient)._parts]


# --- matrices -------------------------------------------------------------------------------------
def eye(like: Any, size: int) -> Any:
    """The unit matrix: real, also beside complex matrices."""
    return Handle._type.eye(size, dtype=like.dtype.part, device=like.device)


def _half(x: Any) -> Any:
    """The lower triangle with half of its diagonal."""
    return x.tril() - x.tril().triu() / 2


def _mirrored(x: Any) -> Any:
    """The Hermitian matrix with this lower triangle, whose diagonal's imaginary part is dropped."""
    return _half(x) + _half(x).mH


def _skew(x: Any) -> Any:
    return x - x.mH


def _apart(values: Any) -> Any:
    """values[j] - values[i], 1 on the diagonal."""
    return values.unsqueeze(-2) - values.unsqueeze(-1) + eye(values, values.shape[-1])


# --- gradients ------------------------------------------------------------------------------------
@rule("inverse")
def _inverse_rule(made: Results, g: Results, a: Any) -> Results:
    """dY = -Y dA Y."""
    back = made[0].mH
    return [-(back @ g[0] @ back)]


@rule("solve")
def _solve_rule(made: Results, g: Results, a: Any, b: Any) -> Results:
    """dX = inverse(A) (dB - dA X)."""
    gb = inverse(a).mH @ g[0]
    return [-(gb @ made[0].mH), gb]


@rule("det")
def _det_rule(made: Results, g: Results, a: Any) -> Results:
    """d det(A) = sum of cofactors dA: det(A) inverse(A), or by singular values, of U cof(S) V."""
    (det,), (slope,) = made, g
    if (det.detach().numpy() != 0).all():
        return [(det.conj() * slope).unsqueeze(-1).unsqueeze(-1) * inverse(a).mH]
    u, s, v = svd(a)
    sign = np.linalg.det(u.detach().numpy()) * np.linalg.det(v.detach().numpy())
    others = eye(s, s.shape[-1]).eq(1).where(1.0, s.unsqueeze(-2)).prod(-1)
    factor = others * (slope * beside(sign, u).conj()).unsqueeze(-1)
    return [(u * factor.unsqueeze(-2)) @ v]


@rule("slogdet")
def _slogdet_rule(made: Results, g: Results, a: Any) -> Results:
    """d log|det(A)| = Re t and d sign = i sign Im t, with t = trace(inverse(A) dA)."""
    turn = g[0] * made[0].conj()
    slope = g[1] + (turn - turn.conj()) / 2
    return [slope.unsqueeze(-1).unsqueeze(-1) * inverse(a).mH]


@rule("cholesky")
def _cholesky_rule(made: Results, g: Results, a: Any) -> Results:
    """Murray, 2016, arXiv:1602.07527, equation 9."""
    back, inner = inverse(made[0]), (made[0].mH @ g[0]).tril()
    return [back.mH @ (inner + inner.tril(-1).mH) @ back / 2]


@rule("cholesky_inverse")
def _cholesky_inverse_rule(made: Results, g: Results, low: Any) -> Results:
    """dY = -Y (dL L.mH + L dL.mH) Y; as PyTorch's, also of what lies above the triangle."""
    return [-(made[0] @ (g[0] + g[0].mH) @ made[0] @ low.tril())]


@rule("qr")
def _qr_rule(made: Results, g: Results, a: Any) -> Results:
    """Of rows no fewer than columns. Walter, Lehmann and Lamour, 2012: (G_Q + Q copied lower
    triangle of (R G_R.mH - G_Q.mH Q)) inverse(R).mH. Further columns of Q have none.
    """
    columns = known_shape(a.shape)[-1]
    q, gq = (one.narrow(-1, 0, columns) for one in (made[0], g[0]))
    r, gr = (one.narrow(-2, 0, columns) for one in (made[1], g[1]))
    return [(gq + q @ _mirrored(r @ gr.mH - gq.mH @ q)) @ inverse(r).mH]


@rule("spectrum")
def _spectrum_rule(
    made: Results, g: Results, a: Any, right: Any, left: Any = None
) -> Sequence[Any]:
    """dv = diagonal(L.mH dA R), of A = L diag(v) R.mH, or of A R = R diag(v); whatever values are
    equal. Their dependence on R and L is that of the matrix.
    """
    inner = g[0].unsqueeze(-1) * right.mH
    if left is None:
        return [inverse(right).mH @ inner, None]
    return [left @ inner, None, None]


@rule("eigh")
def _eigh_rule(made: Results, g: Results, a: Any) -> Results:
    """dV = V (V.mH dA V / (w[j] - w[i])) beside the diagonal."""
    v = made[1]
    w = spectrum(made[0], a, v, v)
    size = known_shape(w.shape)[-1]
    whole = v @ ((v.mH @ g[1]) / _apart(w) * (1 - eye(w, size))) @ v.mH
    return [(whole + whole.mH) / 2]


@rule("eig")
def _eig_rule(made: Results, g: Results, a: Any) -> Results:
    """dV = V (P - diagonal(Re(V.mH V P))), P = inverse(V) dA V / (w[j] - w[i]) beside the diagonal:
    the columns of V stay of length 1.
    """
    v, slope = made[1], g[1]
    w = spectrum(made[0], a, v)
    one = eye(v, known_shape(w.shape)[-1])
    inner = v.mH @ slope
    length = ((v.conj() * slope).sum(-2).real).unsqueeze(-2)
    whole = (inner - v.mH @ v * length) / _apart(w).conj() * (1 - one)
    return [inverse(v).mH @ whole @ v.mH]


@rule("svd")
def _svd_rule(made: Results, g: Results, a: Any) -> Results:
    """Townsend, "Differentiating the singular value decomposition", 2016; of complex matrices with
    the turn of U's columns, that of V's being the same. Columns beyond the values' have none.
    """
    rows, columns = known_shape(a.shape[-2:])
    k = min(rows, columns)
    u, gu = (one.narrow(-1, 0, k) for one in (made[0], g[0]))
    v, gv = (one.narrow(-2, 0, k) for one in (made[2], g[2]))
    s = spectrum(made[1], a, v.mH, u)
    left, right = u.mH @ gu, v @ gv.mH
    inner = _skew(left) * s.unsqueeze(-2) + s.unsqueeze(-1) * _skew(right)
    twice = s.eq(0).where(1, s).unsqueeze(-1) * 2
    total = u @ (inner / _apart(s * s) + eye(s, k) * _skew(left) / twice) @ v
    if rows > k:
        total = total + ((gu - u @ left) / s.unsqueeze(-2)) @ v
    if columns > k:
        total = total + (u / s.unsqueeze(-2)) @ (gv - right.mH @ v)
    return [total]


@rule("pinv")
def _pinv_rule(made: Results, g: Results, a: Any) -> Results:
    """dP = -P dA P + P P.mH dA.mH (1 - A P) + (1 - P A) dA.mH P.mH P. Golub and Pereyra, 1973."""
    (p,), (gp,) = made, g
    rows, columns = known_shape(a.shape[-2:])
    beyond, before = eye(a, rows) - a @ p, eye(a, columns) - p @ a
    outer = beyond @ gp.mH @ p @ p.mH + p.mH @ p @ gp.mH @ before
    return [outer - p.mH @ gp @ p.mH]


@rule("matrix_sqrth")
def _root_rule(made: Results, g: Results, a: Any) -> Results:
    """X dX + dX X = dA: by A's eigenvectors V, dX = V (V.mH dA V / (s[i] + s[j])) V.mH."""
    w, v = eigh(a, False)
    s = w.sqrt()
    slope = v @ ((v.mH @ g[0] @ v) / (s.unsqueeze(-1) + s.unsqueeze(-2))) @ v.mH
    return [(slope + slope.mH) / 2]


# --- factorisations -------------------------------------------------------------------------------
def inverse(a: Any) -> Any:
    """The inverses of square matrices; one that has none is a `ValueRangeError`."""
    return on_host("inverse", lambda x: [np.linalg.inv(x)], a)[0]


def solve(a: Any, b: Any) -> Any:
    """X with A X = B, of matrices (..., n, n) and (..., n, k)."""
    return on_host("solve", lambda x, y: [np.linalg.solve(x, y)], a, b)[0]


def det(a: Any) -> Any:
    """The determinants of square matrices."""
    return on_host("det", lambda x: [np.linalg.det(x)], a)[0]


def slogdet(a: Any) -> tuple[Any, Any]:
    """Sign and logarithm of the magnitude of the determinants."""
    sign, log = on_host("slogdet", lambda x: [*np.linalg.slogdet(x)], a)
    return sign if sign.is_pair else sign.detach(), log


def cholesky(a: Any) -> Any:
    """L with A = L L.mH."""
    return on_host("cholesky", lambda x: [np.linalg.cholesky(x)], a)[0]


def cholesky_inverse(low: Any) -> Any:
    """inverse(L L.mH) of lower triangles L."""

    def function(x: Array) -> Sequence[Array]:
        back = np.linalg.inv(np.tril(x))
        return [back.swapaxes(-1, -2).conj() @ back]

    return on_host("cholesky_inverse", function, low)[0]


def qr(a: Any, complete: bool = False) -> tuple[Any, ...]:
    """Q, which is square if `complete`, and R of matrices with no fewer rows than columns."""
    return on_host("qr", lambda x: [*np.linalg.qr(x, "complete" if complete else "reduced")], a)


def eigh(a: Any, upper: bool) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is looked at."""
    w, v = on_host("eigh", lambda x: [*np.linalg.eigh(x, "U" if upper else "L")], a)
    return spectrum(w, a, v, v), v


def eig(a: Any) -> tuple[Any, Any]:
    """Complex eigenvalues, and eigenvectors of length 1, of square matrices."""

    def function(x: Array) -> Sequence[Array]:
        kind = np.result_type(x.dtype, np.complex64)
        return [np.asarray(one, kind) for one in np.linalg.eig(x)]

    w, v = on_host("eig", function, a)
    return spectrum(w, a, v), v


def matrix_sqrth(a: Any) -> Any:
    """The positive root X of Hermitian matrices, of which the lower triangle is looked at."""

    def function(x: Array) -> Sequence[Array]:
        w, v = np.linalg.eigh(x)
        return [v * np.sqrt(w)[..., None, :] @ v.swapaxes(-1, -2).conj()]

    return on_host("matrix_sqrth", function, a)[0]


def svd(a: Any, square: bool = False) -> tuple[Any, Any, Any]:
    """(U, S, V) with A = U diag(S) V; U and V are `square` or of the lesser side's length."""
    u, s, v = on_host("svd", lambda x: [*np.linalg.svd(x, square)], a)
    k = known_shape(s.shape)[-1]
    return u, spectrum(s, a, v.narrow(-2, 0, k).mH, u.narrow(-1, 0, k)), v


def spectrum(values: Any, *operands: Any) -> Any:
    """The values with a gradient of their own: also where some are equal, and vectors have none."""
    plain = values.detach()
    packed = plain if not plain.is_pair else plain.real.cat(plain.imag, dim=-1)
    layout = layout_of(plain.is_pair, known_shape(values.shape)[-1:])
    return ruled("spectrum", packed, layout, operands)[0]


def pinv(a: Any, rtol: Any, hermitian: bool = False) -> Any:
    """The pseudoinverse: singular values up to rtol times the greatest count as 0."""
    return on_host("pinv", lambda x: [np.linalg.pinv(x, rtol, hermitian)], a)[0]
