"""Values that one computation used and a later one needs again.

A tensor that somebody held while a graph with it was computed, but not asked for, is marked. Where
a later graph needs it again, it is computed by itself, once, and kept from then on; and the next
graph like the first computes it along (see `pipeline/along.py`). So no loop that carries tensors
from pass to pass computes its past again, and its graphs do not grow. Leaves that gradients are
asked for, such as parameters, are kept from the first time on.

What is made of a root before that is asked for (`ids = cat([ids, new])`, then `new.item()`) lies in
no graph that is computed. It is marked too, and where a later graph needs it, all that is made at
its place in the program is computed along with what it is made of from then on.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from torpor.graph.call import op_of
from torpor.ir.infer import JOINT, device_of, largest, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.tensor.storage import Storage, reads_memory, recall, recent

Roots = Sequence[tuple[UOp, str]]
_THROUGH: Final = frozenset({*MOVEMENT, Ops.DETACH, Ops.LEAF, Ops.FUNCTION, Ops.CONTIGUOUS})
_THERE: Final = frozenset({Ops.BUFFER, Ops.CONST, Ops.MULTI, Ops.SLOT, Ops.LOOP})

MOST_PLACES: Final = 256  # in programs, at which tensors are made that are computed along
AHEAD: Final = 64  # nodes from a root up to what is made of it: a choice
ROOM: Final = 1 << 16  # elements that may be stored whatever they are made of: a choice

_Place = tuple[Any, Ops]  # the site of a node and its operation
_marks: Final[weakref.WeakKeyDictionary[UOp, Any]] = weakref.WeakKeyDictionary()
_made_of_roots: Final[weakref.WeakSet[UOp]] = weakref.WeakSet()
_places: Final[set[_Place]] = set()


def needed_again(roots: Roots) -> list[tuple[UOp, Any]]:
    """The marked nodes that the graphs lead to first, and their marks, which they lose; and what
    leaves are, such as parameters, that have not been computed (None), but for what was
    written to them of which only the value is used, by the next write.
    """
    found: list[tuple[UOp, Any]] = []
    stack = [node for node, _ in roots]
    asked, seen = set(stack), set(stack)
    while stack:
        node = stack.pop()
        mark = _marks.pop(node, None)
        if node in _made_of_roots:
            _note_place(node)
            found.append((node, None))
            if node not in asked:
                continue
        if mark is not None:
            found.append((node, mark))
            if node not in asked:
                continue
        elif node.op is Ops.LEAF and is_work(below := node.below(_THROUGH)):
            if below not in seen:
                seen.add(below)
                found.append((below, None))
            continue
        for below in node.src[0].src if is_value_written(node) else node.src:
            if below not in seen and recall(below) is None:
                seen.add(below)
                stack.append(below)
    return found


def is_value_written(node: UOp) -> bool:
    """Whether a node is the value alone of what was written to a leaf (see `write.write`)."""
    if node.op is not Ops.DETACH or node.src[0].op is not Ops.LEAF:
        return False
    written = node.src[0].src[0]
    return written.op is Ops.FUNCTION and written.held is True


def _place_of(node: UOp) -> _Place | None:
    return (node.origins[0], op_of(node)) if node.origins else None


def _note_place(node: UOp) -> None:
    """Compute what is made here along with what it is made of from now on."""
    _made_of_roots.discard(node)
    if (place := _place_of(node)) is not None:
        if len(_places) >= MOST_PLACES:
            _places.clear()
        _places.add(place)


def made_of(roots: Sequence[UOp], near: Sequence[Storage]) -> list[Storage]:
    """Of what somebody holds, what is a few nodes away from one of the roots and made of these, of
    what has been computed and of constants alone, is not larger than them, and has no gradient.
    """
    asked = set(roots)
    others = [one for one in near if not one.requires and one.base not in asked]
    return [one for one in others if _is_next(one.base, asked)]


def _is_next(root: UOp, asked: set[UOp]) -> bool:
    ends: list[UOp] = []
    left, stack, seen = AHEAD, [root], {root}
    while stack:
        node = stack.pop()
        if node in asked or not is_work(node):
            ends.append(node)
            continue
        left -= 1
        if not left or node.op is Ops.CHECK:
            return False
        more = [one for one in node.src if one not in seen]
        seen.update(more)
        stack += more
    if asked.isdisjoint(ends):
        return False
    return size_of(root) <= max(ROOM, *map(size_of, ends))


def size_of(node: UOp) -> int:
    """How many elements a node has, at most."""
    return prod(map(largest, shape_of(node)))


def are_places() -> bool:
    """Whether `made_at_places` may find something."""
    return bool(_places)


def made_at_places(roots: Sequence[UOp]) -> list[Storage]:
    """Of `made_of`, what is made at a place that later graphs needed."""
    if not _places:
        return []
    return made_of(roots, [one for one in recent() if _place_of(one.base) in _places])


def is_work(node: UOp) -> bool:
    """Whether something has to be computed for a node."""
    return node.op not in _THERE and recall(node) is None


def mark_held(roots: Roots, values: Mapping[UOp, UOp], form: Any) -> None:
    """Mark what somebody holds of graphs that are computed; `values` are what stands for their
    nodes, and `form` is the canonical form of these.
    """
    device = roots[0][1]
    if JOINT in device or any(other != device for _, other in roots):
        return
    ops = {node.op for node in form.order}
    if Ops.MULTI in ops:  # what is made of it lies on others
        return
    elsewhere = Ops.COPY in ops or any(buffer.device != device for buffer in form.buffers)
    sink = UOp.sink(*(node for node, _ in roots))
    asked = set(sink.src)
    _made_of_roots.update(one.base for one in made_of(sink.src, recent()))
    held = held_in(sink, _holders(sink, values, form))
    passed: set[UOp] = set()
    wanted = {kept_for(node, held, passed) for node in held}
    for node in wanted - passed:
        place = form.places.get(values.get(node, node))
        if node in asked or place is None or not is_work(node):
            continue
        if node.below(_THROUGH).op is Ops.CHECK:
            continue  # without it nobody knows what an index, whose value this is, means
        here = not elsewhere or device_of(node) == device
        if here and reads_memory(node):  # constants are noted nowhere
            _marks[node] = (form.skeleton, place)


def needed_elsewhere(
    nodes: Sequence[UOp], values: Mapping[UOp, UOp], form: Any
) -> list[tuple[UOp, Any]]:
    """Marked nodes below these that others still hold, and their marks, which they lose: where a
    chain of steps is looked at from its end on, each would be computed from the beginning.
    """
    sink = UOp.sink(*nodes)
    held = held_in(sink, _holders(sink, values, form)) if _marks else {}
    return [(node, _marks.pop(node)) for node in held if node in _marks and node not in nodes]


def _holders(sink: UOp, values: Mapping[UOp, UOp], form: Any) -> Counter[int]:
    """How often the canonical form of a graph, the values in it and what these are of (nodes of
    calls that are written out, too) hold each node, by id.
    """
    held = (*values, *values.values(), *form.order, *form.places, *form.numbered)
    found = Counter(map(id, held))
    seen = _below([sink], set())
    made = _below([*values, *values.values()], seen)
    found.update(id(below) for node in made for below in node.src)
    return found


def _below(nodes: Sequence[UOp], seen: set[UOp]) -> set[UOp]:
    """These nodes and those below, but for what has been seen and is below that."""
    found: set[UOp] = set()
    stack = [*nodes]
    while stack:
        node = stack.pop()
        if node not in seen and node not in found:
            found.add(node)
            stack += node.src
    return found


def kept_for(node: UOp, held: Mapping[UOp, int], passed: set[UOp]) -> UOp:
    """What is kept for a tensor that is held: itself, or what it is a view of, where a tensor other
    than views stands for that, or it has fewer elements. Notes what only a storage seems to hold.
    """
    below = node
    while below.op in _THROUGH:
        wide = below.op is Ops.EXPAND
        below = below.src[0]
        if wide or held.get(below, 0) > 1 or not is_work(below):
            node = below
        elif below in held:
            passed.add(below)
    return node


def held_in(sink: UOp, known: Mapping[int, int]) -> dict[UOp, int]:
    """The nodes below that tensors stand for, and by how many others they are held than each other
    and those that are known, by id. What only a storage holds, for its views, is none of them; what
    only other nodes hold is, where no gradient is asked for through it.
    """
    nodes: list[Any] = [*sink.toposort(lambda node: recall(node) is None)]
    uses = Counter(id(below) for node in nodes for below in node.src)
    nodes.append(object())
    counts = [*map(sys.getrefcount, nodes)]
    alone = counts.pop()
    del nodes[-1]
    found: dict[UOp, int] = {}
    left: dict[UOp, int] = {}
    for node, count in zip(nodes, counts, strict=True):
        holders = count - alone - uses[id(node)] - known[id(node)]
        if node.held and holders > (node.op not in _THROUGH):
            found[node] = holders
        elif node.held and holders and is_left(node):
            left[node] = holders
    smooth = _lead_to_leaves([*left])
    return found | {node: holders for node, holders in left.items() if node not in smooth}


def is_left(node: UOp) -> bool:
    """Whether a tensor stood for a node and none does any more: only other nodes hold it."""
    return isinstance(node.held, weakref.ref) and node.held() is None


def _lead_to_leaves(nodes: Sequence[UOp]) -> set[UOp]:
    """These nodes and those below through which a gradient may be asked for."""
    found: set[UOp] = set()
    for node in UOp.sink(*nodes).toposort(lambda below: below.op is not Ops.DETACH):
        flows = node.op is not Ops.DETACH and not found.isdisjoint(node.src)
        if flows or node.op is Ops.LEAF:
            found.add(node)
    return found
