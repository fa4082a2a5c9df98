"""`Storage`: what views share. A chain of versions, of which only the current base is kept.

The graph is pure. A write makes a new base, and `stamp` tells every handle to derive its node anew.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from torpor.device import Buffer
from torpor.graph.call import is_result, written_out
from torpor.graph.known import is_noted, note
from torpor.graph.reduce import AGAIN
from torpor.ir.infer import JOINT, shape_of, shaped
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.tensor.watch import active, watcher

# An enumeration is slow to ask for its members.
_RESHAPE, _BUFFER, _MULTI, _FUNCTION = Ops.RESHAPE, Ops.BUFFER, Ops.MULTI, Ops.FUNCTION
_CALLED: Final = frozenset({Ops.CALL, Ops.PART})
_CHOOSING: Final = frozenset({Ops.REDUCE_AXIS, Ops.SCATTER, Ops.SCAN_AXIS})
_EXTREMES: Final = frozenset({Ops.MAX, Ops.MIN})
_THROUGH: Final = frozenset({*MOVEMENT, Ops.LEAF, Ops.DETACH})


class Storage:
    """The value that a family of views shares.

    base:     node of its current value.
    stamp:    changes whenever `base` does.
    device:   canonical name of where it lives (several, joined, of a tensor over several devices).
    requires: whether the base depends on a leaf that requires a gradient.
    depth:    how many tensors, one made of the other, lead to it from what has been computed; a
              write counts as `WRITE` of them.
    external: the host memory that it aliases (`from_numpy`), else None; writes go through to it.
    """

    __slots__ = ("base", "stamp", "depth", "device", "requires", "external", "__weakref__")

    def __init__(
        self, base: UOp, device: Any, requires: bool = False, external: Buffer | None = None
    ):
        self.base, self.stamp, self.depth = base, 0, 0
        self.device = JOINT.join(device) if type(device) is tuple else device
        self.requires, self.external = requires, external
        if active and (watching := watcher()) is not None:
            watching.made(self)

    def replace(self, base: UOp) -> None:
        """Make `base` the current value."""
        self.base = base
        self.stamp += 1

    def settle(self, node: UOp, value: UOp) -> None:
        """`node`, which was the base, has been computed: `value` stands for it.

        Where a gradient may be asked for, the base keeps its graph and only the value is noted.
        """
        remember(node, value)
        self.depth = 0
        if not self.requires and self.base is node:
            if node.dtype.is_float and node is not value and reads_memory(node):
                _instead.add(value)
            value.held = weakref.ref(self)
            self.base = value  # no call in between, where another thread's write could be lost
            self.stamp += 1

    def would_share(self, value: UOp) -> bool:
        """Whether another storage has the value: as targets of a gradient both would be one."""
        if self.requires or not value.held or not value.dtype.is_float:
            return False
        other = value.held() if isinstance(value.held, weakref.ref) else None
        return value.held is True or (
            other is not None and other is not self and other.base is value
        )


def is_buffer(node: UOp) -> bool:
    """Whether the node is memory as it lies there: BUFFER, RESHAPE of one, MULTI of those."""
    op = node.op
    if op is _MULTI:
        return all(map(is_buffer, node.src))
    return op is _BUFFER or (op is _RESHAPE and node.src[0].op is _BUFFER)


SEVERED: Final = -1  # identity of LEAF nodes whose graph is gone: results of a jitted function


def is_severed(node: UOp) -> bool:
    """Whether the node is a value whose graph is gone."""
    return node.op is Ops.LEAF and node.arg == SEVERED


def buffers_of(node: UOp) -> tuple[Buffer, ...]:
    """The memory of a node for which `is_buffer` holds, one buffer on each of its devices."""
    if node.op is _MULTI:
        return tuple([buffer for part in node.src for buffer in buffers_of(part)])
    return (node.arg if node.op is _BUFFER else node.src[0].arg,)


# Tensors in a row that may wait: a choice. So much is compiled at once where nobody asks; a
# transformer's layer is about 20.
DEEP: Final = 64
MOST_WRITES: Final = 4  # that may wait: each passes over the whole value
WRITE: Final = DEEP // (MOST_WRITES + 1)  # what a write counts as
MOST_RECENT: Final = 512  # tensors that are looked at, the latest


# Of all threads, which costs least; nobody adds to it while a trace watches any of them.
_recent: Final[deque[weakref.ref[Storage]]] = deque(maxlen=MOST_RECENT)
note_made: Final = _recent.append  # a storage, to look at when what is deep is computed


def recent() -> list[Storage]:
    """What was made of late, is still held, and has not been computed; the oldest first."""
    held = [storage for reference in _recent.copy() if (storage := reference()) is not None]
    return [one for one in held if not is_buffer(one.base) and recall(one.base) is None]


CARRIED: Final = 8  # values computed along, one made of the other, whose graphs are kept: a choice
_instead: Final[weakref.WeakSet[UOp]] = weakref.WeakSet()  # values whose graphs are gone
# By memory whose graph was let go in a long loop: the memory that it was made of.
_sources: Final[weakref.WeakKeyDictionary[UOp, weakref.WeakSet[UOp]]] = weakref.WeakKeyDictionary()
# By what has been computed: the memory that it is made of, which its graph holds.
_memory: Final[weakref.WeakKeyDictionary[UOp, set[UOp]]] = weakref.WeakKeyDictionary()


def remember(node: UOp, value: UOp, age: int = 0) -> None:
    """Note that `value` stands for what `node` computes, as long as `node` lives.

    Not for constants: they are one node on every device, and the value is on one of them.
    """
    if not is_noted(node, value) and node is not value and reads_memory(node):
        note(node, value, age)


def note_results(storages: Sequence[Storage]) -> None:
    """Note that results of a jitted function whose graphs are gone lie in memory."""
    for storage in storages:
        node = storage.base
        if is_severed(node) and is_buffer(node.src[0]):
            remember(node, node.src[0])


def settle(node: UOp, value: UOp, age: int, holder: Storage | None = None) -> None:
    """Note that `value` stands for `node`, the base of `holder`, which reads memory and was
    computed along with others, `age` of them on one way with itself. The graph of one that is
    carried on from such to such is let go after `CARRIED` of them: its storage is memory.
    """
    if holder is None:
        holder = node.held() if isinstance(node.held, weakref.ref) else None
    if holder is not None and holder.base is node:
        holder.depth = 0
    if age <= CARRIED or holder is None or holder.base is not node or holder.would_share(value):
        if not is_noted(node, value) and node is not value:
            note(node, value, age)
        if age > CARRIED and holder is None:
            _let_go_of(node, value)
    else:
        if not holder.requires:
            _note_sources(node, value)
        holder.settle(node, value)


def _let_go_of(node: UOp, value: UOp) -> None:
    """Let what is made of a node that no tensor stands for any more be made of its value."""
    for storage in recent():
        below = storage.base.toposort(lambda one: one is not node and one.known is None)
        if node in below and not storage.requires:
            _note_sources(node, value)
            made = storage.base.substitute({node: value})
            made.held = weakref.ref(storage)
            storage.replace(made)


def _note_sources(node: UOp, value: UOp) -> None:
    """Note what memory a value was made of, whose graph is let go though nobody asked for it."""
    memory = _memory_below(node)
    found = weakref.WeakSet(memory)
    for below in memory:
        found.update(_sources.get(below, ()))
    _sources[value.below(MOVEMENT)] = found


def _memory_below(root: UOp) -> set[UOp]:
    """The memory that a graph is made of. That of what has been computed on the way is kept with
    it: several values that are carried on are made of the same.
    """
    nothing: set[UOp] = set()
    walks = [(root, [*root.src], nothing, {root})]
    while True:
        top, stack, memory, seen = walks[-1]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op is _BUFFER:
                memory.add(node)
            elif node.known is None:
                stack += node.src
            elif (found := _memory.get(node)) is not None:
                memory |= found
            else:
                walks.append((node, [*node.src], set(), {node}))
                break
        else:
            walks.pop()
            if not walks:
                return memory
            _memory[top] = memory
            walks[-1][2].update(memory)


def sources_lost(root: UOp) -> set[UOp]:
    """The memory that a gradient would flow to, had no graph been let go that nobody asked for."""
    below = root.toposort(lambda node: node.op is not Ops.DETACH) if _sources else ()
    return {source for node in below if node.op is _BUFFER for source in _sources.get(node, ())}


def age_of(root: UOp, ages: dict[UOp, int]) -> int:
    """How many nodes that were computed along lie on one way below; `ages`: of what was seen."""
    stack = [*root.src]
    while stack:
        node = stack[-1]
        if node in ages:
            stack.pop()
        elif node.known is not None:
            ages[node] = node.known.age
        elif more := [below for below in node.src if below not in ages]:
            stack += more
        else:
            ages[node] = max([ages[below] for below in node.src], default=0)
    return max([ages[below] for below in root.src], default=0)


def reads_computed(node: UOp) -> bool:
    """Whether there is memory below that took the place of a graph."""
    return bool(_instead) and not _instead.isdisjoint(node.toposort())


def reads_memory(node: UOp) -> bool:
    """Whether there is memory below, and so a device that the node belongs to."""
    first = node
    while first.src:
        first = first.src[0]
    if first.op is _BUFFER:  # mostly
        return True
    stack = [node]
    seen: set[UOp] = set()
    while stack:
        below = stack.pop()
        if below.op is _BUFFER:
            return True
        if below not in seen:
            seen.add(below)
            stack += below.src
    return False


def recall(node: UOp) -> UOp | None:
    """What stands for the value of `node`; None if it has not been computed."""
    if node.known is None:
        return None
    value = node.known.value
    if active and (watching := watcher()) is not None:
        return value if watching.stands_for(node, value) else None
    return value


def is_settled(storage: Storage) -> bool:
    """Whether its value lies in memory, and no other stands for it: nothing is left to compute."""
    base = storage.base
    below = base.src[0] if base.op is _RESHAPE else base
    return below.op is _BUFFER and base.known is None


def without_known(roots: Sequence[UOp]) -> list[UOp]:
    """The graphs with everything that was computed before replaced by its value."""
    values = values_below(roots)
    return [values.get(node, node) for node in roots]


def is_name(node: UOp) -> bool:
    """Whether a node is but another name of a value."""
    return node.op is _FUNCTION and bool(node.arg[0] == AGAIN)


def values_below(roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """What stands for the nodes of the graphs that have been computed, are parts of calls, or are
    made of such. An extreme is computed anew along with what it is the extreme of, whose elements
    a gradient compares with it: to the bit they are equal only where both come of one computation.
    """
    done, seen, extremes = _values_below(roots, frozenset())
    anew = frozenset(
        node for node in extremes
        if any(one in seen and one.below(_THROUGH).op is not _BUFFER and recall(one) is None
               for one in node.src)
    )  # fmt: skip
    return _values_below(roots, anew)[0] if anew else done


def _values_below(
    roots: Sequence[UOp], anew: frozenset[UOp]
) -> tuple[dict[UOp, UOp], set[UOp], list[UOp]]:
    """What stands for the nodes, all nodes that were looked at, and the extremes that are known;
    those `anew` are taken as not known.
    """
    done: dict[UOp, UOp] = {}
    others = done.keys()
    calls: dict[UOp, list[UOp | None]] = {}
    seen: set[UOp] = set()
    extremes: list[UOp] = []
    stack = [*roots]
    while stack:
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        if node.known is not None and node not in anew and (value := recall(node)) is not None:
            done[node] = value
            seen.add(node)
            if node.op in _CHOOSING and node.arg[0] in _EXTREMES:
                extremes.append(node)
            continue
        op, below = node.op, node.src
        if op in _CALLED and is_result(node):
            below = (written_out(node, calls),)
        if not seen.issuperset(below):
            stack += below
            continue
        seen.add(node)
        if below is not node.src or (op is _FUNCTION and is_name(node)):
            done[node] = done.get(below[0], below[0])
        elif not others.isdisjoint(below):
            source = tuple([done.get(one, one) for one in below])
            if source != below:
                made = shaped(UOp(op, node.dtype, source, node.arg), shape_of(node))
                made.origins = made.origins or node.origins
                done[node] = made if made.known is None else recall(made) or made
    return done, seen, extremes
