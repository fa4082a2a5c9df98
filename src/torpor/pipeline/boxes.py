"""Places of boxes in memory become numbers that kernels are given, once they are seen to differ.

before  the first of graphs that differ in nothing else: SHRINK(X, ((64, 128), (0, 8)))
after   all others: SHRINK(X, ((start, start + 64), (0, 8))), start between 0 and len(X) - 64;
        what is written to a place is a PAD, whose numbers before and after have one sum

So a loop over minibatches, crops or rows compiles its kernels twice, and not at each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass
class Seen:
    """What is known of a skeleton.

    first:  the places of its boxes when it was first seen. `moving`: the axes that differ since.
    key:    of the graph with variables for these, once there was one.
    starts: for each of its bound variables, whose start it is; None: the graph's own.
    """

    first: tuple[Any, ...]
    moving: Axes = frozenset()
    key: tuple[Any, ...] | None = None
    starts: Sequence[tuple[int, int] | None] = ()


_seen: Final[dict[tuple[Any, ...], Seen]] = {}


def known_form(form: Canonical) -> Canonical | None:
    """The canonical form with variables for the places of boxes, as it was written down before."""
    seen = _seen.get(form.skeleton)
    if seen is None or seen.key is None or not moved(seen.first, form.key[-1]) <= seen.moving:
        return None
    own = iter(form.bound)
    bound = [
        next(own) if start is None else bound_start(form.boxes[start[0]], *start)
        for start in seen.starts
    ]
    return Canonical(seen.key, form.buffers, bound)


def with_places(roots: Roots, form: Canonical) -> tuple[Roots, Canonical | None]:
    """The roots (graph node, device), and their canonical form, with variables for the places of
    boxes that have been elsewhere before.
    """
    if len(_seen) >= MOST:
        _seen.clear()
    seen = _seen.setdefault(form.skeleton, Seen(form.key[-1]))
    moving = seen.moving | moved(seen.first, form.key[-1])
    if not moving or any(node.src[0].arg[0].startswith("box_start") for node in form.bound):
        return roots, form
    named = {box: started(box, number, moving) for number, box in enumerate(form.boxes)}
    sink = rebuilt(UOp.sink(*(node for node, _ in roots)), named)
    changed = [(node, device) for node, (_, device) in zip(sink.src, roots, strict=True)]
    made = canonical(changed)
    if made is not None:
        numbers = {START.format(*axis): axis for axis in moving}
        seen.starts = [numbers.get(node.src[0].arg[0]) for node in made.bound]
        seen.moving, seen.key = moving, made.key
    return changed, made


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
            place = bound_start(box, number, axis)
            whole = place.src[0].arg[2]
            pairs[axis] = (place, place + (end - start) if box.op is Ops.SHRINK else whole - place)
    return tuple(pairs)


def bound_start(box: UOp, number: int, axis: int) -> UOp:
    """Where a box starts along an axis of known size, as a variable with this value."""
    start, end = box.arg[axis]
    most = shape_of(box.src[0])[axis] - (end - start) if box.op is Ops.SHRINK else start + end
    return bind(UOp.variable(START.format(number, axis), 0, most), start)


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
