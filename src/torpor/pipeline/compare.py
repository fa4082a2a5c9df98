"""Whether a candidate's results are those of the heuristics' choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

ROUNDS_PER_EPSILON: Final = 8.0  # rounding errors that a result may differ by, besides its sum's


def longest_sum(nodes: Sequence[UOp]) -> int:
    """How many values the longest of the kernel's reductions combines."""
    lengths = [1]
    for node in nodes:
        if node.op is Ops.REDUCE:
            ranges = [s for s in node.src if s.op is Ops.RANGE]
            lengths.append(int(np.prod([max(int(r.src[0].vmax), 1) for r in ranges])))
    return max(lengths)


def same(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    """Whether both hold the same bits; one NaN is as good as another."""
    if got.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind in "biu":
        return False
    return bool(np.all((got == expected) | ((got != got) & (expected != expected))))


def distance(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """Relative L2 of what is finite; infinite where something else is not the same."""
    wide, right = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(right)
    if not same(wide[~finite], right[~finite]) or not np.isfinite(wide[finite]).all():
        return float("inf")
    off = float(np.linalg.norm(wide[finite] - right[finite]))
    return off / (float(np.linalg.norm(right[finite])) or 1.0)


def allowed(expected: npt.NDArray[Any], length: int) -> float:
    """How far apart sums of `length` numbers in two orders may be: rounding errors of a sum of
    random signs grow as its square root does, and so does the sum.
    """
    if expected.dtype.kind in "biu":
        return 0.0
    epsilon = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 2.0**-7
    return float(epsilon * (ROUNDS_PER_EPSILON + length**0.5))
