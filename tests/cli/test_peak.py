"""What the machine can do at most: kernels that are nothing but multiply-adds."""

from __future__ import annotations

import re

import numpy as np
import pytest

from torpor import Context, lower
from torpor.cli import peak
from torpor.device.llvm import LlvmCompiler
from torpor.device.machine import facts, machine

REGISTERS = {"sse": "xmm", "avx2": "ymm", "avx512": "zmm"}


@pytest.fixture
def few(monkeypatch):
    """Little work."""
    monkeypatch.setattr(peak, "TILES", 2)
    monkeypatch.setattr(peak, "ROWS", 1)
    monkeypatch.setattr(peak, "STEPS", 32)
    monkeypatch.setattr(peak, "DEPTH", 8)
    monkeypatch.setattr(peak, "SIDE", 32)


@pytest.mark.parametrize("name", [*REGISTERS, "aarch64"])
def test_sums_in_registers_hide_how_long_one_multiply_add_takes(name, few):
    """In the innermost loop more sums than 2 multiply-adds a cycle of 5 cycles each, or 4 of 4,
    need; of the widest vectors, each a sum of its own, and none in memory.
    """
    busy = peak.tiles(facts(machine(name)))
    with Context(TARGET=name):
        (program,) = lower(busy.result, opts=busy.opts)
    assembly = LlvmCompiler(machine(name)).assembly(program)
    if name == "aarch64":
        sums, least = re.findall(r"fmla\t(v\d+)\.4s", assembly), 16
    else:
        wide = rf"%({REGISTERS[name]}\d+)$"
        operation = "addps" if name == "sse" else r"vfmadd\d+ps"
        sums = re.findall(rf"\t{operation}\t.*{wide}", assembly, re.MULTILINE)
        least = 20 if name == "avx512" else 10
    assert len(set(sums)) >= least


def test_what_is_counted_is_what_is_computed(few):
    target = facts(machine(""))
    for busy in (peak.chains(target), peak.tiles(target), peak.product()):
        (program,) = lower(busy.result, opts=busy.opts)
        assert program.ops == pytest.approx(busy.operations, rel=0.02)
        plain = busy.result.numpy()
        peak.runner(busy.result, busy.opts)()
        assert np.isfinite(plain).all()
