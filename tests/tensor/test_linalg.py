"""Linear algebra beside NumPy's in float64, and gradients by finite differences."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor, linalg
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.device.host import FUNCTIONS

RANDOM = np.random.default_rng(8)
A = RANDOM.normal(size=(2, 3, 3))
TALL, WIDE = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(3, 5))
SYMMETRIC = A + A.swapaxes(1, 2)
POSITIVE = A @ A.swapaxes(1, 2) + np.eye(3)
LEFT, RIGHT = np.tril(A) + 3 * np.eye(3), RANDOM.normal(size=(2, 3, 2))


def T(array):
    return Tensor(np.ascontiguousarray(array))


def expm(a):
    """Taylor's series of a / 64, squared six times."""
    made = term = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for n in range(1, 20):
        term = term @ a / 64 / n
        made = made + term
    for _ in range(6):
        made = made @ made
    return made


# torpor's function, NumPy's, and the arrays; gradients are tried for all.
CASES = {
    "inv": (linalg.inv, np.linalg.inv, A),
    "det": (linalg.det, np.linalg.det, A),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x)[1], A),
    "logdet": (Tensor.logdet, lambda x: np.log(np.linalg.det(x)), POSITIVE),
    "cholesky": (lambda x: linalg.cholesky((x + x.mT) / 2),
                 lambda x: np.linalg.cholesky((x + x.swapaxes(1, 2)) / 2), POSITIVE),
    "solve": (lambda x: linalg.solve(x, T(RIGHT)), lambda x: np.linalg.solve(x, RIGHT), A),
    "solve for": (lambda x: linalg.solve(T(A), x), lambda x: np.linalg.solve(A, x), RIGHT),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, T(RIGHT), upper=False),
                         lambda x: np.linalg.solve(np.tril(x), RIGHT), LEFT),
    "qr": (lambda x: linalg.qr(x).R, lambda x: np.linalg.qr(x)[1], TALL),
    "qr, wide": (lambda x: linalg.qr(x).R, lambda x: np.linalg.qr(x)[1], WIDE),
    "Q": (lambda x: linalg.qr(x).Q, lambda x: np.linalg.qr(x)[0], TALL),
    "svdvals": (linalg.svdvals, lambda x: np.linalg.svd(x)[1], WIDE),
    "svd": (lambda x: linalg.svd(x, False).U * linalg.svd(x, False).Vh[:, :3],
            lambda x: np.linalg.svd(x)[0] * np.linalg.svd(x)[2][:3, :3], WIDE),
    "eigvalsh": (lambda x: linalg.eigvalsh((x + x.mT) / 2),
                 lambda x: np.linalg.eigvalsh((x + x.swapaxes(1, 2)) / 2), SYMMETRIC),
    "eigh": (lambda x: linalg.eigh((x + x.mT) / 2).eigenvectors.square(),
             lambda x: np.linalg.eigh((x + x.swapaxes(1, 2)) / 2)[1] ** 2, SYMMETRIC),
    "pinv, tall": (linalg.pinv, np.linalg.pinv, TALL),
    "pinv, wide": (linalg.pinv, np.linalg.pinv, WIDE),
    "lstsq": (lambda x: linalg.lstsq(x, T(TALL[:, 0] ** 2)).solution,
              lambda x: np.linalg.lstsq(x, TALL[:, 0] ** 2, rcond=None)[0], TALL),
    "matrix_exp": (linalg.matrix_exp, expm, A),
    "matrix_power": (lambda x: linalg.matrix_power(x, -3),
                     lambda x: np.linalg.matrix_power(x, -3), A),
    "multi_dot": (lambda x: linalg.multi_dot([x, T(WIDE), x, T(WIDE)]),
                  lambda x: np.linalg.multi_dot([x, WIDE, x, WIDE]), TALL),
    "tensorinv": (lambda x: linalg.tensorinv(x.reshape(2, 2, 4), 2),
                  lambda x: np.linalg.tensorinv(x.reshape(2, 2, 4), 2), POSITIVE[0, :1, :1] + (
                      np.arange(16.0).reshape(4, 4) ** 2 % 7)),
    "tensorsolve": (lambda x: linalg.tensorsolve(x.reshape(3, 1, 3), T(RIGHT[0, :, :1])),
                    lambda x: np.linalg.tensorsolve(x.reshape(3, 1, 3), RIGHT[0, :, :1]), A[0]),
    "cond": (lambda x: linalg.cond(x, 1), lambda x: np.linalg.cond(x, 1), A[0]),
    "norm": (lambda x: Tensor.stack([linalg.matrix_norm(x, p) for p in (
                "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)]), lambda x: np.array([
                    np.linalg.norm(x, p) for p in (
                        "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)]), WIDE),
    "cholesky_solve": (lambda x: x.cholesky_solve(T(np.tril(POSITIVE[0]))),
                       lambda x: np.linalg.solve(
                           np.tril(POSITIVE[0]) @ np.tril(POSITIVE[0]).T, x), RIGHT[0]),
    "nuc": (lambda x: x.norm("nuc"), lambda x: np.linalg.norm(x, "nuc"), TALL),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    ours, theirs, array = CASES[name]
    x = T(array).requires_grad_()
    made, expected = ours(x), np.asarray(theirs(array))
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.numpy(), expected, 1e-9, 1e-11)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, expected.shape)
    (slope,) = (made * T(weights)).sum().gradient(x)
    way = np.random.default_rng(2).normal(size=array.shape)
    step = 1e-5
    apart = np.asarray(theirs(array + step * way)) - np.asarray(theirs(array - step * way))
    expected = (apart * weights).sum() / (2 * step)
    assert (slope.numpy() * way).sum() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_second_gradients():
    x = Tensor([[2.0, 1.0], [0.5, 3.0]], dtype="float64").requires_grad_()
    (first,) = x.inverse().sum().gradient(x)
    (second,) = first[0, 0].gradient(x)
    inverse = np.linalg.inv(x.detach().numpy())
    step, found = 1e-6, np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        moved = x.detach().numpy().copy()
        moved[place] += step
        y = np.linalg.inv(moved)
        found[place] = (-(y.T @ np.ones((2, 2)) @ y.T)[0, 0] + (
            inverse.T @ np.ones((2, 2)) @ inverse.T)[0, 0]) / step  # fmt: skip
    np.testing.assert_allclose(second.numpy(), found, 1e-4)


def test_determinants_of_singular_matrices():
    x = Tensor([[1.0, 2.0], [2.0, 4.0]], dtype="float64").requires_grad_()
    (slope,) = x.det().gradient(x)
    np.testing.assert_allclose(slope.numpy(), [[4, -2], [-2, 1]], 1e-9, 1e-9)


def test_shapes_and_modes():
    x = T(TALL)
    assert linalg.qr(x, "complete").Q.shape == (5, 5) and linalg.qr(x, "r").Q.shape == (0,)
    whole = linalg.qr(x, "complete")
    np.testing.assert_allclose((whole.Q @ whole.R).numpy(), TALL, 1e-9)
    u, s, vh = linalg.svd(x)
    assert u.shape == (5, 5) and vh.shape == (3, 3)
    np.testing.assert_allclose((u[:, :3] * s @ vh).numpy(), TALL, 1e-9)
    np.testing.assert_allclose((u @ u.mT).numpy(), np.eye(5), 1e-9, 1e-9)
    assert linalg.matrix_rank(T(TALL @ WIDE)).item() == 3
    assert linalg.matrix_rank(T(TALL @ WIDE[:, :1])).item() == 1
    assert linalg.inv_ex(T(A)).info.tolist() == [0, 0]
    assert linalg.inv_ex(T(A)).inverse.tolist() == linalg.inv(T(A)).tolist()
    assert linalg.cholesky_ex(Tensor([[4.0]])).L.tolist() == [[2.0]]
    least = linalg.lstsq(x, T(TALL[:, :2] ** 2), driver="gelsd")
    expected = np.linalg.lstsq(TALL, TALL[:, :2] ** 2, rcond=None)
    for one, other in zip(least, expected):
        np.testing.assert_allclose(one.numpy(), other, 1e-9)
    low = T(np.tril(POSITIVE[0]))
    np.testing.assert_allclose((low.cholesky_inverse() @ low @ low.mT).numpy(), np.eye(3), 1e-8,
                               1e-8)  # fmt: skip
    assert linalg.vander(T(np.array([2.0, 3.0]))).tolist() == [[1, 2], [1, 3]]


@pytest.mark.parametrize("name", ["inv", "eigvalsh", "qr", "svdvals", "slogdet", "cholesky"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_in_float32(name, dtype):
    given = Tensor([[2.0, 1.0], [1.0, 3.0]], dtype=dtype)
    one, other = getattr(linalg, name)(given), getattr(np.linalg, name)(given.float().numpy())
    pairs = zip(one, other) if isinstance(one, tuple) else [(one, other)]
    for made, expected in pairs:
        rounded = Tensor(np.ascontiguousarray(expected)).cast(dtype)
        assert made.dtype.name == dtype
        np.testing.assert_array_equal(made.float().numpy(), rounded.float().numpy())


def test_what_has_no_result_is_said():
    with pytest.raises(ValueRangeError, match="Singular"):
        Tensor([[1.0, 2.0], [2.0, 4.0]]).inverse()
    with pytest.raises(ValueRangeError, match="positive definite"):
        Tensor([[-1.0]]).cholesky()
    with pytest.raises(ShapeError, match="square matrices"):
        T(TALL).det()
    for right in (Tensor.ones(4, 2), Tensor.ones(4), Tensor(1.0)):
        with pytest.raises(ShapeError, match="right sides"):
            linalg.solve(Tensor.eye(3), right)
    with pytest.raises(DTypeError, match="needs floats"):
        Tensor([[1]]).inverse()
    with pytest.raises(ValueRangeError, match="qr's mode"):
        linalg.qr(T(TALL), "all")


def test_what_has_no_inverse_or_factors_is_an_error_by_pytorchs_name():
    for function in (linalg.inv, linalg.cholesky):
        with pytest.raises(linalg.LinAlgError):
            function(Tensor(np.zeros((2, 2), np.float32)) - 0)


@pytest.mark.parametrize(
    ("room", "name", "meant"),
    [("linalg", "invv", "inv"), ("fft", "ftt", "fft"), ("distributions", "Norml", "Normal"),
     ("linalg", "ldl_factor", "lu_factor, lu_solve and cholesky")],
)  # fmt: skip
def test_names_that_are_missing_are_told_what_is_there(room, name, meant):
    with pytest.raises(AttributeError, match=f"torpor.{room} has no '{name}'; there is .*{meant}"):
        getattr(getattr(torpor, room), name)


def test_triangles_have_gradients_whether_they_are_required_or_not():
    right = T(RIGHT)
    solved = {
        "triangular": lambda a: linalg.solve_triangular(a, right, upper=False),
        "cholesky": lambda a: right.cholesky_solve(a),
        "lu": lambda a: linalg.lu_solve(*linalg.lu_factor(a), right),
        "solve": lambda a: linalg.solve(a * 2, right),
    }
    for name, function in solved.items():
        plain, asked = T(LEFT), T(LEFT).requires_grad_()
        found, wanted = (function(a).sum().gradient(a)[0].numpy() for a in (plain, asked))
        assert np.abs(wanted).max() > 1e-3, name
        np.testing.assert_allclose(found, wanted, 1e-6, err_msg=name)


def test_what_is_singular_is_told_and_raises_nothing():
    both = np.stack([2 * np.eye(2), np.ones((2, 2))]).astype(np.float32)
    inverse, info = torpor.linalg.inv_ex(Tensor(both))
    assert info.tolist() == [0, 2] and np.allclose(inverse[0].numpy(), np.eye(2) / 2)
    assert np.isnan(inverse[1].numpy()).all()
    for right in (np.ones((2, 2), np.float32), np.ones((2, 2, 3), np.float32)):
        made, info = torpor.linalg.solve_ex(Tensor(both), Tensor(right))
        assert info.tolist() == [0, 2] and made.shape == right.shape
        assert (made[0].numpy() == 0.5).all() and np.isnan(made[1].numpy()).all()
    triangle, info = torpor.linalg.cholesky_ex(Tensor(np.diag([4.0, 9.0, -1.0])))
    assert info.item() == 3 and np.isnan(triangle.numpy()).all()
    with pytest.raises(ValueError, match="Singular"):
        torpor.linalg.inv_ex(Tensor(both), check_errors=True)
    assert torpor.linalg.cond(Tensor(both), 1).tolist() == [1.0, np.inf]


def test_complex_matrices_are_singular_where_rounding_says_so():
    random = np.random.default_rng(3)
    for _ in range(40):
        rows = random.standard_normal((2, 3, 3)).astype(np.float32)
        one = rows[0] + 1j * rows[1]
        one[2] = one[1]
        both = Tensor(np.stack([one, np.eye(3, dtype=np.complex64)]))
        made, info = torpor.linalg.inv_ex(both)
        assert info[1].item() == 0 and np.isfinite(made[1].numpy()).all()


def test_cross_products_of_matrices_are_along_the_last_axis():
    a, b = np.ones((3, 2, 3)), np.arange(18.0).reshape(3, 2, 3)
    assert (torpor.linalg.cross(Tensor(a), Tensor(b)).numpy() == np.cross(a, b)).all()
    with pytest.raises(ValueError, match="length 3"):
        torpor.linalg.cross(Tensor.ones(3, 2), Tensor.ones(3, 2))


def test_the_norms_of_matrices_without_elements():
    """As in PyTorch: 0, but for the least of nothing."""
    for order in (2, math.inf, "nuc", "fro"):
        assert linalg.matrix_norm(Tensor.zeros(0, 3), order).item() == 0
    assert linalg.norm(Tensor.zeros(5, 0), 1).item() == 0
    assert linalg.matrix_norm(Tensor.zeros(2, 0, 3), 2, keepdim=True).tolist() == [[[0]], [[0]]]
    with pytest.raises(ShapeError, match="no elements"):
        linalg.matrix_norm(Tensor.zeros(0, 3), -2)
    for order in (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"):
        assert linalg.cond(Tensor.zeros(3, 0, 0), order).tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("error")
def test_what_is_no_number_goes_through_without_a_warning():
    bad = T(np.full((2, 2), np.nan))
    for found in (linalg.det(bad), linalg.slogdet(bad).logabsdet, linalg.inv(bad).sum()):
        assert math.isnan(found.item())


def test_singular_values_need_no_vectors(monkeypatch):
    expected = np.linalg.svd(WIDE)[1]
    monkeypatch.delitem(FUNCTIONS, "svd")
    np.testing.assert_allclose(linalg.svdvals(T(WIDE)).numpy(), expected)
    assert linalg.cond(T(A)).shape == (2,) and linalg.matrix_rank(T(TALL)).item() == 3
