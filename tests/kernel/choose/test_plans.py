"""Which register tiles cover an axis, which blocks a sum is cut into, and what they compute."""

import numpy as np
import pytest

from tests.kernel.products import FORMS, agree, operands
from torpor import Tensor
from torpor.device import Device
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.choose.plans import best_plans, depth_of, shapes
from torpor.kernel.choose.products import apply_plan
from torpor.kernel.choose.roles import find_roles
from torpor.kernel.choose.tiling import setting_of
from torpor.kernel.lower import lower
from torpor.kernel.ranges import size_of
from torpor.pipeline import program_for

TARGETS = {name: facts(machine(name)) for name in ("avx2", "avx512")}
AVX2 = TARGETS["avx2"]


def kernel_of(result, target=AVX2):
    return Kernel(result.schedule()[-1].ast, target)


def tiles(lanes, target):
    """The register tiles that are tried for a product of so many columns, the best first."""
    kernel = kernel_of(Tensor.empty(300, 50) @ Tensor.empty(50, lanes), target)
    roles = next(one for one in find_roles(kernel) if one.lanes == lanes)
    return shapes(roles, setting_of(kernel))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("lanes", [7, 17, 33, 56, 88, 127, 200, 399])
def test_tiles_cover_the_axis_and_leave_registers_for_what_they_read(lanes, target):
    width = target.lanes(4)
    for tile in tiles(lanes, target):
        assert tile.panel % width == 0
        assert tile.panel < lanes + width
        assert tile.rows * tile.panel // width <= target.registers - 4


@pytest.mark.parametrize("most", [8, 192, 512])
def test_the_blocks_of_a_sum_divide_its_axes(most):
    a, b = Tensor.empty(4, 3, 40, 36), Tensor.empty(4, 5, 40, 36)
    product = (a.reshape(4, 1, 3, 40, 36) * b.reshape(4, 5, 1, 40, 36)).sum((0, 3, 4))
    for roles in find_roles(kernel_of(product)):
        amounts = depth_of(roles, most)
        sizes = [size_of(r) for r in roles.sums]
        assert all(size % amount == 0 for size, amount in zip(sizes, amounts, strict=True))
        assert 1 < np.prod(amounts) <= most


@pytest.mark.parametrize("size", [(20, 24, 16400), (37, 40, 6000), (64, 16, 10010)])
@pytest.mark.parametrize("form", FORMS)
def test_long_sums(size, form):
    rows, columns, inner = size
    (x, y), (a, b) = operands(rows, inner, columns, form)
    agree((x @ y + 1).numpy(), a @ b + 1, inner)


def test_products_whose_columns_cannot_be_summed_down_get_a_plan():
    """Phases of a gradient: what goes down columns best is refused, since results lie apart."""
    x, w = Tensor.empty(2, 32, 28, 28).requires_grad_(), Tensor.empty(64, 32, 3, 3)
    (x.conv2d(w, stride=2, padding=1) ** 2).sum().backward()
    kernels = [Kernel(item.ast, Device["CPU"].target) for item in x.grad.schedule()]
    products = [kernel for kernel in kernels if next(find_roles(kernel), None)]
    assert products
    for kernel in products:
        assert OptOps.UPCAST in [opt.op for opt in choose(kernel)], kernel.name


def test_what_a_first_cache_holds_is_read_where_it_is():
    small, wide = (Tensor.empty(n, n) @ Tensor.empty(n, n) for n in (64, 500))
    packs = [OptOps.STAGE in [opt.op for opt in choose(kernel_of(x))] for x in (small, wide)]
    assert packs == [False, True]


@pytest.mark.parametrize("name", TARGETS)
def test_rows_that_are_multiplied_by_rows_make_whole_vectors(name):
    """Both operands lie along the sum: vectors of lanes read where they are would be none."""
    product = Tensor.empty(24, 16) @ Tensor.empty(16, 16).T
    linear = lower(product.schedule()[-1].ast, TARGETS[name]).linear
    widths = {node.dtype.count for node in linear if node.op is Ops.MUL and node.dtype.is_float}
    assert widths == {TARGETS[name].lanes(4)}


def test_every_plan_of_a_convolution_gives_the_same():
    """Blocks of lanes, of the sum, of one axis of rows or another: the interpreter agrees."""
    random = np.random.default_rng(3)
    x, w = (
        random.integers(-4, 5, size).astype(np.float32) for size in ((2, 4, 6, 8), (16, 4, 3, 3))
    )
    item = Tensor(x).conv2d(Tensor(w)).schedule()[-1]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w)
    kernel, cut = Kernel(item.ast, AVX2), 0
    for _, plan in best_plans(kernel):
        made = kernel.copy()
        if not apply_plan(made, plan):
            continue
        buffers = [n.arg if n.arg.is_allocated() else n.arg.allocate() for n in item.buffers]
        program = program_for(item.ast, AVX2, made.opts)
        Device["PYTHON"].executable(program, b"")(buffers)
        np.testing.assert_array_equal(buffers[0].numpy().reshape(expected.shape), expected)
        cut += plan.rows > 0 and plan.outer < len(plan.roles.rows) - 1
    assert cut
