"""Factorisations of complex matrices beside NumPy's, and gradients by finite differences."""

import math

import numpy as np
import pytest

from torpor import Tensor, linalg
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.pipeline.report import measuring

RANDOM = np.random.default_rng(9)


def drawn(*shape):
    return RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)


def H(array):
    return array.conj().swapaxes(-1, -2)


A, RIGHT, TALL, WIDE = drawn(2, 3, 3), drawn(2, 3, 2), drawn(5, 3), drawn(3, 5)
HERMITIAN, POSITIVE = A + H(A), A @ H(A) + np.eye(3)
REAL = np.array([[1.0, 2.0, 0.5], [-1.0, 0.3, 0.7], [0.2, -0.4, 2.0]])  # two values are complex


def T(array):
    return Tensor(np.ascontiguousarray(array))


def expm(a):
    values, vectors = np.linalg.eig(a)
    return vectors * np.exp(values)[..., None, :] @ np.linalg.inv(vectors)


def by_vectors(a, eigen, back):
    """What no turn of an eigenvector changes: the matrix that has the squares of the values."""
    values, vectors = eigen(a)
    return vectors * (values * values)[..., None, :] @ back(vectors)


def ours_hermitian(x):
    return (x + x.mH) / 2


def hermitian(a):
    return (a + H(a)) / 2


# torpor's function, NumPy's, and the arrays; gradients are tried for all.
CASES = {
    "inv": (linalg.inv, np.linalg.inv, A),
    "det": (linalg.det, np.linalg.det, A),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x)[1], A),
    "sign": (lambda x: linalg.slogdet(x).sign, lambda x: np.linalg.slogdet(x)[0], A),
    "logdet": (lambda x: x.logdet(),
               lambda x: np.log(np.linalg.det(x)), POSITIVE),
    "cholesky": (lambda x: linalg.cholesky(ours_hermitian(x)),
                 lambda x: np.linalg.cholesky(hermitian(x)), POSITIVE),
    "cholesky, upper": (lambda x: linalg.cholesky(ours_hermitian(x), upper=True),
                        lambda x: H(np.linalg.cholesky(hermitian(x))), POSITIVE),
    "cholesky_solve": (lambda x: x.cholesky_solve(T(np.linalg.cholesky(POSITIVE))),
                       lambda x: np.linalg.solve(POSITIVE, x), RIGHT),
    "solve": (lambda x: linalg.solve(x, T(RIGHT)), lambda x: np.linalg.solve(x, RIGHT), A),
    "solve for": (lambda x: linalg.solve(T(A), x), lambda x: np.linalg.solve(A, x), RIGHT),
    "solve, right": (lambda x: linalg.solve(x, T(H(RIGHT)), left=False),
                     lambda x: H(RIGHT) @ np.linalg.inv(x), A),
    "solve real": (lambda x: linalg.solve(T(REAL), x), lambda x: np.linalg.solve(REAL, x), RIGHT),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, T(RIGHT), upper=True),
                         lambda x: np.linalg.solve(np.triu(x), RIGHT), A),
    "R": (lambda x: linalg.qr(x).R, lambda x: np.linalg.qr(x)[1], TALL),
    "R, wide": (lambda x: linalg.qr(x).R, lambda x: np.linalg.qr(x)[1], WIDE),
    "Q": (lambda x: linalg.qr(x).Q, lambda x: np.linalg.qr(x)[0], TALL),
    "svdvals": (linalg.svdvals, lambda x: np.linalg.svd(x)[1], WIDE),
    "svd": (lambda x: linalg.svd(x, False).U @ linalg.svd(x, False).Vh,
            lambda x: np.linalg.svd(x, False)[0] @ np.linalg.svd(x, False)[2], WIDE),
    "svd, tall": (lambda x: linalg.svd(x, False).U @ linalg.svd(x, False).Vh,
                  lambda x: np.linalg.svd(x, False)[0] @ np.linalg.svd(x, False)[2], TALL),
    "eigvalsh": (lambda x: linalg.eigvalsh(ours_hermitian(x)),
                 lambda x: np.linalg.eigvalsh(hermitian(x)), HERMITIAN),
    "eigh": (lambda x: by_vectors(ours_hermitian(x), linalg.eigh, lambda v: v.mH),
             lambda x: by_vectors(hermitian(x), np.linalg.eigh, H), HERMITIAN),
    "eig": (lambda x: by_vectors(x, linalg.eig, lambda v: v.inverse()),
            lambda x: by_vectors(x, np.linalg.eig, np.linalg.inv), A),
    "eigenvectors": (lambda x: linalg.eig(x)[1].abs(), lambda x: abs(np.linalg.eig(x)[1]), A),
    "eigenvectors of reals": (lambda x: linalg.eig(x).eigenvectors.abs(),
                              lambda x: abs(np.linalg.eig(x)[1]), REAL),
    "eigvals": (linalg.eigvals, np.linalg.eigvals, A),
    "eigvals of reals": (linalg.eigvals, np.linalg.eigvals, REAL),
    "pinv, tall": (linalg.pinv, np.linalg.pinv, TALL),
    "pinv, wide": (linalg.pinv, np.linalg.pinv, WIDE),
    "pinv, rtol": (lambda x: linalg.pinv(x, rtol=Tensor(1e-9)), np.linalg.pinv, WIDE),
    "pinv, hermitian": (lambda x: linalg.pinv(ours_hermitian(x), hermitian=True),
                        lambda x: np.linalg.pinv(hermitian(x)), HERMITIAN),
    "lstsq": (lambda x: linalg.lstsq(x, T(TALL[:, 0] ** 2)).solution,
              lambda x: np.linalg.lstsq(x, TALL[:, 0] ** 2, rcond=None)[0], TALL),
    "residuals": (lambda x: linalg.lstsq(x, T(TALL[:, :2] ** 2), driver="gelsd").residuals,
                  lambda x: np.linalg.lstsq(x, TALL[:, :2] ** 2, rcond=None)[1], TALL),
    "matrix_exp": (linalg.matrix_exp, expm, A),
    "matrix_power": (lambda x: linalg.matrix_power(x, -3),
                     lambda x: np.linalg.matrix_power(x, -3), A),
    "tensorinv": (lambda x: linalg.tensorinv(x.reshape(3, 3, 1), 1),
                  lambda x: np.linalg.tensorinv(x.reshape(3, 3, 1), 1), A[0]),
    "tensorsolve": (lambda x: linalg.tensorsolve(x.reshape(3, 1, 3), T(RIGHT[0, :, :1])),
                    lambda x: np.linalg.tensorsolve(x.reshape(3, 1, 3), RIGHT[0, :, :1]), A[0]),
    "cond": (lambda x: linalg.cond(x, 1), lambda x: np.linalg.cond(x, 1), A[0]),
    "norm": (lambda x: Tensor.stack([linalg.matrix_norm(x, p) for p in (
                "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)]), lambda x: np.array([
                    np.linalg.norm(x, p) for p in (
                        "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)]), WIDE),
    "nuc": (lambda x: x.norm("nuc"), lambda x: np.linalg.norm(x, "nuc"), TALL),
    "multi_dot": (lambda x: linalg.multi_dot([x, T(WIDE), x]),
                  lambda x: np.linalg.multi_dot([x, WIDE, x]), TALL),
    "vander": (lambda x: linalg.vander(x, 4), lambda x: np.vander(x, 4, True), TALL[:, 0]),
}  # fmt: skip


def slope_along(x, made, weights, way):
    """How fast the real part of sum(conj(weights) made) grows along a way, by its gradient."""
    product = made * T(weights.conj())
    total = product.real if product.is_complex() else product
    (slope,) = total.sum().gradient(x)
    return (slope.numpy().conj() * way).sum().real


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    ours, theirs, array = CASES[name]
    x = T(array).requires_grad_()
    made, expected = ours(x), np.asarray(theirs(array))
    assert made.shape == expected.shape and made.numpy().dtype == expected.dtype
    np.testing.assert_allclose(made.numpy(), expected, 1e-9, 1e-10)
    random = np.random.default_rng(1)
    weights = random.uniform(0.5, 1.5, expected.shape) * (1 if expected.dtype == float else 1 + 2j)
    way = random.normal(size=array.shape) * (1 if array.dtype == float else 1 - 0.5j)
    step = 1e-5
    apart = np.asarray(theirs(array + step * way)) - np.asarray(theirs(array - step * way))
    expected = (apart * weights.conj()).sum().real / (2 * step)
    assert slope_along(x, made, weights, way) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_of_the_like_are_each_of_its_own_values():
    """The rules ask for values: what they gave for one matrix says nothing of the next."""
    right = RIGHT[0].real
    for scale in (1.0, 2.0, 4.0, 5.0, 8.0):
        x = T(REAL * scale).requires_grad_()
        (slope,) = linalg.solve(x, T(right)).sum().gradient(x)
        inverse = np.linalg.inv(REAL * scale)
        expected = -np.outer(inverse.T.sum(1), (inverse @ right).sum(1))
        np.testing.assert_allclose(slope.numpy(), expected, 1e-9)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_values_that_are_equal_have_a_gradient(dtype):
    functions = (linalg.svdvals, linalg.eigvalsh, linalg.eigvals, lambda x: x.norm("nuc"))
    for function in functions:
        x = Tensor.eye(3, dtype=dtype).requires_grad_()
        made = function(x).sum()
        (slope,) = (made.real if made.is_complex() else made).gradient(x)
        np.testing.assert_allclose(slope.numpy(), np.eye(3), 1e-12, 1e-12)


SECOND = {
    "solve": lambda x: linalg.solve(x, T(RIGHT[0].real)),
    "solve_ex": lambda x: linalg.solve_ex(x, T(RIGHT[0].real)).result,
    "inverse": linalg.inv,
    "eigvals": lambda x: linalg.eigvals(x).abs() ** 3,
    "eig": lambda x: linalg.eig(x)[1].abs().square(),
    "eigh": lambda x: linalg.eigh(x)[1].abs().square(),
    "left": lambda x: linalg.svd(x)[0].abs().square(),
    "right": lambda x: linalg.svd(x[:2])[2].abs().square(),
}
WEIGHTS = {shape: RANDOM.uniform(0.5, 1.5, shape) for shape in [(3, 3), (3, 2), (2, 3), (3,)]}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("is_complex", [False, True])
def test_second_gradients_are_slopes_of_the_first(name, is_complex):
    """Each gradient is made of the results, which depend on the matrix too."""
    start = A[0] if is_complex else REAL
    start = start + H(start) if name == "eigh" else start
    way = drawn(3, 3) if is_complex else RANDOM.normal(size=(3, 3))
    way = way + H(way) if name == "eigh" else way

    def first(array):
        x = T(array).requires_grad_()
        made = SECOND[name](x)
        total = (made.real if made.is_complex() else made) * T(WEIGHTS[tuple(made.shape)])
        return x, total.sum().gradient(x)[0]

    x, slope = first(start)
    slope = slope.real if is_complex else slope
    (second,) = (slope * T(WEIGHTS[3, 3])).sum().gradient(x)
    step = 1e-6
    after, before = (first(start + sign * step * way)[1].numpy().real for sign in (1, -1))
    expected = ((after - before) / (2 * step) * WEIGHTS[3, 3]).sum()
    found = (second.numpy().conj() * way).sum().real
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_second_gradients():
    x = T(A[0]).requires_grad_()
    (first,) = x.inverse().abs().square().sum().gradient(x)
    (second,) = first.real.sum().gradient(x)
    step, way = 1e-6, drawn(3, 3)

    def slope(a):
        y = np.linalg.inv(a)
        return (-H(y) @ (2 * y) @ H(y)).real.sum()

    expected = (slope(A[0] + step * way) - slope(A[0] - step * way)) / (2 * step)
    assert (second.numpy().conj() * way).sum().real == pytest.approx(expected, rel=1e-5)


def test_second_gradients_of_values():
    x = T(REAL @ REAL.T).requires_grad_()
    (first,) = linalg.eigvalsh(x).exp().sum().gradient(x)
    (second,) = first[0, 1].gradient(x)
    values, vectors = np.linalg.eigh(REAL @ REAL.T)
    np.testing.assert_allclose(first.numpy(), vectors * np.exp(values) @ vectors.T, 1e-9)
    step, way = 1e-6, np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 1.0], [0.0, 1.0, 3.0]])
    moved = [expm(REAL @ REAL.T + sign * step * way)[0, 1].real for sign in (1, -1)]
    expected = (moved[0] - moved[1]) / (2 * step)
    assert (second.numpy() * way).sum() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_inverses_by_triangles(dtype, upper):
    a = (POSITIVE.real if dtype == "float64" else POSITIVE)[0]
    low = np.linalg.cholesky(a)
    x = T(H(low) if upper else low).requires_grad_()
    made = x.cholesky_inverse(upper)
    np.testing.assert_allclose(made.numpy(), np.linalg.inv(a), 1e-10, 1e-12)
    (slope,) = made.abs().square().sum().gradient(x)
    inverse = np.linalg.inv(a)  # PyTorch's, which is not that of the triangle only
    expected = -(inverse @ (4 * inverse) @ inverse) @ low
    np.testing.assert_allclose(slope.numpy(), H(expected) if upper else expected, 1e-9, 1e-10)


def test_determinants_of_singular_matrices():
    a = np.array([[1, 2j], [1, 2j]])
    x = T(a).requires_grad_()
    (slope,) = x.det().real.gradient(x)
    np.testing.assert_allclose(slope.numpy(), [[-2j, -1], [2j, 1]], 1e-9, 1e-9)


def test_the_sign_of_a_determinant_that_is_nan():
    """As PyTorch has it: 0, and NaN of a complex one."""
    sign, log = linalg.slogdet(Tensor([[[np.nan, 1.0], [1.0, 2.0]], [[-1.0, 0.0], [0.0, 2.0]]]))
    assert sign.tolist() == [0, -1]
    np.testing.assert_array_equal(np.isnan(log.numpy()), [True, False])
    sign, log = linalg.slogdet(T(np.array([[np.nan + 0j]])))
    assert np.isnan(sign.real.item())
    assert np.isnan(sign.imag.item())
    assert np.isnan(log.item())


def test_eigenvalues_are_complex():
    for dtype, kind in (("float32", "complex64"), ("float64", "complex128")):
        values, vectors = linalg.eig(Tensor([[2.0, 0.0], [0.0, 3.0]], dtype=dtype))
        assert values.dtype.name == vectors.dtype.name == kind
        assert values.tolist() == [2, 3] and vectors.abs().tolist() == [[1, 0], [0, 1]]
    assert linalg.eigvals(Tensor([[0.0, -1.0], [1.0, 0.0]])).imag.abs().tolist() == [1, 1]


def test_small_sizes_and_batches():
    none, one = T(drawn(2, 0, 0)), T(np.array([[[2j]]]))
    assert none.inverse().shape == (2, 0, 0) and linalg.eig(none).eigenvalues.shape == (2, 0)
    assert none.det().tolist() == [1, 1] and linalg.svdvals(T(drawn(0, 3))).shape == (0,)
    assert one.inverse().tolist() == [[[-0.5j]]] and one.det().tolist() == [2j]
    assert linalg.eigvals(one).tolist() == [[2j]] and linalg.svdvals(one).tolist() == [[2]]
    assert linalg.solve(T(drawn(0, 2, 2)), T(drawn(0, 2, 1))).shape == (0, 2, 1)


def test_shapes_and_modes():
    whole = linalg.qr(T(TALL), "complete")
    np.testing.assert_allclose((whole.Q @ whole.R).numpy(), TALL, 1e-9)
    u, s, vh = linalg.svd(T(TALL))
    assert u.shape == (5, 5) and vh.shape == (3, 3)
    np.testing.assert_allclose((u[:, :3] * s @ vh).numpy(), TALL, 1e-9)
    np.testing.assert_allclose((u @ u.mH).numpy(), np.eye(5), 1e-9, 1e-9)
    u, s, v = T(WIDE).svd(some=False)
    np.testing.assert_allclose((u * s @ v[:, :3].mH).numpy(), WIDE, 1e-9)
    assert linalg.matrix_rank(T(TALL @ WIDE[:, :1])).item() == 1
    assert linalg.inv_ex(T(A)).info.tolist() == [0, 0]


def test_what_has_no_result_is_said():
    with pytest.raises(ValueRangeError, match="Singular"):
        Tensor([[1j, 2j], [2.0, 4.0]]).inverse()
    with pytest.raises(ValueRangeError, match="positive definite"):
        Tensor([[-1 + 0j]]).cholesky()
    with pytest.raises(ShapeError, match="square matrices"):
        linalg.eig(T(TALL))


@pytest.mark.parametrize("array", [TALL.real, WIDE.real])
@pytest.mark.parametrize("factors", [
    lambda x, square: (linalg.svd(x, square)[0], linalg.svd(x, square)[2]),
    lambda x, square: linalg.qr(x, "complete" if square else "reduced"),
])  # fmt: skip
def test_square_factors_have_the_gradients_of_the_others(array, factors):
    slopes = []
    for square in (True, False):
        x = T(array).requires_grad_()
        left, right = factors(x, square)
        made = left[:, :3].square() @ right[:3].square()
        slopes.append((made * made).sum().gradient(x)[0].numpy())
    np.testing.assert_allclose(*slopes, 1e-9)


def test_what_a_matrix_and_its_right_side_share_is_computed_once():
    def system(scale):
        shared = (scale * Tensor(REAL) @ Tensor(REAL).mT).tanh()
        return shared @ shared + 3 * Tensor.eye(3), shared @ shared.sum(1)

    with measuring() as together:
        matrix, right = system(0.5)
        matrix.realize(right)
    expected = np.linalg.solve(matrix.numpy(), right.numpy())
    with measuring() as solved:
        found = linalg.solve(*system(0.5)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(solved.runs) <= len(together.runs)
