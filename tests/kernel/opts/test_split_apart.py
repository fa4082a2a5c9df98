"""An axis in two parts: together they run over what it ran over, and results are the same."""

import pytest

from tests.kernel.kernels import case, check_kernel, matmul, sample
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.kernel import Opt, OptOps
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.split import partition
from torpor.kernel.ranges import number_of, size_of

PRODUCT = case("product", matmul(sample(7, 9), sample(9, 5, step=3)))


def kernel_of():
    return Kernel(PRODUCT.item("CPU").ast, get_target("cpu"))


def test_stores_of_an_output_axis_become_two():
    kernel = kernel_of()
    one = kernel.axes[0]
    made = partition(kernel.ast, one, 3, 50)
    assert [s.op for s in made.src] == [Ops.STORE, Ops.STORE]
    sizes = {number_of(r): size_of(r) for r in made.ranges()}
    assert (sizes[number_of(one)], sizes[50]) == (3, 4)
    inner = [{number_of(r) for r in s.toposort() if r.op is Ops.RANGE} for s in made.src]
    assert not inner[0] & {50, 51}  # loops of the second part stand elsewhere


def test_sums_become_two_that_are_added():
    kernel = kernel_of()
    made = partition(kernel.ast, kernel.reduce_axes[0], 4, 50)
    (store,) = made.src
    assert store.src[1].op is Ops.ADD
    assert [size_of(s.src[1]) for s in store.src[1].src] == [4, 5]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("first", [1, 4])
def test_results_are_the_same(axis, first):
    written = Opt(OptOps.UPCAST, axis, 0) if axis < 2 else Opt(OptOps.UNROLL, 0, 0)
    opts = [Opt(OptOps.PARTITION, axis, first), written]
    check_kernel(PRODUCT, "CPU", opts)
    check_kernel(PRODUCT, "PYTHON", opts)
