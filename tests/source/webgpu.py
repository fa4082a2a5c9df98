"""WGSL programs run through WebGPU, where `wgpu` and an adapter of it are installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from torpor.source import signature


@cache
def device() -> Any:
    """A device; skips the test where there is none."""
    wgpu = pytest.importorskip("wgpu", reason="wgpu is not installed")
    try:
        adapter = wgpu.gpu.request_adapter_sync()
        if "OpenGL" in adapter.info["backend_type"]:
            pytest.skip("WebGPU has only OpenGL here, which lacks parts of it")
        name = "max-storage-buffers-per-shader-stage"
        return adapter.request_device_sync(
            required_limits={name: adapter.limits[name]},
            required_features=adapter.features & {"shader-f16"},
        )
    except RuntimeError as error:
        pytest.skip(f"no WebGPU adapter: {error}")


def padded(array: np.ndarray) -> bytes:
    """The array's bytes in whole words."""
    data = array.tobytes()
    return data + bytes(-len(data) % 4)


def run(text, name, linear, arrays, variables=(), groups=1):
    """What the program leaves in each array, and the error word."""
    opened, takes = device(), signature(linear)
    storage, uniform = 0x80 | 0x4 | 0x8, 0x40 | 0x8  # usage: STORAGE | COPY_SRC | COPY_DST, ...
    used = {n for n, p in takes.parameters if p is not None}
    buffers = [opened.create_buffer_with_data(data=padded(a), usage=storage) for a in arrays]
    entries = {n: b for n, b in enumerate(buffers) if n in used}
    given = zip(takes.variables, variables, strict=True)
    for number, (variable, value) in enumerate(given, len(takes.parameters)):
        data = np.array(value).astype(variable.dtype.numpy).tobytes()
        entries[number] = opened.create_buffer_with_data(data=data, usage=uniform)
    error = opened.create_buffer_with_data(data=bytes(4), usage=storage)
    if takes.checks:
        entries[len(takes.parameters) + len(takes.variables)] = error
    pipeline = opened.create_compute_pipeline(
        layout="auto",
        compute={"module": opened.create_shader_module(code=text), "entry_point": name},
    )
    bound = opened.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": n, "resource": {"buffer": b}} for n, b in entries.items()],
    )
    encoder = opened.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, bound)
    work.dispatch_workgroups(*(groups if isinstance(groups, tuple) else (groups,)))
    work.end()
    opened.queue.submit([encoder.finish()])
    read = [opened.queue.read_buffer(b) for b in buffers]
    results = [
        np.frombuffer(r, np.uint8)[: a.nbytes].view(a.dtype)
        for r, a in zip(read, arrays, strict=True)
    ]
    return results, int(np.frombuffer(opened.queue.read_buffer(error), np.int32)[0])
