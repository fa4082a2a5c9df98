"""Sums down columns are read row by row, and are the same sums."""

from dataclasses import replace

import numpy as np
import pytest

import torpor
from tests.kernel.products import agree
from torpor import Tensor
from torpor.base.settings import Context
from torpor.device.machine import facts, machine
from torpor.ir.uop import UOp
from torpor.kernel import Kernel, OptOps
from torpor.kernel.choose.columns import find_columns, register_tile
from torpor.kernel.choose.heuristics import choose

AVX2 = facts(machine("avx2"))

SHAPES = [(512, 1024), (1031, 640), (1000, 999), (4096, 100), (77, 640), (30, 8, 700), (3, 64, 513)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_down_columns(shape):
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    axis = len(shape) - 2
    agree(Tensor(x).sum(axis).numpy(), x.astype(np.float64).sum(axis), shape[axis])
    assert (Tensor(x).amax(axis).numpy() == x.max(axis)).all()


def test_several_matrices_of_any_number_of_rows():
    random = np.random.default_rng(4)
    for rows in range(1, 35):
        x = random.integers(0, 100, (31, rows, 300), np.uint8)
        assert (Tensor(x).amax(1).numpy() == x.max(1)).all(), rows
        whole = x.astype(np.float32)
        assert (Tensor(whole).sum(1).numpy() == whole.sum(1)).all(), rows


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("size", [(512, 1024), (768, 500), (129, 600)], ids=str)
def test_few_rows_times_a_matrix(rows, size):
    random = np.random.default_rng(2)
    x = random.standard_normal((rows, size[0]), np.float32)
    w = random.standard_normal(size, np.float32)
    result = (Tensor(x) @ Tensor(w)).relu()
    agree(result.numpy(), np.maximum(x.astype(np.float64) @ w.astype(np.float64), 0))


def test_a_long_sum_is_done_by_blocks_of_rows():
    (program,) = torpor.lower(Tensor.empty(1, 800) @ Tensor.empty(800, 1024), target="cpu")
    kinds = [opt.op for opt in program.opts]
    assert kinds.count(OptOps.TILE) == 2
    assert OptOps.THREAD in kinds


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8"])
def test_other_formats(dtype):
    x = np.random.default_rng(3).integers(0, 3, (800, 96))
    assert (Tensor(x).cast(dtype).sum(0).cast("int64").numpy() == x.sum(0)).all()


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 13, 32])
def test_register_tiles_leave_registers_for_what_they_read(rows):
    for registers in (16, 32):
        height, vectors = register_tile(
            [UOp.range(rows, 0)], replace(facts(machine("avx2")), registers=registers)
        )
        assert height <= rows
        assert height * vectors < registers
        assert min(height, rows) * vectors >= min(rows * 2, 8)


def test_rows_that_no_tile_divides_get_two_tiles():
    opts = torpor.lower(Tensor.empty(13, 512) @ Tensor.empty(512, 512), target="cpu")[0].opts
    copies = [opt.arg for opt in opts if opt.op is OptOps.UPCAST]
    assert OptOps.PARTITION in [opt.op for opt in opts]
    assert set(copies) == {4, 5, 16}  # 4 + 4 + 5 rows of 16 columns


@pytest.mark.parametrize("shape", [(3, 4, 300, 96), (2, 24, 4096, 70)], ids=str)
def test_several_matrices_with_few_rows(shape):
    many, rows, inner, columns = shape
    random = np.random.default_rng(4)
    x = random.standard_normal((many, rows, inner), np.float32)
    w = random.standard_normal((many, inner, columns), np.float32)
    agree((Tensor(x) @ Tensor(w)).numpy(), x.astype(np.float64) @ w.astype(np.float64), inner)


def test_results_whose_axes_lie_in_another_order_are_left_to_others():
    """Attention with few features: the sums of keys' gradients are stored column after column."""
    random = np.random.default_rng(4)
    query, key, value = (
        Tensor(random.standard_normal((1, 1024, 8)).astype(np.float32), requires_grad=True)
        for _ in range(3)
    )
    out = query.scaled_dot_product_attention(key, value)
    found = out.sum().gradient(value)[0].numpy()
    scores = query.numpy().astype(np.float64)[0] @ key.numpy().astype(np.float64)[0].T / 8**0.5
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    agree(found[0], np.repeat(weights.sum(0)[:, None], 8, 1))


@pytest.mark.parametrize("inner", [1024, 1031])
@pytest.mark.parametrize("rows", [1, 4, 13])
def test_rows_of_bytes_are_multiplied_two_at_a_time(rows, inner):
    random = np.random.default_rng(4)
    a = random.integers(-128, 128, (rows, inner)).astype(np.int8)
    b = random.integers(-128, 128, (inner, 1200)).astype(np.int8)
    result = Tensor(a).int() @ Tensor(b).int()
    with Context(TARGET="avx2"):
        kinds = [opt.op for opt in choose(Kernel(result.schedule()[-1].ast, AVX2))]
    assert OptOps.DOT in kinds
    assert OptOps.STAGE in kinds  # words of the left one
    assert (result.numpy() == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_images_that_windows_read_again_and_again_are_no_matrices():
    x, w = Tensor.empty(4, 16, 24, 24), Tensor.empty(64, 16, 3, 3).requires_grad_()
    y = x.conv2d(w, padding=1)
    (found,) = y.gradient(w, gradient=Tensor.empty(*y.shape))
    kernels = [Kernel(item.ast, AVX2) for item in found.schedule()]
    assert not any(find_columns(kernel) for kernel in kernels)


def test_sums_that_grow_from_one_block_of_rows_to_the_next():
    """Kernels of a chain by blocks of rows add to their own output, which comes before the sum."""
    x = (np.arange(131072 * 100) % 7).astype(np.float32).reshape(131072, 100)
    found = (Tensor(x) * 2).contiguous().sum(0)
    np.testing.assert_array_equal(found.numpy(), 2 * x.sum(0, dtype=np.float64))
