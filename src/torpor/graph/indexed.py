"""Checked builders of what tensors of indices read and write."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, OutOfBoundsError, ShapeError
from torpor.graph.movement import reshape
from torpor.graph.reduce import over
from torpor.graph.sizes import axis_of, describe
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

UPDATES: Final = frozenset({Ops.STORE, Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN})


def gather(source: UOp, index: UOp, axis: int | None = None) -> UOp:
    """out[.., i, ..] = source[.., index[.., i, ..], ..] along `axis`; `index` counts from 0.

    `index` is int64, of the source's lengths but along the axis. With `axis=None` the source has
    one axis and the index any shape, which the result has.
    """
    if axis is None and len(shape_of(source)) != 1:
        raise ShapeError(f"gather of {describe(source)}: expected a tensor of one axis")
    if index.dtype is not dtypes.int64:
        raise DTypeError(
            f"gather of {describe(source)}: expected an int64 index, got {describe(index)}"
        )
    if axis is not None:
        axis = _common_axis("gather", source, index, axis)
        return UOp(Ops.GATHER, source.dtype, (source, index), axis)
    found = UOp(Ops.GATHER, source.dtype, (source, reshape(index, (-1,))), 0)
    return reshape(found, shape_of(index))


def scatter(
    base: UOp, index: UOp, values: UOp, axis: int, op: Ops = Ops.STORE, distinct: bool = False
) -> UOp:
    """`base`, then out[.., index[.., i, ..], ..] op= values[.., i, ..] along `axis`, in order of i.

    op:       STORE puts the value there; ADD, MUL, MAX and MIN combine it with what is there.
    distinct: a promise that every place is stored to exactly once: nothing of `base` is left.
    """
    axis = _common_axis("scatter", base, index, axis)
    if index.dtype is not dtypes.int64 or values.dtype is not base.dtype or op not in UPDATES:
        raise DTypeError(
            f"scatter into {describe(base)}: expected an int64 index and values of its format, got "
            f"{describe(index)} and {describe(values)} by {op}"
        )
    if shape_of(values) != shape_of(index):
        raise ShapeError(
            f"scatter into {describe(base)}: a value for each index is expected, got "
            f"{describe(values)} for {describe(index)}"
        )
    if 0 in shape_of(index):
        return over(base, values) if base.dtype.is_float else base
    if shape_of(base)[axis] == 0:
        raise OutOfBoundsError(f"scatter into {describe(base)}: axis {axis} has no places")
    return UOp(Ops.SCATTER, base.dtype, (base, index, values), (op, axis, distinct))


def prior(scattered: UOp) -> UOp:
    """What stood at the place of each update of a scatter just before it, in the index's shape.

    Where ones are added to zeros these are numbers 0, 1, ... of equal indices, in their order.
    """
    if scattered.op is not Ops.SCATTER:
        raise ShapeError(f"prior of {describe(scattered)}: expected a scatter of some updates")
    return UOp(Ops.PRIOR, scattered.dtype, (scattered,))


def _common_axis(what: str, node: UOp, index: UOp, axis: int) -> int:
    """The axis from the front, along which alone the shapes may differ."""
    axis = axis_of(what, node, axis)
    shape, other = shape_of(node), shape_of(index)
    rest, other_rest = ((*s[:axis], *s[axis + 1 :]) for s in (shape, other))
    if len(shape) != len(other) or rest != other_rest:
        raise ShapeError(
            f"{what} of {describe(node)}: expected an index of the same shape but for axis {axis}, "
            f"got {describe(index)}"
        )
    return axis
