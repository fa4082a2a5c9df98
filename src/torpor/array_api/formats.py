"""Formats: casts, promotion, limits, and what the namespace has."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError
from torpor.base.promotion import promote, weak_dtype
from torpor.tensor import Tensor

KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (dtypes.bool,),
    "signed integer": (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
    "unsigned integer": (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64),
    "real floating": (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16),
    "complex floating": (dtypes.complex64, dtypes.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


class FloatLimits(NamedTuple):
    """What `finfo` gives."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


def _format(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else value


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another format; a copy also where nothing changes, unless `copy` is off."""
    made = (x if device is None else x.to(device)).cast(dtype)
    return made.clone() if made is x and copy else made


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether the format promotes to another one by the standard, which leaves open what bools and
    integers promote to but each other.
    """
    one = _format(from_)
    if one.is_integral and (one.is_int, to.is_integral) != (to.is_int, True):
        return False
    try:
        return promote(one, to) is to
    except DTypeError:
        return False


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float format."""
    dtype = _format(type).part
    if not dtype.is_float:
        raise DTypeError(f"finfo is for floats, not {dtype}; use iinfo")
    if dtype is dtypes.bfloat16:
        return FloatLimits(16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, -(2 - 2.0**-7) * 2.0**127,
                           2.0**-126, dtype)  # fmt: skip
    known = np.finfo(dtype.numpy)
    eps, high, low, least = map(float, (known.eps, known.max, known.min, known.smallest_normal))
    return FloatLimits(dtype.bits, eps, high, low, least, dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer format."""
    dtype = _format(type)
    if not dtype.is_int:
        raise DTypeError(f"iinfo is for integers, not {dtype}")
    return IntegerLimits(dtype.bits, int(dtype.max), int(dtype.min), dtype)


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a format is one, of a kind ("bool", "integral", "real floating", …), or of any of
    several.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise DTypeError(f"no kind of formats {kind!r}; there are {', '.join(KINDS)}")
        return dtype in KINDS[kind]
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The format that arrays, formats and numbers meet in."""
    numbers = [one for one in arrays_and_dtypes if isinstance(one, bool | int | float | complex)]
    others = [
        _format(one)
        for one in arrays_and_dtypes
        if not isinstance(one, bool | int | float | complex)
    ]
    if not others:
        raise DTypeError("result_type needs an array or a format")
    made = functools.reduce(promote, others)
    return functools.reduce(lambda to, one: weak_dtype(one, to, dtypes.float32), numbers, made)


class Info:
    """What there is in the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts there are."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where arrays live unless told otherwise."""
        return str(Tensor.empty(0).device)

    def devices(self) -> list[str]:
        """Where arrays can live."""
        return [self.default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The formats of Python's numbers and of indices."""
        return {"real floating": dtypes.float32, "complex floating": dtypes.complex64,
                "integral": dtypes.int64, "indexing": dtypes.int64}  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The formats by name, of a kind if one is given."""
        every = KINDS["bool"] + KINDS["integral"] + KINDS["real floating"][:2]
        every += KINDS["complex floating"]
        return {one.name: one for one in every if kind is None or isdtype(one, kind)}


def __array_namespace_info__() -> Info:
    """What there is in the namespace."""
    return Info()
