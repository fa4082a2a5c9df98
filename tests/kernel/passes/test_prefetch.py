"""Memory is fetched ahead where many rows lie side by side, and before the next row of a kernel."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from torpor import Tensor
from torpor.device import Device
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.kernel import Opt, OptOps
from torpor.kernel.passes.prefetch import AHEAD, LONGEST, fetches
from torpor.pipeline import program_for

STREAM = Opt(OptOps.STREAM)
TARGET = facts(machine("avx2,l1=32K,l2=512K,l3=32M"))


def program_of(result, opts):
    (item,) = result.schedule()
    return item, program_for(item.ast, TARGET, opts)


def transpose(rows):
    """Blocks of `rows` rows and 8 columns, along the rows."""
    blocks = [Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.UPCAST, 1, rows)]
    return [*blocks, Opt(OptOps.SWAP, 0, 1), STREAM]


def passes(vectors):
    """Passes over the rows of a norm, the last one stored."""
    unrolled = Opt(OptOps.UNROLL, 0, 8 * vectors)
    return [unrolled, Opt(OptOps.UPCAST, 1, 8 * vectors), STREAM]


def norm(x):
    return x / (x * x).mean(-1, keepdim=True).sqrt()


@pytest.mark.parametrize(("rows", "fetched"), [(16, 0), (32, 32)])
def test_rows_read_side_by_side(rows, fetched):
    """Each row by itself, two lines on."""
    _, program = program_of(Tensor.empty(96, 200).T.contiguous(), transpose(rows))
    assert list(fetches(program.linear, TARGET).values()) == [AHEAD] * fetched


@pytest.mark.parametrize("cache", [256 << 10, 512 << 10])
@pytest.mark.parametrize("columns", [512, 1024, 16384, 32768, 65536])
def test_the_next_row_while_the_last_pass_goes_over_this_one(columns, cache):
    """One fetch for each line of a round, a row on; not of rows that are too short or too long."""
    _, program = program_of(norm(Tensor.empty(4096, columns)), passes(4))
    found = fetches(program.linear, replace(TARGET, cache_bytes=cache))
    wanted = [4 * columns] * 2 if 4096 <= 4 * columns <= LONGEST * cache else []
    assert list(found.values()) == wanted
    loops = [n for n in program.linear if n.op is Ops.RANGE]
    assert all(loops[-1] in load.src[0].src[1].toposort() for load in found)


def test_what_is_read_once_in_a_row_is_not_fetched():
    _, program = program_of(Tensor.empty(64, 4096) + 1, [Opt(OptOps.UPCAST, 0, 32), STREAM])
    assert fetches(program.linear, TARGET) == {}


def test_only_the_function_that_stores_past_the_caches_fetches():
    _, program = program_of(norm(Tensor.empty(8, 1024)), passes(4))
    functions = re.findall(r"define void @(\w+)\(.*?\n}", program.source, re.DOTALL)
    texts = re.findall(r"define void @.*?\n}", program.source, re.DOTALL)
    assert [n for n, t in zip(functions, texts, strict=True) if "llvm.prefetch" in t] == [
        f"{program.name}_streaming"
    ]
    _, plain = program_of(norm(Tensor.empty(8, 1024)), passes(4)[:2])
    assert "llvm.prefetch" not in plain.source


def test_fetches_past_the_end_change_nothing():
    values = np.random.default_rng(5).standard_normal((64, 1024)).astype(np.float32)
    for result, opts, expected in (
        (norm(Tensor(values)), passes(4), values / np.sqrt((values**2).mean(-1, keepdims=True))),
        (Tensor(values).T.contiguous(), transpose(32), values.T),
    ):
        item, program = program_of(result, opts)
        assert "llvm.prefetch" in program.source
        device = Device["CPU"]
        buffers = [node.arg for node in item.buffers]
        buffers[0].allocate()
        device.executable(program, device.compiler.compile(program))(buffers)
        found = buffers[0].numpy().reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
