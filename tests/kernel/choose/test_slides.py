"""Sums over windows whose rows are copied: which kernels they are, and their register tiles."""

import numpy as np
import pytest

from torpor import Tensor, lower
from torpor.kernel import Opt, OptOps
from torpor.kernel.choose.slides import PRODUCTS_WRITTEN


def convolution(channels, size, window, stride=1, images=2):
    image = Tensor(np.ones((images, channels, *size), np.float32))
    weight = Tensor(np.ones((channels, 1, *window), np.float32))
    return image.conv2d(weight, None, stride, window[0] // 2, groups=channels)


def opts_of(result):
    (program,) = lower(result, target="cpu")
    return program.opts


def copies(result):
    return any(opt.op is OptOps.STAGE and opt.arg < 0 for opt in opts_of(result))


@pytest.mark.parametrize(
    ("size", "stride"),
    [((n, m), 1) for n, m in ((7, 7), (14, 14), (28, 28), (31, 57), (56, 56))]
    + [((n, m), 2) for n, m in ((14, 14), (28, 28), (31, 57), (56, 56))],
)
@pytest.mark.parametrize("window", [(5, 5), (7, 7)])
def test_wide_windows_are_copied_and_written_out(size, window, stride):
    result = convolution(4, size, window, stride)
    opts = opts_of(result)
    assert copies(result)
    written = [opt.arg for opt in opts if opt.op in (OptOps.UPCAST, OptOps.OVERLAP)]
    rows = written[-1] if len(written) > 2 else 1
    assert written[1] // 8 * rows * np.prod(window) <= PRODUCTS_WRITTEN


def test_rows_that_fill_no_vector_are_not():
    """18 times as long as without a copy: gradients of weights as windows of 5 by 37."""
    assert not copies(convolution(4, (7, 7), (5, 5), stride=2))
    assert not copies(convolution(8, (9, 41), (5, 37)).shrink((None, None, None, (0, 5))))


def test_small_windows_are_not():
    assert not copies(convolution(4, (14, 14), (3, 3)))


def test_products_of_matrices_are_not():
    assert not copies(Tensor(np.ones((64, 20), np.float32)) @ Tensor(np.ones((20, 64), np.float32)))


def test_one_plane_alone_has_no_loop_to_be_copied_in():
    assert not copies(convolution(1, (28, 28), (5, 5), images=1))


def weights_gradient(channels, size, window, stride):
    image = Tensor(np.random.default_rng(1).standard_normal((2, channels, *size), np.float32))
    weight = Tensor(np.ones((channels, 1, *window), np.float32))
    made = image.conv2d(weight, None, stride, window[0] // 2, groups=channels)
    back = np.random.default_rng(2).standard_normal(made.shape, np.float32)
    return made.gradient(weight, gradient=Tensor(back))[0], image.numpy(), back


@pytest.mark.parametrize(
    "layer", [(6, (14, 14), (3, 3), 2), (3, (28, 27), (5, 5), 2), (2, (30, 31), (5, 7), 3)]
)
def test_sums_for_each_place_of_a_window_read_copied_rows(layer):
    _, size, window, stride = layer
    result, image, back = weights_gradient(*layer)
    assert copies(result)
    sides = ((0, 0), (0, 0), *[(window[0] // 2,) * 2] * 2)
    padded = np.pad(image.astype(float), sides)
    places = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(2, 3))
    sums = np.einsum("nchwij,nchw->cij", places[:, :, ::stride, ::stride], back.astype(float))
    np.testing.assert_allclose(result.numpy()[:, 0], sums, rtol=1e-4, atol=1e-4)


def test_sums_of_images_that_several_results_share_are_not():
    """They are products of matrices, or nearly so: three times as long on copied rows."""
    image = Tensor(np.ones((2, 3, 28, 28), np.float32))
    weight = Tensor(np.ones((4, 3, 3, 3), np.float32))
    made = image.conv2d(weight, None, 2, 1)
    back = Tensor(np.ones(made.shape, np.float32))
    assert not copies(made.gradient(weight, gradient=back)[0])


def test_sums_that_read_neighbours_are_not_copied():
    assert not copies(weights_gradient(4, (28, 28), (5, 5), 1)[0])


def test_tiles_that_divide_nothing_overlap():
    opts = opts_of(convolution(3, (29, 44), (5, 5)))
    assert Opt(OptOps.OVERLAP, 3, 8) in opts
    assert [opt.op for opt in opts].count(OptOps.OVERLAP) == 2


LAYERS = {
    "blocks": (2, (121, 120), (5, 5), 1, 2),
    "prime": (3, (29, 31), (5, 5), 1, 2),
    "long rows": (2, (6, 300), (5, 5), 1, 2),
    "long rows, every second": (2, (6, 300), (5, 5), 2, 2),
    "11 by 11": (2, (17, 19), (11, 11), 1, 5),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_results(layer):
    channels, size, window, stride, padding = layer
    random = np.random.default_rng(5)
    image = random.standard_normal((2, channels, *size)).astype(np.float32)
    weight = random.standard_normal((channels, 1, *window)).astype(np.float32)
    made = Tensor(image).conv2d(Tensor(weight), None, stride, padding, groups=channels).relu()
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(image.astype(float), sides)
    places = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(2, 3))
    sums = np.einsum("nchwij,cij->nchw", places[:, :, ::stride, ::stride], weight[:, 0])
    np.testing.assert_allclose(made.numpy(), np.maximum(sums, 0), rtol=1e-5, atol=2e-5)
