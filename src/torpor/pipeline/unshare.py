"""Boxes of memory and constants of a shape that are one node by chance, as several nodes.

before  stack([X[5:9], X[5:9]]), where earlier it was stack([X[2:6], X[7:11]]): one SHRINK
after   two with equal numbers, each of them a node of its own; so of zeros(5) and zeros(5)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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


class _Own(tuple[Any, ...]):
    """The numbers of a node that is none of those with equal numbers."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def unshared(roots: Roots, form: Canonical, apart: set[int]) -> tuple[Roots, Canonical] | None:
    """The graph with nodes that have numbers at the places `apart` made once for each of their
    uses, and its form; None where it is no other graph then.
    """
    split = {node for node, places in numbers_of(form) if not apart.isdisjoint(places)}
    made = _copied([node for node, _ in roots], split)
    pairs = [(node, device) for node, (_, device) in zip(made, roots)]
    found = canonical(pairs)
    if found is None or found.skeleton != form.skeleton:
        return None
    return pairs, found._replace(key=form.key, ages=form.ages)


def _copied(roots: Sequence[UOp], split: set[UOp]) -> Sequence[UOp]:
    """The nodes with those that are split, and movements of them, of their own for each use."""
    done: dict[UOp, UOp] = {}

    def is_split(node: UOp) -> bool:
        while node.op in PLACED and node not in split:
            node = node.src[0]
        return node in split

    def used(node: UOp) -> UOp:
        if node in done:
            return done[node]
        below, *others = node.src
        arg = _Own(node.arg) if node in split else node.arg
        return _like(node, (used(below), *others), arg)

    sink = UOp.sink(*roots)
    for node in sink.toposort():
        if not is_split(node):
            done[node] = _like(node, tuple([used(below) for below in node.src]), node.arg)
    return done[sink].src


def _like(node: UOp, source: tuple[UOp, ...], arg: Any) -> UOp:
    made = UOp(node.op, node.dtype, source, arg)
    made.origins = made.origins or node.origins
    return made
