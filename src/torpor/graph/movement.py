"""Checked builders of movements: reshape, permute, expand, pad, shrink and flip.

A movement that changes nothing gives its operand. Movements are otherwise kept one by one, although
two of a kind could be one: a gradient may be asked for at what lies between them. `simplify_graph`
merges them before scheduling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.base.errors import ShapeError
from torpor.graph import plain
from torpor.graph.sizes import (
    as_sizes,
    axes_of,
    describe,
    factors,
    fits,
    is_plain,
    is_size,
    known,
    show_reach,
    show_shape,
)
from torpor.ir.infer import Shape, Size, fold_size, product, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

Pair = tuple[Size, Size]
_TWO: Final = frozenset({2})


def reshape(node: UOp, shape: int | UOp | Sequence[Size]) -> UOp:
    """The same elements in row-major order under another shape; one size may be -1."""
    old = shape_of(node)
    if shape == old:
        return node
    if is_plain(shape) and plain.is_reshape(old, shape):
        return shaped(UOp(Ops.RESHAPE, node.dtype, (node,), shape), shape)
    new = as_sizes("reshape", node, shape)
    if -1 in new:
        new = _with_missing_size(node, new)
        if new == old:
            return node
    if not _same_count(old, new):
        raise ShapeError(
            f"reshape of {describe(node)} to {show_shape(new)}: expected {_count(old)} elements, "
            f"got {_count(new)}"
        )
    return shaped(UOp(Ops.RESHAPE, node.dtype, (node,), new), new)


def _same_count(old: Shape, new: Shape) -> bool:
    """Whether both shapes have as many elements, and no size is negative."""
    if known(old) and known(new):
        return math.prod(old) == math.prod(new) and min(new, default=0) >= 0
    before, after = factors(old), factors(new)
    if any(isinstance(size, int) and size < 0 for size in new):
        return False
    return before == after or before[0] == after[0] == 0 or product(old) is product(new)


def _count(shape: Shape) -> str:
    return show_shape((product(shape),)).strip("(,)")


def _with_missing_size(node: UOp, shape: Shape) -> Shape:
    """`shape` with its one -1 replaced by what the number of elements leaves for it."""
    text = f"reshape of {describe(node)} to {show_shape(shape)}"
    if shape.count(-1) > 1:
        raise ShapeError(f"{text}: only one size can be -1")
    total, symbols = factors(shape_of(node))
    given, given_symbols = factors([size for size in shape if size != -1])
    if given == 0:
        raise ShapeError(f"{text}: -1 could be any size, since the other sizes give 0 elements")
    left_over = symbols - given_symbols
    if total % given or given_symbols - symbols:
        raise ShapeError(f"{text}: {_count(shape_of(node))} elements do not divide by the others")
    missing = product((total // given, *left_over.elements()))
    return tuple([missing if size == -1 else size for size in shape])


def permute(node: UOp, order: Sequence[int]) -> UOp:
    """Axes in another order: axis i of the result is axis order[i] of `node`."""
    shape, order = shape_of(node), tuple(order)
    if is_plain(order) and (turned := plain.permuted(shape, order)) is not None:
        return shaped(UOp(Ops.PERMUTE, node.dtype, (node,), order), turned)
    rank = len(shape)
    axes = axes_of("permute", node, order)
    if len(axes) != rank:
        raise ShapeError(
            f"permute of {describe(node)}: expected each of its {rank} axes once, got {order}"
        )
    if axes == tuple(range(rank)):
        return node
    return UOp(Ops.PERMUTE, node.dtype, (node,), axes)


def expand(node: UOp, shape: int | UOp | Sequence[Size]) -> UOp:
    """Axes of size 1 repeated to the sizes of `shape`; -1 keeps a size; new axes come in front."""
    old = shape_of(node)
    if shape == old:
        return node
    if is_plain(shape) and (ones := plain.aligned(old, shape)) is not None:
        if ones != old:
            node = shaped(UOp(Ops.RESHAPE, node.dtype, (node,), ones), ones)
        return node if ones == shape else shaped(UOp(Ops.EXPAND, node.dtype, (node,), shape), shape)
    new = as_sizes("expand", node, shape)
    extra = len(new) - len(old)
    if extra < 0:
        raise ShapeError(
            f"expand of {describe(node)} to {show_shape(new)}: expected at least {len(old)} sizes"
        )
    if extra:
        old = (1,) * extra + old
    if -1 in new:
        if -1 in new[:extra]:
            raise ShapeError(
                f"expand of {describe(node)} to {show_shape(new)}: a new axis cannot keep a size"
            )
        new = tuple([o if n == -1 else n for o, n in zip(old, new)])
    if new == shape_of(node):
        return node
    for before, after in zip(old, new):
        if before != after and (before != 1 or (isinstance(after, int) and after < 0)):
            raise ShapeError(
                f"expand of {describe(node)} to {show_shape(new)}: only axes of size 1 expand, "
                f"got {show_shape((before,))} to {show_shape((after,))}"
            )
    if extra:
        node = shaped(UOp(Ops.RESHAPE, node.dtype, (node,), old), old)
        if old == new:
            return node
    return shaped(UOp(Ops.EXPAND, node.dtype, (node,), new), new)


def broadcast_to(node: UOp, shape: Sequence[Size]) -> UOp:
    """`node` repeated to `shape` as NumPy broadcasts: by RESHAPE (axes in front) and EXPAND."""
    return expand(node, shape)


def broadcast_shapes(*shapes: Sequence[Size]) -> Shape:
    """The shape that all of `shapes` broadcast to; sizes of 1 give way, from the last axis on."""
    first = tuple(shapes[0]) if shapes else ()
    if all(shape == first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    result: list[Size] = [1] * rank
    for shape in shapes:
        for place, size in enumerate(shape, rank - len(shape)):
            if result[place] == 1:
                result[place] = size
            elif size not in (1, result[place]):
                texts = " and ".join(show_shape(s) for s in shapes)
                raise ShapeError(
                    f"shapes {texts} do not broadcast: sizes {show_shape((result[place],))} "
                    f"and {show_shape((size,))} at axis {place - rank} are neither equal nor 1"
                )
    return tuple(result)


def _pairs(operation: str, node: UOp, pairs: Sequence[Sequence[Size]]) -> tuple[Pair, ...]:
    rank = len(shape_of(node))
    if type(pairs) is tuple and len(pairs) == rank:
        for pair in pairs:
            if type(pair) is not tuple or len(pair) != 2:
                break
            if type(pair[0]) is not int or type(pair[1]) is not int:
                break
        else:  # mostly
            return pairs
    try:
        fits = len(pairs) == rank and _TWO.issuperset(map(len, pairs))
    except TypeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{operation} of {describe(node)}: expected {rank} pairs, one an axis, got {pairs!r}"
        )
    flat = [size for pair in pairs for size in pair]
    if known(flat):
        return tuple(zip(flat[::2], flat[1::2]))
    if not all(map(is_size, flat)):
        raise ShapeError(f"{operation} of {describe(node)}: {pairs!r} are no pairs of sizes")
    return tuple([(fold_size(first), fold_size(second)) for first, second in pairs])


def pad(node: UOp, pairs: Sequence[Sequence[Size]]) -> UOp:
    """Zeros around: `pairs` is (before, after) an axis."""
    found = _pairs("pad", node, pairs)
    if found == ((0, 0),) * len(found):
        return node
    sizes: list[int] = []
    for (before, after), size in zip(found, shape_of(node)):
        if type(before) is type(after) is type(size) is int and before >= 0 and after >= 0:
            sizes.append(before + size + after)
    if len(sizes) == len(found):
        return shaped(UOp(Ops.PAD, node.dtype, (node,), found), tuple(sizes))
    for pair in found:
        if not (fits(0, pair[0]) and fits(0, pair[1])):
            raise ShapeError(
                f"pad of {describe(node)}: expected no negative amounts, got {show_shape(pair)}; "
                f"shrink takes elements away{show_reach(*pair)}"
            )
    return UOp(Ops.PAD, node.dtype, (node,), found)


def shrink(node: UOp, pairs: Sequence[Sequence[Size]]) -> UOp:
    """A box of the operand: `pairs` is (start, stop) an axis, counted from the front."""
    shape = shape_of(node)
    found = _pairs("shrink", node, pairs)
    if found == tuple([(0, size) for size in shape]):
        return node
    sizes: list[int] = []
    for axis, ((start, stop), size) in enumerate(zip(found, shape)):
        if type(start) is type(stop) is type(size) is int and 0 <= start <= stop <= size:
            sizes.append(stop - start)
            continue
        if not (fits(0, start) and fits(start, stop) and fits(stop, size)):
            raise ShapeError(
                f"shrink of {describe(node)}: expected 0 <= start <= stop <= "
                f"{show_shape((size,))[1:-2]} at axis {axis}, "
                f"got {show_shape((start, stop))}{show_reach(start, stop, size)}"
            )
    made = UOp(Ops.SHRINK, node.dtype, (node,), found)
    return shaped(made, tuple(sizes)) if len(sizes) == len(found) else made


def flip(node: UOp, axes: int | Sequence[int] | None) -> UOp:
    """The order of the elements along `axes` (None: all) reversed."""
    shape = shape_of(node)
    turned = [axis for axis in axes_of("flip", node, axes) if shape[axis] != 1]
    if not turned:
        return node
    mask = tuple([axis in turned for axis in range(len(shape))])
    return UOp(Ops.FLIP, node.dtype, (node,), mask)
