import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import ValueRangeError
from torpor.tensor import lu

SHAPES = [(4, 4), (3, 5), (5, 3), (2, 3, 3), (2, 4, 2), (1, 1), (0, 0)]


def matrix(shape, dtype=np.float64):
    random = np.random.default_rng(3)
    made = random.normal(size=shape)
    return (made + 1j * random.normal(size=shape) if dtype is np.complex128 else made).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_triangles_whose_product_is_the_matrix(shape, dtype):
    a = matrix(shape, dtype)
    permutation, low, high = (one.numpy() for one in torpor.linalg.lu(Tensor(a)))
    np.testing.assert_allclose(permutation @ low @ high, a, atol=1e-12)
    assert (permutation.sum(-1) == 1).all() and (permutation.sum(-2) == 1).all()
    assert not np.triu(low, 1).any() and not np.tril(high, -1).any()
    assert (np.diagonal(low, 0, -2, -1) == 1).all()
    assert (np.maximum(abs(low.real), abs(low.imag)) <= 1.5).all()
    compact = torpor.linalg.lu_factor(Tensor(a))
    for one, other in zip(lu.lu_unpack(*compact), (permutation, low, high), strict=True):
        np.testing.assert_allclose(one.numpy(), other, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 3)], ids=str)
def test_slopes_of_the_factors_are_finite_differences(shape):
    a, way = matrix(shape), matrix(shape, np.float64)[::-1].copy()
    ends = [matrix((shape[0], min(shape))), matrix((min(shape), shape[1]))]

    def total(x):
        _, low, high = torpor.linalg.lu(x)
        return (low * Tensor(ends[0])).sum() + (high * Tensor(ends[1])).sum()

    x = Tensor(a).requires_grad_()
    found = (total(x).gradient(x)[0].numpy() * way).sum()
    step = 1e-6
    change = total(Tensor(a + step * way)).item() - total(Tensor(a - step * way)).item()
    assert found == pytest.approx(change / (2 * step), rel=1e-6)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [True, False])
def test_solutions_with_the_factors(left, adjoint):
    a, b = matrix((2, 3, 3), np.complex128), matrix((2, 3, 2))
    b = b if left else b.swapaxes(-1, -2)
    found = torpor.linalg.lu_solve(
        *torpor.linalg.lu_factor(Tensor(a)), Tensor(b.astype(complex)), left=left, adjoint=adjoint
    ).numpy()
    whole = a.swapaxes(-1, -2).conj() if adjoint else a
    np.testing.assert_allclose(whole @ found if left else found @ whole, b, atol=1e-12)


def test_a_pivot_of_0_is_named():
    singular = Tensor([[1.0, 2.0], [2.0, 4.0]])
    assert torpor.linalg.lu_factor_ex(singular).info.item() == 2
    with pytest.raises(ValueRangeError, match="pivot 2 is 0"):
        torpor.linalg.lu_factor_ex(singular, check_errors=True)


def test_products_of_reflections():
    a = matrix((4, 2))
    vectors = np.tril(a, -1) + np.eye(4, 2)
    tau = 2 / (vectors**2).sum(0)
    one, two = (np.eye(4) - t * np.outer(v, v) for t, v in zip(tau, vectors.T, strict=True))
    found = torpor.linalg.householder_product(Tensor(a), Tensor(tau)).numpy()
    np.testing.assert_allclose(found, (one @ two)[:, :2], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_polar_factors_and_roots(dtype):
    a = matrix((2, 4, 3), dtype)
    turn, stretch = (one.numpy() for one in torpor.linalg.polar(Tensor(a)))
    np.testing.assert_allclose(turn @ stretch, a, atol=1e-12)
    adjoint = turn.swapaxes(-1, -2).conj()
    np.testing.assert_allclose(adjoint @ turn, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)
    square = a.swapaxes(-1, -2).conj() @ a
    root = torpor.linalg.matrix_sqrth(Tensor(square)).numpy()
    np.testing.assert_allclose(root @ root, square, atol=1e-12)
    np.testing.assert_allclose(root, stretch, atol=1e-10)


def test_the_slope_of_a_root_of_equal_eigenvalues():
    """d sqrt(1 + t) = 1/2 at t = 0, for every element of a matrix beside the unit one."""
    x = Tensor.eye(3, dtype="float64").requires_grad_()
    weights = np.arange(9.0).reshape(3, 3)
    slope = (torpor.linalg.matrix_sqrth(x) * Tensor(weights)).sum().gradient(x)[0].numpy()
    np.testing.assert_allclose(slope, (weights + weights.T) / 4, atol=1e-12)


def test_triangles_are_solved_by_substitution():
    """Of a small first row: elimination with pivots loses it in the large second one."""
    low, right = Tensor(np.array([[1.0, 0.0], [1e16, 1.0]])), Tensor(np.array([[1e-30], [1.0]]))
    for found in (
        torpor.linalg.solve_triangular(low, right, upper=False),
        torpor.linalg.solve_triangular(low.mT, right.mT, upper=True, left=False).mT,
        right.triangular_solve(low, upper=False).solution,
        right.triangular_solve(low.mT, transpose=True).solution,
    ):
        np.testing.assert_allclose(found.numpy(), [[1e-30], [1.0]], 1e-6)


@pytest.mark.parametrize("jitted", [False, True])
def test_one_singular_triangle_is_no_error_of_the_others(jitted):
    both, right = np.stack([2 * np.eye(2), np.ones((2, 2))]), Tensor(np.ones((2, 2, 1)))
    triangles = Tensor(np.stack([2 * np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])]))

    def solutions(both, triangles):
        return (
            torpor.linalg.lu_solve(*torpor.linalg.lu_factor_ex(both)[:2], right),
            torpor.linalg.solve_triangular(triangles, right, upper=False),
            right.cholesky_solve(triangles),
        )

    solutions = torpor.jit(solutions) if jitted else solutions
    for found, half in zip(solutions(Tensor(both), triangles), (0.5, 0.5, 0.25), strict=True):
        assert (found[0].numpy() == half).all() and np.isnan(found[1].numpy()).all()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_tall_matrices_of_less_rank_have_factors(dtype):
    a = matrix((2, 5, 3), dtype)
    a[0, :, 1] = 2 * a[0, :, 0]
    permutation, low, high = (one.numpy() for one in torpor.linalg.lu(Tensor(a)))
    np.testing.assert_allclose(permutation @ low @ high, a, atol=1e-12)
    np.testing.assert_array_less(np.abs(low), 1.5)
    made = torpor.linalg.lu_factor_ex(Tensor(a))
    assert np.isfinite(made.LU.numpy()).all()


def test_the_gradient_of_a_batch_with_a_singular_triangle_is_no_error():
    triangles = Tensor([[[1.0, 2.0], [0.0, 3.0]], [[1.0, 2.0], [0.0, 0.0]]], requires_grad=True)
    made = torpor.linalg.solve_triangular(triangles, torpor.ones(2, 2, 1), upper=True)
    found = made.sum().gradient(triangles)[0].numpy()
    np.testing.assert_allclose(found[0], [[-1 / 3, -1 / 3], [0, 1 / 9]], rtol=1e-6)
    assert np.isnan(found[1]).any()
