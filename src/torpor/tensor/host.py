"""Values that have been computed, read on the host without another kernel."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ShapeError
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.graph.sizes import is_plain
from torpor.ir.infer import JOINT, Shape, Size, fold_size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.storage import Storage, recall
from torpor.tensor.watch import active, watcher

Array = np.ndarray[Any, Any]
_BOTTOMS: Final = frozenset({Ops.BUFFER, Ops.CONST, Ops.MULTI})
# What has the same value as what is below it.
_COPIES: Final = frozenset({Ops.LEAF, Ops.DETACH, Ops.CONTIGUOUS, Ops.FUNCTION})
_SAME: Final = _COPIES | {Ops.RESHAPE}


# What a number in memory is for C, where Python reads it as what torpor says that it is.
_NUMBERS: Final[dict[DType, Any]] = {
    dtypes.float32: ctypes.c_float,
    dtypes.float64: ctypes.c_double,
    dtypes.int32: ctypes.c_int32,
    dtypes.int64: ctypes.c_int64,
    dtypes.bool: ctypes.c_bool,
}


def known_size(size: Size) -> int:
    """The size as a number: bound variables have their values; a free one is a `ShapeError`."""
    if isinstance(size, int):
        return size
    if active and (watching := watcher()) is not None:
        watching.fixes(size)
    bound = {node: node.src[1] for node in size.toposort() if node.op is Ops.BIND}
    value = fold_size(size.substitute(bound))
    if isinstance(value, int):
        return value
    names = " and ".join(n.arg[0] for n in size.toposort() if n.op is Ops.VARIABLE)
    what = f"Variable {names} has no value: compute with .bind(value) in its place"
    raise ShapeError(f"size {size.render()} is not known: {what}")


def known_shape(shape: Shape) -> tuple[int, ...]:
    """The shape as numbers."""
    return tuple(known_size(size) for size in shape)


def read(node: UOp) -> Array | None:
    """The value of a node that only moves memory that the host has; None for any other."""
    moves = []
    while True:
        known = recall(node)
        if known is not None:
            node = known
        if node.op in _BOTTOMS:
            break
        if node.op not in _MOVES and node.op not in _COPIES:
            return None
        moves.append(node)
        node = node.src[0]
    array = _bottom(node)
    if array is None:
        return None
    for move in reversed(moves):
        if move.op in _MOVES:
            array = _MOVES[move.op](move, array)
    return array


def _bottom(node: UOp) -> Array | None:
    """The elements of a buffer, of a constant, or of one tensor over several devices."""
    if node.op is Ops.BUFFER:
        return memory_of(node.arg)
    if node.op is Ops.CONST:
        return node.dtype.array(node.arg)
    axis, _ = node.arg
    parts = [read(part) for part in (node.src[:1] if axis is None else node.src)]
    arrays = [part for part in parts if part is not None]
    if len(arrays) < len(parts):
        return None
    return arrays[0] if axis is None else np.concatenate(arrays, axis)


def is_moved(node: UOp) -> bool:
    """Whether a value may be there without being computed: other memory or a constant, moved."""
    op = node.below(_SAME).op
    return op in _MOVES or op in _BOTTOMS


def _lies_in(node: UOp) -> Buffer | None:
    """The memory that holds the elements of a node, in order, where the host sees it; None for any
    other node.
    """
    below = node.src[0] if node.op is Ops.RESHAPE else node
    if below.op is not Ops.BUFFER or not (buffer := below.arg).place:
        return None
    shape = shape_of(node)
    whole = is_plain(shape) and math.prod(shape) == buffer.size
    return buffer if whole else None


def number_in(node: UOp) -> Any:
    """The only element of a value that lies in memory as a Python number; None for any other."""
    buffer = _lies_in(recall(node) or node)
    if buffer is None or buffer.size != 1 or buffer.dtype not in _NUMBERS:
        return None
    return _NUMBERS[buffer.dtype].from_address(buffer.place).value


def copy_of(node: UOp) -> Array | None:
    """The elements of a value that lies in memory in an array of their own; None for any other."""
    node = recall(node) or node
    if (buffer := _lies_in(node)) is None:
        return None
    memory: Any = (ctypes.c_char * buffer.nbytes).from_address(buffer.place)
    return np.ndarray(known_shape(shape_of(node)), buffer.dtype.numpy, memory).copy()


def seen_by_host(node: UOp) -> bool:
    """Whether the memory below, the first there is, is the host's own."""
    node = recall(node) or node
    while node.src:
        node = node.src[0]
        node = recall(node) or node
    if node.op is not Ops.BUFFER or not node.arg.is_allocated():
        return False
    return node.arg.memory.address is not None


def memory_of(buffer: Buffer) -> Array:
    """The elements of a buffer; it gets memory (with anything in it) if it has none."""
    if not buffer.is_allocated():
        buffer.allocate()
    return buffer.numpy()


def _reshape(node: UOp, array: Array) -> Array:
    shape = known_shape(node.arg)
    count = math.prod(shape)
    if array.ndim == 1 and array.size != count:  # a symbolic size: memory has room for the largest
        array = array[:count]
    return array.reshape(shape)


_MOVES: Final[dict[Ops, Callable[[UOp, Array], Array]]] = {
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: lambda node, array: array.transpose(node.arg),
    Ops.EXPAND: lambda node, array: np.broadcast_to(array, known_shape(node.arg)),
    Ops.SHRINK: lambda node, array: array[
        tuple(slice(known_size(a), known_size(b)) for a, b in node.arg)
    ],
    Ops.FLIP: lambda node, array: array[tuple(slice(None, None, -1 if f else 1) for f in node.arg)],
}


def converted(array: Array, dtype: DType) -> Array:
    """The elements as `dtype`, as on every device: floats beyond an integer's ends become its ends,
    NaN becomes 0.
    """
    with np.errstate(all="ignore"):
        if not dtype.is_int or array.dtype.kind in "biu":
            return dtype.array(array)
        whole = np.trunc(array.astype(np.float64))
        above, below = whole >= float(dtype.max), whole <= float(dtype.min)
        made = np.where(above | below | np.isnan(whole), 0, whole).astype(dtype.numpy)
    made[above], made[below] = dtype.max, dtype.min
    return made


def buffer_from(array: Array, device: str, dtype: DType) -> Buffer:
    """A buffer on `device` that holds a copy of `array`'s elements, as `dtype`."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype != dtype.numpy:
        flat = converted(flat, dtype)
    return Buffer(device, flat.size, dtype).allocate().copyin(flat)


def stored(array: Array, dtype: DType, device: str, axis: int | None = None) -> Storage:
    """A storage with these values on a device, or cut along `axis` (what a pickle holds)."""
    names = device.split(JOINT)
    if len(names) > 1:
        pieces = [array] * len(names) if axis is None else np.split(array, len(names), axis)
        nodes = tuple(
            buffer_node(buffer_from(piece, name, dtype), piece.shape)
            for piece, name in zip(pieces, names, strict=True)
        )
        return Storage(UOp(Ops.MULTI, dtype, nodes, (axis, tuple(names))), device)
    return Storage(buffer_node(buffer_from(array, device, dtype), array.shape), device)
