"""The array API standard (2024.12), with its own meanings.

What has the same meaning as in PyTorch is the tensor's method of that name.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.array_api import elements, fft, linalg
from torpor.array_api.creating import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from torpor.array_api.elements import *  # noqa: F403  (a table of names)
from torpor.array_api.formats import (
    __array_namespace_info__,
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from torpor.array_api.shapes import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matmul,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tensordot,
    tile,
    unstack,
    vecdot,
)
from torpor.array_api.sums import (
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    isin,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
)
from torpor.base.dtypes import dtypes

__array_api_version__: Final = "2024.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
bool, int8, int16, int32, int64 = (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
)  # fmt: skip
uint8, uint16, uint32, uint64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
float32, float64 = dtypes.float32, dtypes.float64
complex64, complex128 = dtypes.complex64, dtypes.complex128

__all__ = [
    *elements.__all__,
    "__array_api_version__", "__array_namespace_info__", "all", "any", "arange", "argmax",
    "argmin", "argsort", "asarray", "astype", "bool", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "can_cast", "complex128", "complex64", "concat",
    "count_nonzero", "cumulative_prod", "cumulative_sum",
    "diff", "e", "empty", "empty_like", "expand_dims", "eye", "fft", "finfo", "flip", "float32",
    "float64", "from_dlpack", "full", "full_like", "iinfo", "inf", "int16", "int32", "int64",
    "int8", "isdtype", "isin", "linalg", "linspace", "matmul", "matrix_transpose", "max",
    "mean", "meshgrid", "min", "moveaxis", "nan", "newaxis", "nonzero", "ones", "ones_like",
    "permute_dims", "pi", "prod", "repeat", "reshape", "result_type", "roll", "searchsorted",
    "sort", "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tensordot", "tile",
    "tril", "triu", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "zeros", "zeros_like",
]  # fmt: skip
