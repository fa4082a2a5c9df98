"""`torpor.testing`: what is close, and what is told of what is not."""

import numpy as np
import pytest
from torpor.testing import assert_close

import torpor
from torpor import Tensor

NAN, INF = float("nan"), float("inf")
CLOSE = [
    ([1.0, 2.0], [1.0, 2.000001]), ([INF, 1.0], [INF, 1.0]), ([1, 2], [1, 2]), ([True], [True]),
    ([1e-6], [0.0]), ([], []), ([1 + 2j], [1 + 2.000001j]),
]  # fmt: skip
FAR = [
    ([1.0, 2.0], [1.0, 2.0001]), ([NAN], [NAN]), ([INF], [-INF]), ([1.0], [INF]), ([1, 2], [1, 3]),
    ([True], [False]), ([1 + 2j], [1 + 2.1j]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), CLOSE, ids=str)
def test_what_is_close(one, other):
    assert_close(Tensor(one), Tensor(other))
    assert_close({"a": [Tensor(one)]}, {"a": [Tensor(other)]})


@pytest.mark.parametrize(("one", "other"), FAR, ids=str)
def test_what_is_not(one, other):
    with pytest.raises(AssertionError, match="elements differ"):
        assert_close(Tensor(one), Tensor(other))


def test_shapes_formats_and_structure():
    with pytest.raises(AssertionError, match="shapes"):
        assert_close(Tensor.zeros(2), Tensor.zeros(1, 2))
    with pytest.raises(AssertionError, match="formats"):
        assert_close(Tensor.zeros(2, dtype="float64"), Tensor.zeros(2))
    assert_close(Tensor.zeros(2, dtype="float64"), Tensor.zeros(2), check_dtype=False)
    assert_close(Tensor.ones(2), np.ones(2, np.float32))
    assert_close(1, 1.0)
    with pytest.raises(AssertionError, match="keys"):
        assert_close({"a": 1}, {"b": 1})
    with pytest.raises(AssertionError, match=r"\[1\]: 1 of 1"):
        assert_close([1, 2], [1, 3])


def test_tolerances_texts_and_nan():
    assert_close(Tensor([1.0]), Tensor([1.1]), rtol=0.2, atol=0)
    assert_close(Tensor([NAN]), Tensor([NAN]), equal_nan=True)
    with pytest.raises(ValueError, match="together"):
        torpor.testing.assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(AssertionError, match=r"^no$"):
        assert_close(1, 2, msg="no")
    with pytest.raises(AssertionError, match=r"^so: 1 of 1"):
        assert_close(1, 2, msg=lambda text: f"so: {text}")
    with pytest.raises(AssertionError, match=r"2 of 3 .* most at \(2,\): 3.0 is not 9.0"):
        assert_close(Tensor([1.0, 2.0, 3.0]), Tensor([1.0, 2.5, 9.0]))
