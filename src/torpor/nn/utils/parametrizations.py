"""Weights by length and direction, of bounded spectral norm, and orthogonal ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from torpor.nn.module import Module
from torpor.nn.utils.parametrize import register_parametrization
from torpor.tensor import Tensor, linalg, no_grad
from torpor.tensor.spelling import among


def lengths(v: Tensor, dim: int | None) -> Tensor:
    """The norm of each slice along an axis, which stays as the others do with 1; of all for None or
    -1.
    """
    if dim is None or dim == -1:
        return v.square().sum().sqrt()
    rest = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    return v.square().sum(rest, keepdim=True).sqrt()


def with_lengths(g: Tensor, v: Tensor, dim: int | None) -> Tensor:
    """v, slices along an axis scaled to the lengths g."""
    return v * (g / lengths(v, dim))


class _WeightNorm(Module):
    def __init__(self, dim: int | None):
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return with_lengths(g, v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its lengths, and itself."""
        return lengths(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train the lengths of a weight's slices along an axis apart from their directions: `original0`
    and `original1`. Gives the module. Salimans and Kingma, 2016, arXiv:1602.07868.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


# --- the spectral norm ----------------------------------------------------------------------------
def spectral_axis(module: Any, dim: int | None) -> int:
    """Which axis of a weight counts what comes out."""
    turned = isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d)
    return (1 if turned else 0) if dim is None else dim


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with two axes, `dim` the first."""
    return weight.movedim(dim, 0).flatten(1)


def power_steps(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Bring u and v nearer to the singular vectors of the greatest singular value."""
    with no_grad():
        left, right, fixed = u, v, matrix.detach()
        for _ in range(count):
            left = (fixed @ right).normalize(dim=0, eps=eps)
            right = (left @ fixed).normalize(dim=0, eps=eps)
        u.assign(left)
        v.assign(right)


def singular_vectors(matrix: Tensor, count: int, eps: float) -> tuple[Tensor, Tensor]:
    """u and v to begin with, from random ones."""
    with no_grad():
        u, v = (
            Tensor.randn(size, dtype=matrix.dtype, device=matrix.device).normalize(dim=0, eps=eps)
            for size in matrix.shape
        )
        u, v = u.clone(), v.clone()
    power_steps(matrix, u, v, count, eps)
    return u, v


def by_norm(weight: Tensor, dim: int, u: Tensor, v: Tensor) -> Tensor:
    """The weight by its greatest singular value, u W v."""
    return weight / (u.clone() * (as_matrix(weight, dim) @ v.clone())).sum()


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float):
        if n_power_iterations < 1:
            raise ValueRangeError(f"n_power_iterations is at least 1, not {n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dim, eps, n_power_iterations
        if weight.ndim > 1:
            self._u, self._v = singular_vectors(as_matrix(weight, dim), 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight.normalize(dim=0, eps=self.eps)
        if self.training:
            matrix = as_matrix(weight, self.dim)
            power_steps(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return by_norm(weight, self.dim, self._u, self._v)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Itself: what it is divided by is not known from it."""
        return weight


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a weight by its greatest singular value, which power iteration follows in training.
    Gives the module. Miyato et al., 2018, arXiv:1802.05957.
    """
    weight, axis = getattr(module, name), spectral_axis(module, dim)
    made = _SpectralNorm(weight, n_power_iterations, axis, eps)
    return register_parametrization(module, name, made)


# --- orthogonal matrices --------------------------------------------------------------------------
def _reflected(x: Any) -> Any:
    """The product of the reflections below the diagonal, columns by the signs on it: I - V S^-1
    V^T, where S is the upper triangle of V^T V with half the diagonal.
    """
    unit = Tensor.eye(x.shape[-2], x.shape[-1], dtype=x.dtype, device=x.device)
    v = x.tril(-1) + unit
    inner = v.mT @ v
    s = inner.triu(1) + (inner.diagonal(0, -2, -1) / 2).diag_embed()
    signs = x.detach().diagonal(0, -2, -1).trunc().unsqueeze(-2)
    return (unit - v @ linalg.solve(s, v[..., : x.shape[-1], :].mT)) * signs


def orthonormal(weight: Any, whole: bool = False) -> Any:
    """The matrix nearest in direction with orthonormal columns (QR, signs of R taken over); if
    `whole`, further columns make it square.
    """
    if whole:
        more = (*weight.shape[:-1], weight.shape[-2] - weight.shape[-1])
        beside = Tensor.randn(*more, dtype=weight.dtype, device=weight.device)
        weight = weight.cat(beside, dim=-1)
    q, r = weight.qr()
    return q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)


def _reflections(q: Any) -> Any:
    """Of which `_reflected` gives these orthonormal columns: by LAPACK's QR."""
    found, tau = np.linalg.qr(q.numpy(), mode="raw")
    signs = np.where(tau == 0, -1, 1) * np.sign(np.diagonal(found, 0, -2, -1))
    lower = Tensor(np.swapaxes(found, -2, -1), dtype=q.dtype, device=q.device).tril(-1)
    return lower + Tensor.eye(q.shape[-2], q.shape[-1], dtype=q.dtype, device=q.device) * Tensor(
        signs[..., None, :], dtype=q.dtype, device=q.device
    )


class _Orthogonal(Module):
    def __init__(self, orthogonal_map: str, use_trivialization: bool):
        self.orthogonal_map, self._trivial, self.base = orthogonal_map, use_trivialization, None

    def forward(self, x: Any) -> Any:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        if self.orthogonal_map == "householder":
            q = _reflected(x)
        else:
            count, x = x.shape[-1], x.tril().pad((0, x.shape[-2] - x.shape[-1]))
            a = x - x.mT
            if self.orthogonal_map == "matrix_exp":
                q = a.matrix_exp()
            else:
                unit = Tensor.eye(a.shape[-1], dtype=a.dtype, device=a.device)
                q = linalg.solve(unit - a / 2, unit + a / 2)
            q = q[..., :count]
        if self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, weight: Any) -> Any:
        """With a base: that becomes the weight made orthogonal, and the original stands for I."""
        wide = weight.shape[-2] < weight.shape[-1]
        tall = weight.mT if wide else weight
        if not self._trivial:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("such a weight is set only with use_trivialization")
            found = _reflections(tall)
            return found.mT if wide else found
        with no_grad():
            base = orthonormal(tall, True).detach().contiguous()
            if self.base is None:
                self.base = base
            else:
                self.base.assign(base)
        unit = -Tensor.eye(tall.shape[-2], tall.shape[-1], dtype=tall.dtype, device=tall.device)
        unit = unit.expand(tall.shape)
        return unit.mT if wide else unit


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Any:  # fmt: skip
    """Keep the columns of a matrix (or its rows, if these are fewer) orthonormal while it is
    trained, by "matrix_exp", "cayley" or "householder"; with `use_trivialization` around a base,
    that any value given becomes. Gives the module. Lezcano-Casado, 2019, arXiv:1909.09501.
    """
    weight = getattr(module, name)
    if weight.ndim < 2:
        raise ShapeError(f"an orthogonal weight is a matrix, not of shape {weight.shape}")
    square = weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if square else "householder")
    among("orthogonal_map", chosen, "matrix_exp", "cayley", "householder")
    return register_parametrization(module, name, _Orthogonal(chosen, use_trivialization))


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
