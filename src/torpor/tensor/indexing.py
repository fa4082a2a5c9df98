"""Indexing: basic keys are views, keys with integer tensors gather, and both can be written to."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import (
    DTypeError,
    IndexTypeError,
    OutOfBoundsError,
    ShapeError,
    ValueRangeError,
)
from torpor.graph import build
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Shape, Size, fold_size, product, shape_of, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.handle import (
    Box,
    Handle,
    as_number,
    boxed,
    check_fits,
    derive,
    located,
    render_shape,
    view,
    viewed,
)
from torpor.tensor.repeated import repeated
from torpor.tensor.scatter import placed, required, wrapped
from torpor.tensor.watch import active, as_size
from torpor.tensor.write import write

_PLAIN: Final = frozenset({int, slice, type(None)})  # parts of keys that mean one thing alone


class _Plan(NamedTuple):
    """What a key means, an axis of the tensor each.

    boxes:    start and stop. steps: their step, negative ones as positive with `flips`.
    shape:    of the view, with new axes and without those that an integer takes.
    tensors:  (axis of the view, index tensor, axis of the tensor) of the advanced parts.
    """

    boxes: list[tuple[Size, Size]]
    steps: list[int]
    flips: list[bool]
    shape: list[Size | None]
    tensors: list[tuple[int, Any, int]]


def _flag(key: Any) -> bool | None:
    """Whether a key that is one bool, a mask without axes, holds; None for any other key."""
    if isinstance(key, bool | np.bool_):
        return bool(key)
    if isinstance(key, Handle | np.ndarray) and not key.ndim and _is_mask(key):
        return bool(key)
    return None


def _is_mask(part: Any) -> bool:
    """Whether it is an array of bools; or of uint8, whose numbers but 0 stand for True."""
    kinds = ("bool", "uint8")
    return isinstance(part, Handle | np.ndarray) and str(part.dtype).rpartition(".")[2] in kinds


def _is_advanced(part: Any) -> bool:
    return isinstance(part, Handle | np.ndarray | list | range) or (
        isinstance(part, tuple) and not hasattr(part, "op")
    )


def _full_key(key: Any, operand: Any) -> list[Any]:
    """The key with its Ellipsis written out, one part an axis (and None for new axes)."""
    parts = list(key) if isinstance(key, tuple) else [key]
    axes = len(operand.shape)
    if _PLAIN.issuperset(map(type, parts)):
        missing = axes - len(parts) + parts.count(None)
        if missing >= 0:
            return [*parts, *[slice(None)] * missing]
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise located(
            OutOfBoundsError("an index can have only a single ellipsis (...)"), (operand,)
        )
    taken = sum(_axes_of(part) for part in parts if part is not None and part is not Ellipsis)
    if taken > axes:
        raise located(OutOfBoundsError(f"{taken} indices are too many for {axes} axes"), (operand,))
    place = places[0] if places else len(parts)
    return parts[:place] + [slice(None)] * (axes - taken) + parts[place + 1 :]


def _box(shape: Shape, parts: tuple[Any, ...]) -> Box | None:
    """What integers and slices without steps take of a shape; None where there is more to it."""
    boxes: list[tuple[int, int]] = []
    lengths: list[int] = []
    left: list[int] = []
    for part, size in zip(parts, shape):
        kind = type(part)
        if type(size) is not int:
            return None
        if kind is slice:
            try:
                start, stop, step = part.indices(size)
            except (TypeError, ValueError):
                return None
            if step != 1 or start >= stop:
                return None
            left.append(stop - start)
        elif kind is int or isinstance(part, np.integer):
            start = int(part) if part >= 0 else size + int(part)
            stop = start + 1
            if not 0 <= start < size:
                return None
        else:
            return None
        boxes.append((start, stop))
        lengths.append(stop - start)
    rest = shape[len(parts) :]
    if len(parts) > len(shape) or not is_plain(rest):
        return None
    whole = [(0, size) for size in rest]
    return (*boxes, *whole), (*lengths, *rest), (*left, *rest)


def _axes_of(part: Any) -> int:
    """How many axes a part of a key takes: a mask takes as many as it has, one bool none."""
    return part.ndim if _is_mask(part) else int(not isinstance(part, bool | np.bool_))


def _plan(operand: Any, key: Any) -> _Plan:
    plan = _Plan([], [], [], [], [])
    parts, shape = _full_key(key, operand), operand.shape
    plain = _PLAIN.issuperset(map(type, parts))
    for part in parts if plain else _without_masks(parts, operand):
        flag = None if plain else _flag(part)
        if flag is not None:  # an axis of its own, whose one element is taken once or not at all
            index = beside(np.zeros(int(flag), np.int64), operand)
            plan.tensors.append((len(plan.shape), index, len(plan.boxes)))
        if part is None or flag is not None:
            plan.shape.append(1)
            continue
        size = shape[len(plan.boxes)]
        if isinstance(part, slice):
            part = slice(as_size(part.start), as_size(part.stop), part.step)
            _plan_slice(plan, part, size, operand)
        elif _is_advanced(part):
            index = beside([*part] if isinstance(part, range) else part, operand)
            if not index.dtype.is_int:
                what = f"index tensors hold integers, not {index.dtype}; see masked_fill and where"
                raise located(IndexTypeError(what), (operand, index))
            plan.tensors.append((len(plan.shape), index, len(plan.boxes)))
            _append(plan, (0, size), 1, False, size)
        else:
            _plan_integer(plan, part, size, operand)
    return plan


def _without_masks(parts: list[Any], operand: Any) -> list[Any]:
    """Masks as the places where they hold, one vector for each of their axes."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, list | tuple) and part and isinstance(part[0], bool | list):
            part = np.asarray(part)
        elif isinstance(part, list | tuple | range) and not part:
            part = np.zeros(0, np.int64)
        if not _is_mask(part) or not part.ndim:
            found.append(part)
            continue
        mask: Any = beside(part, operand).cast(dtypes.bool)
        start = sum(_axes_of(p) for p in found if p is not None)
        if mask.shape != operand.shape[start : start + mask.ndim]:
            axes = render_shape(operand.shape[start : start + mask.ndim])
            what = (
                f"a mask of shape {mask.shape} does not fit axes {start} and on, which are {axes}"
            )
            raise located(OutOfBoundsError(what), (operand, mask))
        found.extend(mask.nonzero(as_tuple=True))
    return found


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
    if not hasattr(part, "__index__"):
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
    if isinstance(size, UOp) or isinstance(part.start, UOp) or isinstance(part.stop, UOp):
        if part.step not in (None, 1):
            raise located(ShapeError("a slice with symbolic ends has step 1"), (operand,))
        start = 0 if part.start is None else part.start
        stop = size if part.stop is None else part.stop
        if isinstance(size, UOp):
            start, stop = (size + v if isinstance(v, int) and v < 0 else v for v in (start, stop))
        from_0 = start == 0 and isinstance(start, int)
        length = stop if from_0 else fold_size(size_node(stop) - size_node(start))
        _append(plan, (start, stop), 1, False, length)
        return
    try:
        start, stop, step = part.indices(size)
    except TypeError as error:
        raise located(DTypeError(f"slice {part}: {error}"), (operand,)) from None
    except ValueError as error:
        raise located(ValueRangeError(f"slice {part}: {error}"), (operand,)) from None
    count = len(range(start, stop, step))
    if step < 0:
        start, stop = start + (count - 1) * step, start + 1
    if not count:
        start = stop = 0
    _append(plan, (start, max(start, min(stop, size))), abs(step), step < 0, count)


def _boxed(operand: Handle, key: Any) -> Tensor | None:
    """The view that a key of integers and slices means, on the hot path; None where there is more
    to it.
    """
    if active:
        return None
    node = operand._current()
    box = _box(shape_of(node), key if type(key) is tuple else (key,))
    return None if box is None else boxed(operand, box)


def _basic(operand: Any, plan: _Plan) -> Tensor:
    """The view that the plan means (whole axes where index tensors stand)."""
    steps: list[tuple[str, Any]] = [("shrink", tuple(plan.boxes))]
    if plan.steps.count(1) < len(plan.steps):
        boxes = zip(plan.boxes, plan.steps, strict=True)
        strides = [(axis, by) for axis, ((start, stop), by) in enumerate(boxes) if start != stop]
        steps += [("stride", one) for one in strides if one[1] != 1]
    if any(plan.flips):
        steps.append(("flip", tuple([axis for axis, flip in enumerate(plan.flips) if flip])))
    return viewed(operand, (*steps, ("reshape", tuple(plan.shape))))


# --- index tensors --------------------------------------------------------------------------------
class _Lookup(NamedTuple):
    """What index tensors select.

    view:   the tensor with the axes that they take side by side, in the order of the result.
    around: lengths of the axes before those, and after.
    length: elements of the axes that they take, as one.
    places: which of those, int64 of the shape that the tensors broadcast to.
    """

    view: Any
    around: tuple[tuple[Size, ...], tuple[Size, ...]]
    length: Size
    places: Any

    @property
    def shape(self) -> tuple[Size, ...]:
        """The shape of what is selected."""
        return (*self.around[0], *self.places.shape, *self.around[1])

    def flat(self, middle: Any) -> tuple[Size, ...]:
        """Three axes: before, those that are indexed (of this length), after."""
        return (product(self.around[0]), middle, product(self.around[1]))

    def along(self) -> Any:
        """The places along the middle one of three axes."""
        alone = self.places.reshape(1, -1, 1)
        return alone.expand(self.flat(alone.shape[1]))


def _lookup(operand: Any, tensors: list[tuple[int, Any, int]]) -> _Lookup:
    """Index tensors that stand apart select to the front, as in NumPy; one without axes is a
    number, which stands apart from none, as in PyTorch.
    """
    axes = [axis for axis, _, _ in tensors]
    apart = [axis for axis, index, _ in tensors if index.ndim] or axes
    rest = [axis for axis in range(operand.ndim) if axis not in axes]
    between = any(apart[0] < axis < apart[-1] for axis in rest)
    first = 0 if between else sum(axis < apart[0] for axis in rest)
    order = [*rest[:first], *axes, *rest[first:]]
    if order != list(range(operand.ndim)):
        operand = operand.permute(*order)
    shape = operand.shape
    last = first + len(axes)
    indices = [index for _, index, _ in tensors]
    try:
        common = build.broadcast_shapes(*[index.shape for index in indices])
    except ShapeError as error:
        raise located(OutOfBoundsError(f"index tensors: {error}"), indices) from None
    if len(axes) == 1:
        places = placed(indices[0], shape[first], tensors[0][2], from_end=True)
    else:
        places = None
        for axis, (_, index, name) in zip(range(first, last), tensors, strict=True):
            part = _inside(index, shape[axis], name) * product(shape[axis + 1 : last])
            places = part if places is None else places + part
    around = shape[:first], shape[last:]
    return _Lookup(operand, around, product(shape[first:last]), places.expand(common))


@repeated
def _selected(view: Any, axes: tuple[int, ...], names: tuple[int, ...], *indices: Any) -> Any:
    """What index tensors select of a view: of `axes`, which the errors call by their `names`."""
    found = _lookup(view, [*zip(axes, indices, names, strict=True)])
    source = found.view.reshape(*found.flat(found.length))
    return derive(build.gather, (source, found.along()), 1).reshape(*found.shape)


def _inside(index: Any, size: Any, axis: int) -> Any:
    """As `wrapped`, but what is outside of its axis raises: as one of several it could be a valid
    place of another axis.
    """
    counted = wrapped(index, size)
    inside = (counted >= 0) & (counted < as_number(size, index.device))
    return required(counted, inside, size, axis)


def _without_ones(value: Any, ndim: int) -> Any:
    """A value without the leading axes of length 1 that it has more than `ndim`."""
    if not isinstance(value, Handle) or value.ndim <= ndim:
        return value
    extra = value.ndim - ndim
    return value if value.shape[:extra] != (1,) * extra else view(
        value, "reshape", value.shape[extra:])  # fmt: skip


def _fitting(value: Any, shape: Shape, target: Any) -> Any:
    """A value, broadcast to the shape of what an index with tensors selects."""
    value = _without_ones(value, len(shape))
    try:
        return value.expand(shape)
    except ShapeError:
        what = f"a value of shape {value.shape}, for an index or mask that selects {shape},"
        raise located(ShapeError(f"{what} does not fit"), (target, value)) from None


class Indexing(Handle):
    """Indexing."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        """Integers, slices, None and Ellipsis give a view; tensors (and lists) of integers, and
        masks of bools or uint8, a copy. One bool in a key adds an axis, of length 1 or 0.

        >>> x = Tensor([[1, 2], [3, 4]])
        >>> x[:, 1].tolist(), x[[1, 0], 0].tolist(), x[x > 2].tolist()
        ([2, 4], [3, 1], [3, 4])
        """
        made = _boxed(self, key)
        if made is not None:
            return made
        if _is_mask(key) and key.shape == self.shape:
            return self.masked_select(beside(key, self).cast(dtypes.bool))
        plan = _plan(self, key)
        made = _basic(self, plan)
        if not plan.tensors:
            return made
        axes, indices, names = zip(*plan.tensors, strict=True)
        return _selected(made, axes, names, *indices)

    def _written_at(self, key: Any, value: Any, op: Ops = Ops.STORE) -> None:
        """`x[key] = value`; or another operation for each element of the value in order."""
        target = _boxed(self, key) if op is Ops.STORE else None
        if target is not None:
            write(target, _without_ones(value, target.ndim))
            return
        plan = _plan(self, key)
        target = _basic(self, plan)
        if not plan.tensors:
            write(target, _without_ones(value, target.ndim))
            return
        found = _lookup(target, plan.tensors)
        if isinstance(value, int):
            check_fits(value, self.dtype)
        given = _fitting(beside(value, self), found.shape, self).cast(self.dtype)
        base = found.view.reshape(*found.flat(found.length))
        index = found.along()
        made = derive(build.scatter, (base, index, given.reshape(*index.shape)), 1, op)
        write(found.view, made.reshape(*found.view.shape), of_itself=True)
