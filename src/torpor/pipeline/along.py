"""What is computed along with a graph, since later graphs were seen to need it.

Which nodes of a graph these are is noted by skeleton, so that the next graph of its like computes
them as further roots, in the same kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import Canonical

Roots = Sequence[tuple[UOp, str]]
Place = tuple[tuple[Any, ...], int]  # the skeleton of a graph, and which of its nodes

MOST: Final = 4096  # skeletons that are remembered
_MEMORY: Final = frozenset({Ops.BUFFER, Ops.MULTI})

_along: Final[dict[tuple[Any, ...], tuple[int, ...]]] = {}
_below: Final[dict[Place, frozenset[int]]] = {}  # see `memory_below`


def take_along(place: Place) -> None:
    """From now on compute this node of graphs with this skeleton along with their roots."""
    skeleton, node = place
    if len(_along) >= MOST:
        _along.clear()
        _below.clear()
    known = _along.get(skeleton, ())
    if node not in known:
        _along[skeleton] = (*known, node)


def leave_alone(form: Canonical) -> None:
    """Compute nothing along with such graphs: it failed."""
    _along[form.skeleton] = ()


def taken_with(skeleton: tuple[Any, ...]) -> tuple[int, ...]:
    """The nodes that are computed along with graphs of a skeleton."""
    return _along.get(skeleton, ())


def joined(form: Canonical, taken: Sequence[int], device: str) -> Canonical:
    """The form of a graph and what of it is computed along."""
    settings, wanted, *rest = form.key
    return form._replace(key=(settings, (*wanted, *[(one, device) for one in taken]), *rest))


def with_company(form: Canonical, roots: Roots) -> tuple[Canonical, Roots]:
    """The roots and what is computed along with them, and the form of that."""
    taken = _along.get(form.skeleton) if _along else None
    if not taken:
        return form, roots
    nodes, device = list(form.order), roots[0][1]
    return joined(form, taken, device), [*roots, *[(nodes[place], device) for place in taken]]


def ages_of(form: Canonical, nodes: Sequence[UOp]) -> list[int]:
    """For each of the nodes, which are computed along, how many such lie on one way below, with
    itself: by what memory stands for others of that kind.
    """
    places = form.places
    ages = {places[node]: age for node, age in form.ages.items() if age and node in places}
    if not ages:
        return [1] * len(nodes)
    found = []
    for node in nodes:
        inside = memory_below(form, node)
        found.append(1 + max([age for place, age in ages.items() if place in inside], default=0))
    return found


def valued(node: UOp) -> tuple[UOp, ...]:
    """What a node's value is made of: not what only the gradient of a function is."""
    return node.src[:1] if node.op is Ops.FUNCTION else node.src


def memory_below(form: Canonical, root: UOp) -> frozenset[int]:
    """The places of the memory that a node of a graph is made of: the same in all graphs alike."""
    places = form.places
    name = form.skeleton, places[root]
    found = _below.get(name)
    if found is None:
        inside: set[int] = set()
        seen: set[UOp] = set()
        stack = [*valued(root)]
        while stack:
            node = stack.pop()
            node = node if node.known is None else node.known.value
            if node in seen:
                continue
            seen.add(node)
            if node.op in _MEMORY or (node.op is Ops.RESHAPE and node.src[0].op is Ops.BUFFER):
                inside.add(places[node])
            stack += valued(node)
        found = _below[name] = frozenset(inside)
    return found
