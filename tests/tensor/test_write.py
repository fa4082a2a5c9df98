"""Views alias: random programs of views and writes give what NumPy's views give."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torpor
from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.base.errors import GradientError, ShapeError
from torpor.nn import functional


@st.composite
def movement(draw, shape):
    """A view of an array of `shape`: (what torpor calls, what NumPy calls)."""
    kinds = ["slice", "transpose", "reshape", "newaxis", "integer", "flatten"]
    kind = draw(st.sampled_from(kinds))
    if kind == "slice" and shape:
        key = []
        for size in shape:
            start = draw(st.integers(-size - 1, size + 1))
            stop = draw(st.integers(-size - 1, size + 1))
            key.append(slice(start, stop, draw(st.sampled_from([1, 1, 2, 3, -1, -2]))))
        return (lambda x: x[tuple(key)]), (lambda a: a[tuple(key)])
    if kind == "transpose" and shape:
        order = draw(st.permutations(range(len(shape))))
        return (lambda x: x.permute(*order)), (lambda a: a.transpose(order))
    if kind == "reshape" and len(shape) > 1 and shape[0] > 1:
        # joins two axes: NumPy copies where it has no view, so only whole arrays are reshaped
        return (lambda x: x.unsqueeze(0).squeeze(0)), (lambda a: a)
    if kind == "integer" and shape and shape[0]:
        place = draw(st.integers(-shape[0], shape[0] - 1))
        return (lambda x: x[place]), (lambda a: a[place, ...])  # also of one axis a view
    return (lambda x: x[..., None]), (lambda a: a[..., None])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs_of_views_and_writes(data):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensors, arrays = [Tensor(array)], [array.copy()]
    for number in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(arrays) - 1))
        if data.draw(st.booleans()):
            ours, theirs = data.draw(movement(arrays[place].shape))
            tensors.append(ours(tensors[place]))
            arrays.append(theirs(arrays[place]))
            assert np.shares_memory(arrays[-1], arrays[0]) or not arrays[-1].size
        elif data.draw(st.booleans()) and arrays[place].ndim:
            tensors[place] += number + 1
            arrays[place][...] += number + 1
        else:
            source = data.draw(st.integers(0, len(arrays) - 1))
            if arrays[source].shape == arrays[place].shape:
                tensors[place].copy_(tensors[source])
                arrays[place][...] = arrays[source].copy()
            else:
                tensors[place].fill_(-number)
                arrays[place][...] = -number
        if data.draw(st.integers(0, 3)) == 0:
            tensors[place].realize()
    for tensor, expected in zip(tensors, arrays):
        check(tensor, expected)


VIEWS = {
    "reshape": lambda x: x.reshape(6, 4),
    "transpose": lambda x: x.mT,
    "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x[0].diagonal(),
    "split": lambda x: x.split(1)[1],
    "flatten": lambda x: x.flatten(),
    "unbind": lambda x: x.unbind(2)[1],
    "bitcast": lambda x: x.bitcast("float32").unsqueeze(0),
    "unfold": lambda x: x[0],
    "chunk": lambda x: x.chunk(2, 2)[0],
    "movedim": lambda x: x.movedim(0, 2),
    "expand": lambda x: x.expand(2, 3, 4),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_and_copies_do_not(name):
    x = Tensor(np.zeros((2, 3, 4), np.float32))
    kept = x.clone(), x.contiguous(), x[[0, 1]], x + 0
    VIEWS[name](x).fill_(1)
    assert x.sum().item() == VIEWS[name](x).size > 0
    assert [int(copy.sum().item()) for copy in kept] == [0, 0, 0, 0]


def test_reads_before_a_write_see_the_old_value():
    x = Tensor([1.0, 2.0, 3.0])
    before = x * 10
    x[1] = 7
    after = x * 10
    check(after, np.array([10, 70, 30], np.float32))
    check(before, np.array([10, 20, 30], np.float32))


def test_a_write_may_read_what_it_overwrites():
    x, a = Tensor(np.arange(6)), np.arange(6)
    x[1:] = x[:-1]
    a[1:] = a[:-1].copy()
    check(x, a)
    x[::-1] += x
    check(x, a + a[::-1])


def test_keys_with_index_tensors_and_masks():
    array = np.zeros((4, 5), np.float32)
    x = Tensor(array)
    x[Tensor([0, 2]), Tensor([1, -1])] = Tensor([3.0, 4.0])
    array[[0, 2], [1, -1]] = [3, 4]
    x[[1, 3]] = 2.0
    array[[1, 3]] = 2
    x[x > 2.5] = -1
    array[array > 2.5] = -1
    x[:, [0, 0]] = Tensor([[5.0, 6.0]])  # the last of two writes to one place wins
    array[:, 0] = 6
    check(x, array)
    x[[7]] = 0.0
    with pytest.raises(IndexError):
        x.numpy()


def test_in_place_forms():
    array = numbers((3, 4), low=0.5)
    x = Tensor(array)
    view = x[0]
    x.add_(1).mul_(2).sub_(0.5).clamp_(0, 5).sqrt_()
    x += 1
    x *= 2
    x /= 3
    x -= 0.25
    expected = np.sqrt(np.clip((array + 1) * 2 - np.float32(0.5), 0, 5))
    expected = (expected + 1) * 2 / 3 - np.float32(0.25)
    check(x, expected.astype(np.float32), 1e-5)
    check(view, expected[0].astype(np.float32), 1e-5)
    x.zero_()
    check(view, np.zeros(4, np.float32))


def test_values_are_broadcast_and_cast():
    x = Tensor(np.zeros((2, 3), np.int32))
    x[:] = Tensor([1.9, 2.9, 3.9])
    check(x, np.array([[1, 2, 3], [1, 2, 3]], np.int32))
    x[1] = [7, 8, 9]
    check(x, np.array([[1, 2, 3], [7, 8, 9]], np.int32))


def test_nothing_is_written_to_an_expanded_view_without_elements():
    x = Tensor(np.zeros((1, 0, 5)))
    y = x.expand(3, 0, 5)
    y[..., 1:3] = 1
    y += 1
    assert x.shape == (1, 0, 5) and y.tolist() == [[], [], []]


def test_one_place_of_an_expanded_axis_can_be_written_to():
    x = Tensor(np.zeros((2, 3), np.float32))
    x[:1].expand(4, 3)[2] = 1.0
    wide = x.expand(5, 2, 3)
    seen = wide[-1]
    seen[..., 1:] -= 2
    x[:, :1].expand(2, 4)[1, 3] = 7.0
    expected = np.array([[1, -1, -1], [7, -2, -2]], np.float32)
    check(x, expected)
    check(seen, expected)
    check(wide, np.broadcast_to(expected, (5, 2, 3)))
    with pytest.raises(ValueError, match="expanded"):
        wide[0:2, 0] = 1.0
    long = Tensor(np.zeros((1, 1000)))
    long.expand(3, 1000)[1] += 1
    none = long.reshape(1, 1, 1000).expand(1, 4, 1000)[0:0, 1]
    none += 1
    assert none.shape == (0, 1000) and long.sum().item() == 1000


def test_writes_that_cannot_be_raise_at_the_call():
    x = Tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="does not fit"):
        x[0] = Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="expanded"):
        x[:1].expand(4, 3)[:2] = 1.0
    with pytest.raises(TypeError, match="in place"):
        Tensor([1, 2]).add_(0.5)
    with pytest.raises(ValueError, match="in-place result"):
        Tensor([1.0]).add_(Tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="assign needs"):
        x.assign(Tensor([1.0]))
    check(x, np.zeros((2, 3), np.float32))


def test_leaves_are_not_written_to_while_gradients_are_recorded():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    for write in (lambda: weight.add_(1), lambda: weight[0].fill_(1), lambda: weight.zero_()):
        with pytest.raises(RuntimeError, match="no_grad"):
            write()
    with torpor.no_grad():
        weight += 1
    check(weight, np.array([2, 3], np.float32))
    assert weight.requires_grad
    assert weight.is_leaf


def test_host_memory_is_shared_both_ways():
    array = np.arange(4.0)
    x = Tensor.from_numpy(array)
    doubled = x * 2
    x[1:] += 10
    assert array.tolist() == [0, 11, 12, 13]
    check(doubled, np.array([0.0, 2, 4, 6]))
    array[0] = -1
    check(x, array)
    copy = x.clone()
    array[0] = 5
    assert copy.numpy()[0] == -1
    snapshot = Tensor(array)
    array[0] = 6
    assert snapshot.numpy()[0] == 5
    every_second = Tensor.from_numpy(array[::2])
    every_second.mul_(3).realize()
    assert array.tolist() == [18, 11, 36, 13]
    with pytest.raises(ValueError, match="copy"):
        Tensor.from_numpy(array[::-1])


def test_other_libraries_share_memory_by_dlpack():
    array = np.arange(3.0)
    x = Tensor.from_dlpack(array)
    x *= 2
    assert array.tolist() == [0, 2, 4]
    assert np.from_dlpack(Tensor([1.0, 2.0]) + 1).tolist() == [2, 3]
    assert np.shares_memory(x.numpy(copy=False), array)


def test_results_go_where_out_says():
    x, out = Tensor([1.0, 2.0]), Tensor([0.0, 0.0])
    assert torpor.add(x, 1, out=out) is out
    check(out, np.array([2, 3], np.float32))
    with pytest.raises(ValueError, match="in-place result"):
        torpor.add(x, 1, out=Tensor([0.0]))


def test_numpy_gives_arrays_that_nothing_changes_later():
    x = Tensor([1.0, 2.0])
    taken = x.numpy()
    x += 1
    x.realize()
    assert taken.tolist() == [1, 2]
    taken[0] = 9
    assert x.tolist() == [2, 3]


def test_only_one_number_fills():
    x = Tensor.zeros(2, 3)
    for value in (Tensor([1.0]), Tensor([1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match="0-d"):
            x.fill_(value)
    assert x.fill_(Tensor(2)).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("key", [0, slice(None), [0], Tensor([True, False])], ids=str)
def test_integers_that_do_not_fit_are_not_written(key):
    x = Tensor([1, 2], dtype="uint8")
    for number in (256, -1):
        with pytest.raises(TypeError, match="does not fit"):
            x[key] = number
    with pytest.raises(TypeError, match="does not fit"):
        x.fill_(256)
    assert x.tolist() == [1, 2]
    x[key] = 255
    assert x.tolist()[0] == 255


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x**1, lambda x: x.abs(), lambda x: x.floor(), lambda x: x.ceil(),
        lambda x: x.trunc(), lambda x: x.round(), lambda x: x.nan_to_num(), lambda x: x.diff(0),
        lambda x: x.pad((0, 0)), lambda x: x.roll(0), lambda x: x.repeat(1), lambda x: x.sum(()),
        lambda x: x.clamp(0, 9), lambda x: x * 1, lambda x: x.reshape(3, 1).amax(1),
        lambda x: x[0].topk(1).values, lambda x: x[0].median(0).values,
        lambda x: x[0].mode().values, lambda x: x.pad((0, -1), "replicate"),
        lambda x: functional.pixel_shuffle(x.reshape(1, 1, 3), 1), lambda x: x.contiguous(),
        lambda x: x[:1].logcumsumexp(0), lambda x: x[:1].cumsum(0),
        lambda x: functional.pixel_unshuffle(x.reshape(1, 1, 3), 1),
    ],
)  # fmt: skip
def test_results_are_no_views_though_nothing_was_to_be_done(function, dtype):
    x = Tensor([1, 2, 3]).cast(dtype)
    made = function(x)
    made += 5
    assert x.tolist() == [1, 2, 3]


def test_views_in_place_change_the_tensor_and_not_its_others():
    x = Tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
    other = x[0]
    assert x.squeeze_(0) is x and x.shape == (2, 3)
    assert x.t_().shape == (3, 2) and other.shape == (2, 3)
    x[0] = 9
    assert other.tolist() == [[9, 2, 3], [9, 5, 6]]
    assert x.unsqueeze_(1).transpose_(0, 2).shape == (2, 1, 3)
    z = Tensor([[1j, 2.0]])
    assert z.t_().shape == (2, 1) and z.squeeze_().tolist() == [1j, 2]


def test_gradients_flow_through_views_in_place_and_leaves_refuse_them():
    x = Tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    with pytest.raises(GradientError, match="t_ would make another view of a leaf"):
        x.t_()
    y = x * 2
    y.t_()[0] = 0
    y.sum().backward()
    assert x.grad.tolist() == [[0, 2, 2]]


UNSEEN = {
    "no_grad": (lambda y: torpor.no_grad(y.clamp_)(max=4), [2, 4, 4]),
    "data": (lambda y: y.data.clamp_(max=4), [2, 4, 4]),
    "detach": (lambda y: y.detach().clamp_(max=4), [2, 4, 4]),
    "place": (lambda y: y.data.__setitem__(1, 7), [2, 7, 6]),
    "copy": (lambda y: torpor.no_grad(y.copy_)(Tensor([7.0, 8.0, 9.0])), [7, 8, 9]),
    "view": (lambda y: torpor.no_grad(lambda: y[1:].mul_(2))(), [2, 8, 12]),
    "itself": (lambda y: torpor.no_grad(y.mul_)(y), [4, 16, 36]),
    "other": (lambda y: y.data.copy_(Tensor([7.0, 8.0, 9.0], requires_grad=True)), [7, 8, 9]),
    "rounded": (lambda y: setattr(y, "data", (y.data / 4).round()), [0, 1, 2]),
    "often": (lambda y: [y.data.add_(1) for _ in range(10)], [12, 14, 16]),
}


@pytest.mark.parametrize("in_jit", [False, True])
@pytest.mark.parametrize("name", UNSEEN)
def test_what_no_gradient_sees_is_written_and_the_graph_stays(name, in_jit):
    """As though y were still 2 x: d(y x) = y dx + 2 x dx."""
    change, expected = UNSEEN[name]

    def slope(x):
        y = x * 2
        change(y)
        return y, (y * x).sum().gradient(x)[0]

    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    slope = torpor.jit(slope) if in_jit else slope
    for _ in range(3):
        y, gradient = slope(x)
        assert y.tolist() == expected
        assert gradient.tolist() == [y + 2 * x for x, y in zip([1, 2, 3], expected, strict=True)]


def test_what_is_written_through_a_detached_view_leads_nowhere():
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=True)
    x.data.copy_(w)
    assert not x.requires_grad and x.tolist() == [3, 4]


OVERWRITTEN = {
    "fill_": lambda y: y.fill_(1.0),
    "zero_": lambda y: y.zero_(),
    "copy_": lambda y: y.copy_(Tensor([3.0, 4.0])),
    "setitem": lambda y: y.__setitem__(slice(None), Tensor([3.0, 4.0])),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_what_is_overwritten_has_the_gradient_0(name):
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    OVERWRITTEN[name](y)
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_what_overwrites_has_the_gradient():
    """Also where it is made of what it overwrites: y = x², and then y = w y = w x²."""
    x, w = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    y = x * x
    y.copy_(w * y)
    y.sum().backward()
    assert x.grad.tolist() == [2, 8] and w.grad.tolist() == [1, 4]


def test_what_is_done_in_place_is_a_function_too():
    x = Tensor([-1.0, 2.0])
    assert torpor.abs_(x) is x and torpor.add_(x, 1) is x and x.tolist() == [2, 3]
    assert torpor.zero_(x).tolist() == [0, 0]
    with pytest.raises(AttributeError, match="no 'softly_'"):
        torpor.softly_(x)


def test_data_is_a_view_without_gradients_and_called_the_memory():
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert x.data.fill_(3).tolist() == [3, 3] and not x.data.requires_grad
    x.data[1] = 4
    x.data = x.data * 2
    assert x.tolist() == [6, 8] and x.is_leaf and x.data().tolist() == [6, 8]
    (x * x).sum().backward()
    assert x.grad.tolist() == [12, 16]
    assert isinstance(x.data + 1, Tensor) and not callable(x.data + 1)
    x.data = Tensor([[1.0, 2.0, 3.0]], dtype="float64")
    assert x.tolist() == [[1, 2, 3]] and x.dtype == torpor.float64 and x.is_leaf and x.requires_grad


def test_data_is_written_inside_a_jit():
    @torpor.jit
    def step(x):
        x.data.add_(1)
        return x.data * 2

    x = torpor.zeros(2).realize()
    assert [step(x).tolist() for _ in range(3)] == [[2, 2], [4, 4], [6, 6]]
    assert x.tolist() == [3, 3]


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (7, 3), (8, 3), (2, 2, 2), (0, 3), (1, 1)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled_as_numpys(shape, wrap):
    array = np.zeros(shape, np.float32)
    x = Tensor(array)
    if array.size:
        np.fill_diagonal(array, 5, wrap)
    assert x.fill_diagonal_(5, wrap) is x
    assert (x.numpy() == array).all()
    with pytest.raises(ValueError, match="two axes"):
        Tensor([1.0]).fill_diagonal_(5)


def test_a_function_of_numbers_is_applied_in_place():
    table = Tensor([[1, 2], [3, 4]])
    turned = table.t()
    seen = []
    assert turned.apply_(lambda value: seen.append(value) or value * 2.7) is turned
    assert (seen, table.tolist()) == ([1, 3, 2, 4], [[2, 5], [8, 10]])
    assert all(type(value) is int for value in seen)
    assert Tensor.zeros(0, 2).apply_(abs).shape == (0, 2)
    assert Tensor([True, False]).apply_(lambda value: not value).tolist() == [False, True]
    with pytest.raises(GradientError, match="apply_ of a tensor that requires a gradient"):
        Tensor([1.0], requires_grad=True).apply_(abs)


def test_diagonals_of_more_than_two_axes_are_those_of_cubes():
    with pytest.raises(ShapeError, match="to be of one length"):
        torpor.zeros(3, 4, 3).fill_diagonal_(1)


# --- .data ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("of", [lambda one: one.data, lambda one: one.detach()])
def test_a_value_that_data_was_keeps_where_data_is_set_and_comes_back(jitted, of):
    """Means of weights take the place of weights for a while, as programs for PyTorch have it."""
    weights = Tensor([1.0, 2.0], requires_grad=True)
    mean = Tensor([5.0, 7.0])

    def swapped():
        before = of(weights)
        weights.data = mean
        inside = (weights * 2).sum()
        weights.data = before
        return inside, (weights * 3).sum()

    run = torpor.jit(swapped) if jitted else swapped
    for _ in range(4):
        inside, after = run()
        assert (inside.item(), after.item()) == (24.0, 9.0)
    assert weights.tolist() == [1.0, 2.0] and mean.tolist() == [5.0, 7.0]


@pytest.mark.parametrize("jitted", [False, True])
def test_two_tensors_exchange_their_data(jitted):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])

    def exchange():
        before = a.data
        a.data = b.data
        b.data = before
        return a * 10 + b

    run = torpor.jit(exchange) if jitted else exchange
    for number in range(5):
        assert run().tolist() == [[31.0, 42.0], [13.0, 24.0]][number % 2]


def test_writes_to_data_are_seen_and_what_is_set_later_is_not():
    x = Tensor([1.0, 2.0])
    view = x.data
    view.mul_(3)
    assert x.tolist() == [3.0, 6.0]
    x.data = x.data + 1
    assert (x.tolist(), view.tolist()) == ([4.0, 7.0], [3.0, 6.0])
    view.zero_()
    assert x.tolist() == [4.0, 7.0]
    x.data -= 1
    assert x.tolist() == [3.0, 6.0]
