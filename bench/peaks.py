"""What memory gives at most, measured, beside the arithmetic of `torpor/cli/peak.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from torpor import Tensor
from torpor.cli.peak import fastest, measure_flops, runner

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


def measure_bandwidth() -> dict[str, float]:
    """Bytes a second of memory by kind of traffic: the better of generated kernels and NumPy's."""
    plain = [np.ones(MEMORY_SIZE, np.float32) for _ in range(2)]
    x, y = (Tensor(array).realize() for array in plain)
    seconds = {
        "read": fastest(runner(x.sum())),
        "copy": min(fastest(runner(x + 1)), fastest(lambda: np.copyto(plain[1], plain[0]))),
        "triad": fastest(runner(x + y * 3)),
        "write": min(
            fastest(runner(Tensor.zeros(MEMORY_SIZE).contiguous())),
            fastest(lambda: plain[1].fill(1)),
        ),
    }
    arrays = {"read": 1, "copy": 2, "triad": 3, "write": 1}
    return {name: 4.0 * MEMORY_SIZE * arrays[name] / taken for name, taken in seconds.items()}


def measure_peaks() -> Peaks:
    """Everything at once; about a second."""
    return Peaks(measure_flops(), **measure_bandwidth())
