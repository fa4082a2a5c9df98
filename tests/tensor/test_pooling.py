"""Pools of one, two and three axes beside NumPy's over the same windows."""

import itertools

import numpy as np
import pytest

from torpor import Tensor, lower
from torpor.base.errors import ShapeError

RANDOM = np.random.default_rng(2)
IMAGES = {dims: RANDOM.normal(size=(2, 2, *(7, 4, 4)[:dims])).astype(np.float32)
          for dims in (1, 2, 3)}  # fmt: skip


def cells(image, counts, function):
    """`function` of each cell of a grid over the last axes."""
    dims, lead = len(counts), image.shape[:2]
    made = np.zeros((*lead, *counts))
    for place in itertools.product(*map(range, counts)):
        box = tuple(
            slice(i * s // n, -(-(i + 1) * s // n))
            for i, n, s in zip(place, counts, image.shape[2:])
        )
        part = image[(slice(None), slice(None), *box)].reshape(*lead, -1)
        made[(slice(None), slice(None), *place)] = function(part, -1)
    assert made.ndim == 2 + dims
    return made


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_cells(dims):
    image, counts = IMAGES[dims], (3, 4, 2)[:dims]
    x = Tensor(image)
    made = getattr(x, f"adaptive_avg_pool{dims}d")(counts).numpy()
    np.testing.assert_allclose(made, cells(image, counts, np.mean), 1e-5, 1e-6)
    made, places = getattr(x, f"adaptive_max_pool{dims}d")(counts, return_indices=True)
    assert (made.numpy() == cells(image, counts, np.max)).all()
    flat = image.reshape(2, 2, -1)
    found = np.take_along_axis(flat, places.numpy().reshape(2, 2, -1), -1)
    assert (found.reshape(made.shape) == made.numpy()).all()


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_windows_and_back(dims):
    image = IMAGES[dims][..., :4, :4, :4] if dims == 3 else IMAGES[dims][..., :4]
    x = Tensor(np.ascontiguousarray(image))
    even = image[(..., *(slice(0, s // 2 * 2) for s in image.shape[2:]))]
    blocks = even.reshape(2, 2, *[n for s in even.shape[2:] for n in (s // 2, 2)])
    axes = tuple(range(3, 3 + 2 * dims, 2))
    made, places = getattr(x, f"max_pool{dims}d")(2, return_indices=True)
    assert (made.numpy() == blocks.max(axes)).all()
    mean = getattr(x, f"avg_pool{dims}d")(2).numpy()
    np.testing.assert_allclose(mean, blocks.mean(axes), 1e-5, 1e-6)
    back = getattr(made, f"max_unpool{dims}d")(places, 2, output_size=image.shape).numpy()
    assert back.shape == image.shape
    assert (back[back != 0] == image[back != 0]).all() and (back != 0).sum() == made.numel()


def test_equal_elements_of_a_cell_have_one_gradient():
    x = Tensor([[[2.0, 2.0, 1.0]]]).requires_grad_()
    made = x.adaptive_max_pool1d(2)
    assert made.tolist() == [[[2.0, 2.0]]]
    assert made.sum().gradient(x)[0].tolist() == [[[1.0, 1.0, 0.0]]]


def test_an_element_that_another_took_the_place_of_has_a_gradient():
    x = Tensor([[[1.0, 2.0]]]).requires_grad_()
    made = x.max_unpool1d(Tensor([[[1, 1]]]), 2)
    assert made.tolist() == [[[0.0, 2.0, 0.0, 0.0]]]
    assert made.sum().gradient(x)[0].tolist() == [[[1.0, 1.0]]]


def test_cells_of_nothing_are_refused():
    with pytest.raises(ShapeError, match="adaptive pooling"):
        Tensor.zeros(1, 1, 0).adaptive_max_pool1d(2)


def strided(image, size, stride, padding):
    """The places of a padded image that each window of its last axis has, -1 for padding."""
    length = image.shape[-1]
    starts = range(-padding, length + padding - size + 1, stride)
    return [[n if 0 <= n < length else -1 for n in range(s, s + size)] for s in starts]


@pytest.mark.parametrize(("size", "stride"), [(3, 2), (5, 2), (3, 1), (4, 3)])
def test_padding_is_less_than_all_else_and_has_no_gradient(size, stride):
    padding = size // 2
    image = np.random.default_rng(4).integers(-9, 0, (2, 3, 19)).astype(np.float32)
    image[0, 0], image[1, 1, ::3], image[1, 2, 4:6], image[1, 2, 6:8] = -np.inf, 0, np.nan, np.inf
    places = strided(image, size, stride, padding)
    values, first, gradient = np.zeros((2, 3, len(places))), [], np.zeros(image.shape)
    for window, inside in enumerate([[n for n in each if n >= 0] for each in places]):
        values[..., window] = image[..., inside].max(-1)
        for at in np.ndindex(2, 3):
            given = image[at][inside]
            nan = np.flatnonzero(np.isnan(given))
            first.append(inside[nan[-1] if len(nan) else given.argmax()])
            gradient[(*at, first[-1])] += window + 1
    x = Tensor(image)
    made, found = x.max_pool1d(size, stride, padding, return_indices=True)
    (back,) = made.gradient(x, gradient=(Tensor.arange(len(places)) + 1.0).expand(made.shape))
    np.testing.assert_array_equal(made.numpy(), values)
    np.testing.assert_array_equal(found.numpy().transpose(2, 0, 1).reshape(-1), first)
    np.testing.assert_array_equal(back.numpy(), gradient)


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("padding", [0, 1])
def test_gradients_of_maxima_by_strides_are_few_kernels(size, padding):
    x = Tensor(np.ones((2, 32, 56, 56), np.float32))
    made = x.max_pool2d(size, 2, padding)
    programs = lower(*made.gradient(x, gradient=made.ones_like()))
    assert len(programs) == 3, [program.name for program in programs]


def test_the_largest_byte_of_padded_windows():
    x = np.array([[[[0, 9], [200, 3]]]], np.uint8)
    made = Tensor(x).max_pool2d(2, stride=1, padding=1)
    assert made.tolist() == [[[[0, 9, 9], [200, 200, 9], [200, 200, 3]]]]
