"""`Trace`: one traced run of a function, ready to be replayed; `finish` makes it of a run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType
from torpor.capture.guards import Guards
from torpor.capture.number import Replay
from torpor.capture.plan import Plan
from torpor.capture.reach import Place
from torpor.capture.tracer import Draw, Stream, draw_word, stored
from torpor.device import Buffer
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.differentiate import SEVERED
from torpor.tensor.handle import Handle
from torpor.tensor.host import buffer_node
from torpor.tensor.random import go_on_from, manual_seed, state_of
from torpor.tensor.realisation import compute
from torpor.tensor.storage import Storage, buffer_of, is_buffer
from torpor.tensor.tensor import view_of


class Value(NamedTuple):
    """A value that a run leaves behind: a slot of the table, its shape, whether it had a graph."""

    slot: int
    shape: Shape
    device: str
    requires: bool

    def node(self, table: Sequence[Buffer]) -> UOp:
        """The value's node in this run."""
        node = buffer_node(table[self.slot], self.shape)
        return severed(node) if self.requires else node


class Leaf(NamedTuple):
    """A tensor or a number that a run gives back.

    kind: "argument" (the `number`-th), "input" (a view of that storage), "new" (of that storage),
          or "number" (computed from the numbers among the arguments).
    """

    kind: str
    number: int
    steps: tuple[tuple[str, Any], ...] = ()


class Fixed(NamedTuple):
    """Something that is the same at every replay."""

    value: Any


def whole_of(storage: Storage) -> Handle:
    """A handle on all of a storage; as `make`, but without looking where in the program it is."""
    made = object.__new__(Handle._type)
    made._storage, made._path, made._node = storage, None, storage.base
    made._stamp, made._site, made.grad = storage.stamp, None, None
    return made  # type: ignore[no-any-return]


def severed(node: UOp) -> UOp:
    """The value as one whose graph is gone."""
    return UOp(Ops.LEAF, node.dtype, (node,), SEVERED)


@dataclass
class Trace:
    """What to do instead of the function, as long as the guards hold.

    sources:  where each input's storage is found: an argument's number, a storage, or a leaf (a
              handle or an argument's number, in a tuple) of whose gradient it is.
    shared:   pairs of inputs that must be the same memory.
    changes:  (input, its new value, whether it depends on gradients).
    numbers:  gives the words and numbers that follow from the numbers among the arguments; `used`:
              what it guards of them, in words; `taken`: which of them kernels take.
    effects:  places that are bound anew. `grads`: leaves whose `.grad` is.
    """

    plan: Plan
    guards: Guards
    sources: tuple[Any, ...]
    kinds: tuple[tuple[Shape, DType], ...]
    shared: tuple[tuple[int, int], ...]
    values: tuple[Value, ...]
    changes: tuple[tuple[int, Value], ...]
    effects: tuple[tuple[Place, Any], ...]
    grads: tuple[tuple[Any, Any], ...]
    result: Any
    numbers: Replay
    used: tuple[str, ...]
    taken: tuple[str, ...]
    draws: tuple[Draw, ...]
    streams: tuple[Stream, ...]
    advances: tuple[int | None, ...]
    seeded: tuple[tuple[Any, int, int], ...]
    held: Any
    fixed: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def replay(self, tensors: Sequence[Handle], numbers: Sequence[Any]) -> Any:
        """Do what the function would do; `MISS` if the numbers do not fit, or the arguments' memory
        is shared otherwise.
        """
        computed = self.numbers(numbers)
        if computed is None:
            return MISS
        storages = self._storages(tensors)
        if storages is None:
            return MISS
        nodes = [stored(storage) for storage in storages]
        inputs = [buffer_of(node) for node in nodes]
        for left, right in self.shared:
            if inputs[left] is not inputs[right]:
                return MISS
        states = [state_of(stream.generator) for stream in self.streams]
        words = [*(draw_word(draw, states) for draw in self.draws), *computed[0]]
        with self.lock:
            table = self.plan.run(inputs, words)
        self.hits += 1
        return self._commit(tensors, storages, table, states, computed[1])

    def failing(self, tensors: Sequence[Handle]) -> str:
        """Why it cannot be replayed with these arguments, in words."""
        path = self.guards.failing(tensors)
        if path is None:
            path = "; ".join(self.used) or None
        return path or "tensors share memory in another way"

    def _storages(self, tensors: Sequence[Handle]) -> list[Storage] | None:
        storages = []
        for source, kind in zip(self.sources, self.kinds, strict=True):
            if isinstance(source, int):
                tensor = tensors[source]
                storage = tensor._storage
                if not is_whole(tensor):
                    if id(storage) in self.changed:
                        return None
                    storage = storage_of_view(tensor)
                elif id(storage) in self.fixed:
                    return None
            elif isinstance(source, Storage):
                storage = source
            else:
                grad = _owner(source[0], tensors).grad
                if grad is None or grad._path is not None:
                    return None
                storage = grad._storage
                if (shape_of(storage.base), storage.base.dtype) != kind:
                    return None
            storages.append(storage)
        return storages

    def _commit(
        self, tensors: Sequence[Handle], storages: list[Storage], table: list[Buffer], states: Any,
        numbers: Sequence[Any],
    ) -> Any:  # fmt: skip
        made = [Storage(v.node(table), v.device, v.requires) for v in self.values]

        def leaf(spec: Any) -> Any:
            if type(spec) is Fixed:
                return spec.value
            if spec.kind == "argument":
                return tensors[spec.number]
            if spec.kind == "number":
                return numbers[spec.number]
            storage = (made if spec.kind == "new" else storages)[spec.number]
            return view_of(storage, spec.steps) if spec.steps else whole_of(storage)

        for number, value in self.changes:
            storage = storages[number]
            storage.requires = value.requires
            storage.replace(value.node(table))
        for stream, state, advance in zip(self.streams, states, self.advances, strict=True):
            if advance is not None:
                go_on_from(stream.generator, state._replace(draw=state.draw + advance))
        for generator, seed, draw in self.seeded:
            seed_again(generator, seed, draw)
        for place, tree in self.effects:
            place.put(rebuild_specs(tree, leaf))
        for owner, tree in self.grads:
            _owner(owner, tensors).grad = rebuild_specs(tree, leaf)
        return rebuild_specs(self.result, leaf)


MISS: Final = object()


def seed_again(generator: Any, seed: int, draw: int) -> None:
    """Make a stream go on from a seed and a draw."""
    if generator is not None:
        generator.set_state((seed, draw))
    else:
        manual_seed(seed)
        go_on_from(None, state_of(None)._replace(draw=draw))


def rebuild_specs(tree: Any, leaf: Any) -> Any:
    """As `rebuild`, for trees whose leaves are `Leaf` and `Fixed`."""
    if type(tree) in (Leaf, Fixed):
        return leaf(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[rebuild_specs(part, leaf) for part in tree])
    if isinstance(tree, list | tuple):
        return type(tree)([rebuild_specs(part, leaf) for part in tree])
    return {key: rebuild_specs(part, leaf) for key, part in tree.items()}


def _owner(source: Any, tensors: Sequence[Handle]) -> Handle:
    return tensors[source] if isinstance(source, int) else source


def is_whole(tensor: Handle) -> bool:
    """Whether the handle is all of its storage (or the leaf over it) rather than a view."""
    path = tensor._path
    return path is None or (path.kind == "leaf" and path.previous is None)


def storage_of_view(tensor: Handle) -> Storage:
    """A storage of its own with what a view shows now."""
    node, device = tensor._current(), tensor._storage.device
    if not is_buffer(node):
        (node,) = compute([(node, device)])
    return Storage(node, device)
