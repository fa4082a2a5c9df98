"""Movements that are views: they share the storage of what they are views of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torpor.base.dtypes import DType
from torpor.base.errors import ShapeError
from torpor.graph import plain
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Size, fold_size, product, size_node
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, boxed, located, view
from torpor.tensor.host import known_shape, known_size
from torpor.tensor.spelling import (
    a_shape,
    a_size,
    an_axis,
    counts_of,
    one_axis,
    some_axes,
    whole_number,
)


def plus(left: Size, right: Size) -> Size:
    """The sum of two sizes."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return fold_size(size_node(left) + size_node(right))


def boxes(handle: Any, axis: int, start: Size, stop: Size) -> tuple[tuple[Size, Size], ...]:
    """Pairs for `shrink` that cut one axis to start … stop."""
    return tuple(
        (start, stop) if place == axis else (0, size) for place, size in enumerate(handle.shape)
    )


def _narrowed(handle: Handle, shape: tuple[int, ...], axis: int, begin: Any, length: int) -> Tensor:
    """So many elements of one axis of a tensor of this shape, which has them."""
    lengths = (*shape[:axis], length, *shape[axis + 1 :])
    pairs = [(0, whole) for whole in shape]
    pairs[axis] = begin, begin + length
    return boxed(handle, (tuple(pairs), lengths, lengths))


class Movement(Handle):
    """Views: they share the storage, so that a write to one is seen by all, and cost nothing by
    themselves. Axes count from the front, negative ones from the end; `ShapeError` if there is no
    such axis.
    """

    __slots__ = ()

    # --- views ------------------------------------------------------------------------------------
    def reshape(self, *shape: Any) -> Tensor:
        """The same elements, in row-major order, in another shape; one size may be -1, which is
        worked out. `ShapeError` unless the element counts agree. Always a view, as PyTorch's
        `view`.

        >>> Tensor.zeros(2, 3, 4).reshape(6, -1).shape
        (6, 4)
        """
        return view(self, "reshape", _inferred(self, a_shape(shape)))

    def view(self, *shape: Any) -> Tensor:
        """As `reshape`; given a dtype, as `bitcast`."""
        if len(shape) == 1 and isinstance(shape[0], DType | str):
            return self.bitcast(shape[0])
        return self.reshape(*shape)

    def view_as(self, other: Tensor) -> Tensor:
        """Reshaped to the shape of `other`, which must have as many elements."""
        return self.reshape(other.shape)

    reshape_as = view_as

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes start_dim … end_dim as one; a 0-d tensor gets one axis.

        >>> Tensor.zeros(2, 3, 4).flatten(1).shape
        (2, 12)
        """
        shape = self.shape
        first, last = one_axis(start_dim, len(shape)), one_axis(end_dim, len(shape))
        if not shape:
            return self.reshape(1)
        if first > last:
            raise ShapeError(f"flatten cannot go from axis {first} back to {last}")
        return self.reshape(*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])

    def ravel(self) -> Tensor:
        """All axes as one: shape (elements,)."""
        return self.reshape(-1)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis as several, of these sizes; one of them may be -1, which is worked out.

        >>> Tensor.zeros(2, 12).unflatten(1, (3, -1)).shape
        (2, 3, 4)
        """
        axis, shape, given = an_axis(dim, self), self.shape, a_shape((sizes,))
        part: list[Any] = list(given)
        if -1 in part:
            known = math.prod(size for size in part if size != -1)
            if part.count(-1) > 1 or not known:
                raise ShapeError(f"the -1 in {tuple(part)} cannot be worked out")
            part[part.index(-1)] = shape[axis] // known
        if is_plain((*part, shape[axis])) and math.prod(part) != shape[axis]:
            what = f"sizes {given} do not make axis {axis}, of length {shape[axis]}"
            raise located(ShapeError(what), (self,))
        return self.reshape(*shape[:axis], *part, *shape[axis + 1 :])

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order: axis i of the view is axis dims[i]. `ShapeError` unless each
        axis is named once.

        >>> Tensor.zeros(2, 3, 4).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        order = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
        axes = some_axes(tuple(order), self.ndim)
        if len(axes) != self.ndim:
            raise located(ShapeError(f"permute{tuple(order)} must name each axis once"), (self,))
        return view(self, "permute", axes)

    def transpose(self, dim0: Any = 0, dim1: int = 1) -> Tensor:
        """Two axes exchanged; or all in the order that a tuple gives, as `permute`.

        >>> Tensor.zeros(2, 3, 4).transpose(0, 2).shape
        (4, 3, 2)
        """
        if isinstance(dim0, tuple | list):  # NumPy's way
            return self.permute(dim0)
        rank = self.ndim
        one, other = one_axis(dim0, rank), one_axis(dim1, rank)
        order = list(range(rank))
        if order:
            order[one], order[other] = order[other], order[one]
        return view(self, "permute", tuple(order))

    swapaxes = swapdims = transpose

    def t(self) -> Tensor:
        """The transpose of a matrix, (n, m) to (m, n); fewer axes stay as they are, more are a
        `ShapeError`.
        """
        if self.ndim > 2:
            raise located(ShapeError("t() is for at most 2 axes; use mT or permute"), (self,))
        return self.transpose(0, 1) if self.ndim == 2 else view(self, "reshape", self.shape)

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix, as `t()`."""
        return self.t()

    @property
    def mT(self) -> Tensor:
        """The transposes of a stack of matrices: (..., n, m) to (..., m, n); of a 0-d tensor a
        view of it.
        """
        if not self.ndim:
            return view(self, "reshape", ())
        if self.ndim < 2:
            raise located(ShapeError("mT needs at least 2 axes"), (self,))
        return self.transpose(-2, -1)

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """The axes `source` put at the places `destination`; the others keep their order.

        >>> Tensor.zeros(2, 3, 4).movedim(0, -1).shape
        (3, 4, 2)
        """
        origins, places = some_axes(source, self.ndim), some_axes(destination, self.ndim)
        if len(origins) != len(places):
            raise ShapeError(f"movedim moves {len(origins)} axes to {len(places)} places")
        rest = [axis for axis in range(self.ndim) if axis not in origins]
        target = dict(zip(places, origins, strict=True))
        waiting = iter(rest)
        order = [target[p] if p in target else next(waiting) for p in range(self.ndim)]
        return view(self, "permute", tuple(order))

    moveaxis = movedim

    def squeeze(self, dim: Any = None) -> Tensor:
        """Without its axes of size 1; given axes, without those of them that have size 1.

        >>> Tensor.zeros(1, 3, 1).squeeze().shape, Tensor.zeros(1, 3, 1).squeeze(0).shape
        ((3,), (3, 1))
        """
        axes = set(some_axes(dim, self.ndim))
        kept = [
            s for n, s in enumerate(self.shape) if n not in axes or type(s) is not int or s != 1
        ]
        return view(self, "reshape", tuple(kept))

    def unsqueeze(self, dim: int) -> Tensor:
        """With a new axis of size 1 at place `dim` of the result.

        >>> Tensor.zeros(2, 3).unsqueeze(1).shape
        (2, 1, 3)
        """
        axis = one_axis(dim, self.ndim, 1)
        shape = self.shape
        return view(self, "reshape", (*shape[:axis], 1, *shape[axis:]))

    def expand(self, *size: Any) -> Tensor:
        """Axes of size 1 repeated to these sizes, and axes added in front; -1 keeps a size.
        `ShapeError` for any other size that changes. A write to it raises, since several of its
        elements are one.

        >>> Tensor([[1], [2]]).expand(2, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
        """
        wanted = a_shape(size)
        shape = self.shape
        if len(wanted) < len(shape):
            raise located(ShapeError(f"cannot expand to {wanted}, which has fewer axes"), (self,))
        extra = len(wanted) - len(shape)
        if extra:
            counts_of(wanted[:extra], "axes that expand adds")
        start = view(self, "reshape", (1,) * extra + shape) if extra else self
        full = tuple(
            (shape[place - extra] if place >= extra else w) if isinstance(w, int) and w == -1 else w
            for place, w in enumerate(wanted)
        )
        return view(start, "expand", full)

    broadcast_to = expand

    def expand_as(self, other: Tensor) -> Tensor:
        """Expanded to the shape of `other`."""
        return self.expand(other.shape)

    def shrink(self, pairs: Sequence[Any]) -> Tensor:
        """The box that one (start, stop) an axis cuts out; None stands for a whole axis.

        >>> Tensor.zeros(4, 5).shrink([(1, 3), None]).shape
        (2, 5)
        """
        full = tuple((0, s) if p is None else tuple(p) for p, s in zip(pairs, self.shape))
        if len(pairs) != self.ndim:
            raise located(ShapeError(f"shrink needs {self.ndim} pairs, got {len(pairs)}"), (self,))
        return view(self, "shrink", full)

    def narrow(self, dim: int, start: Any, length: Any) -> Tensor:
        """`length` elements of one axis, from `start` on (negative: from the end): integers, or
        0-d tensors of one, which are computed at the call.

        >>> Tensor([1, 2, 3, 4]).narrow(0, 1, 2).tolist()
        [2, 3]
        """
        axis = an_axis(dim, self)
        shape = self.shape
        size, begin = shape[axis], a_size(start)
        if is_plain((*shape, begin, length)) and 0 <= begin < begin + length <= size:
            return _narrowed(self, tuple(shape), axis, begin, length)
        if isinstance(begin, int) and begin < 0:
            begin = plus(size, begin)
        return view(self, "shrink", boxes(self, axis, begin, plus(begin, a_size(length))))

    def select(self, dim: int, index: Any) -> Tensor:
        """Element `index` of one axis, which goes: (..., n, ...) to (..., ...)."""
        axis = an_axis(dim, self)
        return self[(slice(None),) * axis + (a_size(index),)]

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The n views that `select` gives along an axis of length n."""
        axis = an_axis(dim, self)
        return tuple(self.select(axis, i) for i in range(known_size(self.shape[axis])))

    def split(self, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces of one axis: of one size, the last perhaps shorter, or of the sizes given, which
        must add up to the axis.

        >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).split(2)]
        [[1, 2], [3, 4], [5]]
        """
        axis = an_axis(dim, self)
        size = self.shape[axis]
        if not isinstance(split_size_or_sections, Sequence):
            step = known_size(a_size(split_size_or_sections))
            if step < 1 and size:
                raise ShapeError(f"split needs a positive size, not {step}")
            known = known_size(size)
            sizes = [min(step, known - at) for at in range(0, known, max(step, 1))] or [0]
        else:
            sizes = list(known_shape(counts_of(split_size_or_sections, "sections")))
            if sum(sizes) != size:
                raise located(ShapeError(f"sections {sizes} do not add up to {size}"), (self,))
        starts, shape = itertools.accumulate(sizes, initial=0), tuple(self.shape)
        if is_plain(shape) and min(sizes, default=0) > 0:
            pieces = zip(starts, sizes)
            return tuple([_narrowed(self, shape, axis, at, length) for at, length in pieces])
        return tuple([self.narrow(axis, at, length) for at, length in zip(starts, sizes)])

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of one axis, all but the last of ceil(length / chunks) elements.

        >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).chunk(3)]
        [[1, 2], [3, 4], [5]]
        """
        count = known_size(a_size(chunks))
        if count < 1:
            raise ShapeError(f"chunk needs a positive number of pieces, not {count}")
        size = known_size(self.shape[an_axis(dim, self)])
        if not size:
            return self.split([0] * count, dim)
        return self.split(max(1, -(-size // count)), dim)

    def unfold(self, dimension: int, size: int, step: int = 1) -> Tensor:
        """Windows of `size` elements along one axis, `step` apart: (..., n, ...) to (..., windows,
        ..., size) with windows = (n - size) // step + 1.

        >>> Tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
        """
        axis, shape = one_axis(dimension, self.ndim), self.shape
        length = shape[axis] if shape else 1
        size, step = known_shape(a_shape((size, step)))
        if not 0 <= size <= length or step < 1:
            what = f"windows of {size}, {step} apart, do not fit an axis of {length}"
            raise located(ShapeError(what), (self,))
        if not shape:
            return self.reshape(1).narrow(0, 0, size)
        if not size:
            counted = (*shape[:axis], length // step + 1, *shape[axis + 1 :], 0)
            return self.narrow(axis, 0, 0).reshape(counted)
        return view(self, "window", (axis, size, step))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Elements (i, i + offset) of the axes dim1 and dim2, which go, as a new last axis.

        >>> Tensor([[1, 2], [3, 4]]).diagonal().tolist()
        [1, 4]
        """
        offset, moved = whole_number(offset), self.movedim((dim1, dim2), (-2, -1))
        rows, columns = known_shape(moved.shape[-2:])
        if offset >= 0:
            moved = moved.narrow(-1, min(offset, columns), columns - min(offset, columns))
        else:
            moved = moved.narrow(-2, min(-offset, rows), rows - min(-offset, rows))
        rows, columns = known_shape(moved.shape[-2:])
        count, lead = min(rows, columns), moved.shape[:-2]
        square = moved.narrow(-2, 0, count).narrow(-1, 0, count)
        flat = square.reshape(*lead, count * count)
        pairs = ((0, 0),) * len(lead) + ((0, count),)  # one more column: the diagonal is column 0
        return view(flat, "pad", pairs).reshape(*lead, count, count + 1).select(-1, 0)


def _inferred(handle: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The shape with its -1 worked out."""
    if is_plain(shape) and (found := plain.completed(handle.shape, shape)) is not None:
        return found
    if not any(isinstance(size, int) and size < 0 for size in shape):
        return tuple(shape)
    if [s for s in shape if isinstance(s, int) and s < 0] != [-1]:
        raise located(ShapeError(f"only one size may be -1, and none less: {shape}"), (handle,))
    rest = product([size for size in shape if not (isinstance(size, int) and size == -1)])
    count = product(handle.shape)
    if isinstance(count, int) and isinstance(rest, int):
        if rest == 0 or count % rest:
            what = f"cannot reshape {count} elements to {shape}: {rest} does not divide them"
            raise located(ShapeError(what), (handle,))
        missing: Size = count // rest
    else:
        missing = _symbolic_quotient(handle, shape)
    return tuple(missing if isinstance(size, int) and size == -1 else size for size in shape)


def _symbolic_quotient(handle: Any, shape: Sequence[Any]) -> Size:
    """The missing size when some are symbolic: equal factors on both sides cancel."""
    ours = list(handle.shape)
    rest = 1
    for size in shape:
        if size in ours:
            ours.remove(size)
        elif not (isinstance(size, int) and size == -1):
            rest = rest * size
    left = product(ours)
    if isinstance(left, int) and isinstance(rest, int) and rest and left % rest == 0:
        return left // rest
    return fold_size(left // rest) if isinstance(left, UOp) else left
