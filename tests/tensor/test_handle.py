"""Errors are in the user's terms; names mean the same as functions and as methods."""

import threading

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check
from torpor import Tensor
from torpor.base.errors import OutOfBoundsError


def test_errors_name_shapes_and_lines():
    left = Tensor.ones(2, 3)
    right = Tensor.ones(4)
    with pytest.raises(ValueError, match="do not broadcast") as caught:
        left + right
    lines = str(caught.value).splitlines()
    assert "(2, 3)" in lines[0]
    assert "(4,)" in lines[0]
    first = test_errors_name_shapes_and_lines.__code__.co_firstlineno
    assert f"test_handle.py:{first + 1}: Tensor.ones(2, 3)" in lines[1]
    assert f"test_handle.py:{first + 2}: Tensor.ones(4)" in lines[2]


def test_origins_are_kept_beside_the_node():
    x = Tensor([1, 2])
    one = x * 3
    other = x * 3
    assert one._current() is other._current()
    places = [torpor.base.site.decode(site) for site in one._current().origins]
    assert [place.text for place in places] == ["x * 3", "x * 3"]
    assert places[0].line + 1 == places[1].line
    kept = [x * 3 for _ in range(20)]
    assert len(kept[0]._current().origins) <= 8


def test_functions_and_methods_are_one():
    x = Tensor([[1.0, -2.0], [3.0, 4.0]])
    for name in torpor.FUNCTIONS:
        assert callable(getattr(Tensor, name)), name
        assert getattr(torpor, name).__name__ == name
    check(torpor.sum(x, axis=1), x.sum(1).numpy())
    check(torpor.sum(input=x, dim=1, keepdims=True), x.sum(axis=1, keepdim=True).numpy())
    check(torpor.abs(x=x), abs(x).numpy())
    check(torpor.max(x, 1).values, np.array([1, 4], np.float32))
    check(torpor.exp([0.0]), np.array([1], np.float32))
    check(torpor.tensor([1, 2]), np.array([1, 2]))
    assert torpor.float32 is torpor.dtypes.float32
    with pytest.raises(AttributeError, match="no_such_name"):
        torpor.no_such_name  # noqa: B018 (the access is what is tested)


def test_threads_build_and_read_at_once():
    x = Tensor(np.arange(8, dtype=np.float32))
    found, errors = [], []

    def work(number):
        try:
            found.append(((x + number) * 2).sum().item() - 2 * 8 * number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert found == [56.0] * 8


def test_a_long_chain_needs_no_recursion():
    x = y = Tensor([1.0])
    for _ in range(20000):
        y = y + x
    for _ in range(2000):
        y = y[None][0]
    assert y.shape == (1,)
    assert y._current().dtype is x.dtype


@pytest.mark.parametrize("axis", [2, -3])
def test_lengths_of_axes_that_are_not_there(axis):
    with pytest.raises(OutOfBoundsError, match="does not exist"):
        Tensor.ones(2, 3).size(axis)
    assert Tensor.ones(2, 3).size(-1) == 3
