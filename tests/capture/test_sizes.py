"""Calls with ever other sizes: kernels take these as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Tensor, explain, jit
from torpor.base.errors import CaptureError

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((6, 6))


def wanted(x):
    return np.tanh(x @ WEIGHTS).sum(0)


def test_an_input_that_grows_compiles_nothing_after_the_third_size(compiled: list[str]) -> None:
    w = Tensor(WEIGHTS).realize()
    run = jit(lambda x: (x @ w).tanh().sum(0))
    for number, length in enumerate((4, 5, 6, 7, 8, 21, 3, 4, 6)):
        if number == 3:
            compiled.clear()
        x = RANDOM.standard_normal((length, 6))
        np.testing.assert_allclose(run(Tensor(x).realize()).numpy(), wanted(x), rtol=1e-10)
    assert compiled == []
    text = explain(run)
    assert "trace 2" in text and "trace 3" not in text
    assert "takes sizes as numbers: (6, 6); (7, 6)" in text


def test_named_arguments_vary_from_the_second_size_on() -> None:
    @jit(dynamic="x")
    def product(x, y):
        return x @ y

    for length in (4, 5, 6):
        x, y = RANDOM.standard_normal((length, 3)), RANDOM.standard_normal((3, 2))
        found = product(Tensor(x), Tensor(y))
        np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-12)
    text = explain(product)
    assert "trace 1" in text and "trace 2" not in text
    for width in (4, 5, 6):
        product(Tensor(np.ones((4, 3))), Tensor(np.ones((3, width))))
    assert "trace 4" in explain(product)


def test_named_axes_vary_and_others_do_not() -> None:
    total = jit(lambda x: x.sum(), dynamic={"x": [0]})
    for shape in ((3, 4), (5, 4), (6, 4), (3, 5), (3, 7)):
        assert total(Tensor(np.ones(shape))).item() == shape[0] * shape[1]
    text = explain(total)
    assert "takes sizes as numbers: (5, 4); (6, 4)" in text and "trace 3" in text


def test_a_name_that_is_no_argument_is_an_error() -> None:
    with pytest.raises(CaptureError, match="names 'z'; there are x, y"):
        jit(lambda x, y: x, dynamic=("x", "z"))


def test_what_changes_is_changed_and_a_branch_is_taken_anew() -> None:
    count = Tensor([0]).realize()

    @jit
    def step(x):
        count.add_(x.shape[0])
        return x * 2 if x.shape[0] % 2 else x * 3

    for length in range(3, 12):
        x = np.ones(length)
        assert step(Tensor(x)).tolist() == [2.0 if length % 2 else 3.0] * length
    assert count.tolist() == [sum(range(3, 12))]


def test_a_size_that_stays_is_traced() -> None:
    run = jit(lambda x: x + 1)
    for length in (3, 4, 5):
        run(Tensor(np.ones(length)))
    for _ in range(12):
        assert run(Tensor(np.ones(6))).tolist() == [2] * 6
    assert "trace 3" in explain(run)
