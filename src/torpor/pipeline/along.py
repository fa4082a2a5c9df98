"""What is computed along with a graph, since later graphs were seen to need it.

Which nodes of a graph these are is noted by skeleton, so that the next graph of its like computes
them as further roots, in the same kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torpor.ir.uop import UOp
from torpor.pipeline.canonical import Canonical

Roots = Sequence[tuple[UOp, str]]
Place = tuple[tuple[Any, ...], int]  # the skeleton of a graph, and which of its nodes

MOST: Final = 4096  # skeletons that are remembered

_along: Final[dict[tuple[Any, ...], tuple[int, ...]]] = {}


def take_along(place: Place) -> None:
    """From now on compute this node of graphs with this skeleton along with their roots."""
    skeleton, node = place
    if len(_along) >= MOST:
        _along.clear()
    known = _along.get(skeleton, ())
    if node not in known:
        _along[skeleton] = (*known, node)


def leave_alone(form: Canonical) -> None:
    """Compute nothing along with such graphs: it failed."""
    _along[form.skeleton] = ()


def with_company(form: Canonical, roots: Roots) -> tuple[Canonical, Roots]:
    """The roots and what is computed along with them, and the form of that."""
    taken = _along.get(form.skeleton) if _along else None
    if not taken:
        return form, roots
    settings, wanted, *rest = form.key
    device = roots[0][1]
    key = (settings, (*wanted, *[(place, device) for place in taken]), *rest)
    nodes = list(form.order)
    return form._replace(key=key), [*roots, *[(nodes[place], device) for place in taken]]
