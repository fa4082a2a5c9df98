"""Elements close by, read as rows and shuffled: where rows lie, and kernels that use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.device import Device, numpy_buffer
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg, Program
from torpor.ir.uop import UOp
from torpor.kernel import lower
from torpor.kernel.passes.interleaved_loads import in_runs, runs_of

SHIFTS = {
    "every second": list(range(0, 15, 2)),
    "twice as many": list(range(1, 32, 2)),
    "pairs": [0, 1, 2, 3],
    "two": [0, 1],
    "five": [3, 4, 5, 6, 7],
    "two rows": [*range(16), *range(17, 33)],
    "apart": [0, 1, 100, 101, 102],
    "before": list(range(-14, 1, 2)),
}


@pytest.mark.parametrize("shifts", SHIFTS.values(), ids=SHIFTS)
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_rows_hold_what_they_should_and_nothing_outside(shifts, width):
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 1000))
    place = UOp(Ops.INDEX, dtypes.float32, (memory, UOp.index_const(0)))
    load = UOp(Ops.LOAD, dtypes.float32, (place,))
    found = in_runs((memory, UOp.index_const(0), ()), dict.fromkeys(shifts, load), width)
    runs = runs_of(shifts)
    assert sorted(found) == sorted(shifts)
    for shift, (row, lane) in found.items():
        (run,) = [r for r in runs if shift in r]
        start = int(row.src[0].src[1].arg)
        assert start + lane == shift
        assert 0 <= lane < row.dtype.count <= width
        assert run[0] <= start and start + row.dtype.count - 1 <= run[-1]


def windows(values, size):
    high, wide = (n // size * size for n in values.shape[-2:])
    cut = values[..., :high, :wide]
    return cut.reshape(*cut.shape[:-2], high // size, size, wide // size, size)


NUMBERS = [64, 61, 48, 17]
KINDS = ["float32", "float64", "uint8"]
CASES = {
    "every second": (lambda x: x[::2] * 2, lambda a: a[::2] * 2),
    "from one on": (lambda x: x[1::2] * 2, lambda a: a[1::2] * 2),
    "backwards": (lambda x: x.flip(0) * 2, lambda a: a[::-1] * 2),
    "each second, backwards": (lambda x: x.flip(0)[::2] * 2, lambda a: a[::-1][::2] * 2),
    "every third": (lambda x: x[::3] * 2, lambda a: a[::3] * 2),
    "pairs": (
        lambda x: x[: x.shape[0] // 2 * 2].reshape(-1, 2).sum(-1),
        lambda a: a[: len(a) // 2 * 2].reshape(-1, 2).sum(-1, dtype=a.dtype),
    ),
    "fours": (
        lambda x: x[: x.shape[0] // 4 * 4].reshape(-1, 4).amax(-1),
        lambda a: a[: len(a) // 4 * 4].reshape(-1, 4).max(-1),
    ),
    "twice": (
        lambda x: x.reshape(-1, 1).expand(-1, 2).reshape(-1) * 2,
        lambda a: np.repeat(a, 2) * 2,
    ),
    "by turns": (
        lambda x: x[:2].reshape(1, 2).expand(16, 2).reshape(-1) * 2,
        lambda a: np.tile(a[:2], 16) * 2,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_reads_with_steps_equal_numpy(case, kind):
    ours, theirs = case
    for number in NUMBERS:
        values = (np.arange(number) * 5 % 23).astype(kind)
        found, expected = ours(Tensor(values).realize()).numpy(), theirs(values)
        np.testing.assert_array_equal(found.astype(kind), expected.astype(kind))


@pytest.mark.parametrize("shape", [(2, 4, 16, 16), (3, 2, 24, 24), (1, 3, 17, 33), (2, 2, 9, 7)])
def test_pooling_and_its_gradient_equal_numpy(shape):
    """Of distinct whole numbers, whose sums every order gives exactly."""
    values = np.random.default_rng(1).permutation(int(np.prod(shape))).astype(np.float32)
    values = values.reshape(shape)
    parts = windows(values, 2)
    highest = parts.max((-3, -1))
    incoming = np.arange(highest.size, dtype=np.float32).reshape(highest.shape) % 7
    bias = Tensor(np.zeros(shape[1], np.float32)).realize()
    bias.requires_grad_(True)
    x = Tensor(values).realize()
    x.requires_grad_(True)
    pooled = (x + bias.reshape(1, -1, 1, 1)).max_pool2d(2)
    (pooled * Tensor(incoming)).sum().backward()
    np.testing.assert_array_equal(pooled.numpy(), highest)
    np.testing.assert_array_equal(x.detach().avg_pool2d(2).numpy(), parts.sum((-3, -1)) / 4)
    np.testing.assert_array_equal(bias.grad.numpy(), incoming.sum((0, 2, 3)))
    chosen = parts == highest[..., :, None, :, None]
    expected = np.zeros_like(values)
    high, wide = (n // 2 * 2 for n in shape[-2:])
    spread = (chosen * incoming[..., :, None, :, None]).reshape(*shape[:2], high, wide)
    expected[..., :high, :wide] = spread
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def lowered(root):
    """One kernel as for a CPU of 8 lanes and no threads."""
    (item,) = root.schedule()
    return lower(item.ast, replace(get_target("cpu"), threads=False)).linear


def test_every_second_element_takes_reads_of_rows_only():
    x = Tensor(np.arange(64, dtype=np.float32)).realize()
    loads = [n for n in lowered(x[::2] * 2) if n.op is Ops.LOAD]
    assert loads
    assert all(n.dtype.count > 1 for n in loads)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("number", [64, 63, 40])
def test_the_interpreter_agrees_and_finds_no_read_outside(case, number):
    """The linear program for a CPU, on memories of exactly the size."""
    ours, theirs = case
    values = (np.arange(number) * 5 % 23).astype(np.float32)
    expected = theirs(values)
    linear = lowered(ours(Tensor(values).realize()))
    found = np.zeros(expected.size, np.float32)
    names = ("float32", "float32")
    program = Program("p", "", "python", parameters=names, linear=tuple(linear))
    device = Device["PYTHON"]
    run = device.executable(program, device.compiler.compile(program))
    assert run([numpy_buffer(found, "PYTHON"), numpy_buffer(values, "PYTHON")]) == 0
    np.testing.assert_array_equal(found, expected)
