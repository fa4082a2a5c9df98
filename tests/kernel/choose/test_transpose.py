"""Transposes of any size move every element to its place, block by block."""

from dataclasses import replace

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.device import Device
from torpor.device.machine import facts, machine
from torpor.kernel import Kernel, OptOps
from torpor.kernel.choose.heuristics import choose

SHAPES = [(64, 48), (8, 16), (7, 300), (97, 109), (5, 1000), (33, 4), (100, 99)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_transposes(shape, dtype):
    x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    assert (Tensor(x).T.contiguous().numpy() == x.T).all()


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 3, 2)], ids=str)
def test_permutations_with_arithmetic(order):
    x = np.random.default_rng(2).standard_normal((3, 9, 12, 20)).astype(np.float32)
    result = (Tensor(x).permute(*order) * 2 + 1).contiguous()
    assert (result.numpy() == np.float32(2) * x.transpose(order) + np.float32(1)).all()


def test_sums_with_the_transpose():
    x = np.random.default_rng(3).standard_normal((50, 50)).astype(np.float32)
    assert (Tensor(x) + Tensor(x).T).numpy().tolist() == (x + x.T).tolist()


@pytest.mark.parametrize(
    ("name", "dtype", "written", "read"),
    [
        ("avx2", "float32", 8, 16),
        ("avx512", "float32", 16, 16),
        ("avx512", "float16", 16, 32),
        ("avx2", "int8", 16, 32),
    ],
)
def test_a_block_has_a_vector_by_a_line(name, dtype, written, read):
    """Of 64 bytes, or less where that were too many elements to write out."""
    x = Tensor.empty(1024, 4096, dtype=getattr(torpor.dtypes, dtype))
    (item,) = x.T.contiguous().schedule()
    target = facts(machine(name))
    inside, past = (
        choose(Kernel(item.ast, replace(target, stream_bytes=least)))
        for least in (1 << 30, 1 << 16)
    )
    assert [o.arg for o in inside if o.op is OptOps.UPCAST] == [written, read]
    assert [o.arg for o in past if o.op is OptOps.UPCAST] == [written, min(2 * read, 32)]
    assert {o.op for o in past} - {o.op for o in inside} == {OptOps.SWAP, OptOps.STREAM}


@pytest.mark.parametrize("rows", [3000, 3001, 1000])
def test_rows_that_begin_inside_of_a_line_are_written_from_end_to_end(rows):
    (item,) = Tensor.empty(rows, 5000).T.contiguous().schedule()
    target = replace(Device["CPU"].target, stream_bytes=1 << 16)
    assert OptOps.SWAP not in {o.op for o in choose(Kernel(item.ast, target))}


@pytest.mark.parametrize("shape", [(3001, 4003), (1023, 1025), (127, 131)])
def test_threads_share_matrices_of_odd_sizes(shape):
    (item,) = Tensor.empty(*shape).T.contiguous().schedule()
    chosen = choose(Kernel(item.ast, Device["CPU"].target))
    assert OptOps.THREAD in {o.op for o in chosen}


def test_a_short_axis_that_is_written_is_written_out():
    x = np.random.default_rng(4).standard_normal((3, 40, 33)).astype(np.float32)
    turned = Tensor(x).permute(2, 1, 0).contiguous()
    (program,) = torpor.lower(turned, target="cpu")
    assert [o.op for o in program.opts[:1]] == [OptOps.UPCAST]
    assert (turned.numpy() == x.transpose(2, 1, 0)).all()


def test_both_axes_are_written_out():
    (program,) = torpor.lower(Tensor.empty(256, 512).T.contiguous(), target="cpu")
    assert [o.op for o in program.opts] == [OptOps.UPCAST, OptOps.UPCAST, OptOps.THREAD]


@pytest.mark.parametrize("side", [(0, 0), (1, 1), (1, 0), (2, 5)], ids=str)
@pytest.mark.parametrize("width", [7, 14, 20, 56])
def test_what_is_turned_has_borders(width, side):
    x = np.random.default_rng(4).standard_normal((2, 20, 9, width)).astype(np.float32)
    wide = Tensor(x).pad(((0, 0), (0, 0), (1, 2), side)).permute(0, 2, 3, 1)
    expected = np.pad(x, ((0, 0), (0, 0), (1, 2), side)).transpose(0, 2, 3, 1)
    assert (wide.contiguous().numpy() == expected).all()


@pytest.mark.parametrize("shape", [(2048,), (8, 256), (4, 100)], ids=str)
def test_blocks_that_are_read_backwards_get_vectors(shape):
    """The gradient of a product takes at each level the other half of a block: near along an axis,
    though not linear in it.
    """
    numbers = np.random.default_rng(3).uniform(0.95, 1.05, shape)
    x = Tensor(numbers.astype("f")).realize().requires_grad_()
    found = x.prod(-1).sum().gradient(x)[0]
    last = torpor.lower(found)[-1]
    assert any(opt.op is OptOps.UPCAST and opt.arg >= 4 for opt in last.opts)
    expected = numbers.prod(-1, keepdims=True) / numbers
    np.testing.assert_allclose(found.numpy(), expected, rtol=3e-5)
