"""Factorisations of matrices, by LAPACK (see `host_call`), and the gradients of them.

The rules are written for complex matrices: the gradient of a real number L is G with
dL = Re(trace(G.mH dA)). For real ones `.mH` is `.mT` and `.conj()` nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle
from torpor.tensor.host import Array, known_shape
from torpor.tensor.host_call import host, is_unknown, layout_of, rule, ruled

Results = Sequence[Any]


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
    """d det(A) = sum of cofactors dA: det(A) inverse(A), or by singular values, of U cof(S) V.
    Where nobody knows yet whether the matrix has an inverse, it needs one.
    """
    (det,), (slope,) = made, g
    if is_unknown(det) or (det.detach().numpy() != 0).all():
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
    return [inverse(right).mH @ inner, None] if left is None else [left @ inner, None, None]


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


@rule("svdvals")
def _svdvals_rule(made: Results, g: Results, a: Any) -> Results:
    """dS = the real diagonal of U.mH dA V.mH; U and V are computed for the gradient alone."""
    u, _, v = svd(a)
    return [(u * g[0].unsqueeze(-2)) @ v]


@rule("pinv")
def _pinv_rule(made: Results, g: Results, a: Any, *rtol: Any) -> Sequence[Any]:
    """dP = -P dA P + P P.mH dA.mH (1 - A P) + (1 - P A) dA.mH P.mH P. Golub and Pereyra, 1973. On
    what counts as 0, also where that is given in a tensor, it does not depend.
    """
    (p,), (gp,) = made, g
    rows, columns = known_shape(a.shape[-2:])
    beyond, before = eye(a, rows) - a @ p, eye(a, columns) - p @ a
    outer = beyond @ gp.mH @ p @ p.mH + p.mH @ p @ gp.mH @ before
    return [outer - p.mH @ gp @ p.mH, *[None] * len(rtol)]


@rule("matrix_sqrth")
def _root_rule(made: Results, g: Results, a: Any) -> Results:
    """X dX + dX X = dA: by A's eigenvectors V, dX = V (V.mH dA V / (s[i] + s[j])) V.mH."""
    w, v = eigh(a, False)
    s = w.sqrt()
    slope = v @ ((v.mH @ g[0] @ v) / (s.unsqueeze(-1) + s.unsqueeze(-2))) @ v.mH
    return [(slope + slope.mH) / 2]


# --- factorisations -------------------------------------------------------------------------------
def _zero_pivot(matrix: Array) -> int:
    """Which pivot of Gauss's elimination is 0, counted from 1; the last where rounding decides."""
    matrix, size = matrix.copy(), matrix.shape[-1]
    for place in range(size):
        column = matrix[place:, place]
        largest = place + int((np.abs(column.real) + np.abs(column.imag)).argmax())
        if not matrix[largest, place]:
            return place + 1
        matrix[[place, largest]] = matrix[[largest, place]]
        factors = matrix[place + 1 :, place : place + 1] / matrix[place, place]
        matrix[place + 1 :] -= factors * matrix[place]
    return size


def _failing_minor(matrix: Array) -> int:
    """The order of the first leading minor that is not positive."""
    for order in range(1, matrix.shape[-1]):
        try:
            np.linalg.cholesky(matrix[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return matrix.shape[-1]


def _finite(x: Array) -> Array:
    """Matrices whose singular values are searched for: those of infinite ones LAPACK may look for
    without an end.
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("not finite")
    return x


_qr = host("qr")(lambda x, mode: [*np.linalg.qr(x, mode)])
_eigh = host("eigh")(lambda x, triangle: [*np.linalg.eigh(x, triangle)])
_svd = host("svd")(lambda x, square: [*np.linalg.svd(_finite(x), square)])
geqrf = host("geqrf")(lambda x: [*np.linalg.qr(x, "raw")])
inverse = host("inverse", "Singular matrix", _zero_pivot)(lambda x: [np.linalg.inv(x)])
solve = host("solve", "Singular matrix", _zero_pivot)(lambda x, y: [np.linalg.solve(x, y)])
det = host("det")(lambda x: [np.linalg.det(x)])
svdvals = host("svdvals")(lambda x: [np.linalg.svd(_finite(x), compute_uv=False)])
cholesky = host("cholesky", "Matrix is not positive definite", _failing_minor)(
    lambda x: [np.linalg.cholesky(x)]
)


@host("slogdet")
def _slogdet(x: Array) -> Sequence[Array]:
    sign, log = np.linalg.slogdet(x)
    return [sign * ~np.isnan(log), log]  # PyTorch's sign of a real NaN: 0


@host("cholesky_inverse", "Singular matrix")
def cholesky_inverse(x: Array) -> Sequence[Array]:
    """inverse(L L.mH) of lower triangles L."""
    back = np.linalg.inv(np.tril(x))
    return [back.swapaxes(-1, -2).conj() @ back]


@host("eig")
def _eig(x: Array) -> Sequence[Array]:
    kind = np.result_type(x.dtype, np.complex64)
    return [np.asarray(one, kind) for one in np.linalg.eig(x)]


@host("matrix_sqrth")
def matrix_sqrth(x: Array) -> Sequence[Array]:
    """The positive root of Hermitian matrices, of which the lower triangle is looked at."""
    w, v = np.linalg.eigh(x)
    return [v * np.sqrt(w)[..., None, :] @ v.swapaxes(-1, -2).conj()]


@host("pinv")
def _pinv(x: Array, *rest: Any) -> Sequence[Array]:
    """`rest`: the share of the greatest singular value, as an array or a number; `hermitian`."""
    rtol, hermitian = rest
    share = rtol[..., 0, 0] if isinstance(rtol, np.ndarray) else rtol
    return [np.linalg.pinv(_finite(x), share, hermitian)]


def slogdet(a: Any) -> tuple[Any, Any]:
    """Sign and logarithm of the magnitude of the determinants."""
    sign, log = _slogdet(a)
    return sign if sign.is_pair else sign.detach(), log


def qr(a: Any, complete: bool = False) -> tuple[Any, ...]:
    """Q, which is square if `complete`, and R of matrices with no fewer rows than columns."""
    return _qr(a, options=("complete" if complete else "reduced",))


def eigh(a: Any, upper: bool) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is looked at."""
    w, v = _eigh(a, options=("U" if upper else "L",))
    return spectrum(w, a, v, v), v


def eig(a: Any) -> tuple[Any, Any]:
    """Complex eigenvalues, and eigenvectors of length 1, of square matrices."""
    w, v = _eig(a)
    return spectrum(w, a, v), v


def svd(a: Any, square: bool = False) -> tuple[Any, Any, Any]:
    """(U, S, V) with A = U diag(S) V; U and V are `square` or of the lesser side's length."""
    u, s, v = _svd(a, options=(square,))
    k = known_shape(s.shape)[-1]
    return u, spectrum(s, a, v.narrow(-2, 0, k).mH, u.narrow(-1, 0, k)), v


def spectrum(values: Any, *operands: Any) -> Any:
    """The values with a gradient of their own: also where some are equal, and vectors have none."""
    plain = values.detach()
    packed = plain if not plain.is_pair else plain.real.cat(plain.imag, dim=-1)
    layout = layout_of(plain.is_pair, known_shape(values.shape)[-1:])
    return ruled("spectrum", packed, layout, operands)[0]


def pinv(a: Any, rtol: Any, hermitian: bool = False) -> Any:
    """The pseudoinverse: singular values up to rtol times the greatest count as 0; rtol is a number
    or a tensor (...), one for each matrix.
    """
    if not isinstance(rtol, Handle):
        return _pinv(a, options=(float(rtol), hermitian))
    part = a._parts[0].dtype
    each = rtol.detach().cast(part).expand(*a.shape[:-2]).unsqueeze(-1).unsqueeze(-1)
    return _pinv(a, each, options=(hermitian,))
