"""Making arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.base.missing import own_functions
from torpor.tensor import Tensor, memory

Shape = int | Sequence[int]


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A tensor of numbers, nested lists, an array or a tensor; a tensor that fits is itself unless
    `copy` is True, and a copy that is needed where it is False is a `DTypeError`.
    """
    return memory.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of another library's, whose memory it shares unless `copy` is True; where it cannot
    (memory that is not in order), it is copied if `copy` allows it.
    """
    if copy is not True:
        try:
            made = Tensor.from_dlpack(x)
            return made if device is None else made.to(device)
        except ShapeError:
            if copy is False:
                raise
    return Tensor(np.array(np.from_dlpack(x)), device=device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """start, start + step, … before `stop`."""
    return Tensor.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Memory of this shape, with anything in it."""
    return Tensor.empty(shape, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""
    return Tensor.zeros(shape, dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""
    return Tensor.ones(shape, dtype=dtype, device=device)


def full(shape: Shape, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A number everywhere, in its own format unless one is given."""
    return Tensor.full(shape, fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Memory for the shape and the format of x."""
    return Tensor.empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros of the shape and the format of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones of the shape and the format of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A number in the shape and the format of x."""
    return x.full_like(fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on diagonal k, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    rows = Tensor.arange(n_rows, device=device).reshape(n_rows, 1)
    held: Tensor = (rows + k).eq(Tensor.arange(columns, device=device))
    return held.cast(dtypes.float32 if dtype is None else dtype)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`num` equally spaced numbers from `start` to `stop`, which is the last or the one behind."""
    if endpoint:
        return Tensor.linspace(start, stop, num, dtype=dtype, device=device)
    return Tensor.linspace(start, stop, num + 1, dtype=dtype, device=device).narrow(0, 0, num)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Vectors laid along axes of their own, the first two exchanged unless indexing is "ij"."""
    return list(Tensor.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """0 above diagonal k."""
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """0 below diagonal k."""
    return x.triu(k)


__all__ = own_functions(globals())
