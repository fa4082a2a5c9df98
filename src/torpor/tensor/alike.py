"""Tensors like another one: of its shape, its format and on its device, unless given."""

from __future__ import annotations

from typing import Any

from torpor.base.dtypes import Scalar
from torpor.tensor.annotated import Tensor
from torpor.tensor.formats import tensor_of
from torpor.tensor.handle import Handle
from torpor.tensor.spelling import a_shape


class Alike(Handle):
    """What takes its `dtype` and `device` from a tensor where they are not given."""

    __slots__ = ()

    def _like(self, dtype: Any, options: dict[str, Any]) -> dict[str, Any]:
        own = {"device": self.device, "dtype": self.dtype if dtype is None else dtype}
        return own | {name: value for name, value in options.items() if value is not None}

    def new(self, *data: Any, device: Any = None) -> Any:
        """Values, or memory of the sizes given, in this tensor's format and on its device unless
        given: what PyTorch had before `new_tensor` and `new_empty`.
        """
        return tensor_of(data, self.dtype, self.device if device is None else device)

    def new_full(self, size: Any, fill_value: Scalar, dtype: Any = None, **options: Any) -> Tensor:
        """`fill_value` in the shape `size`, and this tensor's format and device unless given."""
        return Handle._type.full(size, fill_value, **self._like(dtype, options))

    def new_empty(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Memory in the shape `size`, and this tensor's format and device unless given."""
        return Handle._type.empty(a_shape(size), **self._like(dtype, options))

    def new_tensor(self, data: Any, dtype: Any = None, **options: Any) -> Tensor:
        """`data` as a tensor of its own, in this tensor's format and on its device unless given."""
        return Handle._type(data, **self._like(dtype, options))

    def new_zeros(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Zeros in the shape `size`, and this tensor's format and device unless given."""
        return self.new_full(a_shape(size), 0, dtype, **options)

    def new_ones(self, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        """Ones in the shape `size`, and this tensor's format and device unless given."""
        return self.new_full(a_shape(size), 1, dtype, **options)

    def full_like(self, fill_value: Scalar, dtype: Any = None, **options: Any) -> Tensor:
        """`fill_value` in this tensor's shape, and its format and device unless given."""
        return self.new_full(self.shape, fill_value, dtype, **options)

    def zeros_like(self, dtype: Any = None, **options: Any) -> Tensor:
        """Zeros in this tensor's shape, and its format and device unless given."""
        return self.new_full(self.shape, 0, dtype, **options)

    def ones_like(self, dtype: Any = None, **options: Any) -> Tensor:
        """Ones in this tensor's shape, and its format and device unless given."""
        return self.new_full(self.shape, 1, dtype, **options)

    def empty_like(self, dtype: Any = None, **options: Any) -> Tensor:
        """Memory for this tensor's shape, and its format and device unless given."""
        return self.new_empty(self.shape, dtype=dtype, **options)
