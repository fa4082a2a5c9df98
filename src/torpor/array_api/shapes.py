"""Shapes, products and selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torpor.base.errors import ShapeError
from torpor.base.missing import own_functions
from torpor.tensor import Tensor
from torpor.tensor.namespace import function_of
from torpor.tensor.spelling import one_axis, some_axes

matmul, moveaxis = function_of("matmul"), function_of("moveaxis")


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Views of one shape, which each of them is expanded to."""
    return list(Tensor.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[Any, ...]:
    """The shape that shapes broadcast to."""
    return Tensor.broadcast_shapes(*shapes)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Axes of size 1 repeated, and axes added in front."""
    return x.expand(*shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Laid end to end along an axis; None: each flattened."""
    if axis is None:
        return Tensor.cat([one.reshape(-1) for one in arrays])
    return Tensor.cat(list(arrays), dim=axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """With a new axis of length 1."""
    return x.unsqueeze(axis)


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The order along axes (None: all) reversed."""
    return x.flip(*some_axes(axis, x.ndim))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The transposes of a stack of matrices."""
    if x.ndim < 2:
        raise ShapeError("matrix_transpose needs at least 2 axes")
    return x.mT


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order."""
    return x.permute(tuple(axes))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element so many times in a row."""
    return x.repeat_interleave(repeats, axis)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape: a view unless `copy`."""
    made = x.reshape(tuple(shape))
    return made.clone() if copy else made


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Elements moved on along axes (None: of the flattened array)."""
    if axis is not None and isinstance(shift, int) and isinstance(axis, Sequence):
        shift = (shift,) * len(axis)
    return x.roll(shift, axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Without these axes, which have length 1."""
    if any(x.shape[one] != 1 for one in some_axes(axis, x.ndim)):
        raise ShapeError(f"squeeze of axes {axis} of {x.shape}, which are not of length 1")
    return x.squeeze(axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Laid along a new axis."""
    return Tensor.stack(list(arrays), dim=axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return x.unbind(axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The whole laid side by side."""
    return x.tile(*repetitions)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of an axis that a vector names, negative ones counted from the end."""
    if axis is None and x.ndim != 1:
        raise ShapeError("take needs an axis, of arrays of more axes than one")
    return x[(*(slice(None),) * one_axis(0 if axis is None else axis, x.ndim), indices)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements along an axis that indices name for each of the others."""
    return x.take_along_dim(indices, axis)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over pairs of axes."""
    return x1.tensordot(x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis."""
    return x1.vecdot(x2, axis)


__all__ = [*own_functions(globals()), "matmul", "moveaxis"]
