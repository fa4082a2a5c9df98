"""A few singular values and eigenvalues, against NumPy's of the whole."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import ShapeError, ValueRangeError

RNG = np.random.default_rng(12)


@pytest.mark.parametrize("shape", [(20, 12), (12, 20)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_matrices_of_low_rank_are_their_factors(shape, dtype):
    a = RNG.normal(size=(2, shape[0], 4)) @ RNG.normal(size=(4, shape[1]))
    a = a * (1 + 2j) if dtype == "complex128" else a
    u, s, v = (one.numpy() for one in torpor.svd_lowrank(Tensor(a), 4))
    assert (u.shape, s.shape, v.shape) == ((2, shape[0], 4), (2, 4), (2, shape[1], 4))
    np.testing.assert_allclose(u * s[:, None] @ v.conj().swapaxes(1, 2), a, 1e-8, 1e-8)


def test_principal_components():
    a = RNG.normal(size=(30, 5)) * [9, 3, 1, 0.1, 0.1] + 7
    expected = np.linalg.svd(a - a.mean(0))[1]
    np.testing.assert_allclose(torpor.pca_lowrank(Tensor(a)).S.numpy(), expected, 1e-9)
    whole = np.linalg.svd(a)[1][:2]
    found = torpor.pca_lowrank(Tensor(a), 2, center=False, niter=9).S.numpy()
    np.testing.assert_allclose(found, whole, 1e-6)
    mean = Tensor(np.broadcast_to(a.mean(0), a.shape).copy())
    np.testing.assert_allclose(torpor.svd_lowrank(Tensor(a), 5, M=mean).S.numpy(), expected, 1e-9)


@pytest.mark.parametrize("largest", [True, False])
def test_generalised_eigenvalues(largest):
    a, b = (one @ one.T for one in RNG.normal(size=(2, 6, 8)))
    values, vectors = torpor.lobpcg(Tensor(a), 2, Tensor(b), largest=largest)
    known = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
    np.testing.assert_allclose(values.numpy(), known[::-1][:2] if largest else known[:2], 1e-8)
    x = vectors.numpy()
    np.testing.assert_allclose(a @ x, b @ x * values.numpy(), 1e-8, 1e-8)
    np.testing.assert_allclose(x.T @ b @ x, np.eye(2), 1e-8, 1e-8)
    plain = torpor.lobpcg(Tensor(a)).eigenvalues.numpy()
    np.testing.assert_allclose(plain, np.linalg.eigvalsh(a)[-1:], 1e-9)


def test_bad_arguments():
    a = Tensor.rand(4, 4)
    with pytest.raises(ValueRangeError, match="singular values q is between 0 and 4, not 5"):
        torpor.pca_lowrank(a, 5)
    assert torpor.svd_lowrank(a, 5).S.shape == (4,), "all that there are, as in PyTorch"
    with pytest.raises(ValueRangeError, match="eigenvalues k is between 1 and 4, not 9"):
        torpor.lobpcg(a, 9)
    with pytest.raises(ValueRangeError, match="'basic' or 'ortho'"):
        torpor.lobpcg(a, method="x")
    with pytest.raises(ShapeError):
        torpor.lobpcg(Tensor.rand(3, 4))
