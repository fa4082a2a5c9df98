"""Masked reductions beside NumPy's masked arrays, and segments beside loops over them."""

from __future__ import annotations

import numpy as np
import pytest

import torpor
from torpor import Tensor, masked
from torpor.base.errors import ShapeError, ValueRangeError

X = np.random.default_rng(2).uniform(-2, 2, (3, 4, 5))
MASK = np.random.default_rng(3).random((3, 4, 5)) < 0.6
MASK[:, 0] = True  # no slice is without an element
ARRAY = np.ma.masked_array(X, ~MASK)


@pytest.mark.parametrize("dim", [None, 1, (0, 2), -1])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std"])
def test_reductions(name, dim):
    if name == "prod" and isinstance(dim, tuple):
        wanted = ARRAY.prod(2).prod(0)
    else:
        more = {"ddof": 1} if name in ("var", "std") else {}
        wanted = getattr(ARRAY, name.replace("a", "", name.startswith("am")))(dim, **more)
    given = [True] if dim is None else [True, False]
    for keepdim in given[-1:]:
        found = getattr(masked, name)(Tensor(X), dim, keepdim=keepdim, mask=Tensor(MASK))
        held = np.ma.getmaskarray(wanted)
        np.testing.assert_allclose(
            np.where(held, 0, found.numpy().reshape(np.shape(wanted))), np.ma.filled(wanted, 0),
            rtol=1e-9,
        )  # fmt: skip


def test_masks_broadcast_and_no_element_changes_nothing():
    x, mask = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[True], [False]])
    assert masked.sum(x, 1, mask=mask).tolist() == [3, 0]
    assert masked.amax(x, 1, mask=mask).tolist() == [2, -np.inf]
    assert masked.amax(x.long(), 1, mask=mask).tolist() == [2, -(2**63)]
    assert np.isnan(masked.mean(x, 1, mask=mask).numpy()[1])
    assert masked.softmax(x, 0, mask=mask).tolist() == [[1, 1], [0, 0]]
    assert masked.cumsum(x, 0, mask=mask).tolist() == [[1, 2], [1, 2]]
    assert masked.argmax(x, mask=mask).item() == 1 and masked.sum(x).item() == 10
    assert masked.norm(Tensor([3.0, 9.0, 4.0]), mask=Tensor([1, 0, 1])).item() == 5


def test_gradients_of_what_is_masked_out_are_0():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    masked.var(x, mask=Tensor([True, False, True])).backward()
    np.testing.assert_allclose(x.grad.numpy(), [-2, 0, 2])


@pytest.mark.parametrize(
    ("reduce", "function", "nothing"),
    [("sum", np.sum, 0), ("mean", np.mean, np.nan), ("max", np.max, -np.inf),
     ("min", np.min, np.inf), ("prod", np.prod, 1)],
)  # fmt: skip
def test_segments(reduce, function, nothing):
    lengths = np.array([[2, 0, 2], [1, 3, 0], [0, 0, 4]])
    found = torpor.segment_reduce(Tensor(X), reduce, lengths=Tensor(lengths), axis=1).numpy()
    ends = np.concatenate([np.zeros((3, 1), int), lengths.cumsum(1)], 1)
    again = torpor.segment_reduce(Tensor(X), reduce, offsets=Tensor(ends), axis=1).numpy()
    np.testing.assert_array_equal(found, again)
    for row in range(3):
        for number in range(3):
            part = X[row, ends[row, number] : ends[row, number + 1]]
            wanted = function(part, 0) if len(part) else np.full(5, nothing)
            np.testing.assert_allclose(found[row, number], wanted, rtol=1e-9)


def test_segments_that_begin_with_a_number():
    x, lengths = Tensor([1.0, 2.0, 5.0]), Tensor([2, 0, 1])
    for reduce, wanted in (("sum", [6, 3, 8]), ("mean", [3, 3, 8]), ("max", [3, 3, 5])):
        found = torpor.segment_reduce(x, reduce, lengths=lengths, initial=3)
        assert found.tolist() == wanted
    with pytest.raises(ValueRangeError, match="either lengths or offsets"):
        torpor.segment_reduce(x, "sum")
    with pytest.raises(ValueRangeError, match="reduce is 'sum'"):
        torpor.segment_reduce(x, "middle", lengths=lengths)
    with pytest.raises(ShapeError, match="segments along axis 0"):
        torpor.segment_reduce(x, "sum", lengths=Tensor([[1]]))
