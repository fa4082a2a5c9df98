"""What this machine can do at most, measured: arithmetic and copies, with generated kernels.

Nothing here is a peak by definition: a kernel that beats it shows that this file can be improved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torpor.base.target import Target
from torpor.device import Device
from torpor.device.pool import thread_count
from torpor.kernel import Opt, OptOps
from torpor.pipeline import program_for
from torpor.tensor import Tensor

ROUNDS: Final = 7
TRIED: Final = 0.3  # seconds of short runs: on a busy machine some are undisturbed
CHAINS: Final = 8  # independent vectors in flight: two multiply-adds a cycle, four cycles each
DEPTH: Final = 64  # multiply-adds of each between two loads
STEPS: Final = 2048
ROWS: Final = 16  # vectors of a thread: about half a millisecond of work
TILES: Final = 512  # of a thread: as much
SIDE: Final = 512  # of a product: about 2 ms of work
FILLED: Final = 0.75  # of the first cache, at most, by the factor that all tiles read


def fastest(call: Callable[[], object], rounds: int = ROUNDS, seconds: float = 0.0) -> float:
    """Seconds of the fastest of some calls, after one that is not timed: so many, or more until
    they took `seconds` together.
    """
    call()
    taken: list[float] = []
    while len(taken) < rounds or sum(taken) < seconds:
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return min(taken)


def chained(x: Tensor, depth: int) -> Tensor:
    """`depth` multiply-adds, each needing the one before; their fixed point keeps them normal."""
    for _ in range(depth):
        x = x * 0.75 + 0.25
    return x


def runner(result: Tensor, opts: list[Opt] | None = None) -> Callable[[], object]:
    """What computes a tensor again and again into the same memory, without scheduling it."""
    device = Device["CPU"]
    calls = []
    for item in result.schedule():
        program = program_for(item.ast, device.target, opts)
        executable = device.executable(program, device.compiler.compile(program))
        buffers = [node.arg for node in item.buffers]
        for buffer in buffers:
            if not buffer.is_allocated():
                buffer.allocate()
        calls.append((executable, buffers))

    def run() -> None:
        for executable, buffers in calls:
            executable(buffers)

    return run


@dataclass(frozen=True)
class Busy:
    """Nothing but multiply-adds: so many float32 operations, and how to run them."""

    result: Tensor
    opts: list[Opt] | None
    operations: float


def chains(target: Target) -> Busy:
    """`CHAINS` independent chains of vectors on every thread, all in registers. It is as quick as
    the processor is only where the compiler takes turns between the chains.
    """
    lanes = target.vector_bytes // 4
    count = ROWS * thread_count() * lanes
    rows = Tensor.rand(count, 1).realize()
    steps = Tensor.rand(STEPS, lanes).realize()[:, 0]  # apart, so that vectors run along the rows
    opts = [Opt(OptOps.UNROLL, 0, CHAINS), Opt(OptOps.UPCAST, 0, lanes), Opt(OptOps.THREAD, 0, 0)]
    # Two operations more in each step: the sum that begins the chain and the one that ends it.
    operations = float(count * STEPS * (2 * DEPTH + 2))
    return Busy(chained(rows + steps, DEPTH).sum(1), opts, operations)


def tiles(target: Target) -> Busy:
    """A product whose tiles are sums in registers: three quarters of those that there are, more
    than any processor needs (two multiply-adds of 5 cycles at once, or four of 4). No sum waits for
    another one, in whatever order the compiler writes them, and they are as long as the factor that
    all tiles read fits into the first cache.
    """
    height, width = (8, 3) if target.registers >= 32 else (6, 2)
    columns = width * target.vector_bytes // 4
    rows = height * TILES * thread_count()
    steps = 1 << int(FILLED * target.first_bytes / (4 * columns)).bit_length() - 1
    left, right = Tensor.rand(rows, steps).realize(), Tensor.rand(steps, columns).realize()
    opts = [Opt(OptOps.UPCAST, 1, 0), Opt(OptOps.UPCAST, 0, height), Opt(OptOps.THREAD, 0, 0)]
    return Busy(left @ right, opts, 2.0 * rows * steps * columns)


def product() -> Busy:
    """A product as torpor computes it: no peak is below that."""
    left, right = (Tensor.rand(SIDE, SIDE).realize() for _ in range(2))
    return Busy(left @ right, None, 2.0 * SIDE**3)


def measure_flops() -> float:
    """float32 operations a second, each half of a multiply-add, on every thread."""
    target = Device["CPU"].target
    return max(
        busy.operations / fastest(runner(busy.result, busy.opts), seconds=TRIED)
        for busy in (chains(target), tiles(target), product())
    )


def measure_copy(nbytes: int) -> float:
    """Bytes a second of a copy that reads half of `nbytes` and writes the other half. Where they
    fit into a cache, its rate.
    """
    count = max(nbytes // 8, 1)
    return 8.0 * count / fastest(runner(Tensor.ones(count).contiguous().realize() + 1), rounds=30)
