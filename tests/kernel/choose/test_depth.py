"""Sums too long for packed panels: blocks of the sum keep the result, and are chosen."""

import numpy as np
import pytest

from tests.kernel.kernels import cases, check_kernel
from tests.kernel.products import FORMS, agree, operands, opts_of
from torpor import Tensor
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.depth import depth_of
from torpor.kernel.opts.stage import operands as values_of

IMAGES = next(one for one in cases() if one.name == "over images")


@pytest.mark.parametrize("size", [(20, 24, 16400), (37, 40, 6000), (64, 16, 10010)])
@pytest.mark.parametrize("form", FORMS)
def test_long_sums(size, form):
    rows, columns, inner = size
    (x, y), (a, b) = operands(rows, inner, columns, form)
    result = x @ y + 1
    assert OptOps.TILE in opts_of(result)
    agree(result.numpy(), a @ b + 1, inner)


def weight_gradient(x, w, seed, stride, padding):
    """The gradient by the weights of a convolution, in float64."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    return np.einsum("nohw,nchwij->ocij", seed, windows[:, :, ::stride, ::stride], optimize=True)


@pytest.mark.parametrize(
    "sizes",
    [
        (8, 6, 28, 16, 3, 1, 1),
        (4, 16, 12, 20, 3, 2, 1),
        (2, 32, 7, 32, 3, 1, 1),
        (2, 3, 66, 16, 7, 2, 3),
    ],
    ids=lambda s: "-".join(map(str, s)),
)
def test_gradients_by_weights(sizes):
    images, channels, side, results, kernel, stride, padding = sizes
    random = np.random.default_rng(2)
    a = random.standard_normal((images, channels, side, side), np.float32)
    b = random.standard_normal((results, channels, kernel, kernel), np.float32)
    x, w = Tensor(a), Tensor(b).requires_grad_()
    y = x.conv2d(w, stride=stride, padding=padding)
    seed = random.standard_normal(tuple(y.shape), np.float32)
    (y * Tensor(seed)).sum().backward()
    assert OptOps.STAGE in opts_of(w.grad)
    agree(w.grad.numpy(), weight_gradient(a, b, seed, stride, padding), seed.size // results)


def test_the_blocks_of_a_sum_divide_its_axes():
    a, b = Tensor.empty(4, 3, 40, 36), Tensor.empty(4, 5, 40, 36)
    product = (a.reshape(4, 1, 3, 40, 36) * b.reshape(4, 5, 1, 40, 36)).sum((0, 3, 4))
    kernel = Kernel(product.schedule()[-1].ast, get_target("cpu"))
    sizes = [int(r.src[0].arg) for r in kernel.reduce_axes]
    for packed in values_of(kernel.ast):
        amounts = depth_of(kernel, packed, 512)
        assert all(size % amount == 0 for size, amount in zip(sizes, amounts, strict=True))
        assert np.prod(amounts) <= 512


def test_blocks_of_a_sum_take_neighbours_of_what_is_packed_first():
    result = Tensor.empty(8, 512, 7, 7).conv2d(Tensor.empty(512, 512, 3, 3), padding=1)
    kernel = Kernel(result.schedule()[-1].ast, get_target("cpu"))
    depths = {depth_of(kernel, packed, 512) for packed in values_of(kernel.ast)}
    assert depths == {(1, 1, 512), (3, 3, 32)}  # of the image, channels last; of the weights


GROWING = [
    [Opt(OptOps.TILE, 2, 2), Opt(OptOps.TILE, 6, 3)],
    [Opt(OptOps.TILE, 3, 4), Opt(OptOps.TILE, 5, 3)],
    [Opt(OptOps.TILE, 2, 1), Opt(OptOps.TILE, 5, 6), Opt(OptOps.UPCAST, 5, 4)],
    [
        Opt(OptOps.THREAD, 0),
        Opt(OptOps.TILE, 2, 2),
        Opt(OptOps.TILE, 5, 3),
        Opt(OptOps.STAGE, 3, 1),
    ],
    [Opt(OptOps.THREAD, 0), Opt(OptOps.THREAD, 1), Opt(OptOps.TILE, 1, 2)],
    [Opt(OptOps.THREAD, 1), Opt(OptOps.THREAD, 1), Opt(OptOps.UNROLL, 1, 4)],
]


@pytest.mark.parametrize("opts", GROWING, ids=lambda opts: " ".join(o.op.name for o in opts))
def test_two_axes_of_a_sum_grow_in_one_memory_and_two_axes_are_shared_by_threads(opts):
    program = check_kernel(IMAGES, "CPU", opts)
    assert program.opts == tuple(opts)
    tiles = [opt for opt in opts if opt.op is OptOps.TILE]
    kernel = Kernel(IMAGES.item("CPU").ast, get_target("cpu")).apply(opts)
    staged = sum(opt.op is OptOps.STAGE for opt in opts)
    assert len(kernel.staged()) == staged + bool(tiles)
    assert sum(r.arg[1] is AxisType.THREAD for r in kernel.axes) <= 1
