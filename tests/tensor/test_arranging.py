"""Splits, stacks, diagonals and turns beside NumPy's."""

import itertools

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import ShapeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = X[0]
V = np.float32([1.0, 2.0, 3.0])


def same(made, expected):
    if isinstance(expected, list | tuple):
        assert len(made) == len(expected)
        for one, other in zip(made, expected):
            same(one, other)
    else:
        expected = np.asarray(expected)
        assert made.shape == expected.shape
        assert (made.numpy() == expected).all()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("tensor_split", (3, 2), np.array_split(X, 3, 2)),
        ("tensor_split", ((1, 3), -1), np.array_split(X, (1, 3), -1)),
        ("tensor_split", ((0, 9), 1), np.array_split(X, (0, 9), 1)),
        ("hsplit", (3,), np.hsplit(X, 3)),
        ("vsplit", ((1,),), np.vsplit(X, (1,))),
        ("dsplit", (2,), np.dsplit(X, 2)),
        ("split_with_sizes", ((1, 2), 1), np.split(X, (1,), 1)),
        ("fliplr", (), X[:, ::-1]),
        ("flipud", (), X[::-1]),
        ("rot90", (1, (1, 2)), np.rot90(X, 1, (1, 2))),
        ("rot90", (2, (0, 2)), np.rot90(X, 2, (0, 2))),
        ("rot90", (-1, (2, 1)), np.rot90(X, -1, (2, 1))),
        ("diagonal", (1, 1, 2), np.diagonal(X, 1, 1, 2)),
        ("slice", (2, 1, None, 2), X[:, :, 1::2]),
        ("sum_to_size", (3, 1), X.sum(0).sum(1, keepdims=True)),
        ("select_copy", (1, 2), X[:, 2]),
        ("unbind_copy", (), tuple(X)),
    ],
)
def test_arrangements_of_three_axes(name, arguments, expected):
    same(getattr(Tensor(X), name)(*arguments), expected)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2])
def test_diagonals(offset):
    same(Tensor(V).diag(offset), np.diag(V, offset))
    same(Tensor(M).diag(offset), np.diag(M, offset))
    same(Tensor(M).diagflat(offset), np.diagflat(M, offset))
    same(Tensor(M).diag_embed(offset), np.stack([np.diag(row, offset) for row in M]))
    same(Tensor(M).diag_embed(offset, 0, 2), np.stack([np.diag(row, offset) for row in M], 1))
    same(Tensor(M).trace(), np.trace(M))
    values = -1 - np.arange(np.diagonal(M, offset).size, dtype=np.float32)
    whole = M.copy()
    for place, value in enumerate(values):
        whole[place + max(-offset, 0), place + max(offset, 0)] = value
    same(Tensor(M).diagonal_scatter(Tensor(values), offset), whole)


def test_stacks():
    vectors, one = [Tensor(V), Tensor(V + 3)], [V, V + 3]
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        same(getattr(torpor, name)(vectors), getattr(np, name)(one))
    same(torpor.atleast_2d(Tensor(1.0), Tensor(V)), (np.atleast_2d(1.0), np.atleast_2d(V)))
    same(torpor.atleast_3d(Tensor(V)), np.atleast_3d(V))
    same(
        torpor.block_diag(Tensor([[1, 2]]), Tensor(3), Tensor([4, 5])),
        [[1, 2, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 5]],
    )
    same(torpor.broadcast_tensors(Tensor(V), Tensor(M[:, :1])), np.broadcast_arrays(V, M[:, :1]))
    assert torpor.broadcast_shapes((3, 1), 4) == (3, 4)


def test_products_of_sets():
    same(torpor.cartesian_prod(Tensor([1, 2]), Tensor([3, 4])), [[1, 3], [1, 4], [2, 3], [2, 4]])
    for again in (False, True):
        pick = itertools.combinations_with_replacement if again else itertools.combinations
        same(Tensor(V).combinations(2, again), np.array(list(pick(V, 2))))


def test_copies_with_a_part_in_place():
    x = Tensor(X).requires_grad_()
    part = Tensor(np.ones((2, 4), np.float32)).requires_grad_()
    expected = X.copy()
    expected[:, 1] = 1
    made = x.select_scatter(part, 1, 1)
    same(made, expected)
    same((made * Tensor(X)).sum().gradient(part)[0], X[:, 1])
    expected[:, :, ::2] = 5
    same(made.slice_scatter(Tensor(5.0), 2, 0, None, 2), expected)


def test_copies_do_not_alias():
    x = Tensor(X)
    copy = x.transpose_copy(0, 1)
    copy[0] = 0
    same(x, X)
    assert copy.shape == (3, 2, 4)


def test_places():
    same(torpor.tril_indices(3, 4, 1), np.array(np.tril_indices(3, 1, 4)))
    same(torpor.triu_indices(2, 3, -1), np.array(np.triu_indices(2, -1, 3)))
    same(Tensor([5, 23]).unravel_index((2, 3, 4)), np.unravel_index([5, 23], (2, 3, 4)))
    for part in Tensor([5, 23], dtype="uint8").unravel_index((3, 400)):
        assert part.dtype is torpor.int64
    same(Tensor(V).vander(4), np.vander(V, 4))
    same(Tensor([True, False]).vander(3), np.array([[1, 1, 1], [0, 0, 1]]))
    same(Tensor(V).vander(increasing=True), np.vander(V, increasing=True))


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="do not divide"):
        Tensor(V).hsplit(2)
    with pytest.raises(ShapeError, match="3 axes or more"):
        Tensor(V).dsplit(1)
    with pytest.raises(ShapeError, match="vectors and matrices"):
        Tensor(X).diag()


def test_fill_put_and_pad_are_copies():
    x = Tensor(M)
    assert x.fill(2.0).tolist() == [[2.0] * 4] * 3
    whole = M.copy()
    np.put(whole, [1, 5, 1], [7.0, 8.0, 9.0])
    same(x.put(Tensor([1, 5, 1]), Tensor([7.0, 8.0, 9.0])), whole)
    np.add.at(whole.reshape(-1), [0, 0], [1.0, 2.0])
    again = x.put(Tensor([1, 5, 1]), Tensor([7.0, 8.0, 9.0]))
    same(again.put(Tensor([0, 0]), Tensor([1.0, 2.0]), accumulate=True), whole)
    same(x.constant_pad_nd((1, 0), 5.0), np.pad(M, ((0, 0), (1, 0)), constant_values=5))
    same(x, M)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_diagonals_of_small_formats(dtype):
    whole, line = np.array([[1, 0], [0, 1]], dtype), np.array([0, 3], dtype)
    written = whole.copy()
    np.fill_diagonal(written, line)
    made = Tensor(whole).diagonal_scatter(Tensor(line))
    np.testing.assert_array_equal(made.numpy(), written)
    np.testing.assert_array_equal(Tensor(line).diag_embed().numpy(), np.diag(line))


@pytest.mark.parametrize("name", ["meshgrid", "cartesian_prod", "block_diag", "broadcast_tensors"])
def test_functions_of_several_tensors_are_methods_of_the_first(name):
    x, y = Tensor([1, 2]), Tensor([[3, 4]] if name == "broadcast_tensors" else [3, 4, 5])
    found, wanted = (
        made if isinstance(made, tuple) else (made,)
        for made in (getattr(x, name)(y), getattr(torpor, name)(x, y))
    )
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]
