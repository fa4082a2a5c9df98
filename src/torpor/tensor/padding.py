"""What is put around a tensor, and what takes the place of one of its triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.graph import build
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, derive, located, make
from torpor.tensor.iota import iota
from torpor.tensor.joining import joined
from torpor.tensor.movement import plus

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


class Padding(Handle):
    """Padding, and triangles."""

    __slots__ = ()

    def pad(self, padding: Sequence[Any], mode: str = "constant", value: Any = 0) -> Tensor:
        """Elements put around. `padding` is in PyTorch's order, (before, after) of the last axis,
        then of the one before it; or it has a (before, after) pair or None for each axis, first
        axis first. Negative numbers cut.

        mode: "constant" (`value`), "reflect" (mirrored at the border elements), "replicate" (the
        border elements), "circular" (the opposite end). `ShapeError` where an axis is too short for
        it.

        >>> Tensor([1, 2, 3]).pad((1, 1)).tolist()
        [0, 1, 2, 3, 0]
        >>> Tensor([1, 2, 3]).pad((2, 0), mode="reflect").tolist()
        [3, 2, 1, 2, 3]
        """
        pairs = _pad_pairs(padding, self)
        if mode != "constant":
            return _pad_by_copies(self, pairs, mode)
        cut = [(max(0, -b), plus(s, -max(0, -a))) for (b, a), s in zip(pairs, self.shape)]
        kept: Any = self if all(b >= 0 and a >= 0 for b, a in pairs) else self.shrink(cut)
        grown = tuple((max(0, b), max(0, a)) for b, a in pairs)
        made = derive(build.pad, (kept,), grown)
        if type(value) in (int, float, bool) and not value and str(value) != "-0.0":
            return made
        inside = derive(build.pad, (kept.ones_like(dtypes.bool),), grown)
        return inside.where(made, value)

    def tril(self, diagonal: int = 0) -> Tensor:
        """(..., rows, columns) with 0 where column > row + diagonal.

        >>> Tensor([[1, 2], [3, 4]]).tril().tolist()
        [[1, 0], [3, 4]]
        """
        return _triangle(self, diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Tensor:
        """(..., rows, columns) with 0 where column < row + diagonal."""
        return _triangle(self, diagonal, lower=False)


def _pad_pairs(padding: Sequence[Any], handle: Any) -> list[tuple[int, int]]:
    """One (before, after) an axis from either of the two ways to write padding."""
    ndim = handle.ndim
    if padding and any(p is None or isinstance(p, Sequence) for p in padding):
        if len(padding) != ndim:
            raise located(ShapeError(f"padding {padding} must have {ndim} pairs"), (handle,))
        return [(0, 0) if p is None else (p[0], p[1]) for p in padding]
    flat = list(padding)
    if len(flat) % 2 or len(flat) > 2 * ndim:
        raise located(ShapeError(f"padding {padding} does not fit {ndim} axes"), (handle,))
    pairs = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _pad_by_copies(handle: Any, pairs: Sequence[tuple[int, int]], mode: str) -> Tensor:
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"unknown padding mode {mode!r}")
    made = handle
    for axis, (before, after) in enumerate(pairs):
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
    if isinstance(rows, int) and isinstance(columns, int):
        below = make(_below(rows, columns, diagonal - (not lower)), handle.device)
        kept = below if lower else ~below
    else:
        row = make(iota(rows, handle.device), handle.device).unsqueeze(1)
        column = make(iota(columns, handle.device), handle.device)
        kept = column <= row + diagonal if lower else column >= row + diagonal
    return kept.where(handle, handle.dtype.cast_scalar(0))


def _below(rows: int, columns: int, diagonal: int) -> UOp:
    """Whether column <= row + diagonal, shape (rows, columns), as a condition on indices, without
    memory: places column - row + rows - 1 of a line of rows + columns - 1, true at its start.
    """
    length = max(rows + columns - 1, 0)
    held = min(max(diagonal + rows, 0), length)
    line = build.pad(build.constant(True, dtypes.bool, (held,)), ((0, length - held),))
    spread = build.expand(build.reshape(line, (1, length)), (rows, length))
    return build.shear(spread, 1, 0, columns, 1, -1, max(rows - 1, 0))
