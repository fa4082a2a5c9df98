"""Results whose vectors lie across memory are stored by a loop."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel import lower
from torpor.kernel.opts.kernel import Kernel


def across(rows, columns):
    """A product whose columns are stored as rows, and its operands."""
    draw = np.random.default_rng(rows)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((rows, 5), (5, columns)))
    return a, b, (Tensor(a) @ Tensor(b)).transpose(0, 1).contiguous()


def stores_of(result, opts):
    return [
        node
        for node in lower(result.schedule()[-1].ast, get_target("cpu"), opts).linear
        if node.op is Ops.STORE and node.src[0].op is Ops.INDEX
    ]


def test_a_loop_stores_what_would_take_many_stores():
    *_, result = across(2, 64)
    kernel = Kernel(result.schedule()[-1].ast, get_target("cpu"))
    columns = next(n for n, one in enumerate(kernel.axes) if one.src[0].arg == 64)
    stores = stores_of(result, [Opt(OptOps.UPCAST, columns, 64)])
    local = [s for s in stores if s.src[0].src[0].op is Ops.DEFINE_LOCAL]
    assert len(local) == 8
    assert {s.src[1].dtype.count for s in local} == {8}
    assert len(stores) == len(local) + 1


@pytest.mark.parametrize(("rows", "columns"), [(3, 64), (7, 96), (61, 128), (130, 257)])
@pytest.mark.parametrize("target", ["", "avx2", "sse"])
def test_transposed_products_are_right(rows, columns, target):
    with Context(TARGET=target):
        a, b, result = across(rows, columns)
        expected = (a.astype(np.float64) @ b.astype(np.float64)).T
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_weights_are_right():
    draw = np.random.default_rng(1)
    x, w = (draw.standard_normal(s).astype(np.float32) for s in ((2, 8, 9, 9), (64, 8, 3, 3)))
    weight = Tensor(w, requires_grad=True)
    torpor.nn.functional.conv2d(Tensor(x), weight, padding=1).sum().backward()
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros(w.shape)
    for row in range(3):
        for column in range(3):
            window = padded[:, :, row : row + 9, column : column + 9]
            expected[:, :, row, column] = window.sum((0, 2, 3))
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-4, atol=1e-4)
