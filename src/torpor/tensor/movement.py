"""Movements. Those that PyTorch gives as views share the storage; the others copy (lazily)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ShapeError
from torpor.base.promotion import promote
from torpor.graph import build
from torpor.ir.infer import Size, fold_size, product, shape_of, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, derive, located, make, view
from torpor.tensor.host import known_shape, known_size
from torpor.tensor.iota import iota
from torpor.tensor.spelling import a_shape, one_axis, pair, some_axes, spelled

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


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


class Movement(Handle):
    """Views, and rearrangements that are none."""

    __slots__ = ()

    # --- views ------------------------------------------------------------------------------------
    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order in another shape; one size may be -1."""
        return view(self, "reshape", _inferred(self, a_shape(shape)))

    def view(self, *shape: Any) -> Tensor:
        """As `reshape`; given a dtype, as `bitcast`."""
        if len(shape) == 1 and (isinstance(shape[0], DType) or shape[0] in _DTYPE_NAMES):
            return self.bitcast(shape[0])
        return self.reshape(*shape)

    def view_as(self, other: Tensor) -> Tensor:
        """In the shape of `other`."""
        return self.reshape(other.shape)

    reshape_as = view_as

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes start_dim … end_dim made one."""
        shape = self.shape
        if not shape:
            return self.reshape(1)
        first, last = one_axis(start_dim, len(shape)), one_axis(end_dim, len(shape))
        if first > last:
            raise ShapeError(f"flatten cannot go from axis {first} back to {last}")
        return self.reshape(*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])

    def ravel(self) -> Tensor:
        """All axes made one."""
        return self.reshape(-1)

    @spelled
    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis made several; one of their sizes may be -1."""
        shape = self.shape
        axis = one_axis(dim, len(shape))
        part: list[Any] = list(sizes)
        if -1 in part:
            known = math.prod(size for size in part if size != -1)
            part[part.index(-1)] = shape[axis] // known if known else 0
        return self.reshape(*shape[:axis], *part, *shape[axis + 1 :])

    @spelled
    def permute(self, *dims: Any) -> Tensor:
        """Axes in the order given."""
        order = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
        axes = some_axes(tuple(order), self.ndim)
        if len(axes) != self.ndim:
            raise located(ShapeError(f"permute{tuple(order)} must name each axis once"), (self,))
        return view(self, "permute", axes)

    def transpose(self, dim0: int = 0, dim1: int = 1) -> Tensor:
        """Two axes exchanged."""
        one, other = one_axis(dim0, self.ndim), one_axis(dim1, self.ndim)
        order = list(range(self.ndim))
        if order:
            order[one], order[other] = order[other], order[one]
        return view(self, "permute", tuple(order))

    swapaxes = swapdims = transpose

    def t(self) -> Tensor:
        """The transpose of a matrix; fewer axes stay as they are."""
        if self.ndim > 2:
            raise located(ShapeError("t() is for at most 2 axes; use mT or permute"), (self,))
        return self.transpose(0, 1) if self.ndim == 2 else view(self, "reshape", self.shape)

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        return self.t()

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise located(ShapeError("mT needs at least 2 axes"), (self,))
        return self.transpose(-2, -1)

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """The axes `source` put at the places `destination`; the others keep their order."""
        origins, places = some_axes(source, self.ndim), some_axes(destination, self.ndim)
        if len(origins) != len(places):
            raise ShapeError(f"movedim moves {len(origins)} axes to {len(places)} places")
        rest = [axis for axis in range(self.ndim) if axis not in origins]
        target = dict(zip(places, origins, strict=True))
        waiting = iter(rest)
        order = [target[p] if p in target else next(waiting) for p in range(self.ndim)]
        return view(self, "permute", tuple(order))

    moveaxis = movedim

    @spelled
    def squeeze(self, dim: Any = None) -> Tensor:
        """Without its axes of size 1, or without those named where they have it."""
        axes = set(some_axes(dim, self.ndim))
        kept = [s for axis, s in enumerate(self.shape) if not (axis in axes and _is_one(s))]
        return view(self, "reshape", tuple(kept))

    @spelled
    def unsqueeze(self, dim: int) -> Tensor:
        """With a new axis of size 1 at place `dim`."""
        axis = one_axis(dim, self.ndim, 1)
        shape = self.shape
        return view(self, "reshape", (*shape[:axis], 1, *shape[axis:]))

    def expand(self, *size: Any) -> Tensor:
        """Axes of size 1 repeated, and axes added in front; -1 keeps a size. Cannot be written."""
        wanted = a_shape(size)
        shape = self.shape
        if len(wanted) < len(shape):
            raise located(ShapeError(f"cannot expand to {wanted}, which has fewer axes"), (self,))
        extra = len(wanted) - len(shape)
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
        """The box from start to stop on each axis (None: the whole axis)."""
        full = tuple((0, s) if p is None else tuple(p) for p, s in zip(pairs, self.shape))
        if len(pairs) != self.ndim:
            raise located(ShapeError(f"shrink needs {self.ndim} pairs, got {len(pairs)}"), (self,))
        return view(self, "shrink", full)

    @spelled
    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` elements of one axis from `start` on."""
        axis = one_axis(dim, self.ndim)
        size = self.shape[axis]
        begin = start + size if isinstance(start, int) and start < 0 else start
        return view(self, "shrink", boxes(self, axis, begin, plus(begin, length)))

    @spelled
    def select(self, dim: int, index: int) -> Tensor:
        """Element `index` of one axis, which goes."""
        axis = one_axis(dim, self.ndim)
        return self[(slice(None),) * axis + (index,)]

    @spelled
    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Every element of one axis."""
        axis = one_axis(dim, self.ndim)
        return tuple(self.select(axis, i) for i in range(known_size(self.shape[axis])))

    @spelled
    def split(self, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces of one axis: of one size (the last may be shorter), or of the sizes given."""
        axis = one_axis(dim, self.ndim)
        size = self.shape[axis]
        if isinstance(split_size_or_sections, int):
            step = split_size_or_sections
            if step < 1 and size:
                raise ShapeError(f"split needs a positive size, not {step}")
            known = known_size(size)
            sizes = [min(step, known - at) for at in range(0, known, max(step, 1))] or [0]
        else:
            sizes = list(split_size_or_sections)
            if sum(sizes) != size:
                raise located(ShapeError(f"sections {sizes} do not add up to {size}"), (self,))
        starts = itertools.accumulate(sizes, initial=0)
        return tuple(self.narrow(axis, at, n) for at, n in zip(starts, sizes))

    @spelled
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of one axis, of one size but the last."""
        if chunks < 1:
            raise ShapeError(f"chunk needs a positive number of pieces, not {chunks}")
        size = known_size(self.shape[one_axis(dim, self.ndim)])
        return self.split(max(1, -(-size // chunks)), dim)

    def unfold(self, dimension: int, size: int, step: int = 1) -> Tensor:
        """Windows of `size` along one axis, `step` apart; their elements are a new last axis."""
        axis = one_axis(dimension, self.ndim)
        length = self.shape[axis]
        if size > length or step < 1:
            what = f"windows of {size}, {step} apart, do not fit an axis of {length}"
            raise located(ShapeError(what), (self,))
        return view(self, "window", (axis, size, step))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Elements (i, i + offset) of two axes, as a new last axis."""
        moved = self.movedim((dim1, dim2), (-2, -1))
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

    # --- copies -----------------------------------------------------------------------------------
    @spelled
    def flip(self, *dims: Any) -> Tensor:
        """The order of some axes reversed."""
        named = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        return derive(build.flip, (self,), some_axes(tuple(named), self.ndim))

    @spelled
    def roll(self, shifts: Any, dim: Any = None) -> Tensor:
        """Elements moved along, those that fall off put in front."""
        if dim is None:
            return self.reshape(-1).roll(shifts, 0).reshape(self.shape)
        axes = some_axes(dim, self.ndim)
        made: Any = self
        for axis, shift in zip(axes, pair(shifts, len(axes)), strict=True):
            size = self.shape[axis]
            cut = (-shift) % size if size else 0
            if cut:
                made = made.narrow(axis, cut, size - cut).cat(made.narrow(axis, 0, cut), dim=axis)
        return made.clone() if made is self else made

    def repeat(self, *repeats: Any) -> Tensor:
        """The whole laid side by side so many times along each axis."""
        counts = a_shape(repeats)
        if len(counts) < self.ndim:
            raise located(ShapeError(f"repeat needs {self.ndim} numbers or more"), (self,))
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        apart = [size for s in shape for size in (1, s)]
        wide = [size for n, s in zip(counts, shape) for size in (n, s)]
        joined = [n * s for n, s in zip(counts, shape)]
        return _copied(self.reshape(*apart).expand(*wide).reshape(*joined))

    def tile(self, *dims: Any) -> Tensor:
        """As `repeat`; axes that are not named are repeated once."""
        counts = a_shape(dims)
        return self.repeat(*(1,) * max(0, self.ndim - len(counts)), *counts)

    @spelled
    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Tensor:
        """Each element so many times in a row."""
        if dim is None:
            return self.reshape(-1).repeat_interleave(repeats, 0)
        axis = one_axis(dim, self.ndim)
        shape = self.shape
        spread = self.unsqueeze(axis + 1).expand(*shape[: axis + 1], repeats, *shape[axis + 1 :])
        joined = spread.reshape(*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])
        return _copied(joined)

    def pad(self, padding: Sequence[Any], mode: str = "constant", value: Any = 0) -> Tensor:
        """`value` added around. PyTorch's order: (before, after) of the last axis, then the one
        before it; or a (before, after) pair or None for each axis, first axis first. Negative
        numbers cut. Modes: constant, reflect, replicate, circular.
        """
        pairs = _pad_pairs(padding, self)
        if mode != "constant":
            return _pad_by_copies(self, pairs, mode)
        cut = [(max(0, -b), plus(s, -max(0, -a))) for (b, a), s in zip(pairs, self.shape)]
        kept = self if all(b >= 0 and a >= 0 for b, a in pairs) else self.shrink(cut)
        grown = tuple((max(0, b), max(0, a)) for b, a in pairs)
        made = derive(build.pad, (kept,), grown)
        if type(value) in (int, float, bool) and not value and str(value) != "-0.0":
            return made
        inside = derive(build.pad, (kept.ones_like(dtypes.bool),), grown)
        return inside.where(made, value)

    def cat(*tensors: Any, dim: int = 0, axis: int | None = None) -> Tensor:
        """Laid end to end along one axis; their other axes must agree."""
        parts, where = _parts_and_axis(tensors, dim if axis is None else axis)
        return _joined(parts, one_axis(where, parts[0].ndim))

    concat = concatenate = cat

    def stack(*tensors: Any, dim: int = 0, axis: int | None = None) -> Tensor:
        """Laid along a new axis; their shapes must agree."""
        parts, where = _parts_and_axis(tensors, dim if axis is None else axis)
        if len({part.shape for part in parts}) > 1:
            shapes = ", ".join(str(part.shape) for part in parts)
            raise located(ShapeError(f"stack needs equal shapes, got {shapes}"), parts)
        place = one_axis(where, parts[0].ndim, 1)
        return _joined([part.unsqueeze(place) for part in parts], place)

    def tril(self, diagonal: int = 0) -> Tensor:
        """Zeros above a diagonal of the last two axes."""
        return _triangle(self, diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Tensor:
        """Zeros below a diagonal of the last two axes."""
        return _triangle(self, diagonal, lower=False)


_DTYPE_NAMES = frozenset(name for name in vars(dtypes) if not name.startswith("_"))


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _copied(made: Tensor) -> Tensor:
    """The same value with a storage of its own."""
    return make(made._current(), made.device, made.requires_grad)


def _inferred(handle: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The shape with its -1 worked out."""
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
        made = parts[0] if len(parts) == 1 else _joined(parts, axis)
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


def _parts_and_axis(tensors: tuple[Any, ...], axis: int) -> tuple[list[Any], int]:
    """The tensors of `cat` and `stack`, given apart or as one sequence; the axis may come last."""
    given = list(tensors)
    if len(given) > 1 and isinstance(given[-1], int):
        axis = given.pop()
    if (
        given
        and isinstance(given[0], Handle)
        and len(given) > 1
        and not isinstance(given[1], Handle)
    ):
        given = [given[0], *given[1]]
    elif len(given) == 1 and not isinstance(given[0], Handle):
        given = list(given[0])
    if not given or not all(isinstance(part, Handle) for part in given):
        raise ShapeError(f"expected tensors to join, got {given!r:.60}")
    return given, axis


def _joined(parts: list[Any], axis: int) -> Tensor:
    """Each part padded to the whole, and chosen where it lies."""
    shapes = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if len(shapes) > 1:
        sizes = ", ".join(str(part.shape) for part in parts)
        raise located(ShapeError(f"cat along axis {axis} needs equal other axes: {sizes}"), parts)
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = promote(dtype, part.dtype)
    parts = [part.cast(dtype) for part in parts]
    if len(parts) == 1:
        return parts[0].clone()
    return derive(_cat_nodes, parts, axis)


def _cat_nodes(*arguments: Any) -> UOp:
    """A balanced tree of choices, so that many parts do not make a deep graph."""
    *nodes, axis = arguments
    while len(nodes) > 1:
        pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
        nodes = [_cat_two(two[0], two[1], axis) if len(two) == 2 else two[0] for two in pairs]
    return nodes[0]


def _cat_two(left: UOp, right: UOp, axis: int) -> UOp:
    ours, theirs = shape_of(left), shape_of(right)
    after = tuple((0, theirs[axis] if place == axis else 0) for place in range(len(ours)))
    before = tuple((ours[axis] if place == axis else 0, 0) for place in range(len(ours)))
    inside = build.pad(build.constant(True, dtypes.bool, ours), after)
    return build.elementwise(Ops.WHERE, inside, build.pad(left, after), build.pad(right, before))


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
