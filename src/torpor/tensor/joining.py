"""Rearrangements that are no views: tensors joined, repeated, moved along and reversed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.base.promotion import promote
from torpor.device.buffer import buffer_node
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, derive, located, make, weak_constant
from torpor.tensor.host import buffer_from, read, seen_by_host
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import (
    a_shape,
    an_axis,
    counts_of,
    one_axis,
    pair,
    some_axes,
)
from torpor.tensor.watch import active

MANY: Final = 8  # parts from which they are joined in memory: a choice
LARGEST: Final = 1 << 20  # bytes that are joined so: what the host copies while a kernel is planned


class Joining(Handle):
    """Rearrangements with a storage of their own: writes to them are not seen elsewhere."""

    __slots__ = ()

    def cat(*tensors: Any, dim: int = 0) -> Tensor:
        """Tensors, given apart or as one sequence, laid end to end along one axis. Their other axes
        must agree (`ShapeError`; a vector of length 0 fits all); formats are promoted.

        >>> Tensor.cat(Tensor([[1, 2]]), Tensor([[3, 4]]), dim=1).tolist()
        [[1, 2, 3, 4]]
        """
        parts, where = _parts_and_axis(tensors, dim)
        ranks = {part.ndim for part in parts}
        if 0 in ranks:
            raise located(ShapeError("a 0-d tensor cannot be joined by cat; use stack"), parts)
        if len(ranks) > 1:  # as in PyTorch, a vector of nothing fits all
            dtype = functools.reduce(promote, [part.dtype for part in parts])
            parts = [part.cast(dtype) for part in parts if part.shape != (0,)]
        return joined(parts, one_axis(where, parts[0].ndim))

    concat = concatenate = cat

    def stack(*tensors: Any, dim: int = 0) -> Tensor:
        """Tensors of one shape, given apart or as one sequence, laid along a new axis at place
        `dim`.

        >>> Tensor.stack(Tensor([1, 2]), Tensor([3, 4])).tolist()
        [[1, 2], [3, 4]]
        """
        parts, where = _parts_and_axis(tensors, dim)
        if len({part.shape for part in parts}) > 1:
            shapes = ", ".join(str(part.shape) for part in parts)
            raise located(ShapeError(f"stack needs equal shapes, got {shapes}"), parts)
        place = one_axis(where, parts[0].ndim, 1)
        return joined([part.unsqueeze(place) for part in parts], place)

    def __reversed__(self) -> Tensor:
        """Backwards along the first axis: `reversed(x)`."""
        return self.flip(0) if self.ndim else self.flip()

    def flip(self, *dims: Any) -> Tensor:
        """The order of the elements along these axes reversed.

        >>> Tensor([[1, 2], [3, 4]]).flip(0).tolist()
        [[3, 4], [1, 2]]
        """
        named = dims[0] if len(dims) == 1 else dims
        if self.dtype.kind == "packed":
            return self.cast(dtypes.int8).flip(named).cast(self.dtype)
        return derive(build.flip, (self,), some_axes(named, self.ndim))

    def roll(self, shifts: Any, dim: Any = None) -> Tensor:
        """Elements moved on by `shifts` along each of the axes (None: of the flattened tensor);
        those that fall off at the end enter at the start. As many shifts as axes (`ShapeError`).

        >>> Tensor([1, 2, 3, 4]).roll(1).tolist()
        [4, 1, 2, 3]
        """
        if dim is None or (isinstance(dim, Sequence) and not dim):
            return self.reshape(-1).roll(shifts, 0).reshape(self.shape)
        named, each = (v if isinstance(v, Sequence) else (v,) for v in (dim, shifts))
        if len(named) != len(each):
            raise ShapeError(f"as many shifts as axes, not {len(each)} and {len(named)}")
        made: Any = self
        for axis, shift in zip(named, pair(each, len(named)), strict=True):
            axis = one_axis(axis, self.ndim)
            size = self.shape[axis] if self.ndim else 0
            cut = (-shift) % size if size else 0
            if cut:
                made = made.narrow(axis, cut, size - cut).cat(made.narrow(axis, 0, cut), dim=axis)
        return made.clone() if made is self else made

    def repeat(self, *repeats: Any) -> Tensor:
        """The whole laid side by side so many times along each axis; more numbers than axes add
        axes in front. As PyTorch's, which is NumPy's `tile`.

        >>> Tensor([1, 2]).repeat(2).tolist()
        [1, 2, 1, 2]
        """
        counts = counts_of(repeats, "the counts of repeat")
        if len(counts) < self.ndim:
            raise located(ShapeError(f"repeat needs {self.ndim} numbers or more"), (self,))
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        apart = [size for s in shape for size in (1, s)]
        wide = [size for n, s in zip(counts, shape) for size in (n, s)]
        long = [n * s for n, s in zip(counts, shape)]
        return _copied(self.reshape(*apart).expand(*wide).reshape(*long))

    def tile(self, *dims: Any) -> Tensor:
        """As `repeat`, where axes that are not named, the first ones, are repeated once."""
        counts = a_shape(dims)
        return self.repeat(*(1,) * max(0, self.ndim - len(counts)), *counts)

    def repeat_interleave(
        self, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
    ) -> Tensor:
        """Each element along an axis (None: of the flattened tensor) so many times in a row: a
        number, or a vector of one for each element, which is computed at the call. `output_size`,
        the length that this gives, need not be said. Without `repeats` each place as often as the
        element there says.

        >>> Tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        >>> Tensor([2, 0, 1]).repeat_interleave().tolist()
        [0, 0, 2]
        """
        if repeats is None:
            return _places(self)
        if dim is None:
            return self.reshape(-1).repeat_interleave(repeats, 0)
        whole: Any = self
        axis, shape = an_axis(dim, self), self.shape
        if isinstance(repeats, Handle) and repeats.ndim:
            if repeats.shape != (1,):
                return whole.index_select(axis, _interleaved(self, repeats, axis))
            repeats = repeats.reshape(())
        (count,) = counts_of((repeats,), "counts")
        spread = self.unsqueeze(axis + 1).expand(*shape[: axis + 1], count, *shape[axis + 1 :])
        return _copied(spread.reshape(*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _places(repeats: Any) -> Tensor:
    """Each place as often as the element there says."""
    if repeats.ndim != 1 or not repeats.dtype.is_int:
        raise located(ShapeError("repeats alone are a vector of integers"), (repeats,))
    places = Handle._type.arange(repeats.shape[0], device=repeats.device)
    return places.repeat_interleave(repeats.reshape(-1), 0)


def _interleaved(handle: Any, repeats: Any, axis: int) -> Tensor:
    """Which element each place of the result holds: element i as often as repeats[i] says."""
    if repeats.shape != (handle.shape[axis],) or not repeats.dtype.is_int:
        what = f"repeats are a number, or {handle.shape[axis]} integers, one for each element"
        raise located(ShapeError(what), (handle, repeats))
    counts_of(repeats.tolist(), "counts")
    places = np.arange(repeats.shape[0]).repeat(repeats.numpy())
    return Handle._type(places, device=handle.device)


def _copied(made: Tensor) -> Tensor:
    """The same value with a storage of its own."""
    storage = made._storage
    return make(made._current(), storage.device, made.requires_grad, depth=storage.depth + 1)


def _parts_and_axis(tensors: tuple[Any, ...], axis: int) -> tuple[list[Any], int]:
    """The tensors of `cat` and `stack`, given apart or as one sequence; the axis may come last."""
    given = list(tensors)
    if len(given) > 1 and isinstance(given[-1], int):
        axis = given.pop()
    kinds = [isinstance(one, Handle) for one in given[:2]]
    if kinds == [True, False]:
        given = [given[0], *given[1]]
    elif len(given) == 1 and not kinds[0]:
        given = list(given[0])
    if not given or not all(isinstance(part, Handle) for part in given):
        raise ShapeError(f"expected tensors to join, got {given!r:.60}")
    return given, axis


def joined(parts: list[Any], axis: int) -> Tensor:
    """Each part padded to the whole, and chosen where it lies."""
    shapes = [tuple(part.shape) for part in parts]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        sizes = ", ".join(str(part.shape) for part in parts)
        raise located(ShapeError(f"cat along axis {axis} needs equal other axes: {sizes}"), parts)
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = promote(dtype, part.dtype)
    if len(parts) == 1:
        return parts[0].clone()
    wide = dtypes.int8 if dtype.kind == "packed" else dtype
    parts = [part if part.dtype is wide else part.cast(wide) for part in parts]
    if wide is not dtype:
        return joined(parts, axis).cast(dtype)
    if dtype.is_complex:
        return parts[0].by_parts(lambda *each: joined(list(each), axis), *parts[1:])
    if len(parts) < MANY:
        return _few_joined(*parts, axis)
    made = derive(_cat_nodes, parts, axis)
    if not active:
        _join_in_memory(made, parts, axis)
    return made


@repeated
def _few_joined(*arguments: Any) -> Tensor:
    *parts, axis = arguments
    return derive(_cat_nodes, parts, axis)


def _join_in_memory(made: Tensor, parts: list[Any], axis: int) -> None:
    """Many small values that the host has are laid end to end there: as a kernel they would be
    compiled anew wherever two of them are the same tensor, or lie elsewhere in one.
    """
    node = made._current()
    shape = shape_of(node)
    if not all(isinstance(size, int) for size in shape):
        return
    if math.prod(shape) * node.dtype.itemsize > LARGEST or not seen_by_host(parts[0]._current()):
        return
    arrays = [array for part in parts if (array := read(part._current())) is not None]
    if len(arrays) == len(parts):
        whole = np.concatenate(arrays, axis)
        value = buffer_node(buffer_from(whole, made._storage.device, node.dtype), whole.shape)
        made._storage.settle(node, value)


def _cat_nodes(*arguments: Any) -> UOp:
    """A balanced tree of choices, so that many parts do not make a deep graph."""
    *nodes, axis = arguments
    while len(nodes) > 1:
        pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
        nodes = [_cat_two(two[0], two[1], axis) if len(two) == 2 else two[0] for two in pairs]
    return nodes[0]


def _cat_two(left: UOp, right: UOp, axis: int) -> UOp:
    ours, theirs = shape_of(left), shape_of(right)
    rows, columns = ((0, 0),) * axis, ((0, 0),) * (len(ours) - axis - 1)
    after = (*rows, (0, theirs[axis]), *columns)
    before = (*rows, (ours[axis], 0), *columns)
    inside = build.pad(weak_constant(True, dtypes.bool, ours), after)
    return build.elementwise(Ops.WHERE, inside, build.pad(left, after), build.pad(right, before))
