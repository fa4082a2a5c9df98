"""What the workloads are held to: the best peer's time over ours, at least, by family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.workload import Workload


class Floor(NamedTuple):
    """The least ratio of a single workload, and of the family's geometric mean."""

    each: float
    mean: float


FLOORS: Final[Mapping[str, Floor]] = {
    "matmul": Floor(0.9, 1.0),
    "matmul-low": Floor(0.9, 1.0),
    "memory": Floor(1.0, 1.5),
    "convolution": Floor(0.8, 1.0),
    "attention": Floor(0.9, 1.0),
    "indexing": Floor(0.7, 1.0),
    "fft": Floor(0.5, 1.0),
    "sort": Floor(0.5, 1.0),
    "linalg": Floor(0.5, 1.0),
    "images": Floor(0.5, 1.0),
    "counting": Floor(0.5, 1.0),
    "einsum": Floor(0.5, 1.0),
    "scans": Floor(0.5, 1.0),
    "steps": Floor(1.0, 1.3),
}
BANDWIDTH_FLOOR: Final = 0.8  # of a copy, or of reads alone, in the same process:
BANDWIDTH_BOUND: Final = (  # what nothing but memory limits
    "chain-64MB", "layer_norm-64MB", "rms_norm-64MB", "sum-64MB", "sum-rows-64MB",
    "sum-columns-64MB", "transpose-64MB",
)  # fmt: skip


def least_share(workload: Workload) -> float:
    """The share of the measured bandwidth that a workload has to reach; 0 for most."""
    return BANDWIDTH_FLOOR if workload.name.removeprefix("memory/") in BANDWIDTH_BOUND else 0.0
