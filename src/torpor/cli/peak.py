"""What this machine can do at most, measured: arithmetic and memory, with generated kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.pipeline import measuring
from torpor.tensor import Tensor

ROUNDS: Final = 5
SQUARE: Final = 256  # side of matrices whose product keeps the registers busy from the cache
BATCH: Final = 16  # such products: enough for every thread
MEMORY_SIZE: Final = 1 << 24  # elements: 64 MB, more than caches hold


def best_rate(build: Callable[[], Tensor], amount: float) -> float:
    """`amount` a second, by the fastest of some runs of what `build()` realises."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        with measuring() as measured:
            build().realize()
        fastest = min(fastest, sum(run.seconds for run in measured.runs))
    return amount / fastest


def measure_peaks() -> tuple[float, float]:
    """(floating-point operations a second, bytes a second), both for all threads together."""
    left = Tensor.rand(BATCH, SQUARE, SQUARE).realize()
    right = Tensor.rand(BATCH, SQUARE, SQUARE).realize()
    flops = best_rate(lambda: left @ right, 2.0 * BATCH * SQUARE**3)
    big = Tensor.rand(MEMORY_SIZE).realize()
    moved = best_rate(lambda: big + 1, 8.0 * MEMORY_SIZE)
    return flops, moved
