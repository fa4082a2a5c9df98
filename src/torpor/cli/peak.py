"""What this machine can do at most, measured: arithmetic and memory, with generated kernels.

Nothing here is a peak by definition: a kernel that beats it shows that this file can be improved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from torpor.capture import jit
from torpor.device import Device
from torpor.device.pool import thread_count
from torpor.kernel import Opt, OptOps
from torpor.pipeline import program_for
from torpor.tensor import Tensor

ROUNDS: Final = 7
CHAINS: Final = 8  # independent vectors in flight: two multiply-adds a cycle, four cycles each
DEPTH: Final = 64  # multiply-adds of each between two loads
STEPS: Final = 2048
ROWS: Final = 32  # a thread: about 3 ms of work
MEMORY_SIZE: Final = 1 << 24  # elements: 64 MB, more than caches hold


@dataclass(frozen=True)
class Peaks:
    """Of all threads together: float32 operations a second, and bytes a second of a sum (only
    reads), a copy (as many writes as reads), a triad (two reads to a write) and a fill (only
    writes). Writes count once, whatever the caches do.
    """

    flops: float
    read: float
    copy: float
    triad: float
    write: float


def fastest(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of some calls, after one that is not timed."""
    call()
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def chained(x: Tensor, depth: int) -> Tensor:
    """`depth` multiply-adds, each needing the one before; their fixed point keeps them normal."""
    for _ in range(depth):
        x = x * 0.75 + 0.25
    return x


def measure_flops() -> float:
    """Multiply-adds in registers: `CHAINS` independent chains of vectors on every thread."""
    device = Device["CPU"]
    lanes = device.target.vector_bytes // 4
    rows = Tensor.rand(ROWS * thread_count() * lanes, 1).realize()
    steps = Tensor.rand(STEPS).realize()
    (item,) = chained(rows + steps, DEPTH).sum(1).schedule()
    opts = [Opt(OptOps.UNROLL, 0, CHAINS), Opt(OptOps.UPCAST, 0, lanes), Opt(OptOps.THREAD, 0, 0)]
    program = program_for(item.ast, device.target, opts)
    executable = device.executable(program, device.compiler.compile(program))
    buffers = [node.arg for node in item.buffers]
    for buffer in buffers:
        if not buffer.is_allocated():
            buffer.allocate()
    # Two multiply-adds more in each chain's turn: the sum that begins it and the one that ends it.
    operations = float(rows.shape[0] * STEPS * (2 * DEPTH + 2))
    return operations / fastest(lambda: executable(buffers))


def measure_bandwidth() -> dict[str, float]:
    """Bytes a second by kind of traffic: the better of generated kernels and NumPy's."""
    plain = [np.ones(MEMORY_SIZE, np.float32) for _ in range(3)]
    x, y, z = (Tensor(array).realize() for array in plain)
    size = 4.0 * MEMORY_SIZE
    calls: dict[str, tuple[float, Callable[[], Any], Callable[[], Any] | None]] = {
        "read": (size, jitted(lambda: x.sum()), None),
        "copy": (2 * size, jitted(lambda: z.assign(x + 1)), lambda: np.copyto(plain[2], plain[0])),
        "triad": (3 * size, jitted(lambda: z.assign(x + y * 3)), None),
        "write": (size, jitted(lambda: z.assign(z.zeros_like())), lambda: plain[2].fill(1)),
    }
    return {
        name: amount / min(fastest(call) for call in (ours, theirs) if call is not None)
        for name, (amount, ours, theirs) in calls.items()
    }


def jitted(function: Callable[[], Tensor]) -> Callable[[], Any]:
    """The function jitted, its result computed."""
    return jit(lambda: function().realize())


def measure_peaks() -> Peaks:
    """Everything at once; about half a second."""
    return Peaks(measure_flops(), **measure_bandwidth())
