"""Which graphs are like earlier ones but for numbers, and what is known of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from torpor.base.errors import TorporError
from torpor.base.recent import forget_oldest
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import PLACED, Canonical, canonical
from torpor.pipeline.general import (
    Derivation,
    Made,
    Numbers,
    Roots,
    Row,
    numbers_of,
    slots_of,
)
from torpor.pipeline.vary import Graph, is_box

T = TypeVar("T")
MOST: Final = 4096  # skeletons that are remembered
PATIENCE: Final = 2  # failures to write graphs with variables before it is tried less: a choice
REMEMBERED: Final = 4  # numbers, and general forms, of each


@dataclass
class Seen:
    """What is known of graphs that differ in numbers: the last ones they came with, and by what is
    wanted of them their general forms, the latest first.
    """

    numbers: list[Numbers] = field(default_factory=list)
    forms: dict[tuple[Any, ...], list[Derivation]] = field(default_factory=dict)
    row: Row = field(default_factory=Row)  # of them
    failures: int = 0  # to write them with variables, in a row
    passes: int = 0  # until that is tried again

    def failed(self) -> None:
        """After some failures it is tried half as often each time."""
        self.failures += 1
        self.passes = (1 << max(self.failures - PATIENCE, 0)) - 1


_seen: Final[dict[tuple[Any, ...], Seen]] = {}
_places: Final[dict[tuple[Any, ...], list[Numbers]]] = {}  # of boxes, by what is like them


def known_form(form: Canonical) -> tuple[Canonical, Row | None] | None:
    """The canonical form of the general graph, as it was written down before; and, if its sizes
    vary, how often they have come in a row.
    """
    seen = _seen.get(likeness(form))
    if seen is None:
        return None
    for general in seen.forms.get(form.wanted, ()):
        if general.holds(form):
            if general.sized and seen.row.is_steady(form.numbers):
                return None
            return general.form(form), seen.row if general.sized else None
    return None


def likeness(form: Canonical) -> tuple[Any, ...]:
    """What graphs that differ in numbers, and in what is wanted of them, have in common."""
    settings, _, words, _ = form.key
    return settings, words


def came_before(form: Canonical) -> bool:
    """Whether a graph that was planned differs from this one in numbers alone, and these may become
    variables.
    """
    seen = _seen.get(likeness(form))
    return seen is not None and seen.failures <= PATIENCE


def generalised(roots: Roots, form: Canonical) -> Made | None:
    """The graph with variables for what has been different before; None where nothing has, or it
    cannot be.
    """
    seen = remembered(_seen, likeness(form), Seen)
    steady = seen.row.times > seen.row.lasting and seen.row.last == form.numbers
    moved = moved_places(form)
    earlier = [one for one in seen.numbers if one != form.numbers]
    seen.numbers = [*earlier[-REMEMBERED + 1 :], form.numbers]
    if steady or not (earlier or moved):
        return None
    if seen.passes:
        seen.passes -= 1
        return None
    again = dict(repeated(form))
    apart = {p for p, first in again.items() if any(one[p] != one[first] for one in earlier)}
    if apart:
        told = unshared(roots, form, apart)
        if told is None:
            return None
        roots, form = told
        again = {place: first for place, first in again.items() if place not in apart}
    for falling in (False, True):  # two sizes that grow seldom fall with each other
        with suppress(TorporError):
            found = Graph(roots, form, earlier, moved, again, falling).general()
            if found is None:
                continue
            general, made = found
            known = seen.forms.get(form.wanted, [])
            seen.forms[form.wanted] = [general, *known[: REMEMBERED - 1]]
            seen.failures = 0
            return made
    seen.failed()
    return None


def remembered(known: dict[Any, T], name: Any, make: Callable[[], T]) -> T:
    """What is known under a name; where there is too much, what was asked for first goes."""
    found = known.pop(name, None)
    known[name] = found = make() if found is None else found
    forget_oldest(known, MOST)
    return found


def note_numbers(form: Canonical) -> None:
    """Know the numbers of a graph that is computed in another way: by a trace, say."""
    seen = remembered(_seen, likeness(form), Seen)
    seen.numbers = [*seen.numbers[-REMEMBERED + 1 :], form.numbers]


def moved_places(form: Canonical) -> set[int]:
    """Places of numbers of boxes in memory that lay elsewhere when the same line came before, in
    whatever graph. Notes where they lie now.
    """
    found: set[int] = set()
    alike: dict[tuple[Any, ...], list[tuple[int, Numbers]]] = {}
    for place, (node, axis, second) in enumerate(slots_of(form)):
        if second or axis or not is_box(node):
            continue
        lengths = tuple([stop - start for start, stop in node.arg])
        kind = (node.op, node.dtype, shape_of(node.src[0]), lengths, node.origins[:1])
        alike.setdefault(kind, []).append((place, node.arg))
    for kind, boxes in alike.items():
        before, now = remembered(_places, kind, list), [arg for _, arg in boxes]
        _places[kind] = now
        if len(before) == len(now):
            for (place, arg), old in zip(boxes, before):
                pairs = enumerate(zip(arg, old))
                found.update(place + 2 * axis for axis, (one, other) in pairs if one != other)
    return found


# --- what is one node by chance -------------------------------------------------------------------
# before  stack([X[5:9], X[5:9]]), where earlier it was stack([X[2:6], X[7:11]]): one SHRINK
# after   two with equal numbers, each of them a node of its own; so of zeros(5) and zeros(5)
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
