"""Register tiles: every row is in one, none much lower than the others; packing only what fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.kernels import case, check_kernel, matmul, sample
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.ir.records import OptOps
from torpor.kernel.choose.plans import rows_together
from torpor.kernel.choose.registers import cut_apart, stage_over, write_rows
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import kind_of, size_of

CPU = get_target("cpu")


def product(rows, inner=12, columns=16):
    return case("product", matmul(sample(rows, inner), sample(inner, columns, step=3)))


def kernel_of(rows):
    return Kernel(product(rows).item("CPU").ast, CPU)


@given(st.integers(1, 300), st.integers(1, 64), st.sampled_from([8, 16, 64]))
def test_blocks_of_rows_are_even_or_as_high_as_may_be(height, most, line):
    block = rows_together(height, most, line)
    assert 1 <= block <= min(height, most)
    assert height % block == 0 or block == min(height, most)


@pytest.mark.parametrize(
    ("rows", "most", "heights"), [(12, 6, {6}), (13, 6, {4, 5}), (7, 4, {3, 4}), (5, 6, {5})]
)
def test_tiles_differ_by_a_row_at_most(rows, most, heights):
    kernel = kernel_of(rows)
    write_rows(kernel, 0, most)
    assert {size_of(r) for r in kernel.axes if kind_of(r) is AxisType.UPCAST} == heights
    check_kernel(product(rows), "CPU", kernel.opts)


@pytest.mark.parametrize(("first", "rest"), [(4, 3), (6, None)])
def test_a_single_round_needs_no_loop(first, rest):
    kernel = kernel_of(7)
    place = cut_apart(kernel, 0, first)
    assert (None if place is None else size_of(kernel.axes[place])) == rest
    check_kernel(product(7), "CPU", kernel.opts)


@pytest.mark.parametrize("room", [0, 12 * 16 * 8])
def test_what_has_no_room_is_not_packed(room):
    kernel = kernel_of(8)
    packed = stage_over(kernel, 0, kernel.axes[1], room)
    assert packed is bool(room)
    assert (OptOps.STAGE in [opt.op for opt in kernel.opts]) is packed
    check_kernel(product(8), "CPU", kernel.opts)
