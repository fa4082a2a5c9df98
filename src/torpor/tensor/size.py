"""What `x.shape` and `x.size` give: a tuple and a number that also are what PyTorch's are."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex, overload

from torpor.base.errors import OutOfBoundsError
from torpor.ir.infer import product
from torpor.ir.uop import UOp
from torpor.tensor.watch import told


class Size(tuple[Any, ...]):
    """The lengths of axes: a tuple, whose parts and sums are sizes too.

    >>> (Tensor.zeros(2, 3, 4).shape[1:] + (5,)).numel()
    60
    """

    __slots__ = ()

    def numel(self) -> Any:
        """How many elements a tensor of this shape has."""
        if any(isinstance(size, UOp) for size in self):
            return told((product(self),))[0]
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> Size: ...
    def __getitem__(self, key: Any, /) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if type(key) is slice else found

    def __add__(self, other: Any, /) -> Size:
        return Size((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any, /) -> Size:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex, /) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__


class Count(int):
    """The number of elements: an `int` that can also be called, as in PyTorch."""

    shape: Size

    def __new__(cls, shape: Size, count: int) -> Count:
        made = super().__new__(cls, count)
        made.shape = shape
        return made

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the length of axis `dim`."""
        if dim is None:
            return self.shape
        count = len(self.shape)
        if not -count <= dim < count:
            raise OutOfBoundsError(f"axis {dim} does not exist in a tensor of {count} axes")
        return self.shape[dim]
