"""`Trace`: one traced run of a function, ready to be replayed; `finish` makes it of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torpor.base.dtypes import DType
from torpor.base.locks import recursive_lock
from torpor.capture.commit import Leaf, Value, commit, owner_of, results_of, shown_of
from torpor.capture.draws import Draw, Stream, draw_word
from torpor.capture.guards import GRADIENT_THERE, Guards
from torpor.capture.number import Replay
from torpor.capture.place import Place
from torpor.capture.successor import Owner, heirs_of
from torpor.capture.tracer import cut_of, stored
from torpor.capture.tree import Call, Path, holds_twice
from torpor.ir.infer import Shape, product, shape_of
from torpor.pipeline.compiled_graph import CompiledGraph
from torpor.tensor.computing import compute
from torpor.tensor.handle import Handle
from torpor.tensor.random import go_on_from, manual_seed, state_of, take_draws
from torpor.tensor.storage import Storage, buffers_of, is_buffer
from torpor.tensor.tensor import steps_of

_UNPACKING: Final = (["bitcast"], ["bitcast", "reshape"])  # how bytes become numbers of 4 bits


@dataclass
class Trace:
    """What to do instead of the function, as long as the guards hold.

    sources:  where each input's storage is found: an argument's number, a storage, or a leaf (a
              handle or an argument's number, in a tuple) of whose gradient it is.
    kinds:    what each input's storage is like (see `kind_of`).
    shared:   pairs of buffers of the inputs that must be the same.
    changes:  (input, its new value, whether it depends on gradients).
    numbers:  gives the words and numbers that follow from the numbers among the arguments; `used`:
              what it guards of them, in words; `taken`: which of them kernels take.
    additions: lists outside, and what is appended to them.
    passed:   keys that lead to containers among the arguments; `rewrites`: which of them hold
              something else afterwards, and what.
    effects:  places that are bound anew. `grads`: leaves whose `.grad` is.
    """

    graph: CompiledGraph
    guards: Guards
    sources: tuple[Any, ...]
    kinds: tuple[tuple[Shape, DType, str, Any], ...]
    shared: tuple[tuple[int, int], ...]
    values: tuple[Value, ...]
    changes: tuple[tuple[int, Value], ...]
    effects: tuple[tuple[Place, Any], ...]
    grads: tuple[tuple[Any, Any], ...]
    additions: tuple[tuple[Any, list[Any]], ...]
    rewrites: tuple[tuple[int, Any], ...]
    passed: tuple[Path, ...]
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
    lock: Any = field(default_factory=recursive_lock)  # finalisers may call it

    def __post_init__(self) -> None:
        memory = self.graph.memory
        values = [*self.values, *[value for _, value in self.changes]]
        self.shown = shown_of(values, memory.first_arena)
        pairs = zip(memory.results, self.shown[memory.first_result :], strict=True)
        self.takes = [results_of(output, shown) for output, shown in pairs]
        grads = [
            (owner, self.values[tree.number])
            for owner, tree in self.grads
            if isinstance(tree, Leaf) and tree.kind == "new" and not tree.steps
        ]
        self.heirs = heirs_of(self.graph, self.changes, grads, self.shown)
        self.on_host = all(kind[2].partition(":")[0] == "CPU" for kind in self.kinds)
        left = (self.changes, self.effects, self.grads, self.additions, self.rewrites,
                self.streams, self.seeded)  # fmt: skip
        self.leaves = any(left)  # whether a replay changes anything but what it gives back

    def __call__(self, call: Call) -> Any:
        """Do what the function would do; `MISS` if a guard fails, the numbers do not fit, or the
        arguments' memory is shared otherwise.
        """
        tensors = call.tensors
        if not self.guards.check(tensors) or (self.rewrites and holds_twice(call[:2])):
            return MISS
        computed = self.numbers(call.numbers)
        if computed is None:
            return MISS
        storages = self._storages(tensors)
        if storages is None:
            return MISS
        inputs = [buffer for storage in storages for buffer in buffers_of(stored(storage))]
        if any(inputs[left] is not inputs[right] for left, right in self.shared):
            return MISS
        words: Sequence[int] = computed[0]
        if self.streams:
            steps = zip(self.streams, self.advances, strict=True)
            states = [take_draws(stream.generator, advance or 0) for stream, advance in steps]
            words = [*(draw_word(draw, states) for draw in self.draws), *words]
        with self.lock:
            results = [
                take() if heir is None else heir[1].take(self._before(heir[0], storages, tensors))
                for take, heir in zip(self.takes, self.heirs, strict=True)
            ]
            buffers = [result.buffer for result in results]
            self.graph.run(inputs, buffers, words)
        self.hits += 1
        for generator, seed, draw in self.seeded:
            seed_again(generator, seed, draw)
        table = [*inputs, *self.graph.memory.constants, *buffers]
        return commit(self, call, storages, table, results, computed[1])

    def failing(self, tensors: Sequence[Handle]) -> str:
        """Why it cannot be replayed with these arguments, in words."""
        path = self.guards.failing(tensors)
        if path is None:
            path = "; ".join(self.used) or None
        return path or "tensors share memory in another way"

    def is_for_a_next(self, tensors: Sequence[Handle]) -> bool:
        """Whether guards fail after the run for nothing but what it has bound anew, as a replay
        does: somebody may put that back before the next call. Whether gradients are there may
        differ. What is bound is the old value for a moment.
        """
        now = [(place, place.now()) for place, _ in self.effects]
        try:
            for place, _ in now:
                place.put(place.value)
            return self.guards.failing(tensors, GRADIENT_THERE) is None
        finally:
            for place, value in now:
                place.put(value)

    def _before(
        self, source: int | Owner, storages: Sequence[Storage], tensors: Sequence[Handle]
    ) -> Any:
        """The value or the gradient that a result may be written over."""
        if isinstance(source, int):
            return storages[source].base
        return owner_of(source.source, tensors).grad

    def _storages(self, tensors: Sequence[Handle]) -> list[Storage] | None:
        """The inputs' storages; None where they do not fit."""
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
                grad = owner_of(source[0], tensors).grad
                if grad is None or grad._path is not None:
                    return None
                storage = grad._storage
            if not isinstance(source, int) and kind_of(storage) != kind:
                return None
            storages.append(storage)
        return storages


MISS: Final = object()


def seed_again(generator: Any, seed: int, draw: int) -> None:
    """Make a stream go on from a seed and a draw."""
    (manual_seed if generator is None else generator.manual_seed)(seed)
    go_on_from(generator, state_of(generator)._replace(draw=draw))


def kind_of(storage: Storage) -> tuple[Shape, DType, str, Any]:
    """Shape, format, device, and how it is cut, of what lies in a storage."""
    return shape_of(storage.base), storage.base.dtype, storage.device, cut_of(storage)


def is_whole(tensor: Handle) -> bool:
    """Whether the handle is all of its storage (or the leaf over it) rather than a view."""
    path = tensor._path
    if path is not None and tensor.dtype.kind == "packed":
        kinds = [kind for kind, _ in steps_of(path) if kind != "shrink"]
        room = 2 * product(shape_of(tensor._storage.base))
        return kinds in _UNPACKING and product(tensor.shape) in (room, room - 1)
    return path is None or (path.kind == "leaf" and path.previous is None)


def storage_of_view(tensor: Handle) -> Storage:
    """A storage of its own with what a view shows now."""
    if tensor.dtype.kind == "packed":
        copy: Any = tensor
        copied: Storage = copy.clone().realize()._storage
        return copied
    node, device = tensor._current(), tensor._storage.device
    if not is_buffer(node):
        (node,) = compute([(node, device)])
    return Storage(node, device)
