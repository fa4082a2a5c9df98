"""Boxes of memory that are one node by chance, as several nodes.

before  stack([X[5:9], X[5:9]]), where earlier it was stack([X[2:6], X[7:11]]): one SHRINK
after   stack([X[20:24], X[21:25]]): two, with numbers that say nothing but which is which
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import PLACED, Canonical, canonical
from torpor.pipeline.general import Roots, numbers_of


def repeated(form: Canonical) -> Iterator[tuple[int, int]]:
    """The places of numbers of nodes that are written more than once, with the first of each's;
    constants are shared for themselves.
    """
    first: dict[UOp, range] = {}
    for node, places in numbers_of(form):
        before = first.setdefault(node, places)
        if before is not places and node.op is not Ops.CONST:
            yield from zip(places, before, strict=True)


def unshared(roots: Roots, form: Canonical, apart: set[int]) -> tuple[Roots, Canonical] | None:
    """The graph with boxes that have numbers at the places `apart` made once for each of their
    uses, and its form, with the numbers of the graph; None where other nodes are shared too.
    """
    axes: dict[UOp, int] = {}
    for node, places in numbers_of(form):
        moving = [n // 2 for n, place in enumerate(places) if place in apart]
        if moving and node.op is not Ops.SHRINK:
            return None
        if moving:
            axes.setdefault(node, moving[0])
    made = _copied([node for node, _ in roots], axes)
    pairs = [(node, device) for node, (_, device) in zip(made, roots)]
    found = canonical(pairs)
    if found is None or found.skeleton != form.skeleton:
        return None
    return pairs, found._replace(key=form.key, ages=form.ages)


def _copied(roots: Sequence[UOp], axes: Mapping[UOp, int]) -> Sequence[UOp]:
    """The nodes with boxes of their own for each use: beyond the end of memory, where no other
    lies.
    """
    uses = count()
    done: dict[UOp, UOp] = {}

    def of_box(node: UOp) -> bool:
        while node.op in PLACED and node not in axes:
            node = node.src[0]
        return node in axes

    def used(node: UOp) -> UOp:
        if not of_box(node):
            return done[node]
        source, arg = node.src, node.arg
        if node in axes:
            axis = axes[node]
            size, (start, stop) = shape_of(source[0])[axis], arg[axis]
            beyond = size + next(uses)
            arg = (*arg[:axis], (beyond, beyond + stop - start), *arg[axis + 1 :])
        else:
            source = (used(source[0]), *source[1:])
        return _like(node, source, arg)

    sink = UOp.sink(*roots)
    for node in sink.toposort():
        if of_box(node):
            continue
        source = tuple([used(below) for below in node.src])
        done[node] = _like(node, source, node.arg)
    return done[sink].src


def _like(node: UOp, source: tuple[UOp, ...], arg: Any) -> UOp:
    made = UOp(node.op, node.dtype, source, arg)
    made.origins = made.origins or node.origins
    return made
