"""Nodes that were made of others, written down: what made them once is not done again.

before  a = f(x, y), for which rules and builders have checked, promoted and broadcast
after   for x and y alike in format, shape and all else that `f` looks at: the same nodes, at once;
        or a CALL of x and y (see `call.py`)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.graph.bare import UNRECORDED
from torpor.graph.call import Call, Origins
from torpor.graph.loop import slot
from torpor.graph.reduce import identity
from torpor.ir.infer import device_of, shape_of, shaped
from torpor.ir.ops import LOOPED, MOVEMENT, Ops
from torpor.ir.uop import UOp

MOST: Final = 1024  # templates that are kept
# Up to so many their like is written down at once, then where it has come so often: choices.
FEW: Final = 16
OFTEN: Final = 4
SMALL: Final = 8  # nodes that are made at once: writing a CALL of them down takes as long
_CALL, _PART = Ops.CALL, Ops.PART  # an enumeration is slow to ask for its members
_NONE: Final[Mapping[UOp, UOp]] = {}
_computations = 0
_writing: Final[list[None]] = []  # one for each function that is being written down


@contextmanager
def writing_down() -> Iterator[None]:
    """Inside, nothing stays a call: what is written down has to be there."""
    _writing.append(None)
    try:
        yield
    finally:
        _writing.pop()


def note_computation() -> None:
    """What has been written down until now may be called from now on."""
    global _computations
    _computations += 1


def _may_flow(node: UOp) -> bool:
    if node.op is _CALL:
        return bool(node.arg.template.flows)
    return node.op is Ops.SINK or (
        node.dtype.is_float and (node.op is not Ops.DETACH or node.arg == UNRECORDED)
    )


def described(node: UOp) -> Hashable:
    """What may be looked at of a node that something is made of; a constant is known as a whole."""
    if not _is_constant(node):
        return node.op, node.dtype, shape_of(node), node.arg if node.op is Ops.CHECK else None
    return node


def stand_in(node: UOp) -> UOp:
    """A node that is described alike, and is made of nothing that there is."""
    if _is_constant(node):
        return node
    if not node.src or node.op in LOOPED:
        return _unknown(node)
    return shaped(node.replace(src=tuple(map(_unknown, node.src))), shape_of(node))


def _is_constant(node: UOp) -> bool:
    return node.op is not Ops.BUFFER and node.below(MOVEMENT).op is Ops.CONST


def _unknown(node: UOp) -> UOp:
    made = slot(("unknown", identity()), node)
    made._device = device_of(node)
    return made


class Template:
    """How `results` (None: there is none) are made of `inputs`.

    owners: of which input a node has its origins, if of one.
    about: what else whoever wrote it down wants to know.
    kinds: format and shape of each result; `ops`: their ops.
    alone: whether there is one result, which is made.
    used:  the numbers of the inputs that are operands.
    there: how many values are there before the first step: inputs and what is `fixed`.
    flows: whether gradients of a result may flow to an input.
    numbers: those of its nodes that are others in templates of the same `likeness`.
    is_called: whether it may stay a call until graphs are planned.
    born:  in which computation it was written down: what comes in that one alone is no call, so
           that graphs of sizes that are always new are alike.
    """

    numbers: Sequence[int] = ()

    def __init__(
        self,
        inputs: Sequence[UOp],
        results: Sequence[UOp | None],
        owners: Mapping[UOp, UOp] = _NONE,
        about: Any = None,
    ):
        self.about = about
        self.kinds = [None if node is None else (node.dtype, shape_of(node)) for node in results]
        self.ops = [None if node is None else node.op for node in results]
        self.count = len(inputs)
        places = {node: number for number, node in enumerate(inputs)}
        sink = UOp.sink(*[node for node in results if node is not None])
        order = [*sink.toposort(lambda node: node not in places)][:-1]
        new = [node for node in order if node not in places]
        moving = set(places)
        for node in new:
            if not moving.isdisjoint(node.src):
                moving.add(node)
        self.fixed = [node for node in new if node not in moving]
        places |= {node: len(places) + number for number, node in enumerate(self.fixed)}
        self.there = len(places)
        self.steps: list[tuple[Any, ...]] = []
        for node in new:
            if node in moving:
                sources = [places[source] for source in node.src]
                pick = itemgetter(*sources) if len(sources) > 1 else None
                owner = places[owners[node]] if node in owners else None
                arg, shape = node.arg, shape_of(node)
                self.steps.append((node.op, node.dtype, arg, sources[0], pick, shape, owner))
                places[node] = len(places)
        self.results = [None if node is None else places[node] for node in results]
        self.alone = len(self.results) == 1 and (self.results[0] or 0) >= self.there
        operands = {source for node in moving.difference(inputs) for source in node.src}
        self.used = [number for number, node in enumerate(inputs) if node in operands]
        smooth = sink.toposort(_may_flow)
        self.flows = any(node in smooth and node.dtype.is_float for node in inputs)
        self.is_called = len(self.steps) >= SMALL and self.is_whole()
        self.born = _computations

    def is_whole(self) -> bool:
        """Whether nothing is read but the inputs, and constants."""
        return all(node.src or node.op is Ops.CONST for node in self.fixed)

    @property
    def likeness(self) -> Any:
        """What tells it from others."""
        return self

    def called(self, inputs: Sequence[UOp], origins: Origins) -> list[UOp | None]:
        """As `made`, but that nothing is made until somebody looks (see `written_out`)."""
        like = self.likeness
        if not like.is_called or like.born == _computations or _writing:
            return self.made(inputs, origins)
        source = tuple([inputs[number] for number in self.used])
        if self.alone and (kind := self.kinds[0]) is not None:
            return [shaped(UOp(_CALL, kind[0], source, Call(self, origins)), kind[1])]
        call = UOp(_CALL, dtypes.void, source, Call(self, origins))
        found: list[UOp | None] = []
        for place, kind in zip(self.results, self.kinds):
            if place is None or kind is None:
                found.append(None)
            elif place < self.there:
                found.append([*inputs, *self.fixed][place])
            else:
                found.append(shaped(UOp(_PART, kind[0], (call,), len(found)), kind[1]))
        return found

    def made(self, inputs: Sequence[UOp], origins: Origins) -> list[UOp | None]:
        """The results of other inputs; `origins`: those that a node has of one."""
        values = self.values(inputs, origins)
        return [None if place is None else values[place] for place in self.results]

    def values(self, inputs: Sequence[UOp], origins: Origins) -> list[UOp]:
        """The inputs, and all nodes that come of them."""
        values = [*inputs, *self.fixed]
        found: dict[int, tuple[Any, ...]] = {}
        for op, dtype, arg, first, pick, shape, owner in self.steps:
            node = UOp(op, dtype, (values[first],) if pick is None else pick(values), arg)
            values.append(shaped(node, shape))
            if owner is not None and not node.origins:
                if owner not in found:
                    found[owner] = origins(owner)
                node.origins = found[owner]
        return values


class Templates:
    """Templates by what they are of. The first of a kind are written down at once, further ones
    when they come more often than their like: sizes that grow from pass to pass never do.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Template | float] = {}  # or how often it has come
        self._kinds: Counter[Hashable] = Counter()  # how many keys of each there are
        self._comes: Counter[Hashable] = Counter()  # how often they have come

    def get(self, key: Hashable) -> Template | None:
        """The template of a key."""
        found = self._known.get(key)
        return found if isinstance(found, Template) else None

    def is_wanted(self, key: Hashable, kind: Hashable = None) -> bool:
        """Whether the time has come to `learn` the template of a key of this kind; once is said."""
        seen = self._known.get(key, 0)
        if isinstance(seen, Template):
            return False
        if not seen and len(self._known) >= MOST:
            self._known.clear()
            self._kinds.clear()
            self._comes.clear()
        self._kinds[kind] += not seen
        self._comes[kind] += 1
        many = self._kinds[kind]
        often = max(OFTEN, min(2 * self._comes[kind] // many, many // 2))
        wanted = seen + 1 >= often or (not seen and many <= FEW)
        self._known[key] = -math.inf if wanted else seen + 1
        return wanted

    def learn(self, key: Hashable, template: Template) -> None:
        """Keep the template of a key."""
        self._known[key] = template
