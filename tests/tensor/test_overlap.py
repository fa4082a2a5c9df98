"""Transposed convolutions by one kernel for all phases, whose windows read the same."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.ir.ops import Ops


def spread(x, w, stride, padding, extra):
    """A transposed convolution channel by channel, in float64."""
    batch, channels, rows, columns = x.shape
    kernel = w.shape[-1]
    sides = [(side - 1) * stride + kernel + extra for side in (rows, columns)]
    wide = np.zeros((batch, channels, *sides))
    for i in range(kernel):
        for j in range(kernel):
            down = slice(i, i + stride * (rows - 1) + 1, stride)
            across = slice(j, j + stride * (columns - 1) + 1, stride)
            wide[:, :, down, across] += x.astype(np.float64) * w[None, :, 0, i, j, None, None]
    return wide[:, :, padding : sides[0] - padding, padding : sides[1] - padding]


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 2, 1, 0, 13), (3, 2, 1, 1, 8), (4, 2, 1, 0, 14), (5, 2, 2, 1, 9), (2, 2, 0, 0, 7),
        (1, 2, 0, 1, 9), (3, 3, 0, 0, 8), (5, 3, 1, 2, 6), (2, 3, 0, 0, 9), (4, 4, 0, 0, 5),
        (6, 4, 1, 0, 7), (3, 4, 0, 0, 6), (7, 2, 3, 1, 10), (2, 2, 0, 1, 11),
    ],
    ids=lambda s: "-".join(map(str, s)),
)  # fmt: skip
def test_any_stride_window_padding_and_length(sizes, monkeypatch):
    kernel, stride, padding, extra, side = sizes
    monkeypatch.setattr("torpor.kernel.split.phases.PRODUCTS_WORTH", 0)
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 3, side, side - 1), np.float32)
    w = random.standard_normal((3, 1, kernel, kernel), np.float32)
    made = Tensor(x).conv_transpose2d(
        Tensor(w), stride=stride, padding=padding, output_padding=extra, groups=3
    )
    expected = spread(x, w, stride, padding, extra)
    assert made.shape == expected.shape
    error = np.linalg.norm(made.numpy() - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_whole_vectors_are_stored_and_no_product_is_with_zeros():
    x, w = Tensor.empty(4, 32, 28, 28), Tensor.empty(32, 1, 4, 4)
    with Context(TARGET="avx2"):
        spaced = x.conv_transpose2d(w, stride=2, padding=1, groups=32)
        (program,) = torpor.lower(spaced, target="cpu")
        lanes = torpor.Device["CPU"].target.lanes(4)
    stores = [n for n in program.linear if n.op is Ops.STORE and n.src[0].op is Ops.INDEX]
    stores = [n for n in stores if n.src[0].src[0].op is Ops.PARAM]
    assert all(n.src[1].dtype.count == lanes for n in stores)
    assert len(stores) == 2 * 56 // lanes  # of two rows
    products = [n for n in program.linear if n.op is Ops.MUL and n.dtype.is_float]
    assert len(products) == 4 * 2 * 2 * -(-28 // lanes)  # each of two rows is of two phases


@pytest.mark.parametrize("strict", [0, 1])
def test_an_infinite_value_is_met_in_its_own_window_alone(strict):
    x = np.ones((1, 64, 66, 66), np.float32)
    x[0, 0, 3, 3] = np.inf
    w = Tensor(np.ones((64, 1, 3, 3), np.float32))
    with Context(STRICT_FLOAT=strict):
        found = Tensor(x).conv_transpose2d(w, stride=2, groups=64).numpy()
    infinite = np.zeros(found.shape, bool)
    infinite[0, 0, 6:9, 6:9] = True
    np.testing.assert_array_equal(np.isposinf(found), infinite)
    assert not np.isnan(found).any()


def test_axes_of_phases_change_places_with_blocks(monkeypatch):
    """Rows of planes go by blocks, which become the outermost axis but the threads'."""
    monkeypatch.setattr("torpor.kernel.split.phases.PRODUCTS_WORTH", 0)
    random = np.random.default_rng(2)
    x = random.standard_normal((1, 2, 13, 10, 18), np.float32)
    w = random.standard_normal((2, 8, 5, 1, 4), np.float32)
    made = Tensor(x).conv_transpose3d(
        Tensor(w), stride=(4, 2, 2), dilation=(2, 3, 1), output_padding=(0, 2, 0), groups=2
    )
    expected = np.zeros((1, 2, 8, 57, 21, 38))
    for k, i in np.ndindex(5, 4):
        part = x.astype(np.float64)[:, :, None] * w[None, :, :, k, 0, i, None, None, None]
        expected[..., 2 * k : 2 * k + 49 : 4, 0:19:2, i : i + 35 : 2] += part
    expected = np.maximum(2 * expected.reshape(made.shape) + 1, 0)
    error = np.linalg.norm((made * 2 + 1).relu().numpy() - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)
