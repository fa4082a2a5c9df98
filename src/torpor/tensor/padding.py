"""What is put around a tensor, and what takes the place of one of its triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.infer import Size
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, derive, located, make
from torpor.tensor.iota import iota
from torpor.tensor.joining import joined
from torpor.tensor.movement import plus
from torpor.tensor.operands import choose
from torpor.tensor.spelling import a_shape, a_size, whole_number


class Padding(Handle):
    """Padding, and triangles."""

    __slots__ = ()

    def pad(self, padding: Sequence[Any], mode: str = "constant", value: Any = None) -> Tensor:
        """Elements put around. `padding` is in PyTorch's order, (before, after) of the last axis,
        then of the one before it; or it has a (before, after) pair or None for each axis, first
        axis first. Negative numbers cut, what "reflect" and "replicate" have looked at before.

        mode: "constant" (`value`, 0 unless given; integers cut off its fraction), "reflect"
        (mirrored at the border elements), "replicate" (the border elements), "circular" (the
        opposite end). `ShapeError` where an axis is too short for it.

        >>> Tensor([1, 2, 3]).pad((1, 1)).tolist()
        [0, 1, 2, 3, 0]
        >>> Tensor([1, 2, 3]).pad((2, 0), mode="reflect").tolist()
        [3, 2, 1, 2, 3]
        """
        if mode != "constant" and value:
            raise located(ValueRangeError(f"{mode} padding takes no value"), (self,))
        value = self.dtype.cast_scalar(0) if value is None else _as_whole(value, self)
        pairs = _pad_pairs(padding, self)
        grown = tuple((_positive(b), _positive(a)) for b, a in pairs)
        if mode in ("reflect", "replicate"):
            return _cut(_pad_by_copies(self, grown, mode), pairs).clone()
        kept = _cut(self, pairs)
        if mode != "constant":
            return _pad_by_copies(kept, grown, mode).clone()
        made = derive(build.pad, (kept,), grown)
        if type(value) in (int, float, bool) and not value and str(value) != "-0.0":
            return made
        return choose(derive(build.pad, (kept.ones_like(dtypes.bool),), grown), made, value)

    def tril(self, diagonal: int = 0) -> Tensor:
        """(..., rows, columns) with 0 where column > row + diagonal.

        >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
        [[1, 0], [3, 4]]
        """
        return _triangle(self, diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Tensor:
        """(..., rows, columns) with 0 where column < row + diagonal."""
        return _triangle(self, diagonal, lower=False)


def _as_whole(value: Any, handle: Any) -> Any:
    """The value; one with a fraction loses it where it is put around integers."""
    if not isinstance(value, float) or handle.dtype.is_float:
        return value
    if not math.isfinite(value):
        raise located(ValueRangeError(f"{handle.dtype} has no {value} to pad with"), (handle,))
    return bool(value) if handle.dtype is dtypes.bool else int(value)


def _pad_pairs(padding: Sequence[Any], handle: Any) -> list[tuple[Size, Size]]:
    """One (before, after) an axis from either of the two ways to write padding."""
    ndim = handle.ndim
    if isinstance(padding, Sequence) and any(p is None or isinstance(p, Sequence) for p in padding):
        if len(padding) != ndim:
            raise located(ShapeError(f"padding {padding} must have {ndim} pairs"), (handle,))
        return [(0, 0) if p is None else (a_size(p[0]), a_size(p[1])) for p in padding]
    flat = list(a_shape((padding,)))
    if len(flat) % 2 or len(flat) > 2 * ndim:
        raise located(ShapeError(f"padding {padding} does not fit {ndim} axes"), (handle,))
    pairs = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _positive(amount: Size) -> Size:
    """How much padding puts there: a negative number cuts, a symbolic one is no less than 0."""
    return amount if isinstance(amount, UOp) else max(0, amount)


def _cut(handle: Any, pairs: Sequence[tuple[Size, Size]]) -> Any:
    """What is left where negative numbers of the padding cut."""
    losses = [tuple(_positive(-p) if isinstance(p, int) else 0 for p in pair) for pair in pairs]
    if not any(map(any, losses)):
        return handle
    return handle.shrink([(b, plus(s, -a)) for (b, a), s in zip(losses, handle.shape)])


def _pad_by_copies(handle: Any, pairs: Sequence[tuple[Any, Any]], mode: str) -> Any:
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueRangeError(f"unknown padding mode {mode!r}")
    made = handle
    for axis, (before, after) in enumerate(pairs):
        if not (before or after):
            continue
        size = made.shape[axis]
        if max(before, after) > (size - 1 if mode == "reflect" else size) and mode != "replicate":
            what = f"{mode} padding of {max(before, after)} is too much for an axis of {size}"
            raise located(ShapeError(what), (handle,))
        front, back = _copies(made, axis, before, after, mode)
        parts = [part for part, count in ((front, before), (made, 1), (back, after)) if count]
        made = parts[0] if len(parts) == 1 else joined(parts, axis)
    return made


def _copies(made: Any, axis: int, before: int, after: int, mode: str) -> tuple[Any, Any]:
    size = made.shape[axis]
    if mode == "circular":
        return made.narrow(axis, size - before, before), made.narrow(axis, 0, after)
    if mode == "reflect":
        front = made.narrow(axis, 1, before).flip(axis)
        return front, made.narrow(axis, size - 1 - after, after).flip(axis)
    ends = made.narrow(axis, 0, 1), made.narrow(axis, size - 1, 1)
    shapes = ([*made.shape[:axis], n, *made.shape[axis + 1 :]] for n in (before, after))
    front, back = (end.expand(*shape) for end, shape in zip(ends, shapes))
    return front, back


def _triangle(handle: Any, diagonal: int, lower: bool) -> Tensor:
    if handle.ndim < 2:
        raise located(ShapeError("a triangle needs at least 2 axes"), (handle,))
    rows, columns = handle.shape[-2:]
    diagonal = whole_number(diagonal) if not isinstance(diagonal, UOp) else diagonal
    if all(isinstance(size, int) for size in (rows, columns, diagonal)):
        below = make(_below(rows, columns, diagonal - (not lower)), handle.device)
        kept = below if lower else ~below
    else:
        row = make(iota(rows, handle.device), handle.device).unsqueeze(1)
        column = make(iota(columns, handle.device), handle.device)
        kept = column <= row + diagonal if lower else column >= row + diagonal
    return choose(kept, handle, handle.dtype.cast_scalar(0))


def _below(rows: int, columns: int, diagonal: int) -> UOp:
    """Whether column <= row + diagonal, shape (rows, columns), as a condition on indices, without
    memory: places column - row + rows - 1 of a line of rows + columns - 1, true at its start.
    """
    length = max(rows + columns - 1, 0)
    held = min(max(diagonal + rows, 0), length)
    line = build.pad(build.constant(True, dtypes.bool, (held,)), ((0, length - held),))
    spread = build.expand(build.reshape(line, (1, length)), (rows, length))
    return build.shear(spread, 1, 0, columns, 1, -1, max(rows - 1, 0))
