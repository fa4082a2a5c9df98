"""Formats that sums, and functions of several steps, are taken in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torpor.base.dtypes import DType, dtypes
from torpor.base.promotion import promote
from torpor.tensor.handle import Handle
from torpor.tensor.repeated import repeated

_Function = TypeVar("_Function", bound=Callable[..., Any])


def wide_dtype(dtype: DType) -> DType:
    """The format that sums and products of `dtype` are taken in."""
    if dtype.kind == "float":
        return dtypes.float32 if dtype.bits < 32 else dtype
    return dtype if dtype.is_complex else dtypes.int64


def is_narrow(dtype: DType) -> bool:
    """Whether it is a float format that sums are not taken in."""
    return dtype.is_float and wide_dtype(dtype) is not dtype


def widely(function: _Function) -> _Function:
    """Compute on 16-bit floats in float32, so that what is between the steps neither overflows nor
    is rounded; the result is of the floats' common format. The steps are `repeated`: one function
    looks up what it makes of its operands, instead of each of its steps.
    """

    @repeated
    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        given = (*arguments, *options.values())
        formats = [one.dtype for one in given if isinstance(one, Handle) and not one.dtype.is_int]
        if not any(map(is_narrow, formats)):
            return function(*arguments, **options)
        dtype = functools.reduce(promote, formats)
        wide = {name: _widened(one) for name, one in options.items()}
        return function(*map(_widened, arguments), **wide).cast(dtype)

    return wrapped  # type: ignore[return-value]


def _widened(value: Any) -> Any:
    """A tensor of 16-bit floats in float32; anything else as it is."""
    narrow = isinstance(value, Handle) and is_narrow(value.dtype)
    return value.cast(wide_dtype(value.dtype)) if narrow else value
