"""The order of a program: in which order the sums of a register tile grow."""

from itertools import pairwise

import numpy as np
import pytest

from tests.kernel.kernels import matmul, sample
from tests.schedule.graphs import kernels
from torpor import Tensor, dtypes
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.kernel import Opt, OptOps, lower

ROWS, VECTORS, STEPS, LANES = 6, 2, 2, 8


@pytest.fixture(scope="module")
def products():
    """(row, vector) operands of the products of a tile of 6 rows and 2 vectors, two steps each."""
    root = matmul(sample(ROWS, 64, dtype=dtypes.float32), sample(64, 16, dtype=dtypes.float32))
    (item,) = kernels(root)
    opts = [Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.UPCAST, 0, ROWS), Opt(OptOps.UNROLL, 0, STEPS)]
    program = lower(item.ast, get_target("cpu"), opts).linear
    found = [n for n in program if n.op is Ops.MUL and n.dtype.count == LANES]
    assert len(found) == ROWS * VECTORS * STEPS
    return [sorted(n.src, key=lambda s: s.op is Ops.LOAD) for n in found]


def test_no_sum_grows_twice_before_the_others(products):
    first = [tuple(pair) for pair in products[: ROWS * VECTORS]]
    rows, vectors = {row for row, _ in first}, {vector for _, vector in first}
    assert len(set(first)) == ROWS * VECTORS
    assert len(rows) == ROWS and len(vectors) == VECTORS


def test_what_few_products_share_is_needed_once(products):
    rows = [row for row, _ in products]
    changes = sum(a is not b for a, b in pairwise(rows))
    assert changes == ROWS * STEPS - 1


def test_a_copy_that_is_cut_has_happened_before_it_is_read():
    """One part of the copy is all border and needs fewer loops than the barrier behind it."""
    random = np.random.default_rng(0)
    stride, padding, dilation = (5, 1, 1), (2, 3, 2), (2, 2, 1)
    image, shape = random.standard_normal((16, 2, 2, 4)), (1, 16, 3, 3, 2)
    w = Tensor.empty(*shape, dtype="float32").requires_grad_()
    y = Tensor(image[None].astype(np.float32)).conv3d(w, None, stride, padding, dilation)
    seed = random.standard_normal(tuple(y.shape))
    (found,) = y.gradient(w, gradient=Tensor(seed.astype(np.float32)))
    wide = np.pad(image, ((0, 0), *((amount, amount) for amount in padding)))
    expected = np.zeros(shape)
    for tap in np.ndindex(*shape[2:]):
        for place in np.ndindex(*seed.shape[2:]):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, stride, tap, dilation))
            expected[(0, slice(None), *tap)] += wide[(slice(None), *at)] * seed[(0, 0, *place)]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
