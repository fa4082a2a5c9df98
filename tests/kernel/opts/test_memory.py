"""Opts about memory: what they keep, how much of it, and when they do not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernel.kernels import add, case, matmul, sample
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.ir.ops import STREAMED
from torpor.kernel import Kernel, Opt, OptOps


def product(**changes):
    """A kernel for a product of 8 rows, 6 columns and 12 terms."""
    ast = case("product", matmul(sample(8, 12), sample(12, 6))).item("CPU").ast
    return Kernel(ast, replace(get_target("cpu"), **changes))


@pytest.mark.parametrize(
    ("level", "operand", "elements"), [(0, 0, 12), (1, 0, 12), (0, 1, 72), (1, 1, 12)]
)
def test_a_loop_packs_what_its_rounds_read(level, operand, elements):
    """A row of the left operand, the right one whole outside the columns, and a column inside."""
    kernel = product().apply([Opt(OptOps.STAGE, level, operand)])
    (memory,) = kernel.staged()
    assert memory.arg.size == elements


def test_what_is_packed_has_to_fit():
    with pytest.raises(OptError, match=r"STAGE.*576 bytes would be staged, and there are 575"):
        product(stage_bytes=575).apply([Opt(OptOps.STAGE, 0, 1)])
    with pytest.raises(OptError, match=r"STAGE.*reductions read 2 values"):
        product().apply([Opt(OptOps.STAGE, 0, 2)])
    with pytest.raises(OptError, match=r"STAGE.*it is a reduce axis"):
        product().apply([Opt(OptOps.STAGE, 2, 0)])


@pytest.mark.parametrize("amount", [2, 3, 4])
def test_a_sum_in_blocks_keeps_a_partial_result_for_each_output(amount):
    kernel = product().apply([Opt(OptOps.TILE, 2, amount)])
    (memory,) = kernel.staged()
    assert memory.arg.size == 8 * 6


def test_stores_are_streamed_once():
    one = case("sum", add(sample(24), sample(24)))
    kernel = Kernel(one.item("CPU").ast, get_target("cpu")).apply([Opt(OptOps.STREAM)])
    assert all(store.arg == STREAMED for store in kernel.ast.src)
    with pytest.raises(OptError, match="streamed already"):
        kernel.apply_opt(Opt(OptOps.STREAM))


@pytest.mark.parametrize(
    ("opt", "why"),
    [
        (Opt(OptOps.DOT, 0, 2), "DOT.*no instruction for 2 terms"),
        (Opt(OptOps.TENSORCORE, 0, 4), "DOT.*no instruction for 4 terms"),
        (Opt(OptOps.STAGE, 0, -1), "STAGE.*no windows slide"),
        (Opt(OptOps.STAGE, 0, -10), "STAGE.*there are 2 loads"),
    ],
)
def test_what_a_product_of_floats_lacks(opt, why):
    with pytest.raises(OptError, match=why):
        product().apply_opt(opt)
