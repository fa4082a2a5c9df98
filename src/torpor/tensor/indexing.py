"""Indexing: basic keys are views, keys with integer tensors gather, and both can be written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, OutOfBoundsError, ShapeError
from torpor.graph import build
from torpor.ir.infer import Size, fold_size, product, size_node
from torpor.ir.uop import UOp
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle, derive, located, make, render_shape, view
from torpor.tensor.iota import iota
from torpor.tensor.spelling import one_axis, spelled
from torpor.tensor.write import write

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


class _Plan(NamedTuple):
    """What a key means, an axis of the tensor each.

    boxes:    start and stop. steps: their step, negative ones as positive with `flips`.
    shape:    of the view, with new axes and without those that an integer takes.
    tensors:  (axis of the view, index tensor) of the advanced parts.
    """

    boxes: list[tuple[Size, Size]]
    steps: list[int]
    flips: list[bool]
    shape: list[Size | None]
    tensors: list[tuple[int, Any]]


def _is_advanced(part: Any) -> bool:
    return isinstance(part, Handle | np.ndarray | list) or (
        isinstance(part, tuple) and not hasattr(part, "op")
    )


def _full_key(key: Any, operand: Any) -> list[Any]:
    """The key with its Ellipsis written out, one part an axis (and None for new axes)."""
    parts = list(key) if isinstance(key, tuple) else [key]
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise located(OutOfBoundsError("an index can have only one ellipsis"), (operand,))
    taken = sum(_axes_of(part) for part in parts if part is not None and part is not Ellipsis)
    if taken > operand.ndim:
        what = f"{taken} indices are too many for {operand.ndim} axes"
        raise located(OutOfBoundsError(what), (operand,))
    missing = [slice(None)] * (operand.ndim - taken)
    place = places[0] if places else len(parts)
    return parts[:place] + missing + parts[place + 1 :]


def _axes_of(part: Any) -> int:
    """How many axes a part of a key takes: a mask takes as many as it has."""
    if isinstance(part, Handle | np.ndarray) and str(part.dtype).endswith("bool"):
        return part.ndim
    return 1


def _plan(operand: Any, key: Any) -> _Plan:
    plan = _Plan([], [], [], [], [])
    for part in _full_key(key, operand):
        if part is None:
            plan.shape.append(1)
            continue
        size = operand.shape[len(plan.boxes)]
        if isinstance(part, slice):
            _plan_slice(plan, part, size, operand)
        elif _is_advanced(part):
            index = as_tensor(part, device=operand.device)
            if not index.dtype.is_int:
                what = f"index tensors hold integers, not {index.dtype}; see masked_fill and where"
                raise located(DTypeError(what), (operand, index))
            plan.tensors.append((len(plan.shape), index))
            _append(plan, (0, size), 1, False, size)
        else:
            _plan_integer(plan, part, size, operand)
    return plan


def _append(
    plan: _Plan, box: tuple[Size, Size], step: int, flip: bool, length: Size | None
) -> None:
    plan.boxes.append(box)
    plan.steps.append(step)
    plan.flips.append(flip)
    if length is not None:
        plan.shape.append(length)


def _plan_integer(plan: _Plan, part: Any, size: Size, operand: Any) -> None:
    if isinstance(part, UOp):  # a bound variable: its bounds say whether it fits
        _append(plan, (part, part + 1), 1, False, None)
        return
    if isinstance(part, bool | np.bool_) or not hasattr(part, "__index__"):
        what = f"an index is an integer, slice, None, Ellipsis or integer tensor, not {part!r}"
        raise located(DTypeError(what), (operand,))
    index = int(part.__index__())
    length = size if isinstance(size, int) else int(size.vmin)
    if not -length <= index < length:
        what = f"index {index} is out of bounds for axis {len(plan.boxes)} of length {length}"
        raise located(OutOfBoundsError(what), (operand,))
    start: Size = index
    if index < 0:
        start = index + size if isinstance(size, int) else size + index
    _append(plan, (start, start + 1), 1, False, None)


def _plan_slice(plan: _Plan, part: slice, size: Size, operand: Any) -> None:
    symbolic = [v for v in (part.start, part.stop, size) if isinstance(v, UOp)]
    if symbolic:
        if part.step not in (None, 1):
            raise located(ShapeError("a slice with symbolic ends has step 1"), (operand,))
        start = 0 if part.start is None else part.start
        stop = size if part.stop is None else part.stop
        if isinstance(size, UOp):
            start, stop = (size + v if isinstance(v, int) and v < 0 else v for v in (start, stop))
        length = stop if start == 0 and isinstance(start, int) else _difference(stop, start)
        _append(plan, (start, stop), 1, False, length)
        return
    try:
        start, stop, step = part.indices(size)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise located(OutOfBoundsError(f"slice {part}: {error}"), (operand,)) from None
    count = len(range(start, stop, step))
    if step < 0:
        start, stop = start + (count - 1) * step, start + 1
    if not count:
        start = stop = 0
    _append(plan, (start, max(start, min(stop, size))), abs(step), step < 0, count)


def _difference(stop: Size, start: Size) -> Size:
    """Gives stop - start of sizes."""
    return fold_size(size_node(stop) - size_node(start))


def _basic(operand: Any, plan: _Plan) -> Tensor:
    """The view that the plan means (whole axes where index tensors stand)."""
    made = operand
    if any(not _whole(box, size) for box, size in zip(plan.boxes, operand.shape)):
        made = view(made, "shrink", tuple(plan.boxes))
    for axis, step in enumerate(plan.steps):
        if step != 1 and made.shape[axis] != 0:
            made = view(made, "stride", (axis, step))
    if any(plan.flips):
        made = view(made, "flip", tuple(a for a, flip in enumerate(plan.flips) if flip))
    if made is operand or made.shape != tuple(plan.shape):
        made = view(made, "reshape", tuple(plan.shape))
    return made


def _whole(box: tuple[Size, Size], size: Size) -> bool:
    return (isinstance(box[0], int) and box[0] == 0 and box[1] is size) or box == (0, size)


# --- index tensors --------------------------------------------------------------------------------
class _Lookup(NamedTuple):
    """Flat positions of what index tensors select, and the shape of the result."""

    positions: Any
    shape: tuple[Size, ...]


def _lookup(operand: Any, tensors: list[tuple[int, Any]]) -> _Lookup:
    """Where index tensors at some axes point, counted in the row-major elements of `operand`."""
    shape = operand.shape
    axes = [axis for axis, _ in tensors]
    indices = [_wrapped(index, shape[axis]) for axis, index in tensors]
    common = build.broadcast_shapes(*[index.shape for index in indices])
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if adjacent else 0
    before = [a for a in range(len(shape)) if a not in axes and (a < axes[0] or not adjacent)]
    if not adjacent:
        before, after = [], [a for a in range(len(shape)) if a not in axes]
    else:
        after = [a for a in range(len(shape)) if a not in axes and a > axes[0]]
    result = (*[shape[a] for a in before], *common, *[shape[a] for a in after])
    strides = [product(shape[a + 1 :]) for a in range(len(shape))]
    total: Any = None
    for axis, index in zip(axes, indices, strict=True):
        place = index.reshape(*index.shape, *(1,) * len(after)) * strides[axis]
        total = place if total is None else total + place
    for place_in_result, axis in [
        *[(i, a) for i, a in enumerate(before)],
        *[
            (first + len(common) + i if adjacent else len(common) + i, a)
            for i, a in enumerate(after)
        ],
    ]:
        count = make(iota(shape[axis], operand.device), operand.device) * strides[axis]
        total = total + count.reshape(-1, *(1,) * (len(result) - 1 - place_in_result))
    return _Lookup(total.expand(result), result)


def _wrapped(index: Any, size: Any) -> Any:
    """The index as int64 with negative ones counted from the end, and what is outside kept so.

    A position outside of its axis would be a valid one of the flattened tensor: it becomes one
    that lies outside of everything.
    """
    wide = index.cast(dtypes.int64)
    if not isinstance(size, int):
        size = make(size.cast(dtypes.int64), index.device)
    counted = (wide < 0).where(wide + size, wide)
    outside = (counted < 0) | (counted >= size)
    return outside.where(_FAR, counted)


_FAR = -(1 << 40)  # further out than any tensor is long; times any stride it stays within int64


def gather_flat(source: Any, positions: Any) -> Tensor:
    """source.reshape(-1)[positions]; positions outside raise at realisation."""
    return derive(build.gather, (source.reshape(-1), positions))


class Indexing(Handle):
    """Indexing and selection."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        """Integers, slices, None and Ellipsis give a view; integer tensors (and lists) a copy."""
        plan = _plan(self, key)
        made = _basic(self, plan)
        if not plan.tensors:
            return made
        return gather_flat(made, _lookup(made, plan.tensors).positions)

    def _written_at(self, key: Any, value: Any) -> None:
        """`x[key] = value`."""
        plan = _plan(self, key)
        target = _basic(self, plan)
        if not plan.tensors:
            write(target, value)
            return
        found = _lookup(target, plan.tensors)
        given = as_tensor(value, device=self.device).cast(self.dtype).expand(found.shape)
        write(target, _put(target, found.positions.reshape(-1), given.reshape(-1)))

    @spelled
    def gather(self, dim: int, index: Tensor) -> Tensor:
        """out[i][j][k] = self[i][index[i][j][k]][k] (for dim 1)."""
        axis = one_axis(dim, self.ndim)
        if index.ndim != self.ndim:
            what = f"gather needs an index of {self.ndim} axes, not {index.ndim}"
            raise located(ShapeError(what), (self, index))
        if not index.dtype.is_int:
            raise located(DTypeError(f"an index holds integers, not {index.dtype}"), (self, index))
        sizes = zip(index.shape, self.shape, strict=True)
        if any(i > s for a, (i, s) in enumerate(sizes) if a != axis):
            what = f"index {render_shape(index.shape)} exceeds {render_shape(self.shape)}"
            raise located(ShapeError(what), (self, index))
        return gather_flat(self, _positions_along(self, axis, index))

    @spelled
    def scatter(self, dim: int, index: Tensor, src: Any) -> Tensor:
        """A copy with self[i][index[i][j][k]][k] = src[i][j][k] (for dim 1); the last one wins."""
        axis = one_axis(dim, self.ndim)
        source = src if isinstance(src, Handle) else index.full_like(src, dtype=self.dtype)
        cut = source.shrink([(0, size) for size in index.shape])  # type: ignore[attr-defined]
        positions = _positions_along(self, axis, index)
        return _put(self, positions.reshape(-1), cut.reshape(-1).cast(self.dtype))

    def take(self, index: Tensor) -> Tensor:
        """Elements of the flattened tensor, in the index's shape."""
        return gather_flat(self, _wrapped(as_tensor(index, device=self.device), self.numel()))

    @spelled
    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The elements of one axis that a vector of indices names."""
        axis = one_axis(dim, self.ndim)
        if index.ndim > 1:
            raise located(ShapeError("index_select needs a vector of indices"), (self, index))
        return self[(slice(None),) * axis + (index.reshape(-1),)]

    def one_hot(self, num_classes: int = -1) -> Tensor:
        """int64 with a new last axis: 1 at the class that an element names, else 0."""
        if num_classes < 0:
            num_classes = int(self.amax().item()) + 1 if self.numel() else 0
        classes = make(iota(num_classes, self.device), self.device)
        return self.unsqueeze(-1).eq(classes).cast(dtypes.int64)

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """`value` where the mask holds (broadcast), else itself."""
        if isinstance(value, Handle):
            return mask.where(value.cast(self.dtype), self)  # type: ignore[attr-defined]
        return mask.where(self.dtype.cast_scalar(value), self)

    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """As `masked_fill`, in place."""
        write(self, self.masked_fill(mask, value))
        return self  # type: ignore[return-value]


def _positions_along(operand: Any, axis: int, index: Any) -> Any:
    """Flat positions in `operand` of self[..., index, ...], in the index's shape."""
    shape = operand.shape
    total: Any = None
    for place in range(len(shape)):
        stride = product(shape[place + 1 :])
        if place == axis:
            part = _wrapped(index, shape[axis]) * stride
        else:
            count = make(iota(index.shape[place], operand.device), operand.device) * stride
            part = count.reshape(-1, *(1,) * (len(shape) - 1 - place))
        total = part if total is None else total + part
    return total.expand(index.shape)


def _put(target: Any, positions: Any, values: Any) -> Tensor:
    """A copy of `target` with flat positions replaced; where one is named twice the last wins.

    For each element the last writer is found by a reduction over all of them: elements × writers
    comparisons, none of them stored. What it gives is stored, since a check stands in it.
    """
    count, writers = target.numel(), positions.shape[0]
    if not writers or not count:
        return target.clone()
    order = make(iota(writers, target.device), target.device)
    checked = gather_flat(make(iota(count, target.device), target.device), positions)
    element = make(iota(count, target.device), target.device).unsqueeze(1)
    last = element.eq(checked).where(order + 1, 0).amax(1).contiguous()
    chosen = gather_flat(values, (last - 1).maximum(0))
    made = (last > 0).where(chosen, target.reshape(-1))
    return made.reshape(target.shape)
