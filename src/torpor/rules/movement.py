"""Movement operations as maps: from indices into the result to indices into the operand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.infer import Shape, Size, shape_of, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.sizes import same, times

Indices = tuple[UOp, ...]
MAPS: Final = 4096  # that are kept, of each kind: a choice; layers of a model share theirs
TRUE = UOp.const(dtypes.bool, True)
ZERO = UOp.index_const(0)


def map_indices(node: UOp, indices: Indices) -> tuple[Indices, UOp]:
    """Index expressions of a movement's operand, and where they are valid.

    `indices` are expressions of dtype index, one an axis of the result. The condition is a bool;
    outside of it a PAD gives 0.
    """
    shape, arg, op = shape_of(node.src[0]), node.arg, node.op
    if op is Ops.PERMUTE:
        places = dict(zip(arg, indices, strict=True))
        return tuple(places[axis] for axis in range(len(shape))), TRUE
    if op is Ops.EXPAND:
        return tuple(ZERO if is_one(s) else i for s, i in zip(shape, indices, strict=True)), TRUE
    if op is Ops.SHRINK:
        return tuple(shifted(i, start) for i, (start, _) in zip(indices, arg, strict=True)), TRUE
    if op is Ops.FLIP:
        return tuple(
            (size_node(s) + -1 + i * -1).simplify() if turned else i
            for i, s, turned in zip(indices, shape, arg, strict=True)
        ), TRUE
    if op is Ops.SHEAR:
        axis, by, _, stride, step, offset = arg
        moved = (indices[axis] * stride + indices[by] * step + offset).simplify()
        return (*indices[:axis], moved, *indices[axis + 1 :]), TRUE
    if op is Ops.PAD:
        return map_pad(shape, arg, indices)
    assert op is Ops.RESHAPE, f"{op} is no movement"
    return map_reshape(shape_of(node), shape, indices), TRUE


def is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def shifted(index: UOp, by: Size) -> UOp:
    """index + by, simplified."""
    return index if isinstance(by, int) and by == 0 else (index + by).simplify()


def map_pad(
    shape: Shape, pairs: Sequence[tuple[Size, Size]], indices: Indices
) -> tuple[Indices, UOp]:
    """i - before, valid where 0 <= i - before < size."""
    moved = []
    valid = TRUE
    for index, size, (before, after) in zip(indices, shape, pairs, strict=True):
        inner = index
        if not (isinstance(before, int) and before == 0):
            inner = (index + size_node(before) * -1).simplify()
            valid = valid & ~(inner < 0)
        if not (isinstance(after, int) and after == 0):
            valid = valid & (inner < size_node(size))
        moved.append(inner)
    return tuple(moved), valid.simplify()


@lru_cache(maxsize=MAPS)
def map_reshape(outer: Shape, inner: Shape, indices: Indices) -> Indices:
    """Indices of the operand's axes, from as few of the result's axes each as possible."""
    found: list[UOp] = []
    for first, second in groups(outer, inner):
        taken = [(indices[a], outer[a]) for a in first]
        kept = [(i, s) for i, s in taken if not is_one(s)]
        sizes = [inner[a] for a in second]
        real = [s for s in sizes if not is_one(s)]
        if len(kept) == 1 and len(real) == 1:
            parts = [kept[0][0]]
        else:
            parts = split(flat(kept), real)
        given = iter(parts)
        found.extend(ZERO if is_one(s) else next(given) for s in sizes)
    return tuple(found)


def flat(pairs: Iterable[tuple[UOp, Size]]) -> UOp:
    """Row-major position of indices in axes of the given sizes."""
    return _position(tuple(pairs))


@lru_cache(maxsize=MAPS)
def _position(pairs: tuple[tuple[UOp, Size], ...]) -> UOp:
    position: UOp | None = None
    stride: Size = 1
    for index, size in reversed(pairs):
        far = index if is_one(stride) else index * size_node(stride)
        position = far if position is None else far + position
        stride = times(stride, size)
    return ZERO if position is None else position.simplify()


def split(position: UOp, sizes: Sequence[Size]) -> list[UOp]:
    """Indices in axes of the given sizes, from a row-major position."""
    parts = []
    stride: UOp = UOp.index_const(1)
    for number, size in enumerate(reversed(sizes)):
        part = (position // stride).simplify()
        if number < len(sizes) - 1:
            part = (part % size_node(size)).simplify()
        parts.append(part)
        stride = (stride * size_node(size)).simplify()
    return parts[::-1]


def groups(outer: Shape, inner: Shape) -> list[tuple[range, range]]:
    """Runs of axes of both shapes that hold the same elements, as short as possible."""
    found = []
    i = j = 0
    while i < len(outer) or j < len(inner):
        start, begin = i, j
        left: Size = outer[i] if i < len(outer) else 1
        right: Size = inner[j] if j < len(inner) else 1
        i, j = min(i + 1, len(outer)), min(j + 1, len(inner))
        while not same(left, right):
            if i < len(outer) and (j >= len(inner) or smaller(left, right)):
                left, i = times(left, outer[i]), i + 1
            elif j < len(inner):
                right, j = times(right, inner[j]), j + 1
            else:
                break
        while i < len(outer) and is_one(outer[i]):
            i += 1
        while j < len(inner) and is_one(inner[j]):
            j += 1
        found.append((range(start, i), range(begin, j)))
    return found


def smaller(left: Size, right: Size) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    return bool(size_node(left).vmax < size_node(right).vmax)
