"""Machine code for 64-bit ARM gives what NumPy gives, under an emulator."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.device import emulator, programs
from tests.device.workloads import Array, workloads
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device import Buffer, worker
from torpor.device.llvm import compile_text, unsealed
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
    needs_emulator()
    workload.verify(results()[workload.name])


def needs_emulator():
    try:
        emulator.tools()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("size", [1, 1000])
def test_the_pool_runs_on_arm(tmp_path, size):
    """Its owner alone: it publishes a job, claims every chunk, and closes it again."""
    needs_emulator()
    emulated = emulator.Emulated(ARM)
    result, operand = (Buffer("CPU", size, dtypes.float32).allocate() for _ in range(2))
    operand.numpy()[:] = np.arange(size)
    entry = emulated.load(programs.scale(size))
    pool = compile_text(worker.worker_text("arm").written_out(), "the pool", ARM)
    emulated.objects["pool"] = unsealed(pool)
    emulated.declared["declare void @torpor_pool_run(ptr, ptr, ptr, i64, i64, i64)"] = None
    state = emulated.reserve(bytes(8 * worker.WORDS))
    emulated.fill([emulated.place(result), emulated.place(operand)])
    emulated.calls += [
        "  store i64 7, ptr getelementptr (i64, ptr @table, i64 2)",
        f"  call void @torpor_pool_run(ptr getelementptr (i8, ptr @memory, i64 {state}),"
        f" ptr @{entry}, ptr @table, i64 {size}, i64 13, i64 0)",
    ]
    emulated.run(tmp_path)
    np.testing.assert_array_equal(emulated.held(result), np.arange(size) * 2 + 7)
    words = np.frombuffer(emulated.memory, np.int64, worker.WORDS, state)
    assert (words[worker.OPEN], words[worker.ACTIVE], words[worker.GENERATION]) == (0, 0, 1)
