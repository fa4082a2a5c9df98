"""Reading and writing along an axis, at the places that a tensor of indices names.

Where several indices name one place the updates happen in their order: of stores the last one
counts, sums add up from the first index to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.infer import Size, shape_of
from torpor.ir.ops import Ops, identity
from torpor.ir.records import Requirement
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside, check_one
from torpor.tensor.handle import (
    Handle,
    as_number,
    check_fits,
    derive,
    flat,
    located,
    make,
    render_shape,
    view,
    weak_constant,
)
from torpor.tensor.iota import iota
from torpor.tensor.operands import choose, need, scaled
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import an_axis, one_axis, within
from torpor.tensor.write import write

NO_CLASS: Final = Requirement("index", "one_hot got a class outside 0 <= class < num_classes")

_REDUCTIONS: Final = {
    "sum": Ops.ADD, "add": Ops.ADD, "mean": Ops.ADD, "prod": Ops.MUL, "multiply": Ops.MUL,
    "amax": Ops.MAX, "amin": Ops.MIN,
}  # fmt: skip


def wrapped(index: Any, size: Size) -> Any:
    """The index as int64 with negative ones counted from the end; what is outside stays so."""
    if index.dtype.kind == "uint":
        return index.cast(dtypes.int64)
    wide = index.cast(dtypes.int64)
    return (wide < 0).where(wide + as_number(size, index.device), wide)


def required(counted: Any, inside: Any, size: Size, axis: int, what: str = "") -> Any:
    """The index, with what is to be said where it is outside of the user's axis, which the
    operation `what` names.
    """
    return derive(build.check, (counted, inside), _requirement(size, axis, what))


def _requirement(size: Size, axis: int, what: str) -> Requirement:
    length = size.render() if isinstance(size, UOp) else size
    text = f"{what}{': ' * bool(what)}an index is out of bounds for axis {axis} of length {length}"
    return Requirement("index", text)


def placed(index: Any, size: Size, axis: int, what: str = "", from_end: bool = False) -> Any:
    """The index as int64 for a GATHER or SCATTER along the user's axis, as `wrapped` if it may
    count `from_end`: they look for what is outside themselves, and only the words of the error are
    given here.
    """
    counted = wrapped(index, size) if from_end else index.cast(dtypes.int64)
    return derive(_looked_at_later, (counted,), _requirement(size, axis, what))


def _looked_at_later(index: UOp, requirement: Requirement) -> UOp:
    return build.check(index, weak_constant(True, dtypes.bool, shape_of(index)), requirement)


def scattered(base: Any, axis: int, index: Any, values: Any, op: Ops = Ops.STORE) -> Tensor:
    """A copy of `base` with base[.., index[.., i, ..], ..] op= values[.., i, ..].

    The index (no negative ones) may be shorter than `base` along other axes: only that box of it
    takes part.
    """
    boxes = tuple((0, base.shape[a] if a == axis else s) for a, s in enumerate(index.shape))
    if all(stop == size for (_, stop), size in zip(boxes, base.shape, strict=True)):
        return derive(build.scatter, (base, index, values), axis, op)
    made: Any = base.clone()
    box = view(made, "shrink", boxes)
    write(box, scattered(box, axis, index, values, op))
    return made


class Scatter(Handle):
    """Gathering, scattering and selection along an axis. Indices are integers; one that is outside
    raises at realisation, a negative one too: only where PyTorch counts those from the end, which
    is said, they do so here. A copy has this tensor's shape and format.
    """

    __slots__ = ()

    def gather(self, dim: int, index: Tensor) -> Tensor:
        """out[i, j, k] = self[i, index[i, j, k], k] (for dim 1): the index's shape, which along
        other axes is no longer than this tensor's.

        >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[0, 0], [1, 0]])).tolist()
        [[1, 1], [4, 3]]
        """
        return _gathered("gather", self, one_axis(dim, self.ndim), index)

    def take_along_dim(self, index: Tensor, dim: int | None = None) -> Tensor:
        """As `gather`, index and tensor broadcast along the other axes, where negative indices
        count from the end; of both flattened without `dim`, where they do not.
        """
        if dim is None:
            return self.reshape(-1).gather(0, beside(index, self).reshape(-1))
        axis, index = an_axis(dim, self), beside(index, self)
        if index.ndim != self.ndim:
            wrong = f"an index of {self.ndim} axes is needed, not {index.ndim}"
            raise located(ShapeError(wrong), (self, index))
        shapes = ([*t.shape[:axis], 1, *t.shape[axis + 1 :]] for t in (self, index))
        common = list(build.broadcast_shapes(*(tuple(s) for s in shapes)))
        source, asked = (
            t.expand(*common[:axis], t.shape[axis], *common[axis + 1 :]) for t in (self, index)
        )
        return _gathered("take_along_dim", source, axis, asked, from_end=True)

    def scatter(self, dim: int, index: Tensor, src: Any, reduce: str | None = None) -> Tensor:
        """A copy with self[i, index[i, j, k], k] = src[i, j, k] (for dim 1), src a tensor of this
        format, no shorter than the index, or a number; of several for one place the last one
        counts.

        reduce: "add" or "multiply" to combine with what is there instead.

        >>> Tensor.zeros(3).scatter(0, Tensor([2, 0]), Tensor([5.0, 6.0])).tolist()
        [6.0, 0.0, 5.0]
        """
        op = Ops.STORE if reduce is None else _operation(reduce, ("add", "multiply"))
        return _updated("scatter", self, dim, index, src, op)

    def scatter_add(self, dim: int, index: Tensor, src: Any) -> Tensor:
        """A copy with self[i, index[i, j, k], k] += src[i, j, k] (for dim 1), added in the index's
        order.

        >>> Tensor.zeros(3).scatter_add(0, Tensor([2, 2]), Tensor([5.0, 6.0])).tolist()
        [0.0, 0.0, 11.0]
        """
        return _updated("scatter_add", self, dim, index, src, Ops.ADD)

    def scatter_reduce(
        self, dim: int, index: Tensor, src: Any, reduce: str, include_self: bool = True
    ) -> Tensor:
        """As `scatter_add`, for reduce "sum", "prod", "mean", "amax" or "amin"; without
        `include_self` only of what is scattered, where something is.
        """
        return _reduced("scatter_reduce", self, dim, index, src, reduce, include_self)

    def index_add(self, dim: int, index: Tensor, source: Any, alpha: Any = 1) -> Tensor:
        """A copy with the slices of `source` (times alpha) added to those that the vector (count,)
        names.
        """
        if isinstance(source, Handle):
            _check_format("index_add", self, source)
            source = scaled(beside(source, self), alpha)
        else:
            source = source * alpha
        return _sliced("index_add", self, dim, index, source, Ops.ADD)

    def index_copy(self, dim: int, index: Tensor, source: Any) -> Tensor:
        """A copy with the slices of `source` in place of those that the vector (count,) names."""
        return _sliced("index_copy", self, dim, index, source, Ops.STORE)

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        """A copy with a number, or a 0-d tensor, in the slices that the vector (count,) names."""
        asked = _slices("index_fill", _vector(self), one_axis(dim, self.ndim), index)
        filled = asked.full_like(value, dtype=self.dtype)
        return _sliced("index_fill", self, dim, index, filled, Ops.STORE)

    def index_reduce(
        self, dim: int, index: Tensor, source: Any, reduce: str, include_self: bool = True
    ) -> Tensor:
        """As `scatter_reduce`, of slices."""
        axis, whole = one_axis(dim, self.ndim), _vector(self)
        asked = _slices("index_reduce", whole, axis, index)
        values = _sources("index_reduce", self, axis, asked, source)
        made = _reduced("index_reduce", whole, axis, asked, values, reduce, include_self)
        return made.reshape(self.shape)

    def index_put(self, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """A copy with copy[indices] = values, a tuple of index tensors, negative ones counted from
        the end; with `accumulate` added, one after the other.
        """
        return self.clone().index_put_(indices, values, accumulate)

    def index_put_(self, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        """As `index_put`, in place."""
        _check_format("index_put", self, values)
        self._written_at(tuple(indices), values, Ops.ADD if accumulate else Ops.STORE)
        return self  # type: ignore[return-value]

    def take(self, index: Tensor) -> Tensor:
        """Elements of the flattened tensor, in the index's shape; negative indices count from its
        end.
        """
        flat = self.reshape(-1)
        asked = beside(index, self)
        _check_whole(flat, asked)
        return derive(build.gather, (flat, placed(asked, flat.shape[0], 0, "take", from_end=True)))

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The slices of one axis that a vector (count,) names: that axis becomes `count` long.

        >>> Tensor([[1, 2], [3, 4]]).index_select(1, Tensor([1])).tolist()
        [[2], [4]]
        """
        return selected("index_select", self, one_axis(dim, self.ndim), index)

    def one_hot(self, num_classes: int = -1) -> Tensor:
        """int64 (..., num_classes): 1 at the class that an element names, else 0. Without
        num_classes there are as many as the greatest element says, computed at the call; a class
        outside raises at realisation.

        >>> Tensor([0, 2]).one_hot(3).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        _check_whole(self, self)
        within("num_classes", num_classes, -1)
        if num_classes < 0:
            num_classes = max(int(self.amax().item()) + 1, 1)
        classes = make(iota(num_classes, self.device), self.device)
        exists: Any = (self >= 0) & (self < num_classes)
        known: Tensor = derive(build.check, (self, exists), NO_CLASS)
        return known.unsqueeze(-1).eq(classes).cast(dtypes.int64)

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """`value`, a number or a 0-d tensor, where the mask of bools (broadcast) holds, else
        itself.
        """
        mask = beside(mask, self)
        need(mask.dtype.kind == "bool", f"a mask holds bools, not {mask.dtype}", self, mask)
        if isinstance(value, Handle):
            check_one(value)
            return choose(mask, value.cast(self.dtype), self)
        check_fits(value, self.dtype)
        return choose(mask, self.dtype.cast_scalar(value), self)


def _gathered(what: str, operand: Any, axis: int, index: Any, from_end: bool = False) -> Tensor:
    """What `gather` says, for the operation that is called `what`."""
    index = beside(index, operand)
    source, asked = _vector(operand), _vector(index)
    if 0 in asked.shape:  # which names no place, along whatever axes
        return flat(operand.new_zeros(index.shape), operand)
    _check_index(what, source, axis, asked)
    boxes = [(0, source.shape[a] if a == axis else s) for a, s in enumerate(asked.shape)]
    place = placed(asked, source.shape[axis], axis, what, from_end)
    return derive(build.gather, (source.shrink(boxes), place), axis).reshape(index.shape)


def selected(what: str, operand: Any, axis: int, index: Any) -> Tensor:
    """The slices of an axis that a vector names, for the operation that is called `what`."""
    whole = _vector(operand)
    asked = placed(_slices(what, whole, axis, index), whole.shape[axis], axis, what)
    made: Tensor = derive(build.gather, (whole, asked), axis)
    return made if operand.ndim else made.reshape(())


def _operation(reduce: str, known: Sequence[str]) -> Ops:
    if reduce not in known:
        raise DTypeError(f"reduce is one of {', '.join(known)}, not {reduce!r}")
    return _REDUCTIONS[reduce]


def _vector(operand: Any) -> Any:
    """The tensor itself; a 0-d one as a vector of length 1, which PyTorch takes it for here."""
    return operand if operand.ndim else operand.reshape(1)


def _check_format(what: str, operand: Any, values: Any) -> None:
    """A number is weak; a tensor of another format would be changed unseen."""
    if isinstance(values, Handle) and values.dtype is not operand.dtype:
        wrong = f"{what} needs values of {operand.dtype}, not {values.dtype}; cast them"
        raise located(DTypeError(wrong), (operand, values))


def _check_whole(operand: Any, index: Any) -> None:
    if not index.dtype.is_int:
        raise located(DTypeError(f"an index holds integers, not {index.dtype}"), (operand, index))


def _check_index(what: str, operand: Any, axis: int, index: Any) -> None:
    if index.ndim != operand.ndim:
        wrong = f"{what} needs an index of {operand.ndim} axes, not {index.ndim}"
        raise located(ShapeError(wrong), (operand, index))
    _check_whole(operand, index)
    sizes = zip(index.shape, operand.shape, strict=True)
    if any(i > s for a, (i, s) in enumerate(sizes) if a != axis):
        wrong = f"index {render_shape(index.shape)} exceeds {render_shape(operand.shape)}"
        raise located(ShapeError(wrong), (operand, index))


def _updated(what: str, operand: Any, dim: int, index: Any, src: Any, op: Ops) -> Tensor:
    """`scattered`, of the box of `src` that the index covers; for 0-d tensors too."""
    axis, base = one_axis(dim, operand.ndim), _vector(operand)
    asked = _vector(beside(index, operand))
    _check_index(what, base, axis, asked)
    _check_format(what, operand, src)
    given = src if isinstance(src, Handle) else asked.full_like(src, dtype=operand.dtype)
    source = _vector(given)
    sizes = zip(asked.shape, source.shape)
    if source.ndim != asked.ndim or any(i > s for i, s in sizes):
        wrong = f"src {render_shape(source.shape)} is short of {render_shape(asked.shape)}"
        raise located(ShapeError(wrong), (operand, index, source))
    cut = source.shrink([(0, size) for size in asked.shape])
    places = placed(asked, base.shape[axis], axis, what)
    made = scattered(base, axis, places, cut, op)
    return made if operand.ndim else made.reshape(())


def _slices(what: str, operand: Any, axis: int, index: Any) -> Any:
    """A vector that names slices as an index for the whole of each."""
    index = beside(index, operand)
    if index.ndim > 1:
        raise located(ShapeError(f"{what} needs a vector of indices"), (operand, index))
    _check_whole(operand, index)
    alone = [index.numel() if a == axis else 1 for a in range(operand.ndim)]
    shape = [*operand.shape[:axis], index.numel(), *operand.shape[axis + 1 :]]
    return index.reshape(*alone).expand(*shape)


@repeated
def _reduced(
    what: str, operand: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Tensor:
    """What `scatter_reduce` says, for the operation that is called `what`."""
    index = beside(index, operand)
    op = _operation(reduce, ("sum", "prod", "mean", "amax", "amin"))
    ones = index.ones_like(dtype=dtypes.int64)
    base: Any = operand
    if not include_self:
        base = _updated(what, operand, dim, index, identity(op, operand.dtype), Ops.STORE)
    total = _updated(what, base, dim, index, src, op)
    if reduce != "mean":
        return total
    counts: Any = make(
        build.constant(int(include_self), dtypes.int64, operand.shape), operand.device
    )
    counts = _updated(what, counts, dim, index, ones, Ops.ADD).maximum(1)
    if operand.dtype.is_float:
        return total / counts.cast(operand.dtype)
    return total // counts.cast(operand.dtype)


def _sliced(what: str, operand: Any, dim: int, index: Any, source: Any, op: Ops) -> Tensor:
    axis, base = one_axis(dim, operand.ndim), _vector(operand)
    asked = _slices(what, base, axis, index)
    values = _sources(what, operand, axis, asked, source)
    place = placed(asked, base.shape[axis], axis, what)
    made = scattered(base, axis, place, values, op)
    return made if operand.ndim else made.reshape(())


def _sources(what: str, operand: Any, axis: int, asked: Any, source: Any) -> Any:
    """The slices that come to those that are asked for: a number for all, or a tensor of them."""
    if not isinstance(source, Handle):
        return asked.full_like(source, dtype=operand.dtype)
    _check_format(what, operand, source)
    lone = not source.ndim and asked.shape == (1,)
    if not lone and source.shape != asked.shape:
        wrong = f"source {render_shape(source.shape)} is not {render_shape(asked.shape)}"
        raise located(ShapeError(f"{what}: {wrong}"), (operand, asked, source))
    return beside(source, operand).reshape(*asked.shape)
