"""Register tiles over rows that windows slide over."""

import numpy as np
import pytest

import torpor
from tests.kernel.products import agree
from torpor import Tensor
from torpor.ir.records import OptOps


def products(images, weights, stride, dilation, groups, padding):
    """The convolution of images[n, c, ...] with weights[o, c, ...], in float64."""
    dims = weights.ndim - 2
    wide = np.pad(images.astype(np.float64), [(0, 0), (0, 0)] + [(padding, padding)] * dims)
    reach = [dilation * (k - 1) + 1 for k in weights.shape[2:]]
    axes = tuple(range(2, 2 + dims))
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, axes)
    steps = (slice(None, None, stride),) * dims + (slice(None, None, dilation),) * dims
    windows = windows[(slice(None), slice(None), *steps)]
    n, c, *sizes = windows.shape[: 2 + dims]
    windows = windows.reshape(n, groups, c // groups, *windows.shape[2:])
    split = weights.astype(np.float64).reshape(groups, -1, *weights.shape[1:])
    places, within = "xyz"[:dims], "ijk"[:dims]
    made = np.einsum(f"ngc{places}{within},goc{within}->ngo{places}", windows, split, optimize=True)
    return made.reshape(n, -1, *sizes)


CASES = [
    # sizes, outputs, kernel, stride, dilation, groups, padding
    ((24, 24), 16, (3, 3), 1, 1, 1, 1),
    ((13, 56), 17, (3, 5), 1, 1, 1, 1),  # a prime height, and two kinds of tiles
    ((20, 33), 16, (3, 3), 1, 2, 1, 2),
    ((33, 33), 16, (5, 5), 2, 1, 1, 2),
    ((28, 28), 32, (3, 3), 1, 1, 2, 1),
    ((130,), 16, (9,), 1, 1, 1, 4),
    ((9, 8, 24), 16, (3, 3, 3), 1, 1, 1, 1),
]


@pytest.mark.parametrize(
    ("sizes", "outputs", "kernel", "stride", "dilation", "groups", "padding"), CASES
)
def test_sums_of_products_over_windows(sizes, outputs, kernel, stride, dilation, groups, padding):
    random = np.random.default_rng(len(sizes))
    x = random.standard_normal((2, 8, *sizes), np.float32)
    w = random.standard_normal((outputs, 8 // groups, *kernel), np.float32)
    convolve = getattr(Tensor(x), f"conv{len(sizes)}d")
    result = convolve(Tensor(w), None, stride, padding, dilation, groups)
    agree(result.numpy(), products(x, w, stride, dilation, groups, padding))


def test_rows_are_copied_once_for_all_places_of_a_window():
    result = Tensor.empty(2, 8, 24, 24).conv2d(Tensor.empty(16, 8, 3, 3), padding=1)
    (program,) = [p for p in torpor.lower(result, target="cpu") if p.name.startswith("r")]
    assert any(opt.op is OptOps.STAGE and opt.arg < 0 for opt in program.opts)


@pytest.mark.parametrize(("outputs", "kernel"), [(3, (3, 3)), (8, (5, 5)), (4, (1, 9))])
def test_windows_that_few_channels_share(outputs, kernel):
    random = np.random.default_rng(outputs)
    x = random.standard_normal((2, 5, 21, 27), np.float32)
    w = random.standard_normal((outputs, 5, *kernel), np.float32)
    result = Tensor(x).conv2d(Tensor(w))
    agree(result.numpy(), products(x, w, 1, 1, 1, 0))
