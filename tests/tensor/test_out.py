"""`out=`: results go where the caller says, whatever the function, how many it has and in which
format; what does not fit is an error.
"""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from torpor import Tensor

X = np.random.default_rng(3).uniform(0.1, 0.9, (4, 4)).astype(np.float32)
SQUARE = X @ X.T + np.eye(4, dtype=np.float32)

# Functions of x, and of s, which is symmetric and positive.
ONE = {
    "cat": lambda x, s, **out: torpor.cat([x, s], 1, **out),
    "stack": lambda x, s, **out: torpor.stack([x, s], **out),
    "vstack": lambda x, s, **out: torpor.vstack([x, s], **out),
    "where": lambda x, s, **out: torpor.where(x > 0.5, x, s, **out),
    "add": lambda x, s, **out: torpor.add(x, s, alpha=2, **out),
    "sum": lambda x, s, **out: torpor.sum(x, 0, **out),
    "arange": lambda x, s, **out: torpor.arange(4, **out),
    "full": lambda x, s, **out: torpor.full((2,), 2.5, **out),
    "solve": lambda x, s, **out: torpor.linalg.solve(s, x, **out),
    "norm": lambda x, s, **out: torpor.linalg.norm(x, **out),
    "lu_solve": lambda x, s, **out: torpor.linalg.lu_solve(*torpor.linalg.lu_factor(s), x, **out),
    "multi_dot": lambda x, s, **out: torpor.linalg.multi_dot([x, s, x], **out),
    "chain_matmul": lambda x, s, **out: torpor.chain_matmul(x, s, x, **out),
    "zeta": lambda x, s, **out: torpor.special.zeta(x + 2, x + 1, **out),
    "fft": lambda x, s, **out: torpor.fft.fft(x, **out),
    "complex": lambda x, s, **out: torpor.complex(x, s, **out),
    "searchsorted": lambda x, s, **out: torpor.searchsorted(x[0].sort().values, s, **out),
    "a method": lambda x, s, **out: x.matmul(s, **out),
}
SEVERAL = {
    "sort": lambda x, s, **out: torpor.sort(x, **out),
    "max": lambda x, s, **out: torpor.max(x, 1, **out),
    "topk": lambda x, s, **out: torpor.topk(x, 2, **out),
    "mode": lambda x, s, **out: torpor.mode(x, 1, **out),
    "cummax": lambda x, s, **out: torpor.cummax(x, 0, **out),
    "aminmax": lambda x, s, **out: torpor.aminmax(x, dim=1, **out),
    "frexp": lambda x, s, **out: torpor.frexp(x, **out),
    "histogram": lambda x, s, **out: torpor.histogram(x, 3, **out),
    "eigh": lambda x, s, **out: torpor.linalg.eigh(s, **out),
    "qr": lambda x, s, **out: torpor.linalg.qr(x, **out),
    "slogdet": lambda x, s, **out: torpor.linalg.slogdet(x, **out),
    "eig": lambda x, s, **out: torpor.linalg.eig(x, **out),
    "inv_ex": lambda x, s, **out: torpor.linalg.inv_ex(s, **out),
    "solve_ex": lambda x, s, **out: torpor.linalg.solve_ex(s, x, left=False, **out),
    "cholesky_ex": lambda x, s, **out: torpor.linalg.cholesky_ex(s, **out),
}  # fmt: skip


def empty_like(value: Tensor) -> Tensor:
    return torpor.zeros(value.shape, dtype=value.dtype)


@pytest.mark.parametrize("name", ONE)
def test_a_result_is_written_there(name):
    x, s = Tensor(X), Tensor(SQUARE)
    expected = ONE[name](x, s)
    place = empty_like(expected)
    assert ONE[name](x, s, out=place) is place
    np.testing.assert_array_equal(place.numpy(), expected.numpy())


@pytest.mark.parametrize("name", SEVERAL)
def test_each_of_several_results_has_its_place(name):
    x, s = Tensor(X), Tensor(SQUARE)
    expected = SEVERAL[name](x, s)
    places = tuple(map(empty_like, expected))
    found = SEVERAL[name](x, s, out=places)
    assert type(found) is type(expected)
    for one, place, other in zip(found, places, expected, strict=True):
        assert one is place
        np.testing.assert_array_equal(place.numpy(), other.numpy())


def test_views_are_written_through():
    rows = torpor.zeros(3, 4)
    torpor.sum(Tensor(X), 0, out=rows[1])
    np.testing.assert_allclose(rows.numpy(), [[0] * 4, X.sum(0), [0] * 4], rtol=1e-6)


def test_nothing_takes_any_shape():
    for value in (torpor.ones(2, 3), torpor.ones(2, dtype=torpor.complex64)):
        place = torpor.empty(0, dtype=value.dtype)
        assert torpor.mul(value, 2, out=place) is place
        assert place.tolist() == (value * 2).tolist()


def test_what_does_not_fit():
    with pytest.raises(torpor.base.errors.ShapeError):
        torpor.add(torpor.ones(2), 1, out=torpor.zeros(3))
    with pytest.raises(torpor.base.errors.DTypeError):
        torpor.add(torpor.ones(2), 1, out=torpor.zeros(2, dtype=torpor.int64))
    with pytest.raises(torpor.base.errors.DTypeError):
        torpor.fft.fft(torpor.ones(2), out=torpor.zeros(2))
    place = torpor.zeros(2, dtype=torpor.float64)
    assert torpor.add(torpor.ones(2), 1, out=place).tolist() == [2.0, 2.0]
    assert place.dtype == torpor.float64
