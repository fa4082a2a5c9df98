"""Products of several tensors beside NumPy's in float64."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import ShapeError

RANDOM = np.random.default_rng(4)
A, B = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(2, 4, 5))
P, V, W = RANDOM.normal(size=(3, 5)), RANDOM.normal(size=4), RANDOM.normal(size=3)


def T(array):
    return Tensor(array)


def test_no_part_of_an_outer_product_keeps_what_is_no_number():
    made = T(np.zeros((2, 2))).addr(T(np.array([1, np.nan])), T(np.array([np.inf, 2])), alpha=0)
    np.testing.assert_array_equal(made.numpy(), [[np.nan, 0], [np.nan, np.nan]])
    ones = Tensor([1, 1])
    assert Tensor([[3]]).addr(ones, ones, alpha=0).tolist() == [[3, 3], [3, 3]]
    yes = Tensor([True, False])
    assert Tensor(False).addr(yes, yes, alpha=2).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (T(W).addmv(T(A[0]), T(V), beta=2, alpha=3), 2 * W + 3 * A[0] @ V),
        (T(A[0]).addr(T(W), T(V), alpha=2), A[0] + 2 * np.outer(W, V)),
        (T(P).addbmm(T(A), T(B), beta=0.5), 0.5 * P + (A @ B).sum(0)),
        (T(P).baddbmm(T(A), T(B), alpha=2), P + 2 * (A @ B)),
        (T(P * np.nan).baddbmm(T(A), T(B), beta=0), A @ B),
        (T(W).addcmul(T(W), T(W), value=2), W + 2 * W * W),
        (T(W).addcdiv(T(W), T(W) + 9, value=2), W + 2 * W / (W + 9)),
        (T(A).inner(T(V)), np.inner(A, V)),
        (T(A[0]).inner(T(A[1])), np.inner(A[0], A[1])),
        (T(V).vdot(T(V)), np.vdot(V, V)),
        (T(A[0]).kron(T(B)), np.kron(A[0], B)),
        (T(A).cross(T(A) + 1), np.cross(A, A + 1, axis=1)),
        (T(A).vecdot(T(A)), (A * A).sum(-1)),
        (T(A[0] @ B[0][:, :3]).matrix_power(5), np.linalg.matrix_power(A[0] @ B[0][:, :3], 5)),
        (T(A[0][:, :3]).matrix_power(0), np.eye(3)),
        (T(A).dist(T(A) * 2, 3), (abs(A) ** 3).sum() ** (1 / 3)),
        (T(A[0]).cov(), np.cov(A[0])),
        (T(V).cov(), np.cov(V)),
        (T(A[0]).cov(correction=0, fweights=T(np.int64([1, 2, 0, 3])), aweights=T(abs(V))),
         np.cov(A[0], ddof=0, fweights=[1, 2, 0, 3], aweights=abs(V))),
        (T(A[0]).corrcoef(), np.corrcoef(A[0])),
        (T(A).trapezoid(dx=0.5, dim=1), np.trapezoid(A, dx=0.5, axis=1)),
        (T(A).trapezoid(T(V)), np.trapezoid(A, V)),
        (T(V).cumulative_trapezoid(), np.cumsum((V[1:] + V[:-1]) / 2)),
        (T(A).renorm(2, 0, 0.5), A * 0.5 / np.sqrt((A * A).sum((1, 2), keepdims=True))),
    ],
)  # fmt: skip
def test_products(made, expected):
    assert made.shape == np.shape(expected)
    np.testing.assert_allclose(made.numpy(), expected, 1e-6, 1e-12)


def test_integers_stay_integers():
    one = Tensor([[1, 2], [3, 4]])
    assert one.kron(one).dtype.name == one.baddbmm(one[None], one[None]).dtype.name == "int64"
    assert one.matrix_power(3).tolist() == [[37, 54], [81, 118]]


def test_slopes():
    x = Tensor(A[0]).requires_grad_()
    (made,) = x.cov().sum().gradient(x)
    centered = A[0] - A[0].mean(1, keepdims=True)
    expected = 2 / 3 * np.tile(centered.sum(0), (3, 1))
    np.testing.assert_allclose(made.numpy(), expected, 1e-6, 1e-12)


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="length 3"):
        T(V).cross(T(V), 0)
    with pytest.raises(ShapeError, match="square"):
        T(A).matrix_power(2)


def test_what_is_added_in_a_wider_format_is_computed_in_it():
    wide, one, other = Tensor([1.0], dtype="float64"), Tensor([1.1]), Tensor([3.3])
    first, second = (x.numpy().astype(np.float64) for x in (one, other))
    assert wide.addcmul(one, other).tolist() == (1 + first * second).tolist()
    assert wide.addcdiv(one, other).tolist() == (1 + first / second).tolist()
