"""The array API standard (2024.12), with its own meanings.

What has the same meaning as in PyTorch is the tensor's method of that name.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.array_api import creating, elements, fft, formats, linalg, shapes, sums
from torpor.array_api.creating import *  # noqa: F403  (all that it defines)
from torpor.array_api.elements import *  # noqa: F403  (a table of names)
from torpor.array_api.formats import *  # noqa: F403
from torpor.array_api.shapes import *  # noqa: F403
from torpor.array_api.sums import *  # noqa: F403
from torpor.base.dtypes import dtypes

__array_api_version__: Final = "2024.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
bool, int8, int16, int32, int64 = (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
)  # fmt: skip
uint8, uint16, uint32, uint64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
float32, float64 = dtypes.float32, dtypes.float64
complex64, complex128 = dtypes.complex64, dtypes.complex128

_CONSTANTS = """
    bool complex128 complex64 e float32 float64 inf int16 int32 int64 int8 nan newaxis pi uint16
    uint32 uint64 uint8
    """.split()  # noqa: SIM905 (a table that is read)
__all__ = [
    "__array_api_version__", "fft", "linalg", *_CONSTANTS, *creating.__all__, *elements.__all__,
    *formats.__all__, *shapes.__all__, *sums.__all__,
]  # fmt: skip
