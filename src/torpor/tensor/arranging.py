"""Splitting, stacking, diagonals and turning: arrangements made of views and of joins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.graph import build
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import as_tensor, beside
from torpor.tensor.handle import Handle, located, make
from torpor.tensor.host import known_shape, known_size
from torpor.tensor.iota import iota
from torpor.tensor.joining import joined
from torpor.tensor.movement import Movement
from torpor.tensor.operands import choose
from torpor.tensor.size import Size
from torpor.tensor.spelling import a_shape, an_axis, counts_of, one_axis, one_by_one, some_axes


def _split_along(axis: int, least: int) -> Callable[..., Any]:
    """`hsplit`, `vsplit`, `dsplit`: along an axis of tensors of `least` axes or more."""

    def method(self: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if self.ndim < least:
            raise located(ShapeError(f"a tensor of {least} axes or more is needed"), (self,))
        along = 0 if self.ndim == 1 else axis
        whole = isinstance(indices_or_sections, int) and indices_or_sections > 0
        if whole and self.shape[along] % indices_or_sections:
            what = f"{indices_or_sections} sections do not divide {self.shape[along]}"
            raise located(ShapeError(what), (self,))
        return self.tensor_split(indices_or_sections, along)

    method.__doc__ = f"Pieces along axis {axis}, as `tensor_split`, of one size where counted."
    return method


def _grown(least: int) -> Callable[..., Any]:
    """`atleast_1d` and its like, of one tensor or of several."""

    def method(*tensors: Any) -> Any:
        given = one_by_one(tensors)
        made = []
        for one in map(as_tensor, given):
            front = max(0, min(least, 2) - one.ndim)
            back = max(0, least - one.ndim - front)
            made.append(one.reshape(*(1,) * front, *one.shape, *(1,) * back))
        return made[0] if len(made) == 1 and given is tensors else tuple(made)

    method.__doc__ = f"Tensors with axes of length 1 where they have fewer than {least}."
    return method


def _stacked(axis: int, least: int, grown: Callable[..., Any]) -> Callable[..., Any]:
    """`hstack`, `vstack`, `dstack`: joined along an axis."""

    def method(*tensors: Any) -> Tensor:
        given = one_by_one(tensors)
        parts = [grown(one) for one in given]
        return joined(parts, axis if parts[0].ndim > axis else 0)

    method.__doc__ = (
        f"Tensors of {least} axes or more (as `atleast_{least}d`) laid along axis {axis}."
    )
    return method


class Arranging(Handle):
    """Pieces of tensors and tensors of pieces."""

    __slots__ = ()

    # --- splitting --------------------------------------------------------------------------------
    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces of one axis: so many, the first ones perhaps one element longer, or those that end
        before the indices given.

        >>> [part.tolist() for part in Tensor([1, 2, 3, 4]).tensor_split(3)]
        [[1, 2], [3], [4]]
        """
        axis, given = an_axis(dim, self), indices_or_sections
        size = known_size(self.shape[axis])
        if isinstance(given, Handle):
            given = given.tolist()
        if isinstance(given, Sequence):
            cuts = [slice(None, at).indices(size)[1] for at in given]
        elif given < 1:
            raise ShapeError(f"tensor_split needs a positive number of pieces, not {given}")
        else:
            short, longer = divmod(size, given)
            cuts = [place * short + min(place, longer) for place in range(1, given)]
        pairs = zip([0, *cuts], [*cuts, size], strict=True)
        return tuple(self.narrow(axis, start, max(0, stop - start)) for start, stop in pairs)

    hsplit, vsplit, dsplit = _split_along(1, 1), _split_along(0, 2), _split_along(2, 3)

    split_with_sizes = unsafe_split = Movement.split
    unsafe_chunk = Movement.chunk

    # --- stacking ---------------------------------------------------------------------------------
    atleast_1d, atleast_2d, atleast_3d = (
        staticmethod(_grown(1)), staticmethod(_grown(2)), staticmethod(_grown(3)),
    )  # fmt: skip
    hstack = staticmethod(_stacked(1, 1, _grown(1)))
    vstack = row_stack = staticmethod(_stacked(0, 2, _grown(2)))
    dstack = staticmethod(_stacked(2, 3, _grown(3)))

    @staticmethod
    def column_stack(tensors: Sequence[Any]) -> Tensor:
        """Vectors as columns, and matrices, laid side by side."""
        parts: list[Any] = [as_tensor(one) for one in tensors]
        return joined([one.reshape(-1, 1) if one.ndim < 2 else one for one in parts], 1)

    def block_diag(*tensors: Any) -> Tensor:
        """Matrices along the diagonal of one that is 0 elsewhere.

        >>> Tensor.block_diag(Tensor([[1, 2]]), Tensor([3])).tolist()
        [[1, 2, 0], [0, 0, 3]]
        """
        parts: list[Any] = [as_tensor(one) for one in tensors]
        parts = [one.reshape(*(1,) * (2 - one.ndim), *one.shape) for one in parts]
        if not parts:
            return Handle._type.zeros(1, 0)
        width, at, rows = sum(one.shape[1] for one in parts), 0, []
        for one in parts:
            rows.append(one.pad([None, (at, width - at - one.shape[1])]))
            at += one.shape[1]
        return joined(rows, 0)

    def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
        """Views of one shape, which each of them is expanded to."""
        given = one_by_one(tensors)
        parts: list[Any] = [as_tensor(one) for one in given]
        shape = build.broadcast_shapes(*(one.shape for one in parts))
        return tuple(one.expand(*shape) for one in parts)

    @staticmethod
    def broadcast_shapes(*shapes: Any) -> Size:
        """The shape that shapes broadcast to."""
        given = ((s,) if isinstance(s, int) else tuple(s) for s in shapes)
        return Size(build.broadcast_shapes(*given))

    def cartesian_prod(*tensors: Any) -> Tensor:
        """All tuples of elements of vectors, (count, vectors); of one vector itself."""
        for one in tensors:
            if one.ndim != 1:
                raise located(ShapeError("cartesian_prod is of vectors"), (one,))
        if len(tensors) == 1:
            return tensors[0]
        grids = Handle._type.meshgrid(*tensors)
        return Handle._type.stack([one.reshape(-1) for one in grids], 1)

    def combinations(self, r: int = 2, with_replacement: bool = False) -> Tensor:
        """All combinations of r elements of a vector, in order: (count, r)."""
        pick = itertools.combinations_with_replacement if with_replacement else (
            itertools.combinations)  # fmt: skip
        places = list(pick(range(known_size(self.shape[0])), r))
        if not r or not places:
            return self.new_zeros((0,) if not r else (0, r))
        flat = [place for row in places for place in row]
        return self[beside(flat, self)].reshape(len(places), r)

    # --- diagonals --------------------------------------------------------------------------------
    def diag(self, diagonal: int = 0) -> Tensor:
        """Of a matrix its diagonal, of a vector a matrix that has it.

        >>> Tensor([1, 2]).diag().tolist()
        [[1, 0], [0, 2]]
        """
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        if self.ndim != 1:
            raise located(ShapeError("diag is for vectors and matrices"), (self,))
        return self.diag_embed(diagonal)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Matrices, in the axes dim1 and dim2 of the result, that have the last axis on a diagonal
        and are 0 elsewhere.
        """
        one, other = one_axis(dim1, self.ndim, 1), one_axis(dim2, self.ndim, 1)
        length = known_size(self.shape[-1])
        size = length + abs(offset)
        lead: list[Any] = [None] * (self.ndim - 1)
        whole: Any = self.pad([*lead, (max(offset, 0), max(-offset, 0))]).unsqueeze(-2)
        place: Any = make(iota(size, self.device), self.device)
        held = (place.reshape(size, 1) + offset).eq(place)
        made = choose(held, whole, self.dtype.cast_scalar(0))
        made = made if one < other else made.mT
        return made.movedim((-2, -1), (min(one, other), max(one, other)))

    def diagflat(self, offset: int = 0) -> Tensor:
        """A matrix that has all elements on a diagonal."""
        return self.reshape(-1).diag_embed(offset)

    def trace(self) -> Tensor:
        """The sum of a matrix' diagonal."""
        if self.ndim != 2:
            raise located(ShapeError("trace is for matrices"), (self,))
        return self.diagonal().sum()

    # --- turning ----------------------------------------------------------------------------------
    def fliplr(self) -> Tensor:
        """The order of axis 1 reversed."""
        return self.flip(one_axis(1, self.ndim))

    def flipud(self) -> Tensor:
        """The order of axis 0 reversed."""
        if not self.ndim:
            raise located(ShapeError("flipud is of one axis or more"), (self,))
        return self.flip(0)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """Turned k times by 90 degrees, from the first of two axes towards the second.

        >>> Tensor([[1, 2], [3, 4]]).rot90().tolist()
        [[2, 4], [1, 3]]
        """
        axes = some_axes(tuple(dims), self.ndim)
        if len(axes) != 2:
            raise located(ShapeError(f"rot90 turns two axes, not {tuple(dims)}"), (self,))
        one, other = axes
        turned = {0: lambda: self.clone(), 1: lambda: self.flip(other).transpose(one, other),
                  2: lambda: self.flip(one, other),
                  3: lambda: self.flip(one).transpose(one, other)}  # fmt: skip
        return turned[k % 4]()

    # --- putting into a copy ----------------------------------------------------------------------
    def select_scatter(self, src: Any, dim: int, index: int) -> Tensor:
        """A copy with `src` in place of what `select` gives."""
        return _with(self, lambda one: one.select(dim, index), src)

    def slice_scatter(
        self, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
    ) -> Tensor:
        """A copy with `src` in place of a slice of one axis."""
        return _with(self, lambda one: one.slice(dim, start, end, step), src)

    def diagonal_scatter(self, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """A copy with `src` in place of what `diagonal` gives."""
        moved = self.movedim((dim1, dim2), (-2, -1))
        rows, columns = moved.shape[-2:]
        lead: list[Any] = [None] * (self.ndim - 2)
        whole: Any = beside(src, self).diag_embed(offset)
        height, width = whole.shape[-2:]
        whole = whole.pad([*lead, (0, max(0, rows - height)), (0, max(0, columns - width))])
        whole = whole[..., :rows, :columns]
        row: Any = make(iota(rows, self.device), self.device)
        column: Any = make(iota(columns, self.device), self.device)
        held = (row.reshape(rows, 1) + offset).eq(column)
        return choose(held, whole, moved).cast(self.dtype).movedim((-2, -1), (dim1, dim2))

    def slice(self, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
        """A view of start, start + step, … before `end` of one axis, as in `x[start:end:step]`."""
        return self[(*(slice(None),) * an_axis(dim, self), slice(start, end, step))]

    def fill(self, value: Any) -> Tensor:
        """A copy in which every element is a number, or a 0-d tensor."""
        made: Tensor = self.clone()
        return made.fill_(value)

    def put(self, index: Any, source: Any, accumulate: bool = False) -> Tensor:
        """A copy with the elements of `source` at places of the flattened tensor; with
        `accumulate` added, one after the other.
        """
        places, values = (beside(one, self).reshape(-1) for one in (index, source))
        return self.reshape(-1).index_put((places,), values, accumulate).reshape(self.shape)

    def constant_pad_nd(self, pad: Sequence[int], value: Any = 0) -> Tensor:
        """`pad` with a number."""
        return self.pad(pad, value=value)

    # --- sums and indices -------------------------------------------------------------------------
    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over what was broadcast from the shape `size`."""
        wanted = a_shape(size)
        extra = self.ndim - len(wanted)
        axes = [*range(extra), *(extra + axis for axis, length in enumerate(wanted)
                if length == 1 and self.shape[extra + axis] != 1)]  # fmt: skip
        made: Any = self.sum(axes, True) if axes or not self.ndim else self.clone()
        return made.reshape(*wanted)

    def unravel_index(self, shape: Any) -> tuple[Tensor, ...]:
        """Places in a flattened tensor of this shape as one index for each axis: int64."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        parts, rest = [], self.cast(dtypes.int64) if self.dtype.is_int else self
        for size in reversed(sizes):
            parts.append(rest % size)
            rest = rest // size
        return tuple(reversed(parts))

    @staticmethod
    def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
        """The places of a lower triangle, row by row: (2, count)."""
        return _places(row, col, lambda r, c: c <= r + offset, options)

    @staticmethod
    def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
        """The places of an upper triangle, row by row: (2, count)."""
        return _places(row, col, lambda r, c: c >= r + offset, options)

    def vander(self, N: int | None = None, increasing: bool = False) -> Tensor:
        """Powers of the last axis' elements as rows, the highest first: (..., n) to (..., n, N);
        int64 of integers and bools.
        """
        kept = self.dtype.is_float or self.dtype.is_complex
        x: Any = self if kept else self.cast(dtypes.int64)
        count = known_size(self.shape[-1]) if N is None else N
        if count < 0:
            raise ValueRangeError(f"as many powers as 0 or more, not {count}")
        place: Any = make(iota(count, self.device), self.device)
        if not count:
            return x.new_zeros((*x.shape, 0))
        powers = x.unsqueeze(-1).expand(*x.shape, count)
        first = place.eq(0)
        made = first.where(1, powers).cumprod(-1).cast(x.dtype)
        return made if increasing else made.flip(-1)


def _with(operand: Any, look: Callable[[Any], Any], src: Any) -> Any:
    """A copy in which `src` stands where `look` looks."""
    made = operand.clone()
    look(made).copy_(src)
    return made


def _places(rows: int, columns: int, held: Callable[[int, int], bool], options: Any) -> Tensor:
    rows, columns = known_shape(counts_of((rows, columns), "a number of rows or columns"))
    pairs = [(r, c) for r in range(rows) for c in range(columns) if held(r, c)]
    options = {"dtype": dtypes.int64, **options}
    data = [[r for r, _ in pairs], [c for _, c in pairs]]
    return Handle._type(data, **options) if pairs else Handle._type.zeros(2, 0, **options)


# As views, with memory of their own.
_COPIES = (
    "alias", "detach", "diagonal", "expand", "narrow", "permute", "select", "slice", "split",
    "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view",
)  # fmt: skip


def _copied(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        made = self if name == "alias" else getattr(self, name)(*arguments, **options)
        return tuple(one.clone() for one in made) if isinstance(made, tuple) else made.clone()

    method.__doc__ = f"As `{name}`, with memory of its own."
    method.__name__ = f"{name}_copy"
    return method


for _name in _COPIES:
    setattr(Arranging, f"{_name}_copy", _copied(_name))
