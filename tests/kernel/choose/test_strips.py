"""Which register tiles cover an axis, and products whose axis is cut between two kinds of them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.kernel.products import agree, operands
from torpor import Tensor
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.choose.strips import shapes_of, strips_of
from torpor.kernel.ranges import kind_of, size_of

AVX2 = {"vector_bytes": 32, "registers": 16}


@pytest.mark.parametrize(("width", "registers"), [(8, 16), (4, 16), (16, 32)])
def test_strips_cover_the_axis_and_pad_less_than_the_widest_tile(width, registers):
    shapes = shapes_of(registers, fused=True)
    widest = width * shapes[0][0]
    for lanes in range(2, 400):
        strips = strips_of(lanes, width, shapes)
        assert sum(strip.lanes for strip in strips) == lanes
        assert all(strip.lanes > 1 and strip.panel % width == 0 for strip in strips)
        assert all(strip.rows * strip.panel // width <= registers - 4 for strip in strips)
        padded = sum(strip.padded for strip in strips)
        assert padded <= -(-lanes // widest) * widest


@pytest.mark.parametrize(
    ("lanes", "vectors"),
    [(7, 1), (14, 2), (20, 3), (24, 3), (28, 4), (40, 5), (56, 7), (72, 9), (33, 5), (88, 11)],
)
def test_an_odd_vector_is_computed_with_two_others(lanes, vectors):
    assert (
        sum(strip.padded for strip in strips_of(lanes, 8, shapes_of(16, fused=True))) == vectors * 8
    )


def image_products(images, weights, padding):
    """The convolution of images[n, c, h, w] with weights[o, c, i, j], in float64."""
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    wide = np.pad(images.astype(np.float64), around)
    windows = np.lib.stride_tricks.sliding_window_view(wide, weights.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weights, optimize=True)


@pytest.mark.parametrize("side", [20, 24, 33, 51])
def test_convolutions_of_rows_that_one_tile_does_not_divide(side):
    random = np.random.default_rng(side)
    a = random.standard_normal((2, 8, side, side), np.float32)
    b = random.standard_normal((19, 8, 3, 3), np.float32)
    agree(Tensor(a).conv2d(Tensor(b), padding=1).numpy(), image_products(a, b, 1))


@pytest.mark.parametrize("columns", [17, 24, 71])
def test_products_of_few_columns(columns):
    (x, y), (a, b) = operands(96, 64, columns, "plain")
    agree((x @ y).numpy(), a @ b)


def test_a_row_of_seven_vectors_is_cut_and_not_padded():
    result = Tensor.empty(1, 16, 56, 56).conv2d(Tensor.empty(32, 16, 3, 3), padding=1)
    kernel = Kernel(result.schedule()[-1].ast, replace(get_target("cpu"), **AVX2))
    opts = choose(kernel)
    assert OptOps.PADTO not in [opt.op for opt in opts]
    written = {size_of(r) for r in kernel.apply(opts).axes if kind_of(r) is AxisType.UPCAST}
    assert {16, 24} <= written
