"""Formats of DLPack that NumPy does not take: small floats, as integers of their width."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError
from torpor.tensor.host import Array

UNSIGNED: Final = 1  # DLPack's code of a kind of numbers (dlpack.h, DLDataTypeCode)
SMALL: Final[dict[tuple[int, int], DType]] = {  # by kind and bits
    (4, 16): dtypes.bfloat16, (10, 8): dtypes.float8_e4m3fn, (12, 8): dtypes.float8_e5m2,
}  # fmt: skip
CODES: Final = {dtype: code for (code, _), dtype in SMALL.items()}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, up to its format, with which every DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )  # fmt: skip


def _described(capsule: Any) -> _Tensor:
    """What an unversioned capsule describes, in place."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


class _As:
    """What gives a capsule that is there."""

    def __init__(self, capsule: Any, device: tuple[int, int]):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def taken(other: Any) -> Array:
    """The memory of another library's tensor, on the host, as an array."""
    if not hasattr(other, "__dlpack__"):
        raise DTypeError(f"from_dlpack takes another library's, not {type(other).__name__}")
    try:
        return np.from_dlpack(other)
    except RuntimeError:  # NumPy's for a format that it has not
        capsule = other.__dlpack__()
        described = _described(capsule)
        dtype = SMALL.get((described.code, described.bits))
        if dtype is None or described.lanes != 1:
            raise
        described.code = UNSIGNED
        return np.from_dlpack(_As(capsule, other.__dlpack_device__())).view(dtype.numpy)


def given(array: Array, dtype: DType, options: dict[str, Any]) -> Any:
    """A capsule of an array of any format; of a small float an unversioned one."""
    if dtype not in CODES:
        return array.__dlpack__(**options)
    capsule = array.view(f"uint{dtype.bits}").__dlpack__()
    _described(capsule).code = CODES[dtype]
    return capsule
