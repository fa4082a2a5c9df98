"""Random numbers on which steps of a trace are tried, and whether results are the same."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType
from torpor.device.interpreter.arithmetic import Array

LARGEST: Final = 1 << 16  # elements of memory whose size is not known, and values of a variable
TOLERANCE: Final = 1e-3  # of sums in another order, and of functions that are written out


def values(
    dtype: DType, shape: tuple[int, ...], random: np.random.Generator, low: Any, high: Any
) -> Array:
    """Random numbers of a format: small, so that sums and products of them are exact or nearly."""
    if dtype.name == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integral or dtype.name == "index":
        least = int(max(low, -8)) if math.isfinite(low) else -8
        most = int(min(high, least + LARGEST)) if math.isfinite(high) else least + 16
        return random.integers(least, max(least, most) + 1, shape).astype(dtype.numpy)
    return random.uniform(-2, 2, shape).astype(dtype.numpy)


def alike(one: Array, other: Array) -> bool:
    """Whether numbers are the same, or those of floats nearly."""
    one, other = np.broadcast_arrays(one, other)
    if one.dtype.kind in "biu" or other.dtype.kind in "biu":
        return bool((one == other).all())
    wide = np.complex128 if one.dtype.kind == "c" else np.float64  # formats that NumPy lacks too
    pair = one.astype(wide), other.astype(wide)
    return bool(np.allclose(pair[0], pair[1], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
