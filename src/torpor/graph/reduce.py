"""Checked builders of reductions, and of the markers of where a value is stored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from torpor.base.dtypes import Scalar
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import plain
from torpor.graph.movement import reshape
from torpor.graph.sizes import axes_of, describe, is_plain
from torpor.ir.infer import JOINT, Shape, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

_NAMES: Final = {Ops.ADD: "sum", Ops.MUL: "product", Ops.MAX: "max", Ops.MIN: "min"}
AGAIN: Final = "again"  # a FUNCTION whose rule is that of the op of its value
_identities: Final = itertools.count(1)  # `next` on it is atomic


def reduce(node: UOp, op: Ops, axes: int | Sequence[int] | None, keepdims: bool = False) -> UOp:
    """`op` (ADD, MUL, MAX or MIN) over `axes` (None: all), which stay as size 1 with `keepdims`.

    ADD and MUL over no elements give 0 and 1; MAX and MIN over a size of 0 are a `ShapeError`.
    """
    if op not in _NAMES:
        raise DTypeError(f"reduce of {describe(node)}: {op} is no reduction")
    shape = shape_of(node)
    if is_plain(axes) and (plan := plain.reduced(shape, axes)) is not None:
        return _reduced(node, op, plan, keepdims)
    found = axes_of(_NAMES[op], node, axes)
    over = tuple(sorted([axis for axis in found if shape[axis] != 1]))
    if op in (Ops.MAX, Ops.MIN) and 0 in [shape[axis] for axis in over]:
        raise ShapeError(f"{_NAMES[op]} of {describe(node)} over axes {found}: expected an element")
    if over:
        node = UOp(Ops.REDUCE_AXIS, node.dtype, (node,), (op, over))
    if keepdims or not found:
        return node
    left: Shape = tuple([size for axis, size in enumerate(shape) if axis not in found])
    return reshape(node, left)


def _reduced(node: UOp, op: Ops, plan: plain.Reduced, keepdims: bool) -> UOp:
    over, ones, left = plan
    if over:
        node = shaped(UOp(Ops.REDUCE_AXIS, node.dtype, (node,), (op, over)), ones)
    if keepdims or ones == left:
        return node
    return shaped(UOp(Ops.RESHAPE, node.dtype, (node,), left), left)


def contiguous(node: UOp) -> UOp:
    """The same value, stored in row-major order of its own."""
    return node if node.op is Ops.CONTIGUOUS else UOp(Ops.CONTIGUOUS, node.dtype, (node,))


def copy_to(node: UOp, device: str | tuple[str, ...]) -> UOp:
    """The same value on the device of this (canonical) name."""
    device = JOINT.join(device) if type(device) is tuple else device
    if node.op is Ops.COPY and node.arg == device:
        return node
    return UOp(Ops.COPY, node.dtype, (node,), device)


def identity() -> int:
    """A number that nothing else has."""
    return next(_identities)


def leaf(node: UOp) -> UOp:
    """The same value under an identity of its own: no two leaves are one node."""
    return UOp(Ops.LEAF, node.dtype, (node,), identity())


def function(value: UOp, operands: Sequence[UOp], name: str, *numbers: Scalar | str) -> UOp:
    """The value, with the gradient for `operands` that the rule of this name says."""
    return UOp(Ops.FUNCTION, value.dtype, (value, *operands), (name, *numbers))


def over(node: UOp, *others: UOp) -> UOp:
    """The same value, which takes the place of others: their gradient is 0."""
    return function(node, (node, *others), "over")


def again(node: UOp, number: int) -> UOp:
    """The same computation once more: a gradient for the node is not for this one."""
    return function(node, () if node.op is Ops.DETACH else node.src, AGAIN, number)


def alias(node: UOp, number: int) -> UOp:
    """The same value by another name: a gradient for the node is for this one too."""
    return function(node, (node,), "same", number)


def detach(node: UOp) -> UOp:
    """The same value, through which no gradient flows."""
    return node if node.op is Ops.DETACH else UOp(Ops.DETACH, node.dtype, (node,))
