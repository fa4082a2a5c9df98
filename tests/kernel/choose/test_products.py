"""Opts of products: how wide blocks are, and that which products are tiled depends on reuse."""

import numpy as np
import pytest

from tests.kernel.products import FORMS, agree, operands, opts_of
from torpor.base.settings import Context
from torpor.device.machine import facts, machine
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.plans import best_plans

AVX2 = facts(machine("avx2"))


@pytest.mark.parametrize(("rows", "tiled"), [(2, False), (500, True)])
def test_products_with_reuse_are_packed(rows, tiled):
    tensors, arrays = operands(rows, 500, 500, "plain")
    result = tensors[0] @ tensors[1]
    assert (OptOps.STAGE in opts_of(result)) is tiled
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize("form", ["plain", "left transposed"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (2000, 16, 16), (500, 64, 24), (48, 40, 40)])
def test_what_a_first_cache_holds(sizes, form):
    tensors, arrays = operands(*sizes, form)
    result = tensors[0] @ tensors[1]
    agree(result.numpy(), np.matmul(*arrays))


def test_small_products_in_a_batch_are_not_packed():
    (x, _), (a, _) = operands(20 * 32, 32, 1, "plain")
    x, a = x.reshape(20, 32, 32), a.reshape(20, 32, 32)
    result = x @ (x.flip(0) + 1).contiguous()
    assert OptOps.STAGE not in opts_of(result)
    agree(result.numpy(), a @ (a[::-1] + 1))


@pytest.mark.parametrize(("inner", "more"), [(1000, True), (1024, False)])
def test_tiles_have_rows_that_the_sets_of_the_first_cache_hold(inner, more):
    name = "avx512,l1=32K,l2=1M,l3=32M"
    x = operands(1008, inner, 1024, "plain")[0]
    with Context(TARGET=name):
        (item,) = (x[0] @ x[1]).schedule()
    kernel = Kernel(item.ast, facts(machine(name)))
    tile = best_plans(kernel)[0][1].tile
    assert (tile.rows > 8) is more, "lines of eight rows lie in one set"


@pytest.mark.parametrize("inner", [1000, 2048])
def test_long_sums(inner):
    tensors, arrays = operands(64, inner, 256, "plain")
    result = tensors[0] @ tensors[1]
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(24, 192, 127), (300, 1000, 18), (23, 331, 97)])
def test_a_panel_as_wide_as_its_axis_is_packed_by_blocks_of_the_sum(sizes, form):
    tensors, arrays = operands(*sizes, form)
    agree((tensors[0] @ tensors[1]).numpy(), np.matmul(*arrays))
