"""Shape and device of graph nodes: what each op makes of its operands'. Cached on the node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, LOOPED, Ops
from torpor.ir.uop import UOp

Size = int | UOp  # a symbolic size is a node of dtype index
Shape = tuple[Size, ...]

JOINT: Final = "|"  # between the names of the devices of one tensor over several
_SAME: Final = frozenset({Ops.CONTIGUOUS, Ops.COPY, Ops.LEAF, Ops.DETACH, Ops.FUNCTION, Ops.AFTER})
_LIKE_FIRST: Final = frozenset({Ops.GATHER, Ops.SCATTER, Ops.SCAN_AXIS, Ops.FLIP, Ops.CHECK})


def fold_size(size: Size) -> Size:
    """The size as an int where it is known, else simplified."""
    if isinstance(size, int):
        return size
    simple = size.simplify()
    return int(simple.arg) if simple.op is Ops.CONST else simple


def size_node(size: Size) -> UOp:
    """The size as a node of dtype index."""
    return size if isinstance(size, UOp) else UOp.const(dtypes.index, size)


def product(sizes: Sequence[Size]) -> Size:
    """The product of sizes: an int where all are."""
    if all(isinstance(s, int) for s in sizes):
        return math.prod(sizes)
    result: Size = 1
    for size in sizes:
        result = size * result if isinstance(size, UOp) else result * size
    return fold_size(result)


def largest(size: Size) -> int:
    """The greatest value that the size can have."""
    return size if isinstance(size, int) else int(size.vmax)


def _shape_of_one(node: UOp) -> Shape:
    op, arg = node.op, node.arg
    if op is Ops.BUFFER:
        return (arg.size,)
    if op in (Ops.RESHAPE, Ops.EXPAND):
        return tuple(arg)
    if op in (Ops.SLOT, Ops.KERNEL):
        return tuple(arg[1])
    if op in LOOPED:
        return _shape_of_looped(node)
    if op is Ops.PART:
        return tuple(node.src[0].arg.template.kinds[arg][1])
    if op is Ops.CALL:
        return () if node.dtype is dtypes.void else tuple(arg.template.kinds[0][1])
    if not node.src:
        return ()
    shape: Shape = node.src[-1 if op in (Ops.WHERE, Ops.GATHER) else 0]._shape
    if op is Ops.PRIOR:
        return shape_of(node.src[0].src[1])  # the updates of a SCATTER whose shape was told
    if op in ALU or op in _SAME or op in _LIKE_FIRST:
        return shape
    if op is Ops.PERMUTE:
        return tuple(shape[axis] for axis in arg)
    if op is Ops.PAD:
        return tuple(fold_size(s + b + a) for s, (b, a) in zip(shape, arg, strict=True))
    if op is Ops.SHRINK:
        return tuple(fold_size(stop - start) for start, stop in arg)
    if op is Ops.SHEAR:
        return tuple(arg[2] if axis == arg[0] else s for axis, s in enumerate(shape))
    if op is Ops.MULTI:
        cut, count = arg[0], len(node.src)
        return tuple(s * count if axis == cut else s for axis, s in enumerate(shape))
    if op is Ops.REDUCE_AXIS:
        return tuple(1 if axis in arg[1] else s for axis, s in enumerate(shape))
    return ()


def _shape_of_looped(node: UOp) -> Shape:
    loop = node.src[0]
    if node.op is Ops.STEPS:
        return (loop.arg.length, *shape_of(node.arg))
    shape = shape_of(loop.src[node.arg])
    return shape if node.op is Ops.LAST else (fold_size(loop.arg.length + 1), *shape)


def shape_of(node: UOp) -> Shape:
    """The shape of a graph node; `()` for nodes that are no tensors."""
    try:
        return node._shape
    except AttributeError:
        pass
    try:  # mostly the operands' shapes are known
        node._shape = _shape_of_one(node)
        return node._shape
    except AttributeError:
        pass
    for below in node.toposort(lambda n: not hasattr(n, "_shape")):
        if not hasattr(below, "_shape"):
            below._shape = _shape_of_one(below)
    return node._shape


def shaped(node: UOp, shape: Shape) -> UOp:
    """The node, whose shape its builder knows already."""
    node._shape = shape
    return node


def devices_of(root: UOp) -> dict[UOp, str | None]:
    """The device of every node below `root`: its COPY's or buffers'; None for constants."""
    known: dict[UOp, str | None] = {}
    for below in root.toposort():
        if below.op is Ops.COPY:
            known[below] = below.arg
        elif below.op is Ops.BUFFER:
            known[below] = below.arg.device
        else:
            known[below] = next((d for s in below.src if (d := known[s]) is not None), None)
    return known


def device_of(node: UOp) -> str | None:
    """The device a graph node lives on, kept on the node; `devices_of` for every node below."""
    for below in node.toposort(lambda n: not hasattr(n, "_device")):
        if hasattr(below, "_device"):
            continue
        if below.op is Ops.COPY:
            below._device = below.arg
        elif below.op is Ops.BUFFER:
            below._device = below.arg.device
        else:
            found = (s._device for s in below.src)
            below._device = next((device for device in found if device is not None), None)
    return node._device


def count(shape: Shape) -> int:
    """The most elements that a tensor of this shape can have."""
    return math.prod(map(largest, shape))


def count_of(node: UOp) -> int:
    """The most elements that the node can have."""
    return count(shape_of(node))
