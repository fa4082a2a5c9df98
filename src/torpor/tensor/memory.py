"""Tensors of memory that is there, or that lies as one says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torpor.base.dtypes import as_dtype
from torpor.base.errors import DTypeError, ShapeError
from torpor.tensor.creation import as_tensor
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


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of numbers, nested lists, an array or a tensor; a tensor that fits is itself unless
    `copy` is True. With `copy=False` the memory of an array is shared, and what needs a copy is a
    `DTypeError`.

    >>> x = Tensor([1.0])
    >>> torpor.asarray(x) is x, torpor.asarray(x, copy=True) is x
    (True, False)
    """
    shared: Any = obj
    if copy is False and not isinstance(obj, Tensor):
        shared = Tensor.from_numpy(obj) if isinstance(obj, np.ndarray) else Tensor.from_dlpack(obj)
    made = as_tensor(shared, dtype, device)
    if copy is False and made is not shared:
        raise DTypeError("asarray with copy=False cannot change the format or the device")
    if isinstance(obj, Tensor) and (copy or requires_grad):
        made = made.detach() if requires_grad else made
        made = made.clone() if copy and made.dtype is obj.dtype else made
    return made.requires_grad_() if requires_grad else made


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """Memory of shape `size`, with anything in it, whose axes lie in the order `physical_layout`,
    outermost first; `dtype`, `device` and `requires_grad` as for `empty`. A `ShapeError` unless
    that names each axis once.

    >>> torpor.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    order = [int(axis) for axis in physical_layout]
    if sorted(order) != list(range(len(size))):
        raise ShapeError(f"the layout {tuple(order)} does not name each axis of {tuple(size)} once")
    asked = options.pop("requires_grad", False)
    made = Tensor.empty([size[axis] for axis in order], **options)
    return made.permute([order.index(axis) for axis in range(len(order))]).requires_grad_(asked)


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
