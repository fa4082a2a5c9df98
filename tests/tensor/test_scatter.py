import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from tests.devices import needs
from tests.tensor.layouts import check
from torpor import Device, Tensor, dtypes

RANDOM = np.random.default_rng(5)
COMBINE = {
    "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, None: None,
}  # fmt: skip


def one_by_one(base, axis, index, values, reduce=None):
    """The meaning of scatter: one update after the other."""
    found = np.array(base)
    for place in np.ndindex(index.shape):
        at = (*place[:axis], index[place], *place[axis + 1 :])
        combine = COMBINE[reduce]
        found[at] = values[place] if combine is None else combine(found[at], values[place])
    return found


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_scatter_is_one_update_after_the_other(data):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    reduce = data.draw(st.sampled_from(list(COMBINE)))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    sizes = [
        data.draw(st.integers(0, 9)) if a == axis else data.draw(st.integers(1, s))
        for a, s in enumerate(shape)
    ]
    index = random.integers(0, shape[axis], sizes)
    base, values = random.integers(-9, 9, shape), random.integers(-9, 9, sizes)
    wanted = one_by_one(base, axis, index, values, reduce)
    x, i, v = Tensor(base), Tensor(index), Tensor(values)
    made = x.scatter(axis, i, v) if reduce is None else x.scatter_reduce(axis, i, v, reduce)
    np.testing.assert_array_equal(made.numpy(), wanted)


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint16", "uint64", "float16", "bfloat16", "float32", "float64"]
)
def test_formats(name):
    dtype = getattr(dtypes, name)
    index = np.array([2, 0, 2, 2, 5])
    base, values = np.array([1, 0, 1, 1, 0, 1]), np.array([1, 1, 0, 1, 1])
    x, v = Tensor(base).cast(dtype), Tensor(values).cast(dtype)
    added = x.scatter_add(0, Tensor(index), v)
    assert added.dtype is dtype
    wanted = one_by_one(base, 0, index, values, "sum")
    wanted = wanted > 0 if dtype is dtypes.bool else wanted
    np.testing.assert_array_equal(added.cast(dtypes.float64).numpy(), wanted)
    stored = x.scatter(0, Tensor(index), v).cast(dtypes.float64)
    np.testing.assert_array_equal(stored.numpy(), one_by_one(base, 0, index, values))


def test_sums_add_up_in_the_order_of_the_index():
    values = (RANDOM.standard_normal(3000) * 10.0 ** RANDOM.integers(-6, 6, 3000)).astype("f4")
    index = RANDOM.integers(0, 3, 3000)
    found = Tensor.zeros(3).scatter_add(0, Tensor(index), Tensor(values)).numpy()
    np.testing.assert_array_equal(found, one_by_one(np.zeros(3, "f4"), 0, index, values, "sum"))


@pytest.mark.parametrize("device", ["CPU", "PYTHON", "OPENCL"])
def test_every_device(device):
    needs(device)
    base, values = RANDOM.standard_normal((6, 24)), RANDOM.standard_normal((40, 24))
    index = RANDOM.integers(0, 6, (40, 1))
    x, v = Tensor(base, device=device), Tensor(values, device=device)
    made = x.index_add(0, Tensor(index[:, 0], device=device), v)
    wanted = one_by_one(base, 0, np.broadcast_to(index, (40, 24)), values, "sum")
    check(made, wanted)


def test_without_the_tensor_itself():
    x, index = Tensor([1.0, 2.0, 3.0]), Tensor([0, 0, 2])
    src = Tensor([5.0, -7.0, 1.0])
    cases = {"sum": [-2, 2, 1], "prod": [-35, 2, 1], "amax": [5, 2, 1], "amin": [-7, 2, 1]}
    for reduce, wanted in cases.items():
        check(x.scatter_reduce(0, index, src, reduce, include_self=False), np.array(wanted, "f4"))
    check(x.scatter_reduce(0, index, src, "mean"), np.array([-1 / 3, 2, 2], "f4"))
    check(x.scatter_reduce(0, index, src, "mean", False), np.array([-1, 2, 1], "f4"))


def test_slices():
    x, index = np.arange(12.0).reshape(3, 4), np.array([2, 0, 2])
    source = RANDOM.standard_normal((3, 4))
    wanted = x.copy()
    np.add.at(wanted, index, source * 2)
    check(Tensor(x).index_add(0, Tensor(index), Tensor(source), alpha=2), wanted)
    few = Tensor(np.array([100, 100]))
    check(Tensor([1, 2]).index_add(0, Tensor([0, 0]), few, alpha=3), np.array([601, 2]))
    with pytest.raises(TypeError, match="whole"):
        Tensor([1, 2]).index_add(0, Tensor([0, 0]), few, alpha=0.5)
    wanted = x.copy()
    wanted[:, index] = source[:, :3]
    check(Tensor(x).index_copy(1, Tensor(index), Tensor(source[:, :3].copy())), wanted)
    wanted[:, [1, 0]] = 7
    check(Tensor(wanted.copy()).index_fill(1, Tensor([1, 0]), 7), wanted)
    made = Tensor(x)
    made.index_add_(0, Tensor(index), Tensor(source))
    made.index_put_((Tensor([0, 0]), Tensor([1, 1])), Tensor([1.0, 1.0]).double(), accumulate=True)
    wanted = x.copy()
    np.add.at(wanted, index, source)
    wanted[0, 1] += 2
    check(made, wanted)


KEYS = [
    [0, 2, 2], (slice(None), [3, 0]), ([1, 2, 1], [0, -1, 0]), ([1, 2], slice(None), [0, 2]),
    (slice(0, 3, 2), [1, 1, 4], slice(None, None, -1)), (0, [[1, 3], [0, 0]]), (Ellipsis, [0, 2]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_writes_through_index_tensors(key):
    array = RANDOM.standard_normal((4, 5, 3))
    values = RANDOM.standard_normal(array[tuple(key) if isinstance(key, tuple) else key].shape)
    made = Tensor(array)
    seen = made[1]
    made[key] = Tensor(values)
    array[key] = values
    check(made, array)
    check(seen, array[1])


@pytest.mark.parametrize("reduce", [None, "sum", "prod", "amax"])
def test_gradients(reduce):
    base, values = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((3, 5))
    index = Tensor(RANDOM.integers(0, 4, (3, 5)))
    if reduce == "prod":
        base[0, 0] = values[1, :2] = 0
    weight = Tensor(RANDOM.standard_normal((3, 4)))

    def function(x, v):
        v = v * v - 1 if reduce != "prod" else v
        made = x.scatter(1, index, v) if reduce is None else x.scatter_reduce(1, index, v, reduce)
        return (made * made * weight).sum()

    arguments = Tensor(base, requires_grad=True), Tensor(values, requires_grad=True)
    found = [g.numpy() for g in function(*arguments).gradient(*arguments)]
    for which, array in enumerate((base, values)):
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [base.copy(), values.copy()]
                moved[which][place] += step
                ends.append(function(*map(Tensor, moved)).item())
            np.testing.assert_allclose(found[which][place], (ends[0] - ends[1]) / 2e-5, atol=1e-6)


def test_the_gradient_of_an_embedding_is_one_kernel():
    weight = Tensor(RANDOM.standard_normal((50, 32)).astype("f4"), requires_grad=True)
    index, scale = RANDOM.integers(0, 50, 400), RANDOM.standard_normal((400, 32)).astype("f4")
    (grad,) = (weight[Tensor(index)] * Tensor(scale)).sum().gradient(weight)
    assert len(grad.schedule()) == 1
    wanted = np.zeros((50, 32))
    np.add.at(wanted, index, scale)
    check(grad, wanted.astype("f4"))


def test_rows_are_copied_as_blocks_and_added_by_vectors():
    weight, index = Tensor.zeros(50, 64), Tensor(np.arange(30))
    (program,) = torpor.lower(weight.contiguous().realize()[index])
    # What LLVM makes of a plain loop over a row: a call, or copies by vector registers.
    assembly = str(Device["CPU"].compiler.assembly(program))
    assert re.search(r"memcpy|[yz]mm\d|\bld[pr]\s+q\d", assembly)
    (program,) = torpor.lower(
        weight.index_add(0, index, Tensor.ones(30, 64).contiguous().realize())
    )
    assert "fadd" in program.source and "x float>" in program.source


def test_places_outside_raise_and_leave_the_tensor_as_it_was():
    x = Tensor([1.0, 2.0, 3.0])
    y = x.clone().realize()
    with pytest.raises(IndexError, match="out of bounds"):
        x.scatter_add(0, Tensor([0, 3]), Tensor([1.0, 1.0])).numpy()
    with pytest.raises(IndexError):
        y.index_add(0, Tensor([-4]), Tensor([1.0])).numpy()
    check(y, np.array([1, 2, 3], "f4"))
    with pytest.raises(IndexError):
        Tensor.zeros(0).scatter(0, Tensor([0]), Tensor([1.0]))


OUTSIDE = {
    "gather": lambda x, place: x.gather(0, Tensor([[0, place, 0]])),
    "scatter": lambda x, place: x.scatter(0, Tensor([[0, place, 0]]), x),
    "scatter_add": lambda x, place: x.scatter_add(0, Tensor([[0, place, 0]]), x),
    "scatter_reduce": lambda x, place: x.scatter_reduce(0, Tensor([[0, place, 0]]), x, "amax"),
    "index_add": lambda x, place: x.index_add(0, Tensor([0, place]), x),
    "index_fill": lambda x, place: x.index_fill(0, Tensor([0, place]), 1.0),
    "index_copy": lambda x, place: x.index_copy(0, Tensor([0, place]), x),
    "index_reduce": lambda x, place: x.index_reduce(0, Tensor([0, place]), x, "prod"),
    "index_select": lambda x, place: x.index_select(0, Tensor([0, place])),
}
FROM_END = {
    "take": lambda x, place: x.reshape(-1)[:2].take(Tensor([0, place])),
    "take_along_dim": lambda x, place: x.take_along_dim(Tensor([[0, place, 0]]), 0),
    "x[...]": lambda x, place: x[Tensor([0, place])],
}


@pytest.mark.parametrize("place", [-9, 9])
@pytest.mark.parametrize("name", OUTSIDE | FROM_END)
def test_an_index_outside_is_told_in_the_same_words(name, place):
    called = "" if name == "x[...]" else f"^{name}: "
    words = "an index is out of bounds for axis 0 of length 2"
    with pytest.raises(
        IndexError, match=rf"{called}{words}: {place}\n  built at .*test_scatter.py"
    ):
        (OUTSIDE | FROM_END)[name](Tensor(np.ones((2, 3))), place).numpy()


@pytest.mark.parametrize("place", [-1, -2])
@pytest.mark.parametrize("name", OUTSIDE)
def test_negative_indices_do_not_count_from_the_end(name, place):
    """Only where PyTorch counts them so."""
    with pytest.raises(IndexError, match=f"^{name}: an index is out of bounds"):
        OUTSIDE[name](Tensor(np.ones((2, 3))), place).numpy()


def test_gradients_do_not_count_from_the_end_either():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    (found,) = x.gather(1, Tensor([[0, -1]])).sum().gradient(x)
    with pytest.raises(IndexError, match="gather: an index is out of bounds"):
        found.numpy()


def test_where_negative_indices_count_from_the_end():
    x = np.arange(6.0).reshape(2, 3)
    index = Tensor([[-1, 0], [1, -3]])
    check(Tensor(x).take(Tensor([-1, 2, -6])), np.array([5.0, 2, 0]))
    check(Tensor(x).take_along_dim(index, 1), np.array([[2.0, 0], [4, 3]]))
    check(Tensor(x).index_put((Tensor([-1]), Tensor([-2])), Tensor([9.0]).double()),
          np.array([[0.0, 1, 2], [3, 9, 5]]))  # fmt: skip
    check(Tensor(x)[Tensor([-1])], x[[-1]])
    for beyond in (
        Tensor(x).take(Tensor([-7])), Tensor(x).take_along_dim(Tensor([[-4], [0]]), 1),
        Tensor(x).take_along_dim(Tensor([-1])),
    ):  # fmt: skip
        with pytest.raises(IndexError, match="out of bounds"):
            beyond.numpy()


def test_the_axis_is_the_users_where_the_index_covers_a_box():
    with pytest.raises(IndexError, match=r"scatter: .* axis 1 of length 3"):
        Tensor(np.ones((2, 3))).scatter(1, Tensor([[9]]), 1.0).numpy()


def test_refusals():
    x = Tensor.zeros(3, 4)
    with pytest.raises(torpor.base.errors.ShapeError, match="index of 2 axes"):
        x.scatter(0, Tensor([1]), 1.0)
    with pytest.raises(torpor.base.errors.ShapeError, match="short of"):
        x.scatter(0, Tensor([[1, 2]]), Tensor([[1.0]]))
    with pytest.raises(torpor.base.errors.DTypeError, match="reduce is one of"):
        x.scatter_reduce(0, Tensor([[1]]), 1.0, "median")
    with pytest.raises(torpor.base.errors.DTypeError, match="holds integers"):
        x.index_fill(0, Tensor([1.0]), 1.0)
    with pytest.raises(torpor.base.errors.DTypeError, match="holds integers"):
        x.take(Tensor([1.0]))


def test_empty_and_single():
    check(Tensor.ones(3).scatter_add(0, Tensor(np.zeros(0, int)), Tensor([])), np.ones(3, "f4"))
    check(Tensor(2.0).scatter_add(0, Tensor(0), Tensor(3.0)), np.array(5, "f4"))
    check(Tensor(2.0).gather(0, Tensor(0)), np.array(2, "f4"))
    check(Tensor(np.zeros((0, 3))).index_add(1, Tensor([0]), Tensor(np.zeros((0, 1)))),
          np.zeros((0, 3)))  # fmt: skip


def test_along_an_axis():
    x = RANDOM.standard_normal((3, 1, 4))
    index = RANDOM.integers(0, 4, (1, 5, 2))
    wanted = np.take_along_axis(np.broadcast_to(x, (3, 5, 4)), np.broadcast_to(index, (3, 5, 2)), 2)
    check(Tensor(x).take_along_dim(Tensor(index), 2), wanted)


@pytest.mark.parametrize("classes", [[0, 3], [-1, 0]])
def test_one_hot_refuses_classes_that_there_are_not(classes):
    with pytest.raises(IndexError, match="class"):
        Tensor(classes).one_hot(3).tolist()
    with pytest.raises(IndexError, match="class"):
        Tensor([-2, -1]).one_hot().tolist()


NAMES = ("scatter", "scatter_add", "index_add", "index_copy", "index_put", "masked_scatter")


@pytest.mark.parametrize("name", [*NAMES, "scatter_reduce", "index_reduce"])
def test_values_of_another_format_are_refused(name):
    x, index, values = Tensor.ones(3), Tensor([0, 2]), Tensor([5, 6])
    more = ("amax",) if name.endswith("reduce") else ()
    given = {
        "index_put": ((index,),),
        "masked_scatter": (Tensor([True, False, True]),),
    }.get(name, (0, index))
    with pytest.raises(TypeError, match=r"float32.*int64"):
        getattr(x, name)(*given, values, *more)
    written = getattr(x, name)(*given, values.float(), *more)
    summed = [6.0, 1.0, 7.0] if name.endswith("add") else [5.0, 1.0, 6.0]
    assert written.tolist() == summed


def test_slices_that_do_not_fit_the_index_are_refused():
    x, index = Tensor.ones(3, 2), Tensor([0, 1])
    for source in (Tensor.ones(1, 2), Tensor.ones(2), Tensor(1.0)):
        with pytest.raises(ValueError, match="source"):
            x.index_add(0, index, source)
        with pytest.raises(ValueError, match="source"):
            x.index_copy(0, index, source)
    with pytest.raises(ValueError, match="0-d"):
        x.index_fill(0, index, Tensor([1.0]))
    with pytest.raises(ValueError, match="0-d"):
        x.masked_fill(x > 0, Tensor([1.0]))
    with pytest.raises(TypeError, match="holds bools"):
        x.masked_fill(x.cast("uint8"), 1.0)
    with pytest.raises(TypeError, match="integers"):
        x.take(Tensor([1.0]))


def test_tensors_without_axes_are_vectors_of_one():
    x, one = Tensor([1.0, 2.0, 3.0]), Tensor(1)
    assert x.gather(0, one).tolist() == 2.0
    assert Tensor(5.0).gather(0, Tensor([0, 0])).tolist() == [5.0, 5.0]
    assert Tensor(5.0).index_select(0, Tensor([0])).tolist() == 5.0
    assert x.scatter(0, one, Tensor(9.0)).tolist() == [1.0, 9.0, 3.0]
    assert Tensor(1.0).scatter(0, Tensor([0]), Tensor([9.0])).tolist() == 9.0
    assert x.scatter_add(0, one, Tensor(9.0)).tolist() == [1.0, 11.0, 3.0]
    assert x.scatter_reduce(0, one, Tensor(9.0), "amax").tolist() == [1.0, 9.0, 3.0]
    assert Tensor(1.0).index_add(0, Tensor([0]), Tensor(2.0)).tolist() == 3.0
    assert Tensor(1.0).index_copy(0, Tensor(0), Tensor([2.0])).tolist() == 2.0
    assert Tensor(1.0).index_fill(0, Tensor(0), 7).tolist() == 7.0
    assert Tensor(3.0).index_reduce(0, Tensor([0]), Tensor(2.0), "prod").tolist() == 6.0
    assert x.index_fill(0, one, Tensor(4)).tolist() == [1.0, 4.0, 3.0]


def test_indices_and_masks_may_be_lists_and_arrays_and_nothing_else():
    x = Tensor([1.0, 2.0, 3.0])
    for index in ([2, 0], np.array([2, 0])):
        assert x.gather(0, index).tolist() == x.index_select(0, index).tolist() == [3.0, 1.0]
        assert x.scatter(0, index, Tensor([5.0, 6.0])).tolist() == [6.0, 2.0, 5.0]
        assert x.index_add(0, index, Tensor([5.0, 6.0])).tolist() == [7.0, 2.0, 8.0]
        assert x.scatter_reduce(0, index, Tensor([5.0, 6.0]), "mean").tolist() == [3.5, 2.0, 4.0]
    for mask in ([True, False, True], np.array([True, False, True])):
        assert x.masked_fill(mask, 0.0).tolist() == [0.0, 2.0, 0.0]
        assert x.masked_select(mask).tolist() == [1.0, 3.0]
    for call in (x.take, x.masked_select, lambda i: x.gather(0, i), lambda i: x.index_select(0, i)):
        with pytest.raises(TypeError, match="no tensor can be made of"):
            call("text")


def test_what_fills_fits():
    mask = Tensor([True, False])
    with pytest.raises(TypeError, match="does not fit"):
        Tensor([1, 2], dtype="uint8").masked_fill(mask, 256)


def test_classes_of_nothing_are_not_known():
    with pytest.raises(ValueError, match="no elements"):
        Tensor.zeros(4, 0, dtype="int64").one_hot()


def test_no_places_are_gathered_along_whatever_axes():
    nothing = Tensor(np.zeros((2, 0), np.int64))
    assert Tensor([1.0, 2.0]).gather(0, nothing).shape == (2, 0)


@pytest.mark.parametrize("dim", [0, -1])
def test_a_number_is_a_vector_of_one_along_its_last_axis_too(dim):
    one, places = Tensor(5), Tensor([0, 0, 0])
    assert one.gather(dim, places).tolist() == [5, 5, 5]
    assert one.scatter(dim, places, 2).item() == 2
    assert one.scatter_add(dim, places, Tensor([1, 1, 1])).item() == 8
    assert one.index_select(dim, Tensor([0])).item() == 5
    assert one.index_add(dim, Tensor([0]), Tensor([1])).item() == 6


def test_products_have_second_gradients_beside_zeros():
    """The product is linear in each factor, so that differences of it are exact."""
    random, place = np.random.default_rng(3), np.array([0, 1, 2, 0])
    base = np.array([[0.0, 13.0], [0.0, 0.0], [15.0, 19.0]])
    values = np.array([[2.0, 0.0], [0.0, 0.0], [2.0, 3.0], [2.0, 2.0]])
    weights, ways = random.uniform(0.5, 1.5, (3, 2)), random.uniform(0.5, 1.5, (7, 2))

    def total(*raised):
        factors = np.concatenate([base, values])
        for one in raised:
            factors[one] += 1
        made = factors[:3].copy()
        np.multiply.at(made, place, factors[3:])
        return (made * weights).sum()

    def mixed(one, other):
        return total(one, other) - total(one) - total(other) + total()

    both = [Tensor(one, requires_grad=True) for one in (base, values)]
    made = both[0].index_reduce(0, Tensor(place), both[1], "prod")
    slopes = Tensor.cat((made * Tensor(weights)).sum().gradient(*both))
    found = Tensor.cat((slopes * Tensor(ways)).sum().gradient(*both)).numpy()
    places = [*np.ndindex(7, 2)]
    for one in places:
        expected = sum(ways[other] * mixed(one, other) for other in places if other != one)
        np.testing.assert_allclose(found[one], expected, rtol=1e-9, atol=1e-9)
