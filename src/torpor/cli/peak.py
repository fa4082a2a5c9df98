"""What this machine can do at most, measured: arithmetic and memory, with generated kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.pipeline import measuring
from torpor.tensor import Tensor

ROUNDS: Final = 5
CHAIN: Final = 128  # multiply-adds an element: enough that memory does not matter
COMPUTE_SIZE: Final = 1 << 20  # elements
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
    x = Tensor.rand(COMPUTE_SIZE).realize()
    a, b = Tensor.rand(1).realize(), Tensor.rand(1).realize()

    def chain() -> Tensor:
        value = x
        for _ in range(CHAIN):
            value = value * a + b
        return value

    flops = best_rate(chain, 2.0 * CHAIN * COMPUTE_SIZE)
    big = Tensor.rand(MEMORY_SIZE).realize()
    moved = best_rate(lambda: big + 1, 8.0 * MEMORY_SIZE)
    return flops, moved
