"""Rules that merge movements: two of a kind are one, and what cancels goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.graph.elementwise import uniform
from torpor.graph.movement import expand, flip, permute, reshape
from torpor.graph.sizes import add, at_most, subtract
from torpor.ir.infer import Size, count_of, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.pattern import PatternMatcher, Rule, UPat
from torpor.ir.uop import UOp
from torpor.rules.movement import TRUE, Indices, flat, map_indices, shifted


def merge_reshapes(node: UOp, x: UOp) -> UOp:
    """reshape(reshape(x)) = reshape(x)."""
    return x if shape_of(x) == node.arg else node.replace(src=(x,))


def merge_expands(node: UOp, x: UOp) -> UOp:
    """expand(expand(x)) = expand(x)."""
    return expand(x, node.arg)


def merge_permutes(node: UOp, inner: UOp, x: UOp) -> UOp:
    """permute(permute(x, p), q) = permute(x, p[q])."""
    return permute(x, [inner.arg[axis] for axis in node.arg])


def permute_of_ones(node: UOp, x: UOp) -> UOp | None:
    """permute(x) = reshape(x) where only axes of one element change places."""
    kept = [axis for axis in node.arg if shape_of(x)[axis] != 1]
    return reshape(x, shape_of(node)) if kept == sorted(kept) else None


def merge_flips(node: UOp, inner: UOp, x: UOp) -> UOp:
    """flip(flip(x, a), b) = flip(x, a xor b)."""
    both = zip(node.arg, inner.arg)
    return flip(x, [axis for axis, (one, other) in enumerate(both) if one != other])


def merge_pads(node: UOp, inner: UOp, x: UOp) -> UOp:
    """pad(pad(x, p), q) = pad(x, p + q)."""
    pairs = [(add(a, c), add(b, d)) for (a, b), (c, d) in zip(node.arg, inner.arg)]
    return node.replace(src=(x,), arg=tuple(pairs))


def merge_shrinks(node: UOp, inner: UOp, x: UOp) -> UOp:
    """shrink(shrink(x, p), q) = shrink(x, p.start + q)."""
    both = zip(node.arg, inner.arg)
    return _box(x, [(add(first, a), add(first, b)) for (a, b), (first, _) in both])


def shrink_of_pad(node: UOp, inner: UOp, x: UOp) -> UOp | None:
    """shrink(pad(x)) = shrink(x) where nothing that was padded is left."""
    boxes = []
    for (start, stop), (before, _), size in zip(node.arg, inner.arg, shape_of(x)):
        if not (at_most(before, start) and at_most(stop, add(before, size))):
            return None
        boxes.append((subtract(start, before), subtract(stop, before)))
    return _box(x, boxes)


def _box(x: UOp, boxes: Sequence[tuple[Size, Size]]) -> UOp:
    """A box that is known to lie in x (it need not be proved again)."""
    if all(start == 0 and stop == size for (start, stop), size in zip(boxes, shape_of(x))):
        return x
    return UOp(Ops.SHRINK, x.dtype, (x,), tuple(boxes))


def extreme_of_copies(node: UOp, inner: UOp, x: UOp) -> UOp | None:
    """Max over an axis that expand made = max of one element there; min likewise."""
    op, axes = node.arg
    before, after = shape_of(x), inner.arg
    made = [axis for axis in axes if before[axis] == 1 and at_most(1, after[axis])]
    if op not in (Ops.MAX, Ops.MIN) or not made:
        return None
    below = expand(x, [1 if axis in made else size for axis, size in enumerate(after)])
    rest = tuple([axis for axis in axes if axis not in made])
    return UOp(Ops.REDUCE_AXIS, node.dtype, (below,), (op, rest)) if rest else below


def parts_joined(node: UOp, inside: UOp, left: UOp, right: UOp) -> UOp | None:
    """where(pad(true), pad(x[:n]), pad(x[n:])) = x: parts by whatever movements, laid end to end
    in the order in which they were.
    """
    base, shape = left.below(MOVEMENT), shape_of(node)
    if right.below(MOVEMENT) is not base or not end_to_end(node, inside):
        return None
    if not all(isinstance(size, int) for size in (*shape, *shape_of(base))):
        return None
    for pads, part in ((pad.arg, pad.src[0]) for pad in node.src[1:]):
        ranges = [UOp.range(size, axis) for axis, size in enumerate(shape_of(part))]
        moved = [shifted(one, before) for one, (before, _) in zip(ranges, pads, strict=True)]
        if position_in(part, tuple(ranges)) is not flat(list(zip(moved, shape, strict=True))):
            return None
    return reshape(base, shape) if count_of(base) == count_of(node) else None


def end_to_end(node: UOp, inside: UOp) -> bool:
    """Whether a WHERE of PADs lays its operands side by side along one axis."""
    mask, left, right = node.src
    sizes, others = shape_of(left.src[0]), shape_of(right.src[0])
    axes = [axis for axis, pads in enumerate(left.arg) if pads != (0, 0)]
    if uniform(inside) is not TRUE or mask.arg != left.arg or len(axes) != 1:
        return False
    (axis,) = axes
    behind: list[tuple[Size, Size]] = [(0, 0)] * len(sizes)
    behind[axis] = (sizes[axis], 0)
    return bool(left.arg[axis] == (0, others[axis])) and right.arg == tuple(behind)


def position_in(node: UOp, indices: Indices) -> UOp | None:
    """Where in what lies below movements an element comes from; None where it may be padding."""
    while node.op in MOVEMENT:
        indices, valid = map_indices(node, indices)
        if valid is not TRUE:
            return None
        node = node.src[0]
    return flat(list(zip(indices, shape_of(node), strict=True)))


def _on(outer: Ops, inner: Ops) -> UPat:
    return UPat(outer, src=(UPat(inner, src=(UPat.var("x"),), name="inner"),), name="node")


_RULES: Final[list[Rule]] = [
    (_on(Ops.RESHAPE, Ops.RESHAPE), merge_reshapes),
    (_on(Ops.EXPAND, Ops.EXPAND), merge_expands),
    (_on(Ops.PERMUTE, Ops.PERMUTE), merge_permutes),
    (UPat(Ops.PERMUTE, src=(UPat.var("x"),), name="node"), permute_of_ones),
    (_on(Ops.FLIP, Ops.FLIP), merge_flips),
    (_on(Ops.PAD, Ops.PAD), merge_pads),
    (_on(Ops.SHRINK, Ops.SHRINK), merge_shrinks),
    (_on(Ops.SHRINK, Ops.PAD), shrink_of_pad),
    (_on(Ops.REDUCE_AXIS, Ops.EXPAND), extreme_of_copies),
    (
        UPat(
            Ops.WHERE,
            src=(
                UPat(Ops.PAD, src=(UPat.var("inside"),)),
                UPat(Ops.PAD, src=(UPat.var("left"),)),
                UPat(Ops.PAD, src=(UPat.var("right"),)),
            ),
            name="node",
        ),
        parts_joined,
    ),
]
merge_rules: Final = PatternMatcher(_RULES)
