"""The order of a program: in which order the sums of a register tile grow."""

from itertools import pairwise

import pytest

from tests.kernel.kernels import matmul, sample
from tests.schedule.graphs import kernels
from torpor import dtypes
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
