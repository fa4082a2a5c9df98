"""Sums down the columns of a large matrix are done in parts, by sizes alone."""

import numpy as np
import pytest

from tests.kernel.products import agree
from torpor import Context, Tensor
from torpor.base.target import get_target
from torpor.kernel.split.parts import PARTS, in_parts

RANDOM = np.random.default_rng(1)
CPU = get_target("cpu")


@pytest.mark.parametrize("rows", [1, 5, 32])
def test_few_rows_times_a_large_matrix(rows):
    x = RANDOM.standard_normal((rows, 2048), np.float32)
    w = RANDOM.standard_normal((2048, 1100), np.float32)
    b = RANDOM.standard_normal(1100, np.float32)
    result = (Tensor(x) @ Tensor(w) + Tensor(b)).relu()
    first, second = result.schedule()
    assert first.buffers[0] is second.buffers[-1]
    assert first.buffers[0].arg.size % (rows * 1100) == 0
    assert 1 < first.buffers[0].arg.size // (rows * 1100) <= PARTS
    with Context(THREADS=1):
        alone = result.numpy()
    agree(alone, np.maximum(x.astype(np.float64) @ w.astype(np.float64) + b, 0))
    again = (Tensor(x) @ Tensor(w) + Tensor(b)).relu()
    assert (again.numpy() == alone).all()


def test_largest_elements_of_columns():
    x = RANDOM.standard_normal((4096, 520), np.float32)
    assert len(Tensor(x).amax(0).schedule()) == 2
    assert (Tensor(x).amax(0).numpy() == x.max(0)).all()


@pytest.mark.parametrize(
    "product",
    [
        Tensor.empty(1, 512) @ Tensor.empty(512, 512),  # the caches hold it
        Tensor.empty(512, 512) @ Tensor.empty(512, 4096),  # many rows
        Tensor.empty(1, 2048) @ Tensor.empty(2048, 2048).T,  # sums along rows
        Tensor.empty(32, 24) @ Tensor.empty(24, 99991),  # a short sum
    ],
)
def test_other_products_are_left_whole(product):
    (item,) = product.schedule()
    assert in_parts(item.ast, CPU) is None


def test_targets_with_groups_are_left_alone():
    product = Tensor.empty(1, 2048) @ Tensor.empty(2048, 2048)
    item = product.schedule()[0]
    assert in_parts(item.ast, get_target("cuda")) is None
