"""Rules on tensors, tried: both sides computed by NumPy of the same random tensors."""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Any, Final

import numpy as np

from torpor.base.errors import TorporError
from torpor.device.interpreter.arithmetic import ARITHMETIC, Array, bitcast, cast
from torpor.explore.samples import alike, values
from torpor.ir.infer import shape_of
from torpor.ir.ops import ALU, MOVEMENT, Ops
from torpor.ir.uop import UOp

MOST_NODES: Final = 1000  # of a graph that is computed
MOST_ELEMENTS: Final = 1 << 24  # of all its nodes
_SAME: Final = frozenset(
    {Ops.CONTIGUOUS, Ops.COPY, Ops.LEAF, Ops.DETACH, Ops.FUNCTION, Ops.CHECK, Ops.AFTER}
)
_KNOWN: Final = ALU | MOVEMENT | _SAME | {Ops.CONST, Ops.REDUCE_AXIS}
_STARTS: Final = {Ops.ADD: 0, Ops.MUL: 1}


def same_tensor(before: UOp, after: UOp) -> bool | None:
    """Whether two graphs have one value; None where that cannot be told. First, what both are made
    of is taken to be anything: where they agree then, they always do. Else they are computed from
    memory on, since a rule may know more of what it is made of.
    """
    if before.dtype is not after.dtype or before.dtype.name == "void":
        return None
    shared = frozenset(before.toposort()) & frozenset(after.toposort())
    try:
        return agree(before, after, shared) or agree(before, after, frozenset())
    except (TorporError, TypeError, ValueError, IndexError):  # one of them has no value
        return None


def agree(before: UOp, after: UOp, leaves: Set[UOp]) -> bool | None:
    """Whether two graphs have one value where these nodes in them, constants apart, are random."""
    given = {node for node in leaves if node.op is not Ops.CONST}
    order = list(UOp.sink(before, after).toposort(lambda n: n not in given))[:-1]
    shapes: dict[UOp, Any] = {node: shape_of(node) for node in order}
    if len(order) > MOST_NODES or not all(
        isinstance(s, int) for one in shapes.values() for s in one
    ):
        return None
    if sum(map(prod, shapes.values())) > MOST_ELEMENTS:
        return None
    random, found = np.random.default_rng(0), dict[UOp, Array]()
    sure = True  # where it is not, what is taken to be random may not be
    with np.errstate(all="ignore"):
        for node in order:
            if node in given or node.op not in _KNOWN:
                sure = sure and node.op is Ops.BUFFER
                found[node] = values(node.dtype, shapes[node], random, -np.inf, np.inf)
            else:
                found[node] = value_of(
                    node, [found[source] for source in node.src[:3]], shapes[node]
                )
    return alike(found[before], found[after]) or (False if sure else None)


def value_of(node: UOp, source: list[Array], shape: tuple[int, ...]) -> Array:
    """The value of a node, given those of its operands, as the op table says."""
    op, arg = node.op, node.arg
    if op is Ops.CONST:
        return np.asarray(arg, node.dtype.numpy)
    if op in _SAME:
        return source[0]
    if op is Ops.CAST:
        return cast(source[0], node.src[0].dtype, node.dtype)
    if op is Ops.BITCAST:
        return bitcast(source[0], node.dtype)
    if op in ALU:
        return ARITHMETIC[op](*source)
    if op is Ops.REDUCE_AXIS:
        reduce: Any = ARITHMETIC[arg[0]]
        initial = {"initial": _STARTS[arg[0]]} if arg[0] in _STARTS else {}
        made = reduce.reduce(source[0], arg[1], node.dtype.numpy, keepdims=True, **initial)
        return np.asarray(made)
    return np.asarray(moved(op, arg, source[0], shape))


def moved(op: Ops, arg: Any, value: Any, shape: tuple[int, ...]) -> Any:
    """What a movement makes of a value."""
    if op is Ops.RESHAPE:
        return value.reshape(shape)
    if op is Ops.EXPAND:
        return np.broadcast_to(value, shape)
    if op is Ops.PERMUTE:
        return value.transpose(arg)
    if op is Ops.PAD:
        return np.pad(value, arg)
    if op is Ops.SHRINK:
        return value[tuple(slice(*pair) for pair in arg)]
    if op is Ops.FLIP:
        return value[tuple(slice(None, None, -1 if turned else 1) for turned in arg)]
    axis, by, length, stride, step, offset = arg
    places = np.moveaxis(np.indices(shape), 0, -1)
    places[..., axis] = places[..., axis] * stride + places[..., by] * step + offset
    return value[tuple(np.moveaxis(places, -1, 0))]
