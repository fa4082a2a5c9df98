"""Which format an operation of two formats has: the array API standard's lattice, widened.

Python and NumPy scalars are weak: they take the tensor's format where it can hold their kind.
"""

from __future__ import annotations

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError

_KIND_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
_SIGNED = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def promote(left: DType, right: DType) -> DType:
    """The format that holds both. uint64 with a signed integer is an error that names the cast."""
    if left is right:
        return left
    if left is dtypes.index or right is dtypes.index:
        return right if left is dtypes.index else left
    if left.is_complex or right.is_complex:
        return complex_of(promote(left.part, right.part))
    if any(d.is_float and d.bits == 8 for d in (left, right)):
        raise DTypeError(
            f"no format is what {left} and {right} meet in; cast one, "
            f"for example x.cast({right if left.bits == 8 else left})"
        )
    if "packed" in (left.kind, right.kind):
        raise DTypeError(f"{left} and {right} do not meet; cast what is kept in 4 bits to int8")
    if _KIND_RANK[left.kind] != _KIND_RANK[right.kind]:
        return left if _KIND_RANK[left.kind] > _KIND_RANK[right.kind] else right
    if left.kind == right.kind:
        if left.bits == right.bits:  # float16 with bfloat16: neither holds the other
            return dtypes.float32
        return left if left.bits > right.bits else right
    unsigned, signed = (left, right) if left.kind == "uint" else (right, left)
    if unsigned.bits < signed.bits:
        return signed
    if unsigned.bits == 64:
        raise DTypeError(
            f"no integer holds both {unsigned} and {signed}; cast one, "
            f"for example x.cast(dtypes.int64) or x.cast(dtypes.float64)"
        )
    return _SIGNED[unsigned.bits * 2]


def complex_of(dtype: DType) -> DType:
    """The complex format whose parts hold numbers of `dtype`."""
    return dtypes.complex128 if dtype.is_float and dtype.bits == 64 else dtypes.complex64


def weak_dtype(value: bool | int | float | complex, dtype: DType, default_float: DType) -> DType:
    """The format that a Python scalar and a tensor of `dtype` meet in."""
    if isinstance(value, complex):
        return complex_of(dtype.part if dtype.part.is_float else default_float)
    if isinstance(value, bool) or dtype.part.is_float:
        return dtype
    if isinstance(value, float):
        return default_float
    return dtypes.int64 if dtype is dtypes.bool else dtype
