"""Operands in a bad order that are read many times are copied once, in the order of their use."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.kernel import OptOps
from torpor.kernel.split.arrange import PRODUCTS_WORTH, arranged

RANDOM = np.random.default_rng(1)


def agree(result, expected):
    error = np.linalg.norm(result.astype(np.float64) - expected)
    assert error <= 2e-6 * np.linalg.norm(expected)


def sums(items):
    return [i for i in items if any(n.op is Ops.REDUCE for n in i.ast.toposort())]


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_by_images(stride):
    a = RANDOM.standard_normal((4, 16, 24, 24), np.float32)
    w = RANDOM.standard_normal((16, 16, 3, 3), np.float32)
    x = Tensor(a).requires_grad_()
    y = x.conv2d(Tensor(w), stride=stride, padding=1)
    seed = RANDOM.standard_normal(tuple(y.shape), np.float32)
    (y * Tensor(seed)).sum().backward()
    wide = np.zeros((4, 16, 26, 26))
    side = y.shape[2]
    for i in range(3):
        for j in range(3):
            part = np.einsum("nohw,oc->nchw", seed.astype(np.float64), w[:, :, i, j])
            end = stride * (side - 1) + 1
            wide[:, :, i : i + end : stride, j : j + end : stride] += part
    agree(x.grad.numpy(), wide[:, :, 1:25, 1:25])


def test_what_is_in_order_or_small_or_read_seldom_stays():
    for product in (
        Tensor.empty(256, 80) @ Tensor.empty(80, 300),
        Tensor.empty(256, 80) @ Tensor.empty(300, 80).T,
        Tensor.empty(60, 60).T @ Tensor.empty(60, 300),
        Tensor.empty(1024, 80).T @ Tensor.empty(1024, 80),
    ):
        (item,) = product.schedule()
        assert arranged(item.ast, get_target("cpu")) is None
        assert sums([item])
    assert PRODUCTS_WORTH < 256 * 80 * 300


def test_an_image_that_is_read_by_steps_is_copied_where_many_channels_use_it():
    """Of 1 × 1 windows: none overlap, and every second element of every second row is read."""
    with Context(TARGET="avx2,l1=32K,l2=512K,l3=32M"):
        strided = Tensor.empty(8, 1024, 14, 14).conv2d(Tensor.empty(2048, 1024, 1, 1), stride=2)
        copy, product = strided.schedule()
    assert not sums([copy])
    assert sums([product])
    a = RANDOM.standard_normal((2, 64, 9, 9), np.float32)
    w = RANDOM.standard_normal((96, 64, 1, 1), np.float32)
    expected = np.einsum("nchw,oc->nohw", a[:, :, ::2, ::2].astype(np.float64), w[:, :, 0, 0])
    agree(Tensor(a).conv2d(Tensor(w), stride=2).numpy(), expected)


def test_targets_with_groups_are_left_alone():
    (*_, item) = (Tensor.empty(80, 256).T @ Tensor.empty(80, 300)).schedule()
    assert arranged(item.ast, get_target("cuda")) is None


def test_images_for_few_channels_are_copied_and_weights_packed_for_each():
    """Windows would be packed for 16 results; on the copy all rows of an image share one panel of
    weights.
    """
    x, w = Tensor.empty(8, 64, 28, 28), Tensor.empty(16, 64, 3, 3)
    copy, product = torpor.lower(x.conv2d(w, padding=1), target="cpu")
    assert not copy.ops
    packed = [opt.op for opt in product.opts if opt.op in (OptOps.STAGE, OptOps.TILE)]
    assert OptOps.STAGE in packed
