"""The one way to cut an axis: so many of its iterations become an axis of their own.

before  for n in 12                 after   for o in 3, i in 4: n = o*4 + i

Where they do not divide it, there is a tail. It is padded (what runs beyond the end does nothing),
or tiles overlap, as evenly as they can, and compute some results twice (where the length is not
known, the last one), or what is left gets loops of its own. Lengths that are not known are padded
or parted into blocks at once, of an axis that is.
"""

from __future__ import annotations

from collections.abc import Sequence

from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    nesting,
    numbered,
    rename_ranges,
    replace_range,
    size_of,
)
from torpor.rules.validity import is_gated


def split(root: UOp, one: UOp, inner: UOp, top: bool = False, overlap: bool = False) -> UOp:
    """The kernel with iterations of `one` run by `inner`: the fast ones, with `top` the slow."""
    size, factor = size_of(one), size_of(inner) or 1
    if size is None:
        return repeated(root, one, inner, factor)
    assert overlap or size % factor == 0, "there is a tail"
    tiles = -(-size // factor)
    if tiles == 1:
        return replace_range(root, one, inner, [inner])
    outer = UOp.range(tiles, *one.arg)
    place = inner * tiles + outer if top else outer * factor + inner
    if overlap:
        place = outer * (size - factor) // (tiles - 1) + inner
    return replace_range(root, one, place, [outer, inner]).simplify()


def repeated(root: UOp, one: UOp, inner: UOp, factor: int) -> UOp:
    """The kernel with tiles of an axis whose length is not known: its last round takes the place of
    those beyond it.
    """
    bound = one.src[0]
    outer = UOp.range(((bound + (factor - 1)) // factor).simplify(), *one.arg)
    place = (outer * factor + inner).minimum(bound - 1)
    return replace_range(root, one, place, [outer, inner]).simplify()


def padded(root: UOp, one: UOp, factor: int, fresh: int) -> UOp:
    """The kernel with the axis made longer, to a multiple of `factor`; of symbolic length it
    becomes blocks of so many, by an axis inside of it that is numbered `fresh`.
    """
    size, bound = size_of(one), one.src[0]
    if size is None:
        axes, place = in_blocks(one, bound + (factor - 1), factor, fresh)
    elif size % factor == 0:
        return root
    else:
        place = UOp.range(-(-size // factor) * factor, *one.arg)
        axes = [place]
    return mask_beyond(replace_range(root, one, place, axes), axes, place < bound)


def in_blocks(one: UOp, bound: UOp, factor: int, fresh: int) -> tuple[list[UOp], UOp]:
    """The axes of as many blocks of `factor` as `bound` has, the inner one numbered `fresh`, and
    the place along both.
    """
    outer = UOp.range((bound // factor).simplify(), *one.arg)
    inner = UOp.range(factor, fresh, kind_of(one))
    return [outer, inner], outer * factor + inner


def mask_beyond(root: UOp, axes: Sequence[UOp], inside: UOp) -> UOp:
    """Loads, stores and checks that run over these axes do nothing but `inside`; reductions take
    their identity elsewhere.
    """
    loops, ran = find_loops(root), frozenset(axes)
    stored = {n.src[0] for n in loops.order if n.op is Ops.STORE}
    done: dict[UOp, UOp] = {}
    for node in loops.order:
        source = tuple([done[s] for s in node.src])
        made = node.over(source)
        if node.op is Ops.INDEX and ran & loops.free[node]:
            if node in stored or not has_room(node, axes[-1]):
                made = only_where(made, inside)
        elif node.op is Ops.CHECK and ran & loops.free[node]:
            made = node.replace(src=(source[0], ~inside | source[1]))
        elif node.op is Ops.REDUCE and ran.intersection(closed_by(node)):
            neutral = UOp.const(node.dtype, identity(node.arg, node.dtype))
            product = node.arg is Ops.ADD and source[0].op is Ops.MUL
            if not product or not is_gated(source[0], inside):
                made = node.replace(src=(inside.where(source[0], neutral), *source[1:]))
        done[node] = made
    return done[root]


def has_room(place: UOp, one: UOp) -> bool:
    """Whether packed memory has elements for all rounds of a padded output axis: what is read of
    them is stored nowhere, and need not be asked for.
    """
    memory, position = place.src[:2]
    packed = memory.op is Ops.DEFINE_LOCAL and kind_of(one) is not AxisType.REDUCE
    return packed and position.vmin >= 0 and position.vmax < memory.arg.size


# --- two axes in the place of one -----------------------------------------------------------------
def partition(root: UOp, one: UOp, first: int, fresh: int) -> UOp:
    """The kernel with the axis `one` run up to `first`, and from there on by an axis of its own; of
    symbolic length, over whole blocks of `first`, by an axis inside of it.

    Stores over the axis become two; so do reductions, whose halves are combined. Loops inside the
    axis are made anew for the second part, since they stand elsewhere. New axes are numbered from
    `fresh`.
    """
    size, bound = size_of(one), one.src[0]
    if size is None:
        lows, low = in_blocks(one, bound, first, fresh)
        start, rest, fresh = bound // first * first, bound % first, fresh + 1
    else:
        assert 0 < first < size
        low, start = UOp.range(first, *one.arg), UOp.index_const(first)
        lows, rest = [low], UOp.index_const(size - first)
    high = UOp.range(rest.simplify(), fresh, kind_of(one))
    loops = find_loops(root)
    inside = {r for r, outer in loops.around.items() if one in outer}
    moved = sorted((r for r in inside if kind_of(r) is not AxisType.UPCAST), key=nesting)
    again = {r: numbered(r, fresh + 1 + n) for n, r in enumerate(moved)}
    done: dict[UOp, UOp] = {}

    def halves(node: UOp) -> tuple[UOp, UOp]:
        later = replace_range(node, one, high + start, [high])
        return replace_range(node, one, low, lows), rename_ranges(later, again).simplify()

    for node in loops.order:
        source = tuple([done[s] for s in node.src])
        if node.op in (Ops.SINK, Ops.BARRIER):
            both = [halves(done[s]) if one in closed_by(s) else (done[s],) for s in node.src]
            source = tuple(part for parts in both for part in parts)
        made = node.over(source)
        if node.op is Ops.REDUCE and one in closed_by(node):
            before, after = halves(made)
            made = before.alu(node.arg, after)
        done[node] = made
    return done[root]


def boundaries(root: UOp, one: UOp) -> list[int]:
    """Where comparisons of the axis with numbers change, in order."""
    found = set()
    for node in root.toposort():
        if node.op is Ops.CMPLT and node.src[0] is one and node.src[1].op is Ops.CONST:
            found.add(int(node.src[1].arg))
        if node.op is Ops.CMPLT and node.src[1] is one and node.src[0].op is Ops.CONST:
            found.add(int(node.src[0].arg) + 1)
    return sorted(n for n in found if 0 < n < (size_of(one) or 0))
