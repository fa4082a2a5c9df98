"""Sums over short windows: which kernels have whole rows written out, and their results."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Tensor, lower
from torpor.device.machine import facts, machine
from torpor.ir.ops import AxisType
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.ranges import kind_of

TARGET = "cpu"


def tensors(channels, size, window, multiplier=1):
    random = np.random.default_rng(3)
    image = random.standard_normal((2, channels, *size)).astype(np.float32)
    weight = random.standard_normal((channels * multiplier, 1, *window)).astype(np.float32)
    return image, weight


def direct(image, weight, stride, padding, dilation):
    """The convolution in float64, one place of the window at a time."""
    (high, wide), (up, along) = image.shape[2:], weight.shape[2:]
    padded = np.pad(image.astype(float), ((0, 0), (0, 0), *[(padding, padding)] * 2))
    padded = np.repeat(padded, len(weight) // image.shape[1], axis=1)
    rows = (high + 2 * padding - dilation * (up - 1) - 1) // stride + 1
    columns = (wide + 2 * padding - dilation * (along - 1) - 1) // stride + 1
    found = np.zeros((len(image), len(weight), rows, columns))
    for y, x in np.ndindex(up, along):
        top, left = y * dilation, x * dilation
        down, right = top + stride * (rows - 1) + 1, left + stride * (columns - 1) + 1
        part = padded[:, :, top:down:stride, left:right:stride]
        found += part * weight[:, 0, y, x].astype(float)[:, None, None]
    return found


LAYERS = {
    "rows of 7": (16, (7, 7), (3, 3), 1, 1, 1, 1),
    "rows of 14": (6, (14, 14), (3, 3), 1, 1, 1, 1),
    "rows of 13": (5, (9, 13), (3, 3), 1, 1, 1, 1),
    "rows of 30": (3, (11, 30), (3, 3), 1, 1, 1, 1),
    "5 by 5": (4, (14, 14), (5, 5), 1, 2, 1, 1),
    "7 by 7": (3, (16, 16), (7, 7), 1, 3, 1, 1),
    "dilated": (4, (20, 20), (3, 3), 1, 2, 2, 1),
    "not padded": (4, (18, 18), (3, 3), 1, 0, 1, 1),
    "two for each": (4, (14, 14), (3, 3), 1, 1, 1, 2),
    "stride": (4, (28, 28), (3, 3), 2, 1, 1, 1),
    "stride, rows of 14": (3, (27, 28), (5, 5), 2, 2, 1, 1),
    "stride, rows of 7": (4, (14, 14), (5, 5), 2, 2, 1, 1),
    "stride, odd rows": (3, (15, 26), (3, 3), 2, 1, 1, 1),
    "stride of three": (3, (22, 22), (3, 3), 3, 1, 1, 1),
    "long rows": (2, (8, 600), (3, 3), 1, 1, 1, 1),
    "one row": (8, (1, 40), (1, 5), 1, 0, 1, 1),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_depthwise_convolutions_and_their_gradients(layer):
    channels, size, window, stride, padding, dilation, multiplier = layer
    image, weight = tensors(channels, size, window, multiplier)
    x, w = Tensor(image), Tensor(weight)
    made = x.conv2d(w, stride=stride, padding=padding, dilation=dilation, groups=channels)
    expected = direct(image, weight, stride, padding, dilation)
    back = np.random.default_rng(5).standard_normal(expected.shape).astype(np.float32)
    moved = np.random.default_rng(6).standard_normal(image.shape).astype(np.float32)
    other = np.random.default_rng(7).standard_normal(weight.shape).astype(np.float32)
    of_x, of_w = made.gradient(x, w, gradient=Tensor(back))
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-5)
    along_x = (direct(moved, weight, stride, padding, dilation) * back).sum()
    along_w = (direct(image, other, stride, padding, dilation) * back).sum()
    np.testing.assert_allclose((of_x.numpy() * moved.astype(float)).sum(), along_x, rtol=1e-4)
    np.testing.assert_allclose((of_w.numpy() * other.astype(float)).sum(), along_w, rtol=1e-4)


def opts_of(channels, size, window, padding, stride=1):
    image, weight = tensors(channels, size, window)
    made = Tensor(image).conv2d(Tensor(weight), None, stride, padding, groups=channels)
    (program,) = lower(made, target=TARGET)
    return program


def test_a_whole_row_and_some_beside_it_are_written_out():
    program = opts_of(4, (14, 14), (3, 3), 1)
    assert Opt(OptOps.UPCAST, 3, 0) in program.opts
    assert Opt(OptOps.UPCAST, 2, 7) in program.opts
    assert "masked.store" not in program.source


def test_rows_that_are_read_with_a_stride_are_whole_vectors_too():
    program = opts_of(4, (28, 28), (3, 3), 1, stride=2)
    assert Opt(OptOps.PADTO, 3, 8) in program.opts
    assert Opt(OptOps.UPCAST, 3, 0) in program.opts


def test_long_rows_are_not():
    program = opts_of(4, (8, 600), (3, 3), 1)
    assert Opt(OptOps.UPCAST, 3, 0) not in program.opts


def test_sums_of_many_products_are_not():
    a, b = Tensor(np.ones((64, 64), np.float32)), Tensor(np.ones((64, 64), np.float32))
    (program,) = lower(a @ b, target=TARGET)
    assert Opt(OptOps.UPCAST, 1, 0) not in program.opts


@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_all_sums_are_written_out_also_where_edges_are_asked_for(name):
    """Of four vectors by some rows, by nine places: conditions at the edges make it no longer."""
    result = Tensor.empty(2, 8, 56, 56).conv2d(Tensor.empty(8, 1, 3, 3), padding=1, groups=8)
    kernel = Kernel(result.schedule()[-1].ast, facts(machine(name)))
    made = kernel.apply(choose(kernel))
    assert all(kind_of(r) is AxisType.UNROLL for r in made.reduce_axes)
