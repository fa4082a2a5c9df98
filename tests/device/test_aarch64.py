"""Machine code for 64-bit ARM gives what NumPy gives, under an emulator."""

import functools
import tempfile
from pathlib import Path

import pytest

from tests.device import emulator
from tests.device.workloads import Array, workloads
from torpor.base.settings import Context
from torpor.device.machine import facts, machine
from torpor.pipeline.compile import program_for

WORKLOADS = workloads()
ARM = machine("aarch64")


@functools.lru_cache(maxsize=1)
def results() -> dict[str, Array]:
    """What each workload gives, all computed by one emulated program."""
    emulated = emulator.Emulated(ARM)
    outputs = {}
    with Context(TARGET="aarch64"):
        for workload in WORKLOADS:
            wanted = workload.compute(*workload.tensors())
            for item in wanted.schedule():
                buffers = [node.arg for node in item.buffers]
                emulated.add(program_for(item.ast, facts(ARM)), buffers)
            outputs[workload.name] = (buffers[0], wanted.shape)
    with tempfile.TemporaryDirectory() as folder:
        emulated.run(Path(folder))
    assert not any(emulated.failures())
    return {name: emulated.held(b).reshape(shape) for name, (b, shape) in outputs.items()}


@pytest.mark.parametrize("workload", WORKLOADS, ids=[w.name for w in WORKLOADS])
def test_arm_code_gives_what_numpy_gives(workload):
    if ARM.runs_here:
        with Context(TARGET="aarch64"):
            workload.verify(workload.compute(*workload.tensors()).numpy())
        return
    try:
        emulator.tools()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    workload.verify(results()[workload.name])
