"""Which axes share what they load, and what the heuristics make of it for windows."""

import numpy as np
import pytest

from torpor import Tensor, lower
from torpor.base.target import get_target
from torpor.kernel import Kernel, OptOps
from torpor.kernel.access import accesses
from torpor.kernel.choose.reuse import COPIES, reuse_axes, shared_part
from torpor.kernel.ranges import find_loops, size_of

CHANNELS, HIGH, WIDE = 5, 28, 20


def depthwise(stride, size=3):
    image = Tensor.zeros(2, CHANNELS, HIGH * stride, WIDE * stride).contiguous().realize()
    weight = Tensor.ones(CHANNELS, 1, size, size).contiguous().realize()
    return image, weight, image.conv2d(weight, stride=stride, groups=CHANNELS, padding=size // 2)


def kernel_of(tensor):
    (item,) = [i for i in tensor.schedule() if i.buffers]
    return Kernel(item.ast, get_target("cpu"))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_windows_share_what_lies_in_several_of_them(stride):
    kernel = kernel_of(depthwise(stride)[2])
    loads = [a for a in accesses(find_loops(kernel.ast)) if not a.is_store]
    image = max(loads, key=lambda a: len(a.strides))
    row = next(r for r in kernel.axes if size_of(r) == HIGH)
    places = {n * stride + k for n in range(COPIES) for k in range(3)}
    assert shared_part(kernel, image, row) == pytest.approx(1 - len(places) / (3 * COPIES))


def test_rows_of_a_depthwise_convolution_share_most():
    kernel = kernel_of(depthwise(1)[2])
    found = accesses(find_loops(kernel.ast))
    lane = next(r for r in kernel.axes if size_of(r) == WIDE)
    assert size_of(reuse_axes(kernel, found, lane)[0]) == HIGH


@pytest.mark.parametrize("stride", [1, 2])
def test_places_of_a_window_are_summed_together(stride):
    """Gradients of depthwise weights: a sum for each place in registers, or where windows are some
    places apart for each of a row, whose elements are brought together first; and right.
    """
    random = np.random.default_rng(3)
    image, weight, made = depthwise(stride)
    values = random.standard_normal(image.shape).astype(np.float32)
    above = random.standard_normal(made.shape).astype(np.float32)
    image = Tensor(values).contiguous().realize()
    made = image.conv2d(weight, stride=stride, groups=CHANNELS, padding=1)
    (gradient,) = made.gradient(weight, gradient=Tensor(above).contiguous().realize())
    (program,) = lower(gradient, target="cpu")
    written = [opt.arg for opt in program.opts if opt.op is OptOps.UPCAST]
    copied = any(opt.op is OptOps.STAGE and opt.arg < 0 for opt in program.opts)
    assert copied if stride > 1 else np.prod(written) == 9
    padded = np.pad(values.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((CHANNELS, 1, 3, 3))
    for i, j in np.ndindex(3, 3):
        part = padded[:, :, i::stride, j::stride][:, :, :HIGH, :WIDE]
        expected[:, 0, i, j] = (part * above).sum((0, 2, 3))
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-4, atol=1e-4)
