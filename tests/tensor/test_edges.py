"""Gradients beside infinities, at zeros and where squares vanish are PyTorch's."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor

INF, NAN, TINY = math.inf, math.nan, 1e-40
# A function, its operands, and PyTorch's gradients of the sum of what it gives.
EDGES = {
    "quotient": (lambda x, y: x / y, [[0.0, 1e-25], [1e-38, 1e-23]], [[1e38, 1e23], [0.0, -1e21]]),
    "logaddexp2": (lambda x, y: x.logaddexp2(y), [[INF, 0.0, INF, 1e38], [0.0, INF, INF, 1e38]],
                   [[1.0, 0.0, NAN, 0.5], [0.0, 1.0, NAN, 0.5]]),
    "xlog1py": (torpor.special.xlog1py, [[0.0, 0.0, 0.0, 2.0], [1.0, -1.0, INF, 1.0]],
                [[math.log(2), 0.0, INF, math.log(2)], [0.0, NAN, 0.0, 1.0]]),
    "sinc": (lambda x: x.sinc(), [[0.0, TINY, 1e-25]], [[0.0, -3.2899e-40, -3.2898682e-25]]),
    "logsumexp": (lambda x: x.logsumexp(0), [[0.0, INF, 1e38]], [[0.0, NAN, 0.0]]),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), [[0.0, -INF, -INF, 0.0]],
                     [[3.5, 0.0, 0.0, 0.5]]),
    "norm of NaN": (lambda x: x.norm(3), [[0.0, 1.0, NAN]], [[NAN, NAN, NAN]]),
    "norm of nothing": (lambda x: x.norm(3), [[0.0, 0.0]], [[0.0, 0.0]]),
    "root of infinity": (lambda x: x.norm(0.5), [[0.0, 0.0, INF]], [[NAN, NAN, NAN]]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_gradients_beside_infinities_and_where_squares_vanish(name):
    function, operands, expected = EDGES[name]
    leaves = [Tensor(np.float32(one), requires_grad=True) for one in operands]
    found = function(*leaves).sum().gradient(*leaves)
    function(*leaves).sum().backward()
    for leaf, one, known in zip(leaves, found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), np.float32(known), 1e-4, 1e-30)
        np.testing.assert_array_equal(leaf.grad.numpy(), one.numpy())
