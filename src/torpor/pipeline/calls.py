"""Graphs with calls are known by what they are when these are written out, and those with other
names for a value (FUNCTION AGAIN) by what they are when equal nodes of equal names are one.

before  the form of PART(CALL(x, y)), in which a template is one word
after   the form of what the template makes of x and y, with the memory and the numbers that x and y
        have now

What a template makes is the same each time, but for its operands. So two graphs that are alike with
their calls are alike without, as long as no node outside of a template happens to be one inside,
nor two boxes or constants to be one: then the numbers that make them so must be the same again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from torpor.base.locks import recursive_lock
from torpor.graph.any_size import NUMBERED
from torpor.graph.call import made_by
from torpor.graph.reduce import AGAIN
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline import along
from torpor.pipeline.canonical import Canonical, canonical
from torpor.pipeline.general import Derivation, count_of, numbers_of
from torpor.pipeline.pieces import is_varied
from torpor.pipeline.recipe import MOST_WORDS

MOST: Final = 1024  # graphs with calls that are known
PATIENCE: Final = 8  # forms of graphs alike until their templates are written out at once
_CALLED: Final = frozenset({Ops.CALL, Ops.PART})

Roots = Sequence[tuple[UOp, str]]


class Written(NamedTuple):
    """How the form of a graph without its calls and other names comes of that with them.

    company: the nodes of the graph as given that are computed along.
    taken:   what is computed along with the form, by place.
    """

    without: Derivation
    company: Sequence[int]
    taken: Sequence[int]


# By skeleton: how often it was another one, and the last.
_written: Final[dict[tuple[Any, ...], tuple[int, Written | None]]] = {}
_NONE: Final = 0, None
_lock: Final = recursive_lock()  # a finaliser may compute something while it is held
_words = 0  # in their skeletons


def form_without(own: Canonical, roots: Roots) -> tuple[Canonical, Roots] | None:
    """As `along.with_company`, of the graph as it is computed; None where it is not known."""
    _, known = _written.get(own.skeleton, _NONE)
    if known is None and not own.calls:
        return along.with_company(own, roots)
    if known is None or not known.without.holds(own):
        return None
    if along.taken_with(known.without.key) != known.taken:
        return None
    form = known.without.form(own)
    if not known.taken:
        return form, roots
    nodes, device = list(own.order), roots[0][1]
    more = [(nodes[place], device) for place in known.company]
    return along.joined(form, known.taken, device), [*roots, *more]


def know_written(roots: Roots, wanted: Roots, values: Mapping[UOp, UOp]) -> None:
    """Know a graph with calls or other names, which is about to be computed as `wanted`; `values`
    are what stands for its nodes there.
    """
    if is_varied():
        return
    own, form = canonical(roots, known=True), canonical(wanted)
    if own is None or form is None or own.key == form.key:
        return
    name = own.skeleton
    times, _ = _written.get(name, _NONE)
    hopeless = times == PATIENCE or meets_a_value(own, values)
    made = None if hopeless else written(own, form, values)
    _keep(name, (min(times + 1, PATIENCE), made))
    if made is None:
        for call in own.calls:
            call.arg.template.likeness.is_called = False


def _keep(name: tuple[Any, ...], known: tuple[int, Written | None]) -> None:
    """Keep what is known of a graph; the oldest go where there are too many, or too large ones."""
    global _words
    with _lock:
        if name not in _written:
            _words += len(name[-1])
        _written[name] = known
        while len(_written) > MOST or _words > MOST_WORDS:
            oldest = next(iter(_written))
            del _written[oldest]
            _words -= len(oldest[-1])


def written(own: Canonical, form: Canonical, values: Mapping[UOp, UOp]) -> Written | None:
    """How one form comes of the other; None where something is computed along that nobody holds, or
    something inside of a call has a value already.
    """
    fixed = set(below(meeting(own, values), {node for call in own.calls for node in call.src}))
    places: dict[UOp, int] = {}
    same: list[tuple[int, int]] = []
    pinned: dict[int, Any] = {}
    for node, here in numbers_within(own):
        if node in fixed:
            pinned |= {place: own.numbers[place] for place in here}
        first = places.setdefault(values.get(node, node), here.start)
        same += [(first + n, place) for n, place in enumerate(here) if first != here.start]
    numbers: list[int | None] = []
    for node, here in numbers_of(form):
        first = places.get(node, -1)
        numbers += [None if first < 0 else first + n for n, _ in enumerate(here)]
    if any(place is not None and place in pinned for place in numbers):
        numbers = [None if place in pinned else place for place in numbers]
    taken = along.taken_with(form.skeleton)
    order = {values.get(node, node): place for place, node in enumerate(own.order)}
    whole = list(form.order)
    company = [order.get(whole[place], -1) for place in taken]
    if -1 in company:
        return None
    seats = {id(buffer): number for number, buffer in enumerate(own.buffers)}
    buffers = [seats.get(id(buffer), -1) for buffer in form.buffers]
    variables = {values.get(node, node): number for number, node in enumerate(own.bound)}
    bound = [variables.get(node, -1) for node in form.bound]
    if -1 in (*buffers, *bound):
        return None
    without = Derivation(form.skeleton, numbers, form.numbers, pinned, same, buffers, bound)
    return Written(without, company, taken)


def meeting(own: Canonical, values: Mapping[UOp, UOp]) -> list[UOp]:
    """The nodes outside of calls that are inside of one as well, and have numbers that may differ
    from the ones there, which are fixed.
    """
    inside = {
        values.get(node, node)
        for call in own.calls
        for node in made_by(call)
        if not call.arg.template.numbers or node.op is Ops.CONST
    }
    outside = [node for node in own.order if node.op not in _CALLED]
    return [node for node in (*outside, *own.numbered) if values.get(node, node) in inside]


def numbers_within(own: Canonical) -> Iterator[tuple[UOp, range]]:
    """As `numbers_of`; those of calls are their nodes'."""
    for node, places in numbers_of(own):
        if node.op is not Ops.CALL:
            yield node, places
            continue
        start = places.start
        for one in made_by(node):
            if one.op in NUMBERED:
                yield one, range(start, start := start + count_of(one))


def meets_a_value(own: Canonical, values: Mapping[UOp, UOp]) -> bool:
    """Whether some node is one that has been computed only as it is written out, without its other
    names or inside of a call: the next graph of this form need not be, though it reads that memory.
    """
    ends = {node for call in own.calls for node in call.src}
    inside = set(below([node for call in own.calls for node in made_by(call)], ends))
    for node, value in values.items():
        if node.op in _CALLED or (node.op is Ops.FUNCTION and node.arg[0] == AGAIN):
            continue
        if node.known is not None:
            if node in inside:
                return True
        elif value is not node.replace(src=tuple([values.get(one, one) for one in node.src])):
            return True
    return False


def below(roots: Sequence[UOp], ends: set[UOp]) -> Iterator[UOp]:
    """The roots and what is below, up to the `ends`."""
    stack, seen = [*roots], set(roots)
    while stack:
        node = stack.pop()
        yield node
        more = [one for one in node.src if one not in seen and one not in ends]
        seen.update(more)
        stack += more
