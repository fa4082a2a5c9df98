"""Places of boxes in memory become numbers that kernels are given, once they are seen to differ.

before  the first of graphs that differ in nothing else: SHRINK(X, ((64, 128), (0, 8)))
after   all others: SHRINK(X, ((start, start + 64), (0, 8))), start between 0 and len(X) - 64;
        what is written to a place is a PAD, whose numbers before and after have one sum

So a loop over minibatches, crops or rows compiles its kernels twice, and not at each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import bind
from torpor.pipeline.canonical import Canonical, canonical

Roots = Sequence[tuple[UOp, str]]
Axes = frozenset[tuple[int, int]]  # (number of a box, its axis)

START: Final = "box_start{}_{}"
MOST: Final = 4096  # skeletons that are remembered

# By skeleton: the places of the boxes when it was first seen, and the axes that differ since.
_seen: Final[dict[tuple[Any, ...], tuple[tuple[Any, ...], Axes]]] = {}


def with_places(roots: Roots, form: Canonical) -> tuple[Roots, Canonical | None]:
    """The roots (graph node, device), and their canonical form, with variables for the places of
    boxes that have been elsewhere before.
    """
    places = form.key[-1]
    first, moving = _seen.get(form.skeleton, (places, frozenset()))
    moving |= moved(first, places)
    if len(_seen) >= MOST:
        _seen.clear()
    _seen[form.skeleton] = first, moving
    if not moving or any(node.src[0].arg[0].startswith("box_start") for node in form.bound):
        return roots, form
    named = {box: started(box, number, moving) for number, box in enumerate(form.boxes)}
    sink = rebuilt(UOp.sink(*(node for node, _ in roots)), named)
    changed = [(node, device) for node, (_, device) in zip(sink.src, roots, strict=True)]
    return changed, canonical(changed)


def moved(before: Sequence[Any], now: Sequence[Any]) -> Axes:
    """The axes along which boxes lie elsewhere."""
    pairs = zip(before, now, strict=True)
    return frozenset(
        (number, axis)
        for number, (old, new) in enumerate(pairs)
        if old != new
        for axis, (one, other) in enumerate(zip(old, new, strict=True))
        if one != other
    )


def started(box: UOp, number: int, moving: Axes) -> tuple[Any, ...]:
    """The arg of a SHRINK or PAD with a bound variable for each start that moves."""
    pairs = list(box.arg)
    sizes = shape_of(box.src[0])
    for axis, (start, end) in enumerate(box.arg):
        if (number, axis) in moving and isinstance(sizes[axis], int):
            shrinks = box.op is Ops.SHRINK
            most = sizes[axis] - (end - start) if shrinks else start + end
            place = bind(UOp.variable(START.format(number, axis), 0, most), start)
            pairs[axis] = (place, place + (end - start) if shrinks else most - place)
    return tuple(pairs)


def rebuilt(root: UOp, args: Mapping[UOp, Any]) -> UOp:
    """The graph with other args for some of its nodes, which keep their shapes."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        source, arg = tuple([done[s] for s in node.src]), args.get(node, node.arg)
        if source == node.src and arg is node.arg:
            done[node] = node
            continue
        done[node] = made = UOp(node.op, node.dtype, source, arg)
        made.origins = made.origins or node.origins
        if node is not root:
            shaped(made, shape_of(node))
    return done[root]
