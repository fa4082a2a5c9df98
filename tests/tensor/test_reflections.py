"""Orthogonal matrices as reflections, against NumPy's Q and R."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import ShapeError

RNG = np.random.default_rng(11)


def matrices(*shape, dtype):
    real = RNG.normal(size=shape)
    return real + 1j * RNG.normal(size=shape) if dtype == "complex128" else real


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 4), (3, 5)])
def test_factors(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    packed, tau = torpor.geqrf(Tensor(a))
    rows, columns = shape[-2:]
    side = min(rows, columns)
    assert tau.shape == (*shape[:-2], side)
    q = torpor.linalg.householder_product(packed[..., :side], tau)
    np.testing.assert_allclose((q @ packed.triu()[..., :side, :]).numpy(), a, 1e-9, 1e-9)
    whole = torpor.ormqr(packed, tau, Tensor(np.eye(rows, dtype=a.dtype)))
    np.testing.assert_allclose(whole[..., :side].numpy(), q.numpy(), 1e-9, 1e-9)
    np.testing.assert_allclose((whole.mH @ whole).numpy(), np.eye(rows) + 0 * (a @ adjoint(a)),
                               1e-9, 1e-9)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_products_from_each_side(dtype):
    packed, tau = torpor.geqrf(Tensor(matrices(4, 3, dtype=dtype)))
    q = torpor.ormqr(packed, tau, Tensor(np.eye(4, dtype=dtype))).numpy()
    b = matrices(4, 2, dtype=dtype)
    for left in (True, False):
        for back in (True, False):
            other = b if left else adjoint(b)
            factor = adjoint(q) if back else q
            expected = factor @ other if left else other @ factor
            made = torpor.ormqr(packed, tau, Tensor(other), left, back)
            np.testing.assert_allclose(made.numpy(), expected, 1e-9, 1e-9)


def test_gradients_flow_through_products():
    packed, tau = torpor.geqrf(Tensor(matrices(3, 2, dtype="float64")))
    leaves = [packed.detach().requires_grad_(), tau.detach().requires_grad_()]
    assert torpor.autograd.gradcheck(torpor.orgqr, leaves)


def test_shapes_that_do_not_fit():
    packed, tau = torpor.geqrf(Tensor.rand(4, 3))
    for arguments in ((packed, tau, Tensor.ones(3, 2)), (packed, tau[0], packed)):
        with pytest.raises(ShapeError, match="ormqr: reflections"):
            torpor.ormqr(*arguments)


@pytest.mark.parametrize("shape", [(2, 3, 2), (0, 3, 2), (2, 0, 0), (3, 0)])
def test_products_of_no_reflections_are_the_identity_of_each_matrix(shape):
    *batch, rows, columns = shape
    packed = Tensor(matrices(*shape, dtype="float64"), requires_grad=True)
    q = torpor.linalg.householder_product(packed, Tensor.zeros(*batch, 0, dtype="float64"))
    expected = np.broadcast_to(np.eye(rows, columns), shape)
    assert q.shape == shape
    np.testing.assert_array_equal(q.numpy(), expected)
