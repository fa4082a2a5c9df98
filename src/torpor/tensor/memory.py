"""Tensors of memory that is there, or that lies as one says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torpor.base.dtypes import as_dtype
from torpor.base.errors import ShapeError
from torpor.tensor.tensor import Tensor


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """`count` elements (all, if that is negative) of a bytearray, a memoryview or the like, from
    byte `offset` on: (count,). They share its memory, as `from_numpy` does; of bytes, which nobody
    may write to, they are a copy. A `ShapeError` where there are not as many, or no whole number.

    >>> torpor.frombuffer(bytearray([1, 0, 2, 0]), dtype="int16").tolist()
    [1, 2]
    """
    kind = as_dtype(dtype)
    try:
        array: Any = np.frombuffer(buffer, kind.numpy, count, offset)
    except ValueError as error:
        what = f"frombuffer of {count} elements of {kind} from byte {offset} on: {error}"
        raise ShapeError(what) from None
    made = Tensor.from_numpy(array if array.flags.writeable else array.copy())
    return made.requires_grad_(requires_grad)


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """Memory of shape `size`, with anything in it, whose neighbours along each axis are `stride`
    elements apart; `dtype`, `device` and `requires_grad` as for `empty`. A `ShapeError` for
    negative numbers, or another number of strides than of sizes.

    >>> torpor.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    asked = options.pop("requires_grad", False)
    reach = 1 + sum((n - 1) * apart for n, apart in zip(size, stride)) if math.prod(size) else 0
    made = Tensor.empty(max(reach, 0), **options).as_strided(size, stride, 0)
    return made.requires_grad_(asked)
