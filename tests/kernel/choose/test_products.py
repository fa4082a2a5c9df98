"""Opts of products: how wide blocks are, and that which products are tiled depends on reuse."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.products import FORMS, agree, operands, opts_of
from torpor.base.target import get_target
from torpor.device.machine import facts, machine
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.choose.products import STREAM, panels_of

AVX2 = facts(machine("avx2"))


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 50))
def test_blocks_pad_no_more_than_needed(panels, most, around):
    count = panels_of(panels, most, 16, around, STREAM)
    assert 1 <= count <= min(panels, most)
    blocks = -(-panels // count)
    assert (blocks - 1) * count < panels  # no block is padding alone


def test_an_axis_that_fits_is_one_block_where_other_loops_are_many():
    assert panels_of(8, 8, 16, 10_000, STREAM) == 8
    assert panels_of(9, 8, 16, 10_000, 0.0) in (1, 3)  # divisors: nothing is padded


@pytest.mark.parametrize(("rows", "tiled"), [(2, False), (64, True)])
def test_products_with_reuse_are_packed(rows, tiled):
    tensors, arrays = operands(rows, 160, 80, "plain")
    result = tensors[0] @ tensors[1]
    assert (OptOps.STAGE in opts_of(result)) is tiled
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize("form", ["plain", "left transposed"])
@pytest.mark.parametrize("sizes", [(96, 96, 96), (2000, 16, 16), (500, 64, 24), (60, 40, 40)])
def test_what_a_first_cache_holds_is_read_where_it_is(sizes, form):
    tensors, arrays = operands(*sizes, form)
    result = tensors[0] @ tensors[1]
    assert OptOps.STAGE not in opts_of(result)
    assert OptOps.THREAD in opts_of(result)
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize(
    ("first", "packed"), [(32 << 10, False), (16 << 10, True), (64 << 10, False)]
)
def test_how_much_that_is_depends_on_the_processor(first, packed):
    tensors, _ = operands(96, 96, 96, "plain")
    (item,) = (tensors[0] @ tensors[1]).schedule()
    opts = choose(Kernel(item.ast, replace(get_target("cpu"), first_bytes=first)))
    assert (OptOps.STAGE in [opt.op for opt in opts]) is packed


def test_small_products_in_a_batch_are_not_packed():
    (x, _), (a, _) = operands(20 * 32, 32, 1, "plain")
    x, a = x.reshape(20, 32, 32), a.reshape(20, 32, 32)
    result = x @ (x.flip(0) + 1).contiguous()
    assert OptOps.STAGE not in opts_of(result)
    agree(result.numpy(), a @ (a[::-1] + 1))


@pytest.mark.parametrize(("inner", "tiled"), [(1000, False), (2048, True)])
def test_sums_too_long_for_panels_of_two_matrices_go_by_blocks(inner, tiled):
    """A block's partial results grow in memory, which one more TILE makes."""
    tensors, arrays = operands(64, inner, 256, "plain")
    result = tensors[0] @ tensors[1]
    assert (opts_of(result).count(OptOps.TILE) == 2) is tiled
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize("columns", [72, 200])
def test_rows_side_by_side_go_by_blocks_of_a_long_sum(columns):
    tensors, arrays = operands(96, 900, columns, "left transposed")
    result = tensors[0] @ tensors[1]
    assert opts_of(result).count(OptOps.TILE) == 2
    agree(result.numpy(), np.matmul(*arrays))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(24, 192, 127), (300, 1000, 18), (23, 331, 97)])
def test_a_panel_as_wide_as_its_axis_is_packed_by_blocks_of_the_sum(sizes, form):
    tensors, arrays = operands(*sizes, form)
    agree((tensors[0] @ tensors[1]).numpy(), np.matmul(*arrays))


def test_no_panel_is_made_narrower_for_a_loop_to_pack_it_in():
    tensors, _ = operands(24, 192, 127, "right transposed")
    (item,) = (tensors[0] @ tensors[1]).schedule()
    opts = choose(Kernel(item.ast, AVX2))
    assert (OptOps.UPCAST, 24) in {(opt.op, opt.arg) for opt in opts}
