"""Tensors of memory that is there, and of memory that lies as one says."""

import numpy as np
import pytest

import torpor
from torpor.base.errors import DTypeError, ShapeError


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("int16", {}),
        ("float32", {"count": 2}),
        ("uint8", {"offset": 3}),
        ("float64", {"count": 1, "offset": 8}),
        ("complex64", {}),
        ("bool", {"count": 3}),
    ],
)
def test_elements_of_a_buffer_are_those_that_pytorch_finds(dtype, options):
    torch = pytest.importorskip("torch")
    memory = bytearray(np.arange(1.0, 5.0, dtype=np.float32).tobytes())
    found = torpor.frombuffer(memory, dtype=dtype, **options)
    expected = torch.frombuffer(memory, dtype=getattr(torch, dtype), **options)
    assert str(found.dtype).split(".")[-1] == dtype
    assert found.tolist() == expected.tolist()


def test_a_buffer_is_shared_unless_nobody_may_write_to_it():
    memory, fixed = bytearray(4), bytes(4)
    tensor = torpor.frombuffer(memory, dtype=torpor.int16)
    tensor += 1
    assert memory == b"\x01\x00\x01\x00"
    memory[0] = 7
    assert tensor.tolist() == [7, 1]
    copy = torpor.frombuffer(fixed, dtype="float32", requires_grad=True)
    assert (copy.requires_grad, copy.is_leaf) == (True, True)
    copy.data.add_(1)
    assert (copy.tolist(), fixed) == ([1.0], bytes(4))


@pytest.mark.parametrize("options", [{"count": 5}, {"offset": 1}, {"offset": 9}])
def test_a_buffer_has_no_such_elements(options):
    with pytest.raises(ShapeError, match=r"frombuffer of .* elements of .*int16"):
        torpor.frombuffer(bytearray(4), dtype="int16", **options)
    with pytest.raises(DTypeError):
        torpor.frombuffer(bytearray(4), dtype="int4")


@pytest.mark.parametrize(
    ("size", "stride"),
    [((2, 3), (1, 2)), ((2, 3), (4, 1)), ((2, 2), (0, 1)), ((), ()), ((3,), (2,))],
)
def test_strides_are_those_that_are_said(size, stride):
    made = torpor.empty_strided(size, stride, dtype="float64")
    assert (made.shape, made.stride(), made.dtype) == (size, stride, torpor.float64)
    if 0 not in stride:
        made.copy_(torpor.ones(size))
        assert made.sum().item() == np.prod(size)


def test_strides_that_make_no_sense():
    assert torpor.empty_strided((0, 2), (1, 1)).shape == (0, 2)
    assert torpor.empty_strided((2, 2), (1, 2), requires_grad=True).is_leaf
    for size, stride in (((2, 3), (1, -2)), ((2,), (1, 2)), ((2, 3), (1,))):
        with pytest.raises(ShapeError, match="a stride for each size"):
            torpor.empty_strided(size, stride)


def test_arrays_are_copied_kept_or_shared():
    x = torpor.tensor([1.0, 2.0])
    assert torpor.asarray(x) is x
    assert torpor.asarray(x, copy=False) is x
    copy = torpor.asarray(x, copy=True)
    copy += 1
    assert x.tolist() == [1.0, 2.0]
    array = np.zeros(2)
    shared, own = torpor.asarray(array, copy=False), torpor.asarray(array, copy=True)
    array[0] = 5
    assert (shared.tolist(), own.tolist()) == ([5.0, 0.0], [0.0, 0.0])
    assert torpor.asarray([1, 2], dtype="float32", requires_grad=True).requires_grad
    trained = torpor.asarray(x, requires_grad=True)
    assert trained.is_leaf
    assert not x.requires_grad
    for given in (x, array):
        with pytest.raises(DTypeError, match="cannot change the format"):
            torpor.asarray(given, dtype="float16", copy=False)


def test_axes_in_an_order_of_their_own():
    x = torpor.empty_permuted((2, 3, 4), (1, 2, 0), dtype="int8")
    assert (x.shape, x.stride(), x.dim_order()) == ((2, 3, 4), (1, 8, 2), (1, 2, 0))
    with pytest.raises(ShapeError, match="does not name each axis"):
        torpor.empty_permuted((2, 3), (1, 1))
