import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.tensor.storage import recall


def test_nothing_is_computed_before_it_is_asked_for():
    x = Tensor(numbers((2, 3)))
    y = x + 1
    assert len(y.schedule()) == 1
    y.realize()
    assert not y.schedule()


def test_ways_out():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2
    assert x.tolist() == [[2, 4], [6, 8]]
    assert x[0, 1].item() == 4
    assert np.asarray(x).tolist() == x.tolist()
    assert x.data().tolist() == x.tolist()
    assert float(x[1, 1]) == 8
    assert int(Tensor([3])) == 3
    assert [10, 20, 30][Tensor(1)] == 20
    assert f"{Tensor(0.125):.2f}" == "0.12"
    assert bool(Tensor([0.0])) is False
    assert 8 in x
    assert Tensor([1.5], dtype="bfloat16").tolist() == [1.5]
    assert Tensor(np.uint8(3)).item() == 3


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32",
    "float64",
])  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 113])
def test_one_element_is_read_as_numpy_reads_it(number, dtype):
    wanted = np.array(number).astype(dtype)
    for made in (Tensor(wanted), Tensor(wanted.reshape(1, 1)) + np.zeros((), dtype).item()):
        found = made.item()
        assert found == wanted.item() and type(found) is type(wanted.item())
        assert found == made.numpy().item() == made.item()


def test_arrays_are_copies():
    x = (Tensor([[1.0, 2.0], [3.0, 4.0]]) + 1).realize()
    array = x.numpy()
    array[:] = 0
    assert x.tolist() == [[2, 3], [4, 5]]
    assert x.numpy().flags.writeable and x.numpy().flags.c_contiguous
    x[0] = 7
    assert array.tolist() == [[0, 0], [0, 0]] and x.numpy().tolist() == [[7, 7], [4, 5]]


def test_ways_out_that_are_errors():
    x = Tensor([1.0, 2.0])
    for call in (lambda: x.item(), lambda: bool(x), lambda: float(x)):
        with pytest.raises(ValueError, match="needs one element"):
            call()
    for wrong in (Tensor(1.0), Tensor([1])):
        with pytest.raises(TypeError, match="index"):
            range(3)[wrong]


def test_size_is_a_number_and_a_method():
    x = Tensor.ones(2, 3)
    assert x.size == 6
    assert x.size() == (2, 3)
    assert x.size(1) == 3
    assert (x.numel(), x.ndim, x.dim(), x.nbytes, x.itemsize) == (6, 2, 2, 24, 4)


def test_hash_is_identity_and_equality_is_elementwise():
    x, y = Tensor([1.0]), Tensor([1.0])
    assert len({x, y, x}) == 2
    assert (x == y).item() is True


def test_values_are_remembered():
    x = Tensor(numbers((8,)))
    middle = x * 2
    built_before = middle + 1
    middle.realize()
    assert len(built_before.schedule()) == 1
    assert recall(built_before._current().src[0]) is not None
    assert len(middle.schedule()) == 0
    node = weakref.ref((x * 5)._current())
    gc.collect()
    assert node() is None  # nothing keeps a graph that nobody can reach


def test_a_loop_keeps_no_history():
    state = Tensor(numbers((4, 4)))
    for _ in range(5):
        state = (state * 0.5 + 1)[0:4].realize()
        assert len(state._current().toposort()) <= 3
    row = Tensor(numbers((4,)))
    for _ in range(5):
        whole = row.expand(3, 4) + 1
        row = whole[1].realize()
        assert len(row._current().toposort()) <= 4


def test_several_are_computed_together():
    x = Tensor(numbers((4,)))
    one, other = x + 1, x.sum()
    assert one.realize(other) is one
    assert not one.schedule(other)


def test_copies_do_not_share_but_shallow_ones_do():
    x = Tensor([1.0, 2.0])
    clone, deep, shallow = x.clone(), copy.deepcopy(x), copy.copy(x)
    x += 1
    assert [t.tolist() for t in (clone, deep, shallow)] == [[1, 2], [1, 2], [2, 3]]


def test_deep_copies_and_pickles_stay_tied():
    x = Tensor([1.0, 2.0, 3.0]) * 2
    weight = Tensor([4.0], requires_grad=True)
    weight.grad = Tensor([7.0])
    for duplicate in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        whole, view, same, leaf = duplicate([x, x[1:], x, weight])
        assert whole is same
        view.zero_()
        assert whole.tolist() == [2, 0, 0]
        assert leaf.requires_grad
        assert leaf.is_leaf
        assert leaf.grad.tolist() == [7]
        (leaf * 2).sum().backward()
        assert leaf.grad.tolist() == [9]
    assert x.tolist() == [2, 4, 6]
    assert weight.grad.tolist() == [7]
    assert isinstance(weakref.ref(x)(), Tensor)


def test_schedules_change_nothing():
    x = Tensor(numbers((4, 4)))
    y = (x + 4).contiguous() + 3
    assert len(y.schedule()) == len(y.schedule()) == 2
    assert len(y.schedule()) == 2
    items, values = x[: torpor.Variable("rows", 1, 4).bind(2)].sum().schedule_with_vars()
    assert len(items) == 1
    assert values == {"rows": 2}


def test_lower_compiles_without_running():
    (program,) = torpor.lower((Tensor.empty(4, 4) + 4) + 3, target="c")
    assert program.target == "c"
    assert program.source


def test_to_takes_devices_and_formats():
    x = Tensor([1.0, 2.0])
    assert x.to("float64").dtype.name == "float64"
    moved = x.to("PYTHON", dtype="int32")
    assert (moved.device, moved.dtype.name) == ("PYTHON", "int32")
    assert x.to("CPU") is x
    check(moved + 1, np.array([2, 3], np.int32))
    check(x.to(moved), np.array([1, 2], np.int32))


def test_a_constant_computed_on_one_device_is_not_used_on_another():
    Tensor.full((37,), 5.0).realize()
    interpreted = Tensor(np.arange(37, dtype=np.float32), device="PYTHON")
    np.testing.assert_array_equal(
        (interpreted + Tensor.full((37,), 5.0, device="PYTHON")).numpy(), np.arange(37) + 5
    )


def test_a_memoryview_has_no_bfloat16():
    with pytest.raises(TypeError, match="bitcast"):
        Tensor([1.5], dtype="bfloat16").data()


def test_a_view_of_a_parameter_is_no_leaf_whatever_its_shape():
    for see in (lambda x: x.view(x.shape), lambda x: x.reshape(-1), lambda x: x[:], Tensor.T.fget):
        x = Tensor([1.0, 2.0], requires_grad=True)
        seen = see(x)
        assert (x.is_leaf, seen.is_leaf) == (True, False)
        (seen * Tensor([3.0, 4.0])).sum().backward()
        assert x.grad.tolist() == [3, 4]
