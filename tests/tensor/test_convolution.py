import itertools
import math

import numpy as np
import pytest

from tests.tensor.layouts import check, numbers
from torpor import Context, Tensor, Variable
from torpor.base.errors import ShapeError


def convolve(image, weight, stride, padding, dilation, groups):
    """The definition, element by element: any number of spatial axes."""
    dims = weight.ndim - 2
    image = np.pad(image, ((0, 0), (0, 0), *((p, p) for p in padding)))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    sizes = [(n - r) // s + 1 for n, r, s in zip(image.shape[2:], reach, stride)]
    out = np.zeros((image.shape[0], weight.shape[0], *sizes))
    per_in, per_out = weight.shape[1], weight.shape[0] // groups
    for channel in range(weight.shape[0]):
        group = channel // per_out
        part = image[:, group * per_in : (group + 1) * per_in]
        for place in itertools.product(*map(range, sizes)):
            box = tuple(
                slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation)
            )
            window = part[(slice(None), slice(None), *box)]
            out[(slice(None), channel, *place)] = (window * weight[channel]).sum(
                tuple(range(1, dims + 2))
            )
    return out


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 2), (1, 1), 1), ((1, 2), (2, 1), (2, 2), 2),
     ((3, 3), (0, 1), (1, 1), 4)],
)  # fmt: skip
def test_conv2d(stride, padding, dilation, groups):
    image = numbers((2, 4, 7, 8), "float64")
    weight = numbers((8, 4 // groups, 3, 2), "float64", seed=1)
    bias = numbers((8,), "float64", seed=2)
    expected = convolve(image, weight, stride, padding, dilation, groups)
    found = Tensor(image).conv2d(Tensor(weight), Tensor(bias), stride, padding, dilation, groups)
    check(found, expected + bias.reshape(1, -1, 1, 1))


def test_other_dimensions_and_same_padding():
    image, weight = numbers((2, 3, 9), "float64"), numbers((4, 3, 3), "float64", seed=1)
    check(Tensor(image).conv1d(Tensor(weight), stride=2), convolve(image, weight, [2], [0], [1], 1))
    assert Tensor(image).conv1d(Tensor(weight), padding="same").shape == (2, 4, 9)
    cube, block = numbers((1, 2, 4, 4, 4), "float64"), numbers((2, 2, 2, 2, 2), "float64")
    expected = convolve(cube, block, [1] * 3, [0] * 3, [1] * 3, 1)
    check(Tensor(cube).conv3d(Tensor(block)), expected)
    check(Tensor(image[0]).conv1d(Tensor(weight)), convolve(image[:1], weight, [1], [0], [1], 1)[0])


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "groups"),
    [(1, 0, 0, 1), (2, 1, 1, 1), ((3, 2), (1, 0), (2, 1), 2), (1, 2, 0, 1)],
)
def test_transposed_convolution_is_the_gradient_of_convolution(
    stride, padding, output_padding, groups
):
    image = Tensor(numbers((2, 4, 5, 4), "float64"))
    weight = Tensor(numbers((4, 3, 3, 3), "float64", seed=1))
    found = image.conv_transpose2d(weight, None, stride, padding, output_padding, groups)
    # <conv_transpose(x), y> = <x, conv(y)> for all y, and so is the shape
    other = Tensor(numbers(found.shape, "float64", seed=2))
    back = other.conv2d(weight, None, stride, padding, 1, groups)
    assert back.shape == image.shape
    np.testing.assert_allclose((found * other).sum().item(), (image * back).sum().item())


def pooled(image, kernel, stride, padding, reduce, fill):
    wide = np.pad(
        image, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill
    )
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))
    return reduce(windows[:, :, ::stride, ::stride], axis=(-1, -2))


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)]
)
def test_pooling(kernel, stride, padding):
    image = numbers((2, 3, 7, 6), "float64", -3, -1)  # negative: padding must never be greatest
    check(
        Tensor(image).max_pool2d(kernel, stride, padding),
        pooled(image, kernel, stride, padding, np.max, -np.inf),
    )
    check(
        Tensor(image).avg_pool2d(kernel, stride, padding),
        pooled(image, kernel, stride, padding, np.mean, 0),
    )
    counts = pooled(np.ones_like(image), kernel, stride, padding, np.sum, 0)
    check(
        Tensor(image).avg_pool2d(kernel, stride, padding, count_include_pad=False),
        pooled(image, kernel, stride, padding, np.sum, 0) / counts,
    )


def test_pooling_rounds_up_and_passes_nan():
    image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    check(
        Tensor(image).max_pool2d(2, ceil_mode=True),
        np.array([[[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]], np.float32),
    )
    check(
        Tensor(image).avg_pool2d(2, ceil_mode=True),
        np.array([[[[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]]]], np.float32),
    )
    image[0, 0, 0, 0] = np.nan
    assert np.isnan(Tensor(image).max_pool2d(2).numpy()).sum() == 1
    assert Tensor(image).adaptive_avg_pool2d(1).shape == (1, 1, 1, 1)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="does not fit weight"):
        Tensor.ones(1, 3, 4, 4).conv2d(Tensor.ones(2, 4, 3, 3))
    with pytest.raises(ValueError, match="exceeds"):
        Tensor.ones(1, 3, 2, 2).conv2d(Tensor.ones(2, 3, 3, 3))
    with pytest.raises(ValueError, match="4 axes"):
        Tensor.ones(3, 4).conv2d(Tensor.ones(2, 3, 3, 3))
    with pytest.raises(ValueError, match="half"):
        Tensor.ones(1, 1, 4, 4).max_pool2d(2, padding=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: x.conv2d(w, padding="full"),
        lambda x, w: x.conv2d(w, stride=1.5),
        lambda x, w: x.conv2d(w, Tensor.ones(3)),
        lambda x, w: x.conv_transpose2d(w.transpose(0, 1), output_padding=1),
        lambda x, w: x.max_pool2d(0),
        lambda x, w: x.avg_pool2d(2, stride=0),
    ],
)
def test_parameters_that_make_no_sense_are_refused(call):
    with pytest.raises(ShapeError):
        call(Tensor.ones(1, 2, 5, 5), Tensor.ones(1, 2, 3, 3))


@pytest.mark.parametrize("cells", [(2, 3), (5, 5), (9, 4), (7, 10), 3])
def test_adaptive_means_cover_all_that_a_cell_touches(cells):
    array = numbers((2, 3, 7, 10), "float32")
    rows, columns = (cells, cells) if isinstance(cells, int) else cells
    expected = np.empty((2, 3, rows, columns))
    for i, j in np.ndindex(rows, columns):
        high = slice(i * 7 // rows, math.ceil((i + 1) * 7 / rows))
        wide = slice(j * 10 // columns, math.ceil((j + 1) * 10 / columns))
        expected[:, :, i, j] = array[:, :, high, wide].mean((2, 3), dtype=np.float64)
    check(Tensor(array).adaptive_avg_pool2d(cells), expected.astype(np.float32))


def brute_force_maxima(array, size, stride, padding):
    """(greatest of each window, its place in the plane), of equal ones the first."""
    rows, columns = array.shape
    values, places = [], []
    for top in range(-padding, rows + padding - size + 1, stride):
        for left in range(-padding, columns + padding - size + 1, stride):
            inside = [
                (row, column)
                for row in range(max(top, 0), min(top + size, rows))
                for column in range(max(left, 0), min(left + size, columns))
            ]
            row, column = max(inside, key=lambda at: array[at])
            values.append(array[row, column])
            places.append(row * columns + column)
    return values, places


@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_places_of_maxima(size, stride, padding):
    array = np.random.default_rng(5).integers(0, 4, (7, 6)).astype(np.float32)  # with equal ones
    array[:3, :3] = -np.inf
    found = Tensor(array[None, None]).max_pool2d(size, stride, padding, return_indices=True)
    values, places = brute_force_maxima(array, size, stride, padding)
    assert found.values.reshape(-1).tolist() == values
    assert found.indices.reshape(-1).tolist() == places
    assert found.indices.dtype.name == "int64"


def test_places_of_maxima_along_one_axis_and_of_nan():
    found = Tensor([[1.0, 3.0, 2.0, float("nan"), 5.0, 4.0]]).max_pool1d(3, return_indices=True)
    assert found.indices.tolist() == [[1, 3]]
    x = Tensor([[1.0, 3.0, 2.0, 0.0]], requires_grad=True)
    x.max_pool1d(2, return_indices=True).values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 1.0, 0.0]]


def test_windows_of_one_axis():
    line = np.arange(14.0, dtype=np.float32).reshape(2, 7) * np.float32([[1], [-1]])
    windows = np.lib.stride_tricks.sliding_window_view(line, 3, 1)[:, ::2]
    assert (Tensor(line).max_pool1d(3, 2).numpy() == windows.max(-1)).all()
    assert np.allclose(Tensor(line).avg_pool1d(3, 2).numpy(), windows.mean(-1))
    padded = Tensor(line).avg_pool1d(3, 3, padding=1, count_include_pad=False).numpy()
    assert np.allclose(padded[:, 0], line[:, :2].mean(-1))


def test_one_number_for_all_axes_may_stand_in_a_sequence():
    image, weight = Tensor(numbers((1, 2, 6, 6))), Tensor(numbers((2, 2, 2, 2)))
    for one in ((2,), [2]):
        check(image.max_pool2d(one, one), image.max_pool2d(2, 2).numpy())
        check(image.avg_pool2d(one, padding=(1,)), image.avg_pool2d(2, padding=1).numpy())
        check(image.adaptive_avg_pool2d(one), image.adaptive_avg_pool2d(2).numpy())
        check(image.conv2d(weight, None, one, one), image.conv2d(weight, None, 2, 2).numpy())
        check(image.conv2d(weight, dilation=one), image.conv2d(weight, dilation=2).numpy())
        check(image.conv_transpose2d(weight, None, one, one),
              image.conv_transpose2d(weight, None, 2, 2).numpy())  # fmt: skip
    check(image.max_pool2d(2, stride=[]), image.max_pool2d(2).numpy())
    check(image.adaptive_avg_pool2d((None, 2)), image.adaptive_avg_pool2d((6, 2)).numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: x.max_pool2d(2, padding=-1),
        lambda x, w: x.avg_pool2d(2, padding=-1),
        lambda x, w: x.avg_pool2d(2, divisor_override=0),
        lambda x, w: x.conv_transpose2d(w, stride=0),
        lambda x, w: x.conv_transpose2d(w, padding=-1),
        lambda x, w: x.conv_transpose2d(w, output_padding=-1),
        lambda x, w: x.conv_transpose2d(w, dilation=0),
        lambda x, w: x.conv2d(w, stride=(1, 1, 1)),
    ],
)
def test_impossible_windows(call):
    with pytest.raises(ShapeError):
        call(Tensor.ones(1, 1, 4, 4), Tensor.ones(1, 1, 2, 2))


@pytest.mark.parametrize("strict", [0, 1])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_adaptive_cells_know_nothing_of_what_lies_outside_of_them(bad, strict):
    image = np.arange(35, dtype=np.float32).reshape(1, 1, 7, 5)
    image[0, 0, 6, 0] = bad
    with Context(STRICT_FLOAT=strict):
        found = Tensor(image).adaptive_avg_pool2d((3, 2)).numpy()
    expected = [[6, 8], [16, 18], [bad, 28]]  # rows 0-2, 2-4 and 4-6, columns 0-2 and 2-4
    np.testing.assert_array_equal(found[0, 0], np.array(expected, np.float32))


@pytest.mark.parametrize("length", [4, 5, 9])
def test_windows_over_an_axis_of_variable_length_with_a_stride(length):
    """That the last one ends within the axis follows from how many there are."""
    line = np.arange(12, dtype=np.float32)
    part = Tensor(line.reshape(1, 1, 12))[:, :, : Variable("n", 3, 9).bind(length)]
    weight = np.array([1, 2, 3], np.float32)
    known = line[:length]
    found = part.conv1d(Tensor(weight.reshape(1, 1, 3)), stride=2).numpy()[0, 0]
    expected = [known[n : n + 3] @ weight for n in range(0, length - 2, 2)]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    pooled = part.avg_pool1d(2).numpy()[0, 0]
    np.testing.assert_array_equal(pooled, known[: length // 2 * 2].reshape(-1, 2).mean(1))


def test_means_of_integers_are_truncated():
    x = Tensor([[[-7, 0, 4, 5]]])
    assert x.avg_pool1d(2).tolist() == [[[-3, 4]]]
    assert x.avg_pool2d((1, 4), divisor_override=4).tolist() == [[[0]]]
    assert x.avg_pool1d(3, 1, 1, count_include_pad=False).tolist() == [[[-3, -1, 3, 4]]]


def test_the_last_nan_is_the_greatest():
    nan = math.nan
    found = Tensor([[[nan, 1.0, nan, 0.0]]]).max_pool1d(4, return_indices=True)
    assert found.indices.tolist() == [[[2]]]
    found = Tensor([[[3.0, 1.0], [nan, 3.0]]]).max_pool2d((1, 2), return_indices=True)
    assert found.indices.tolist() == [[[0], [2]]]


def test_means_of_a_tensor_that_requires_a_gradient():
    x = Tensor.zeros(1, 1, 4).requires_grad_()
    for pooled in (x.avg_pool1d(2), x.avg_pool2d((1, 2))):
        (slope,) = pooled.sum().gradient(x)
        assert slope.tolist() == [[[0.5, 0.5, 0.5, 0.5]]]


def scattered(image, weight, steps, around, beyond, groups, spread):
    """A transposed convolution of a few axes, in float64: what is multiplied is added up."""
    batch, channels, *sizes = image.shape
    outputs, kernel = weight.shape[1], weight.shape[2:]
    each = zip(sizes, steps, spread, kernel, strict=True)
    lengths = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in each]
    grown = [n + max(o - p, 0) for n, o, p in zip(lengths, beyond, around, strict=True)]
    whole = np.zeros((batch, groups, outputs, *grown))
    left = image.astype(np.float64).reshape(batch, groups, channels // groups, *sizes)
    right = weight.astype(np.float64).reshape(groups, channels // groups, outputs, *kernel)
    for place, tap in itertools.product(np.ndindex(*sizes), np.ndindex(*kernel)):
        at = tuple(p * s + k * d for p, s, k, d in zip(place, steps, tap, spread, strict=True))
        products = left[(..., *place)][:, :, :, None] * right[(..., *tap)]
        whole[(..., *at)] += products.sum(2)
    ends = [n - p + o for n, p, o in zip(lengths, around, beyond, strict=True)]
    inside = tuple(slice(p, end) for p, end in zip(around, ends, strict=True))
    return whole[(..., *inside)].reshape(
        batch, groups * outputs, *(n.stop - n.start for n in inside)
    )


TRANSPOSED = [
    # sizes, kernel, stride, padding, output_padding, groups, dilation
    ((3,), (2,), (2,), (0,), (0,), 1, (1,)),
    ((3,), (40,), (20,), (3,), (2,), 1, (1,)),
    ((2, 3), (5, 6), (5, 5), (1, 0), (0, 1), 2, (1, 1)),
    ((5,), (3,), (1,), (1,), (0,), 1, (1,)),
    ((4,), (3,), (1,), (0,), (1,), 2, (2,)),
    ((4,), (2,), (3,), (1,), (2,), 1, (1,)),
    ((1,), (1,), (2,), (0,), (2,), 1, (3,)),
    ((4, 3), (3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1)),
    ((3, 4), (2, 4), (3, 1), (0, 2), (0, 1), 2, (2, 2)),
    ((2, 5), (1, 2), (2, 2), (0, 0), (1, 0), 1, (1, 1)),
    ((2, 3, 2), (2, 3, 1), (2, 1, 3), (0, 1, 0), (1, 0, 2), 1, (1, 2, 1)),
]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(("strict", "where"), [(0, "image"), (1, "image"), (1, "weight")])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_an_infinity_is_met_in_its_own_windows_alone(case, strict, where, bad):
    """By a transposed convolution nothing is multiplied with what lies between or around."""
    sizes, kernel, *options, groups, spread = case
    random = np.random.default_rng(5)
    image = random.uniform(1, 2, (2, 2 * groups, *sizes)).astype(np.float32)
    weight = random.uniform(1, 2, (2 * groups, 3, *kernel)).astype(np.float32)
    changed = image if where == "image" else weight
    changed.reshape(-1)[[0, changed.size // 2]] = bad
    with Context(STRICT_FLOAT=strict):
        made = getattr(Tensor(image), f"conv_transpose{len(sizes)}d")
        found = made(Tensor(weight), None, *options, groups, spread).numpy()
    expected = scattered(image, weight, *options, groups, spread)
    assert np.isfinite(expected).any() or where == "weight"
    np.testing.assert_allclose(found, expected.astype(np.float32), rtol=1e-5)


def test_an_infinite_weight_meets_no_zeros_between():
    line, weight = Tensor([[[1.0, 3.0, 2.0]]]), Tensor([[[float("inf"), 1.0]]])
    found = line.conv_transpose1d(weight, stride=2).numpy()[0, 0]
    np.testing.assert_array_equal(found, np.array([np.inf, 1, np.inf, 3, np.inf, 2]))


@pytest.mark.parametrize("strict", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "groups"), [(3, 2, 64), (4, 2, 64), (3, 2, 1)])
def test_gradients_by_images_meet_an_infinity_in_its_own_window_alone(
    kernel, stride, groups, strict
):
    """Of results so many that they have kernels for each phase."""
    channels = 64 if groups > 1 else 8
    image = Tensor.zeros(1, channels, 67, 67).requires_grad_()
    weight = Tensor(np.ones((channels, channels // groups, kernel, kernel), np.float32))
    with Context(STRICT_FLOAT=strict):
        made = image.conv2d(weight, stride=stride, groups=groups)
        seed = np.ones(made.shape, np.float32)
        seed[0, 0, 3, 4] = np.inf
        (found,) = made.gradient(image, gradient=Tensor(seed))
        values = found.numpy()
    infinite = np.zeros(image.shape, bool)
    rows, columns = (slice(n * stride, n * stride + kernel) for n in (3, 4))
    infinite[0, : channels // groups, rows, columns] = True
    np.testing.assert_array_equal(np.isposinf(values), infinite)
    assert not np.isnan(values).any()


@pytest.mark.parametrize(("kernel", "padding"), [(1, 1), (2, 1)])
def test_a_transposed_convolution_gives_some_elements(kernel, padding):
    with pytest.raises(ShapeError, match="no elements"):
        Tensor.ones(1, 1, 1).conv_transpose1d(Tensor.ones(1, 1, kernel), padding=padding)
