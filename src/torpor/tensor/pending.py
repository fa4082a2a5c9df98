"""What waits to be computed though nobody asks for it: values that were written in place, and
losses that `backward` was called on. Whatever is computed next takes them along, since they share
its work; the last state of a loop, if it shares that loop; and gradients that are asked for one by
one. Where tensors are made of tensors, or written to, again and again and nothing is asked for,
what has come about is computed each time that a loop comes round, so that no graph grows for ever.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

from torpor.graph.call import op_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.again_needed import ROOM, are_places, is_work, made_at_places, size_of
from torpor.tensor.handle import Handle
from torpor.tensor.storage import DEEP, WRITE, Storage, is_buffer, reads_memory, recall, recent
from torpor.tensor.watch import is_watched, watcher

_Place = tuple[Any, Ops]  # the site of a tensor and its operation
LONG: Final = 16 * DEEP  # tensors in a row until what is no loop is computed, or one with gradients
# Tensors in a row for each memory that is read: a choice. A convolution with its normalisation is 3
# and reads 5, so layers of a network are no rounds of a loop that could go on for ever.
EACH: Final = 8
NEVER: Final = -(1 << 40)  # the depth of what cannot, or should not, be computed early
MOST_HEADS: Final = 256
MOST_DETACHED: Final = 256  # tensors that are looked at, the latest
MOST_ENDS: Final = 64  # last states of loops that are looked at, the latest
MOST_GRADIENTS: Final = 8  # backward passes whose gradients are looked at, the latest
_WHOLE: Final = frozenset({Ops.LOOP, Ops.CALL})  # what gives several values at once


def _count_of_one_holder() -> int:
    """What `sys.getrefcount` says of a thing that one other thing and a name here hold: whether its
    own argument counts depends on the Python.
    """
    holder = [object()]
    thing = holder[0]
    return sys.getrefcount(thing)


ALONE: Final = _count_of_one_holder()  # of a storage that only its handle holds


class _Gradients:
    """What one backward pass gave, weakly; `needed`: what of it, by identity, computations have."""

    def __init__(self, storages: Sequence[Storage]) -> None:
        self.storages = [*map(weakref.ref, storages)]
        self.needed: set[int] = set()

    def held(self) -> list[Storage]:
        """Those that somebody holds, and that have not been computed."""
        held = [storage for one in self.storages if (storage := one()) is not None]
        return [one for one in held if not is_buffer(one.base) and recall(one.base) is None]

    def rest(self, held: Sequence[Storage]) -> list[Storage]:
        """Those that no computation has needed."""
        return [one for one in held if id(one) not in self.needed]


class _Waiting(threading.local):
    """Storages of this thread, weakly, by identity; those whose value cannot be computed, which
    wait for whoever asks; detached views of what has gradients; last states of loops; and what
    backward passes gave.
    """

    def __init__(self) -> None:
        self.storages: dict[int, weakref.ref[Storage]] = {}
        self.failed: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.detached: deque[weakref.ref[Handle]] = deque(maxlen=MOST_DETACHED)
        self.ends: deque[weakref.ref[Storage]] = deque(maxlen=MOST_ENDS)
        self.gradients: deque[_Gradients] = deque(maxlen=MOST_GRADIENTS)


_waiting: Final = _Waiting()


def wait(storage: Storage) -> None:
    """Have a storage's value computed along with whatever is computed next."""
    if not is_watched():
        storage.depth += WRITE
    if storage not in _waiting.failed:
        _waiting.storages[id(storage)] = weakref.ref(storage)


def is_waiting(storage: Storage) -> bool:
    """Whether it is computed along with what is computed next."""
    found = _waiting.storages.get(id(storage))
    return found is not None and found() is storage


def are_waiting() -> bool:
    """Whether something waits in this thread, or may be let go of."""
    waiting = _waiting.storages or _waiting.detached or _waiting.ends or _waiting.gradients
    return bool(waiting) or are_places()


def wait_for_loop(storage: Storage) -> None:
    """Have a loop's last state computed along with whatever the loop runs for: a later graph that
    goes on from it would run all of that again.
    """
    _waiting.ends.append(weakref.ref(storage))


def note_gradients(gradients: Sequence[Handle]) -> None:
    """Have what one backward pass gave computed together once its parts are asked for one by one:
    they share most of their work.
    """
    if len(gradients) > 1 and not is_watched():
        _waiting.gradients.append(_Gradients([one._storage for one in gradients]))


def taken_along(roots: Sequence[UOp] = ()) -> list[Storage]:
    """The storages that wait in this thread, or in the function that is traced there, and that
    somebody holds; they wait no longer. And last states of the loops that run for these roots, what
    is made of them at places where later graphs needed that, and gradients.
    """
    found, _waiting.storages = _waiting.storages, {}
    held = [storage for one in found.values() if (storage := one()) is not None]
    held += _ends_of(roots, held)
    held += [one for one in made_at_places(roots) if one not in held]
    if not is_watched():
        held += [one for one in _gradients_beside(roots, held) if one not in held]
    if (watching := watcher()) is not None:
        others = [one for one in held if not watching.holds(one)]
        _waiting.storages = {id(one): found[id(one)] for one in others}
        held = [one for one in held if watching.holds(one)]
    return [one for one in held if not is_buffer(one.base) and recall(one.base) is None]


def _ends_of(roots: Sequence[UOp], others: Sequence[Storage]) -> list[Storage]:
    """The last states, still held, of loops that run for these roots and those of the others."""
    held = [storage for one in _waiting.ends if (storage := one()) is not None]
    held = [one for one in held if not is_buffer(one.base) and recall(one.base) is None]
    _waiting.ends = deque(map(weakref.ref, held), MOST_ENDS)
    if not held:
        return []
    running = _loops_below([*roots, *(one.base for one in others)])
    return [one for one in held if not running.isdisjoint(_loops_below([one.base]))]


def _gradients_beside(roots: Sequence[UOp], others: Sequence[Storage]) -> list[Storage]:
    """Where these roots and those of the others need more of the gradients of a backward pass than
    an earlier computation did, and not all, what is held of them.
    """
    groups = [(one, one.held()) for one in _waiting.gradients]
    groups = [(one, held) for one, held in groups if one.rest(held)]
    _waiting.gradients = deque((one for one, _ in groups), MOST_GRADIENTS)
    if not groups:
        return []
    nodes = {one.base for group, held in groups for one in group.rest(held)}
    below = _first_below([*roots, *(one.base for one in others)], nodes)
    found: list[Storage] = []
    for group, held in groups:
        begun, now = bool(group.needed), {id(one) for one in group.rest(held) if one.base in below}
        group.needed |= now
        if begun and now and group.rest(held):
            found += held
    return found


def _first_below(roots: Sequence[UOp], wanted: set[UOp]) -> set[UOp]:
    """Those of the wanted nodes that these lead to, or are."""
    found: set[UOp] = set()
    stack, seen = [*roots], {*roots}
    while stack and len(found) < len(wanted):
        node = stack.pop()
        if node in wanted:
            found.add(node)
            continue
        for below in node.src:
            if below not in seen and _is_open(below):
                seen.add(below)
                stack.append(below)
    return found


def _loops_below(nodes: Sequence[UOp]) -> set[UOp]:
    """What gives several values at once and has to run for these nodes."""
    order = UOp.sink(*nodes).toposort(lambda node: recall(node) is None)
    return {node for node in order if node.op in _WHOLE and recall(node) is None}


def leave(storage: Storage) -> None:
    """Leave a storage, whose value could not be computed, to whoever asks for it."""
    storage.depth = NEVER
    _waiting.failed.add(storage)


_computes: Final[dict[str, Callable[..., Any]]] = {}


def computed_by(everything: Callable[..., Any], deep: Callable[..., Any]) -> None:
    """What computes roots along with what waits, and storages whose graphs grow."""
    _computes.update(all=everything, deep=deep)


def compute_waiting() -> None:
    """Compute what waits: values with all of their writes, so that loops come to the same again."""
    _computes["all"]([])


# --- graphs that grow -----------------------------------------------------------------------------
class _Rounds(threading.local):
    """Where loops came round while their graphs were deep, and the place that may be the next.

    A loop begins where a program goes back: its first tensor, so that what is fused within a round
    stays together. Where one instruction makes all tensors, any of them may be the first.

    latest: of each code, the offset of the instruction that was the last to make a tensor.
    stay:   for how many places that one is waited for; the next one for twice as many, so that no
            loop is missed that begins later (R. Brent, "An improved Monte Carlo factorization
            algorithm", 1980).
    stale:  whether depths may count what has been computed since.
    until:  how many tensors in a row may wait, for what the graph reads.
    within: whether what is made now is only on the way to what somebody is given.
    pauses: how often a loop's rounds are passed over after anything is computed, by its head, since
            gradients may be asked for: twice as often each time, until one of them is not.
    rests:  how often they still are.
    """

    def __init__(self) -> None:
        self.heads: set[_Place] = set()
        self.first: _Place | None
        self.latest: dict[CodeType, int]
        self.stay: int
        self.longest: int
        self.until: int
        self.forget()
        self.pauses: dict[_Place, int] = {}
        self.rests: dict[_Place, int] = {}
        self.stale = self.within = False

    def comes_round(self, place: _Place, depth: int) -> bool:
        """Whether this is a place at which a loop begins anew."""
        if (site := place[0]) is not None:
            code, offset = site[:2]
            back = offset < self.latest.get(code, 0)
            self.latest[code] = offset
            if back or depth >= LONG // 2:
                self._may_begin(place)
        if place in self.heads:
            self.forget()
            return True
        return depth >= LONG

    def _may_begin(self, place: _Place) -> None:
        if place == self.first:
            if len(self.heads) >= MOST_HEADS:
                self.heads.clear()
                self.pauses.clear()
            self.heads.add(place)
        elif self.stay == 0:
            self.first = place
            self.longest = self.stay = 2 * self.longest
        else:
            self.stay -= 1

    def forget(self) -> None:
        """Wait for no place."""
        self.first, self.latest, self.stay, self.longest = None, {}, 0, 1
        self.until = DEEP

    def wait(self, place: _Place) -> None:
        """Gradients may be asked for."""
        self.pauses[place] = self.rests[place] = min(2 * self.pauses.get(place, 0) + 1, LONG)

    def rest(self, place: _Place) -> bool:
        """Whether this round of a loop is passed over."""
        left = self.rests.setdefault(place, self.pauses.get(place, 0))
        self.rests[place] = max(left - 1, 0)
        return left > 0


_rounds: Final = _Rounds()


def note_computed() -> None:
    """Something has been computed."""
    _rounds.rests.clear()
    _rounds.stale = True
    _rounds.forget()


@contextmanager
def on_the_way() -> Iterator[None]:
    """What is made inside is on the way to something that is looked at after it."""
    before, _rounds.within = _rounds.within, True
    try:
        yield
    finally:
        _rounds.within = before


def note_along() -> None:
    """Something has been computed along: depths of tensors made of it count what has been, too."""
    _rounds.stale = True


def deepened(made: Handle) -> None:
    """A tensor has been made to which many others in a row lead: where a loop comes round, compute
    what shares its work and nothing else has been made of. What of the rest the next round needs is
    computed then, and along with these from then on (see `again_needed.py`).
    """
    storage = made._storage
    if _rounds.within:
        return
    if _rounds.stale:
        _find_depths(made._node)
        if storage.depth < DEEP:
            return
        _rounds.stale = False
    if storage.depth < _rounds.until:
        return
    place = made._site, op_of(made._node)
    if not _rounds.comes_round(place, storage.depth):
        return
    if storage.depth < LONG and _rounds.rest(place):
        return
    read = sum(map(_is_kept, made._node.toposort(_is_open)))
    if storage.depth < min(EACH * read, LONG):
        _rounds.until = EACH * read
        return
    alike = _sharing(made._node, recent())
    if any(one.requires for one in alike) and storage.depth < LONG:
        _rounds.wait(place)  # for a backward pass, which would compute it all once more
        return
    _rounds.pauses.pop(place, None)
    ends = _ends(alike)
    for one in alike:
        one.depth = 0 if ends else NEVER
    storage.depth = 1 if ends else NEVER
    before = [one.base for one in ends]
    _computes["deep"](ends)
    if not reads_memory(made._node):  # then nothing is noted of what it is made of
        values = {node: one.base for node, one in zip(before, ends, strict=True)}
        made._node = storage.base = node = made._node.substitute(values)
        node.held = weakref.ref(storage)


def _sharing(root: UOp, storages: Sequence[Storage]) -> list[Storage]:
    """Those that share work with a graph."""
    shared = {node for node in root.toposort(_is_open) if is_work(node)}
    for node in UOp.sink(*[one.base for one in storages]).toposort(_is_open):
        if not shared.isdisjoint(node.src) and is_work(node):
            shared.add(node)
    return [one for one in storages if one.base in shared]


def _ends(storages: Sequence[Storage]) -> list[Storage]:
    """Those that nothing else is made of; none where there are placeholders in the graphs, and none
    that are larger than all memory that is read.
    """
    sink = UOp.sink(*[one.base for one in storages])
    order = [node for node in sink.toposort(_is_open) if node is not sink]
    if any(map(_is_unknown, order)):
        return []
    used = {below for node in order for below in node.src}
    most = max([ROOM, *[node.arg.size for node in order if node.op is Ops.BUFFER]])
    return [one for one in storages if one.base not in used and size_of(one.base) <= most]


def _find_depths(root: UOp) -> None:
    """Note how many tensors, one made of the other, lead to each that this one is made of, and to
    itself, from what has been computed.
    """
    found: dict[UOp, int] = {}
    for node in root.toposort(_is_open):
        below = [found[source] for source in node.src] if _is_open(node) else ()
        found[node] = depth = max(below) + bool(node.held) if below else 0
        storage = node.held() if isinstance(node.held, weakref.ref) else None
        if storage is not None and storage.base is node and storage.depth > depth:
            storage.depth = depth


def _is_unknown(node: UOp) -> bool:
    """Whether it has no value yet, or several."""
    unbound = node.op is not Ops.BIND and any(one.op is Ops.VARIABLE for one in node.src)
    return unbound or node.op in (Ops.SLOT, Ops.MULTI)


def _is_open(node: UOp) -> bool:
    return node.known is None


def _is_kept(node: UOp) -> bool:
    """Whether it is memory that somebody holds, such as a weight's."""
    return is_buffer(node) and isinstance(node.held, weakref.ref) and node.held() is not None


# --- what is detached and kept --------------------------------------------------------------------
def note_detached(view: Handle) -> None:
    """Look later whether nothing but detached views is left of a tensor."""
    if view._storage.requires:
        _waiting.detached.append(weakref.ref(view))


def let_graphs_go() -> None:
    """Storages that have been computed and that only detached views hold keep their values alone:
    no gradient can be asked for through them.
    """
    views: dict[int, list[Handle]] = {}
    for reference in _waiting.detached:
        if (view := reference()) is not None:
            views.setdefault(id(view._storage), []).append(view)
    if not views:
        return
    for group in views.values():
        _let_go(group)
    left = [view for group in views.values() for view in group if view._storage.requires]
    _waiting.detached = deque(map(weakref.ref, left), MOST_DETACHED)


def _let_go(group: list[Handle]) -> None:
    storage = group[0]._storage
    value = recall(storage.base)
    if value is None or sys.getrefcount(storage) != ALONE + len(group) - 1:
        return
    storage.requires = False
    if storage.would_share(value):
        storage.requires = True
        return
    storage.settle(storage.base, value)
    for view in group:
        view._current()


Handle._deepened = deepened
