"""Orthogonal matrices as products of Householder's reflections H = 1 - tau v v.H."""

from __future__ import annotations

import sys
from typing import Any

from torpor.base.errors import ShapeError
from torpor.tensor import dense, factorisation
from torpor.tensor.factorisation import eye
from torpor.tensor.host import known_shape
from torpor.tensor.results import Reflections
from torpor.tensor.spelling import spell
from torpor.tensor.tensor import Tensor


def geqrf(A: Tensor) -> Reflections:
    """A = Q R of matrices (..., n, m), Q as reflections (..., min(n, m)): what
    `linalg.householder_product` and `ormqr` take. Without a gradient, which `qr` has.
    """
    plain = dense.matrices(A, "geqrf", False).detach()
    packed, tau = factorisation.geqrf(plain)
    return Reflections(packed.mT.detach(), tau.detach())


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first m columns of H1 H2 … Hk, H = 1 - tau v v.H, of matrices (..., n, m): v is a column
    of A below its diagonal, behind a one.
    """
    *batch, rows, columns = known_shape(dense.matrices(A, "householder_product", False).shape)
    first = eye(A, rows).narrow(-1, 0, min(rows, columns)).cast(A.dtype)
    return _reflected(A, tau, first.expand(*batch, *first.shape), False)


orgqr = householder_product


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q @ other, or other @ Q without `left`, of the square Q = H1 H2 … Hk that `geqrf` gives, or
    with `transpose` of Q.mH.
    """
    if left:
        return _reflected(input, tau, other, transpose)
    return _reflected(input, tau, other.mH, not transpose).mH


def _reflected(packed: Any, tau: Any, other: Any, back: bool) -> Any:
    """H1 H2 … Hk @ other, or of the adjoint of this product."""
    rows, columns = known_shape(dense.matrices(packed, "ormqr", False).shape[-2:])
    count = known_shape(tau.shape)[-1] if tau.ndim else -1
    if not 0 <= count <= min(rows, columns) or other.ndim < 2 or other.shape[-2] != rows:
        what = f"reflections {packed.shape} with tau {tau.shape} do not fit {other.shape}"
        raise ShapeError(what)
    vectors = packed.tril(-1) + eye(packed, max(rows, columns))[:rows, :columns]
    for place in range(count) if back else reversed(range(count)):
        vector, factor = vectors.narrow(-1, place, 1), tau.narrow(-1, place, 1).unsqueeze(-1)
        other = other - (factor.conj() if back else factor) * vector @ (vector.mH @ other)
    return other


spell(sys.modules[__name__])
