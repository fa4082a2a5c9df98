"""A few singular values or eigenvalues of large matrices, with their vectors."""

from __future__ import annotations

import sys
from typing import Any

from torpor.tensor import dense, factorisation
from torpor.tensor.host import known_shape
from torpor.tensor.results import SVD, Eigen
from torpor.tensor.spelling import among, spell, within
from torpor.tensor.tensor import Tensor


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None) -> SVD:
    """About the `q` largest singular values of matrices (..., n, m), of A - M if that is given, or
    all that there are, as U[..., n, q], S[..., q] and V[..., m, q]: of a random subspace after
    `niter` steps of iteration. Halko, Martinsson and Tropp, 2011, arXiv:0909.4061, algorithm 5.1.
    """
    a: Any = dense.matrices(A if M is None else A - M, "svd_lowrank", False)
    rows, columns = known_shape(a.shape[-2:])
    within("the number of singular values q", 6 if q is None else q, 0)
    count = min(6 if q is None else q, rows, columns)
    within("niter", niter, 0)
    basis: Any = Tensor.randn(columns, count, dtype=a.dtype.part, device=a.device)
    for _ in range(niter):
        basis = a.mH @ dense.qr(a @ basis).Q
        basis = dense.qr(basis).Q
    basis = dense.qr(a @ basis).Q
    u, s, v = dense.svd(basis.mH @ a)
    return SVD(basis @ u, s, v.mH)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SVD:
    """`svd_lowrank` of rows with their mean taken away if `center`: V has the principal directions,
    S**2 / (n - 1) the variances along them. q is min(6, n, m) unless it is given.
    """
    most = min(known_shape(A.shape[-2:]))
    within("the number of singular values q", 0 if q is None else q, 0, most)
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None,
    n: int | None = None, iK: Tensor | None = None, niter: int | None = None,
    tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> Eigen:  # fmt: skip
    """The `k` (1) largest, or with `largest=False` smallest, eigenvalues of Hermitian matrices and
    their vectors x, A x = value B x with x.H B x = 1, from the outermost on. Matrices are dense
    here, so this is a whole `eigh`, exact, with its gradient: arguments that say how PyTorch comes
    near say nothing, but that X[..., m, k] and n give k, too.
    """
    a: Any = dense.matrices(A, "lobpcg")
    among("lobpcg's method", method, None, "basic", "ortho")
    count = k or n or (1 if X is None else known_shape(X.shape)[-1])
    within("the number of eigenvalues k", count, 1, known_shape(a.shape)[-1])
    back = None if B is None else dense.matrices(B, "lobpcg").cholesky().inverse()
    values, vectors = factorisation.eigh(a if back is None else back @ a @ back.mH, False)
    vectors = vectors if back is None else back.mH @ vectors
    order = slice(None, -count - 1, -1) if largest or largest is None else slice(0, count)
    return Eigen(values[..., order], vectors[..., order])


spell(sys.modules[__name__])
