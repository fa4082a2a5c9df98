"""8-bit products are exact to the last unit, in float32 and beyond what it holds."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.ir import Ops
from torpor.kernel.opts.normalise import normalise


def in_single(result):
    (item,) = result.schedule()
    return any(
        n.op is Ops.REDUCE and n.dtype is dtypes.float32 for n in normalise(item.ast).toposort()
    )


@pytest.mark.parametrize(
    ("format", "extreme", "terms", "single"),
    [("int8", -128, 1024, True), ("int8", -128, 1025, False), ("uint8", 255, 258, True),
     ("uint8", 255, 259, False)],
)  # fmt: skip
def test_the_longest_sum(format, extreme, terms, single):
    row = Tensor(np.full((3, terms), extreme, format)).realize()
    column = Tensor(np.full((terms, 5), extreme, format)).realize()
    result = row.int() @ column.int()
    assert in_single(result) is single
    assert (result.numpy() == extreme * extreme * terms).all()


@pytest.mark.parametrize("size", [31, 64])
def test_random_products_are_exact(size):
    generator = np.random.default_rng(size)
    a, b = (generator.integers(-128, 128, (size, size)).astype(np.int8) for _ in "ab")
    for x, y, want in ((a, b, (a, b)), (a.T, b.view(np.uint8), (a.T, b.view(np.uint8)))):
        got = (Tensor(x).int() @ Tensor(y).int()).numpy()
        assert got.dtype == np.int32
        assert (got == want[0].astype(np.int64) @ want[1].astype(np.int64)).all()


def test_wider_integers_stay_integers():
    a = Tensor.empty(8, 8, dtype=dtypes.int16)
    assert not in_single(a.int() @ a.int())
