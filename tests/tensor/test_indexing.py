import math

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, Variable
from torpor.base.errors import ShapeError

KEYS = [
    0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(-1, 0, -2),
    slice(3, 1), slice(-100, 100), (1, 2), (slice(1, None), -1), (Ellipsis, 0), (None, 1),
    (Ellipsis, None), (slice(None, None, 3), None, slice(2, None, -1)), (1, Ellipsis, slice(0,
        2)), (), np.int64(2), (np.int32(-1), slice(1, 4)), (slice(np.int64(1), None), 2, -3),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_basic_keys(key):
    array = numbers((4, 5, 3))
    check(Tensor(array)[key], array[key])


ADVANCED = [
    [0, 2, 1],
    np.array([[1, -1], [0, 3]]),
    (slice(None), [2, 0]),
    ([1, 2], [0, -1]),
    ([[1], [2]], [0, -1]),
    ([1, 2], slice(None), [0, 2]),
    (slice(1, 3), [1, 1, 4], slice(None, None, -1)),
    (0, [1, 3]),
    (Ellipsis, [0, 2]),
    (None, [1]),
    [],
]


@pytest.mark.parametrize("key", ADVANCED, ids=str)
def test_index_tensors(key):
    array = numbers((4, 5, 3))
    wanted = tuple(key) if isinstance(key, tuple) else key
    if isinstance(key, list) and not key:
        wanted = np.array([], np.int64)
        key = Tensor(wanted)
    check(Tensor(array)[key], array[wanted])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((0, slice(None), [0, 1]), lambda x: x[0][:, [0, 1]]),
        ((slice(None), [1, 0], slice(None), 2), lambda x: x[..., 2][:, [1, 0]]),
        (([1, 0], 2, [0, 3]), lambda x: x[:, 2][[1, 0], [0, 3]]),
        ((0, 2, Ellipsis, None, [3, 0]), lambda x: x[0, 2][..., None, [3, 0]]),
        (([1, 0], slice(None), [3, 0], 2), lambda x: x[..., 2][[1, 0], :, [3, 0]]),
    ],
)
def test_an_index_tensor_without_axes_is_a_number(key, expected):
    """What it leaves stands where it would stand without it, as in PyTorch."""
    array = numbers((2, 3, 4, 5))
    key = tuple(Tensor(part) if isinstance(part, int) else part for part in key)
    check(Tensor(array)[key], expected(array))
    written, wanted = Tensor(array.copy()), array.copy()
    written[key] = Tensor(expected(array) + 100)
    places = expected(np.arange(array.size).reshape(array.shape))
    wanted.reshape(-1)[places.reshape(-1)] += 100
    check(written, wanted)


def test_every_layout_can_be_indexed():
    for _, x, a in layouts(numbers((4, 6))):
        if a.ndim == 2 and a.shape[0]:
            check(x[-1, 1:], a[-1, 1:])
            check(x[[0, -1]], a[[0, -1]])


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (4, IndexError, "out of bounds for axis 0 of length 4"),
        ((0, -6), IndexError, "axis 1"),
        ((0, 0, 0), IndexError, "too many"),
        ((Ellipsis, Ellipsis), IndexError, "single ellipsis"),
        ("a", TypeError, "integer tensor"),
        (1.5, TypeError, "integer"),
        (slice(None, None, 0), ValueError, "step cannot be zero"),
        (slice(None, 1.5), TypeError, "slice"),
        ([0.5], IndexError, "integers"),
    ],
)
def test_wrong_keys_raise_at_the_call(key, error, text):
    with pytest.raises(error, match=text):
        Tensor.ones(4, 5)[key]


@pytest.mark.parametrize("index", [[4], [-5], [0, 9]])
def test_indices_out_of_range_raise_when_realised(index):
    made = Tensor.ones(4, 5)[Tensor(index)]
    with pytest.raises(IndexError):
        made.numpy()
    with pytest.raises(IndexError):
        Tensor.ones(4, 5)[Tensor([0]), Tensor([7])].numpy()  # inside the memory, outside the axis


def test_gather_and_its_kin():
    array = numbers((3, 4))
    index = np.array([[0, 1, 2], [3, 3, 0]])
    check(Tensor(array).gather(1, Tensor(index)), np.take_along_axis(array[:2], index, 1))
    check(
        Tensor(array).gather(0, Tensor([[0, 2, 1, 0]])),
        np.take_along_axis(array, np.array([[0, 2, 1, 0]]), 0),
    )
    check(torpor.take(Tensor(array), Tensor([0, -1, 5])), array.take([0, -1, 5]))
    check(Tensor(array).index_select(1, Tensor([3, 0])), array[:, [3, 0]])
    check(Tensor([2, 0]).one_hot(4), np.eye(4, dtype=np.int64)[[2, 0]])
    mask = array > 0
    check(Tensor(array).masked_fill(Tensor(mask), -1), np.where(mask, np.float32(-1), array))
    scattered = np.zeros((3, 4), np.float32)
    np.put_along_axis(scattered, index.T[:, :2], array[:, :2], 1)
    check(Tensor.zeros(3, 4).scatter(1, Tensor(index.T[:, :2].copy()), Tensor(array)), scattered)
    with pytest.raises(TypeError, match="integers"):
        Tensor(array).gather(1, Tensor([[0.5]]))


def test_symbolic_ends():
    length = Variable("length", 1, 8)
    data = np.arange(8, dtype=np.float32)
    for bound in (2, 5, 8):
        cut = Tensor(data)[: length.bind(bound)]
        check(cut, data[:bound])
        check(cut * 2 + 1, data[:bound] * 2 + 1)
        assert cut.sum().item() == data[:bound].sum()
        check(Tensor(data)[:2] + length.bind(bound), data[:2] + bound)
        assert Tensor(data)[length.bind(bound) - 1].item() == data[bound - 1]


def test_iteration_and_length():
    array = numbers((3, 2))
    for row, expected in zip(Tensor(array), array):
        check(row, expected)
    assert len(Tensor(array)) == 3
    for wrong in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            wrong(Tensor(1.0))


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    ("key", "axis", "length"),
    [
        (lambda i: i, 0, 2),
        (lambda i: (slice(None), i), 1, 3),
        (lambda i: (0, slice(None), i), 2, 4),
        (lambda i: (None, 1, i), 1, 3),
        (lambda i: ([0, 1], i), 1, 3),
        (lambda i: (i, slice(None), [0, 3]), 0, 2),
        (lambda i: ([0, 1], [0, 2], i), 2, 4),
    ],
)
def test_an_index_out_of_bounds_names_the_axis(key, axis, length, jitted):
    def place(x, index):
        return x[key(index)] * 2

    array = numbers((2, 3, 4))
    call = torpor.jit(place) if jitted else place
    text = rf"out of bounds for axis {axis} of length {length}: -?\d+\n[\s\S]*test_indexing"
    for outside in (length, -length - 1):
        with pytest.raises(IndexError, match=text):
            call(Tensor(array), Tensor([0, outside])).numpy()
        target = Tensor(array)
        target[key(Tensor([0, outside]))] = 1.0
        with pytest.raises(IndexError, match=text):
            target.numpy()


def test_gradients_pass_checked_indices():
    x = Tensor(numbers((2, 3)), requires_grad=True)
    x[Tensor([0, 1, 1]), Tensor([0, 2, -1])].sum().backward()
    check(x.grad, np.array([[1, 0, 0], [0, 0, 2]], np.float32))


def test_an_empty_list_selects_nothing():
    assert Tensor.arange(6).reshape(2, 3)[[]].shape == (0, 3)


@pytest.mark.parametrize("flag", [True, False])
def test_one_bool_adds_an_axis(flag):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for key in (flag, np.bool_(flag), np.array(flag), Tensor(flag)):
        found = Tensor(array)[key]
        assert found.shape == array[flag].shape
        assert (found.numpy() == array[flag]).all()
        x, expected = Tensor(array).contiguous(), array.copy()
        kept = x[flag]
        x[key] = Tensor([[7.0], [8.0]])
        expected[flag] = [[7], [8]]
        assert (x.numpy() == expected).all()
        assert (kept.numpy() == array[flag]).all()  # a copy
    assert Tensor(5.0)[flag].tolist() == [5.0] * flag


@pytest.mark.parametrize("cut", [slice(0, 0), slice(0, -1, -2), slice(1, 3, -1), slice(9, None)])
def test_nothing_is_read_for_no_elements(cut):
    """Else memory beside the tensor is read, before a loop that never runs."""
    x = Tensor(np.random.default_rng(0).random((7, 4), np.float32))
    part = x.sort(0).values.amax(1)[cut]
    (item,) = part.schedule()
    assert len(item.buffers) == 1
    assert not item.checks
    assert part.numpy().shape == (0,)


def flagged(array, key):
    """What PyTorch makes of one bool in a key: an axis, of which it takes all or nothing."""
    parts = [part for part in key if not isinstance(part, bool)]
    made = array[tuple(parts)]
    place = sum(isinstance(part, slice) for part in key[: [type(k) for k in key].index(bool)])
    made = np.expand_dims(made, place)
    return made if all(part for part in key if isinstance(part, bool)) else made.take([], place)


@pytest.mark.parametrize(
    "key",
    [(0, True), (True, 0), (0, False), (False, 0), (slice(None), True), (1, True, 2),
     (True, 1, 2), (slice(None), True, 0), (True, True), (True, False)],
)  # fmt: skip
def test_a_bool_among_the_parts_of_a_key_is_an_axis(key):
    array = numbers((2, 3))
    check(Tensor(array)[key], flagged(array, key))
    if key[0] is True:
        check(Tensor(array)[(Tensor(True), *key[1:])], flagged(array, key))
    written = Tensor(array.copy())
    written[key] = 7
    expected = array.copy()
    if all(part for part in key if isinstance(part, bool)):
        expected[tuple(part for part in key if not isinstance(part, bool))] = 7
    check(written, expected)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (0, (1, 1, 3)),
        (slice(None), (1, 1, 2, 3)),
        ((0, 0), (1, 1)),
        ([0], (1, 1, 1, 3)),
        ([0, 1], (1, 2, 3)),
        (True, (1, 1, 2, 3)),
        (Ellipsis, (1, 2, 3)),
    ],
)
def test_leading_axes_of_one_of_what_is_written_do_not_count(key, shape):
    made, wanted = Tensor.zeros(2, 3), np.zeros((2, 3), np.float32)
    made[key] = Tensor(numbers(shape))
    part = wanted[key]
    wanted[key] = numbers(shape).reshape(shape[len(shape) - part.ndim :])
    check(made, wanted)
    with pytest.raises(ValueError, match=r"does not fit|has fewer axes"):
        made[key] = Tensor.ones(2, *shape)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1, 1), (2, 3)], ids=str)
def test_places_in_padding_are_zero(shape):
    """Also where the padded axis has one element, so that its place is known without the index."""
    values = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    padded, x = np.pad(values, 1), Tensor(values).realize().pad((1, 1, 1, 1))
    for axis in range(2):
        places = np.array([0, 2, 1, padded.shape[axis] - 1])
        index = Tensor(places).realize()
        taken = np.take(padded, places, axis)
        np.testing.assert_array_equal(x.index_select(axis, index).numpy(), taken)


@pytest.mark.parametrize("count", [1, 2, 4, 7, 8, 16, 100])
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 4), (5, 1)])
def test_indices_of_an_axis_of_one_element_are_all_checked(shape, count):
    axis = max(n for n, size in enumerate(shape) if size == 1)
    x = Tensor(np.arange(math.prod(shape)).reshape(shape)).realize() * 2 + 1
    key = (slice(None),) * axis
    right = x[*key, Tensor([0] * count)].sum(axis)
    np.testing.assert_array_equal(right.numpy(), x.numpy().sum(axis) * count)
    for wrong in ([0] * (count - 1) + [1], [-2] + [0] * (count - 1)):
        with pytest.raises(IndexError, match=f"out of bounds for axis {axis} of length 1"):
            x[*key, Tensor(wrong)].sum(axis).numpy()


@pytest.mark.parametrize("kind", [np.uint8, np.bool_], ids=str)
def test_numbers_of_uint8_are_masks(kind):
    """As in PyTorch: 0 is False, any other number True; reading, writing and beside slices."""
    array, mask = numbers((3, 4)), np.array([1, 0, 255, 0]).astype(kind)
    held = mask != 0
    check(Tensor(array)[:, Tensor(mask)], array[:, held])
    check(Tensor(array)[:, mask], array[:, held])
    x = Tensor(array)
    x[:, Tensor(mask)] = Tensor(-array[:, held])
    array[:, held] *= -1
    check(x, array)
    whole = (np.arange(12).reshape(3, 4) % 3).astype(np.uint8)
    check(x[Tensor(whole)], array[whole != 0])
    with pytest.raises(IndexError, match="a mask of shape"):
        x[Tensor(mask)]


def test_ranges_are_indices():
    x, y = np.arange(9.0).reshape(3, 3), Tensor(np.arange(9.0).reshape(3, 3))
    for key in (range(1, 3), (range(3), range(3)), (slice(None), range(2)), range(0)):
        np.testing.assert_array_equal(y[key].numpy(), x[key])
    x[range(3), range(3)] = 7
    y[range(3), range(3)] = 7
    np.testing.assert_array_equal(y.numpy(), x)


def test_values_that_do_not_fit_a_mask_are_told_so():
    x = Tensor([0.0, 1.0, 2.0])
    with pytest.raises(ShapeError, match=r"\(3,\), for an index or mask that selects \(2,\)"):
        x[x > 0] = Tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [0, 1, 2]


def test_index_tensors_that_do_not_broadcast_are_an_index_error():
    with pytest.raises(IndexError, match="index tensors: shapes"):
        Tensor.zeros(4, 5)[Tensor([0, 1, 2]), Tensor([0, 1])]
