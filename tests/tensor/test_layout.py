"""Whether views are in row-major order, against NumPy's views of the same memory."""

import numpy as np
import pytest

import torpor
from torpor import Tensor

CASES = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:3],
    "every other row": lambda x: x[::2],
    "columns": lambda x: x[:, 1:3],
    "one row": lambda x: x[2],
    "one column": lambda x: x[:, 2],
    "one row of columns": lambda x: x[2:3, 1:4],
    "new axis": lambda x: x[:, None],
    "cube": lambda x: x.reshape(2, 2, 6),
    "planes of a cube": lambda x: x.reshape(2, 2, 6)[1],
    "parts of a cube": lambda x: x.reshape(2, 2, 6)[:, 1],
    "nothing": lambda x: x[:, 3:3],
}


@pytest.mark.parametrize("name", CASES)
def test_order_of_views(name):
    array = np.arange(24).reshape(4, 6)
    assert CASES[name](Tensor(array)).is_contiguous() == CASES[name](array).flags.c_contiguous


def test_transposed_expanded_reversed_and_windowed_views_are_not():
    x = Tensor.arange(24).reshape(4, 6)
    for view in (x.T, x.unsqueeze(0).expand(2, 4, 6), x.unfold(1, 2, 1), x.diagonal()):
        assert not view.is_contiguous()
    assert not x.T.reshape(-1).is_contiguous()
    assert x.T.T.is_contiguous()
    assert x.unsqueeze(0).expand(1, 4, 6).is_contiguous()
    assert x.unfold(1, 2, 2).is_contiguous()


def test_what_was_computed_lies_in_order():
    x = Tensor.arange(24).reshape(4, 6)
    assert (x.T + 1).is_contiguous()
    assert x.T.contiguous().is_contiguous()
    assert x.flip(0).is_contiguous()
    leaf = Tensor.ones(2, 3, requires_grad=True)
    assert leaf.is_contiguous()
    assert not leaf.T.is_contiguous()


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("nothing", "new axis")])
def test_strides_and_offsets_are_numpys(name):
    array = np.arange(24).reshape(4, 6)
    view, ours = CASES[name](array), CASES[name](Tensor(array))
    strides = [s // 8 for s in view.strides]
    assert [s for s, n in zip(ours.stride(), view.shape) if n > 1] == [
        s for s, n in zip(strides, view.shape) if n > 1
    ]
    start = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    assert ours.storage_offset() == start // 8


def test_strides_of_what_was_computed_are_row_major():
    x = Tensor.arange(24).reshape(2, 3, 4)
    assert (x + 1).stride() == (12, 4, 1) and x.transpose(0, 2).stride() == (1, 4, 12)
    assert x.stride(-2) == 4 and x.transpose(0, 2).reshape(4, 6).stride() == (6, 1)
    assert Tensor.zeros(3, 1).expand(3, 4).stride() == (1, 0)
    assert Tensor.zeros(0, 3).stride() == (3, 1) and Tensor(1.0).stride() == ()


def test_what_kind_of_tensor_it_is():
    x = Tensor([1.0])
    assert x.is_cpu and not (x.is_cuda or x.is_meta or x.is_sparse or x.is_conj())
    assert x.layout == "strided" and x.ndimension() == 1
    assert (x.get_device(), Tensor([1.0], device="CPU:1").is_cpu) == (-1, True)


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((3, 4), (3, 1), 1), ((2, 3), (1, 6), 0), ((4,), (0,), 2), ((2, 2, 2), (5, 2, 7), 3),
     ((), (), 5), ((3, 0), (1, 1), 0), ((2, 1, 3), (4, 9, 4), 0)], ids=str,
)  # fmt: skip
def test_as_strided_is_numpys(size, stride, offset):
    array = np.arange(24.0)
    bytewise = tuple(8 * step for step in stride)
    known = np.lib.stride_tricks.as_strided(array[offset:], size, bytewise)
    x = Tensor(array).reshape(4, 6)
    for of in (x, x.t()[1:]):
        assert of.as_strided(size, stride, offset).tolist() == known.tolist()


def test_as_strided_is_a_view_and_has_slopes():
    x = Tensor.zeros(12).contiguous()
    x.as_strided((2, 2), (5, 2), 1)[:] = 7
    assert x.nonzero().flatten().tolist() == [1, 3, 6, 8]
    leaf = Tensor.arange(5.0).requires_grad_()
    assert leaf.as_strided((3, 3), (1, 1)).sum().gradient(leaf)[0].tolist() == [1, 2, 3, 2, 1]
    made = Tensor.zeros(4).as_strided_scatter(Tensor.ones(2), (2,), (2,), 1)
    assert made.tolist() == [0, 1, 0, 1]
    with pytest.raises(IndexError, match="takes 7 elements of 6"):
        Tensor.zeros(6).as_strided((4,), (2,))


def test_types_have_pytorchs_names():
    x = Tensor([1.5])
    assert x.type() == "torch.FloatTensor" and x.bool().type() == "torch.BoolTensor"
    assert x.type("torch.LongTensor").dtype is x.type("int64").dtype is torpor.int64
    assert x.cast("complex64").type() == "torch.ComplexFloatTensor"
    assert x.type(torpor.LongTensor).dtype is torpor.int64
    assert isinstance(x, torpor.FloatTensor) and not isinstance(x, torpor.DoubleTensor)


def test_older_ways_to_make_tensors_take_values_or_sizes():
    sizes = torpor.FloatTensor(2, 3).shape
    assert sizes == torpor.FloatTensor(sizes).shape == (2, 3)
    assert torpor.FloatTensor((2, 3)).tolist() == [2.0, 3.0]
    made = torpor.LongTensor([1.5, 2.0])
    assert made.tolist() == [1, 2] and made.dtype is made.new(4).dtype is torpor.int64
    assert (made.new(3, 2).shape, made.new(sizes).shape) == ((3, 2), (2, 3))
    assert (made.new([7.0]).tolist(), made.new().tolist()) == ([7], [])
    for one in (made, torpor.nn.Linear(1, 1)):
        if not torpor.cuda.is_available():
            with pytest.raises(RuntimeError, match="CUDA:1"):
                one.cuda(1)


def test_strides_are_the_same_when_a_view_is_made_again():
    x = Tensor.arange(24.0).reshape(4, 6).contiguous()
    for _ in range(3):
        turned = x.t()[1:]
        assert (turned.stride(), turned.storage_offset()) == ((1, 6), 1)
        assert x.t().detach().stride() == (1, 6) and not x.t().is_contiguous()
        x[0].tolist()
