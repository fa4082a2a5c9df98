import copy
import pickle

import numpy as np
import pytest

import torpor
from torpor import Tensor, Variable
from torpor.base.errors import OutOfBoundsError, ShapeError


def test_a_shape_is_a_tuple_that_counts_elements():
    shape = Tensor.zeros(2, 3, 4).shape
    assert shape == (2, 3, 4)
    assert repr(shape) == "(2, 3, 4)"
    assert hash(shape) == hash((2, 3, 4))
    assert {(2, 3, 4): 1}[shape] == 1
    assert shape.numel() == 24
    assert Tensor(1.0).shape.numel() == 1
    assert Tensor.zeros(2, 0).size().numel() == 0


def test_what_is_made_of_sizes_is_a_size():
    shape = Tensor.zeros(2, 3).shape
    for made, count in (
        (shape[1:], 3), (shape + (4,), 24), ((4,) + shape, 24), (shape * 2, 36), (2 * shape, 36),
        (copy.deepcopy(shape), 6), (pickle.loads(pickle.dumps(shape)), 6), (torpor.Size([5]), 5),
        (torpor.broadcast_shapes((2, 1), (3,)), 6),
    ):  # fmt: skip
        assert type(made) is torpor.Size
        assert made.numel() == count
    with pytest.raises(TypeError):
        shape + [1]
    sizes = [1]
    sizes += shape
    assert sizes == [1, 2, 3]
    assert (shape + np.array([1, 1])).tolist() == [3, 4]


def test_a_size_goes_wherever_a_tuple_of_sizes_goes():
    x = Tensor.arange(6).reshape(2, 3)
    shape = x.shape
    assert Tensor.ones(shape).expand(*shape).reshape(shape).sum().item() == 6
    assert x.flatten().reshape((*shape[:1], -1)).tolist() == x.tolist()
    assert torpor.zeros(shape, dtype=torpor.int32).new_ones(shape[1:]).tolist() == [1, 1, 1]


def test_a_jitted_function_may_be_given_and_give_sizes():
    @torpor.jit
    def halved(x, shape):
        return (x / shape.numel()).sum(), x.shape

    for length in (2, 2, 2, 3, 3):
        x = Tensor.ones(length, 4).realize()
        total, shape = halved(x, x.shape)
        assert total.item() == 1
        assert shape == (length, 4)


def test_a_symbolic_shape_counts_by_its_node():
    count = Variable("count", 1, 8)
    shape = Tensor.zeros(8, 3)[: count.bind(2)].shape
    assert (
        shape.numel().simplify().key == Tensor.zeros(8, 3)[: count.bind(2)].numel().simplify().key
    )


def test_the_number_of_elements_can_be_called():
    x = Tensor.zeros(2, 3)
    assert (x.size, x.size(), x.size(-1)) == (6, (2, 3), 3)
    with pytest.raises(OutOfBoundsError, match="axis 2 does not exist in a tensor of 2 axes"):
        x.size(2)


A = np.arange(30, dtype=np.float32).reshape(3, 10)


def test_a_part_that_is_there_for_the_value_of_a_variable():
    i = Variable("i", 1, 10)
    for size in (2, 5, 10):
        x = Tensor(A, requires_grad=True)
        part = (x[:, : i.bind(size)] + 1)[:, 1:size]
        assert part.shape == (3, size - 1)
        np.testing.assert_array_equal(part.numpy(), A[:, 1:size] + 1)
        part.sum().backward()
        expected = np.zeros_like(A)
        expected[:, 1:size] = 1
        np.testing.assert_array_equal(x.grad.numpy(), expected)
        filled = Tensor(A)[:, : i.bind(size)].pad([(0, 0), (0, 10 - i.bind(size))])
        np.testing.assert_array_equal(filled.numpy(), np.where(np.arange(10) < size, A, 0))
    with pytest.raises(ShapeError, match="i=2 reaches from 1 to 10"):
        Tensor(A)[:, : i.bind(2)].shrink([(0, 3), (0, 3)])
    with pytest.raises(ShapeError, match="no negative"):
        Tensor(A)[:, : i.bind(9)].pad([(0, 0), (0, 8 - i.bind(9))])
    with pytest.raises(ShapeError):
        Tensor(A)[:, :i].shrink([(0, 3), (0, 2)])  # it has no value yet


def test_a_jitted_function_that_takes_such_a_part_runs_as_it_is():
    i = Variable("i", 1, 10)

    @torpor.jit
    def first_two(x):
        return x.shrink([(0, 3), (0, 2)]) * 2

    for size in (4, 5, 3, 4, 2):
        np.testing.assert_array_equal(first_two(Tensor(A)[:, : i.bind(size)]).numpy(), A[:, :2] * 2)
    with pytest.raises(ShapeError):
        first_two(Tensor(A)[:, : i.bind(1)])
