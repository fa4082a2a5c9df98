"""OpenCL C: golden text, and results on any OpenCL platform that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices import needs
from tests.source import golden, programs, run
from torpor.device import Device
from torpor.ir import Ops

CASES = [c for c in programs.all_cases() if "opencl" not in c.unlike]


@pytest.fixture(scope="module")
def queue():
    device = Device[needs("OPENCL")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPENCL_NO_CACHE", "1")
        yield device.driver.CommandQueue(device.context)


@pytest.fixture(scope="module")
def kernels(queue):
    """All cases as one program: each brings helper functions, so those are named apart."""
    import pyopencl as cl

    texts = []
    for number, case in enumerate(CASES):
        text = run.text_of(case, "opencl")
        for word in ("maximum", "minimum", "floor_divide", "floor_modulo"):
            text = text.replace(f"{word}_", f"{word}{number}_")
        texts.append(text)
    return cl.Program(queue.context, "\n".join(texts)).build()


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_agrees_with_numpy(case, queue, kernels):
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory, error = run.buffers(case), np.zeros(1, np.int64)
    checks = any(n.op is Ops.CHECK for n in case.linear)
    hosts = [*memory, error] if checks else memory
    devices = [cl.Buffer(queue.context, flags, hostbuf=h) for h in hosts]
    arguments = [*devices[: len(memory)], *map(np.int32, case.variables), *devices[len(memory) :]]
    groups, items = case.groups
    getattr(kernels, case.name)(queue, (groups * items,), (items,), *arguments)
    for host, device in zip(hosts, devices):
        cl.enqueue_copy(queue, host, device)
    run.compare(case, memory, int(error[0]))


@pytest.mark.parametrize("case", golden.cases("opencl"), ids=lambda c: c.name)
def test_golden(case):
    golden.check(case, "opencl")
