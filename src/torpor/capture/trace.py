"""`Trace`: one traced run of a function, ready to be replayed; `finish` makes it of what was seen."""

from __future__ import annotations

import threading
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType
from torpor.capture.guards import Guards, guards_of
from torpor.capture.plan import Plan, plan_of
from torpor.capture.reach import ABSENT, Place
from torpor.capture.tracer import Stream, Tracer, is_severed, states_after, stored
from torpor.capture.tree import is_plain, rebuild, same
from torpor.device import Buffer
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.differentiate import SEVERED
from torpor.tensor.handle import Handle, make
from torpor.tensor.host import buffer_node
from torpor.tensor.random import go_on_from, manual_seed, state_of
from torpor.tensor.realisation import compute
from torpor.tensor.storage import Storage, buffer_of, is_buffer
from torpor.tensor.tensor import steps_of, view_of

_FIXED_TYPES: Final = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, types.MethodType, DType,
)  # fmt: skip


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
    """A tensor that a run gives back.

    kind: "argument" (the `number`-th), "input" (a view of that storage), "new" (of that storage).
    """

    kind: str
    number: int
    steps: tuple[tuple[str, Any], ...] = ()


class Fixed(NamedTuple):
    """Something that is the same at every replay."""

    value: Any


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
    streams: tuple[Stream, ...]
    advances: tuple[int | None, ...]
    seeded: tuple[tuple[Any, int, int], ...]
    held: Any
    fixed: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def replay(self, tensors: Sequence[Handle]) -> Any:
        """Do what the function would do; `MISS` if the arguments' memory is shared otherwise."""
        storages = self._storages(tensors)
        if storages is None:
            return MISS
        nodes = [stored(storage) for storage in storages]
        inputs = [buffer_of(node) for node in nodes]
        for left, right in self.shared:
            if inputs[left] is not inputs[right]:
                return MISS
        states = [state_of(stream.generator) for stream in self.streams]
        with self.lock:
            table = self.plan.run(inputs, [(s.seed, s.draw) for s in states])
        self.hits += 1
        return self._commit(tensors, storages, table, states)

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
        self, tensors: Sequence[Handle], storages: list[Storage], table: list[Buffer], states: Any
    ) -> Any:
        made = [Storage(v.node(table), v.device, v.requires) for v in self.values]

        def leaf(spec: Any) -> Any:
            if type(spec) is Fixed:
                return spec.value
            if spec.kind == "argument":
                return tensors[spec.number]
            storage = (made if spec.kind == "new" else storages)[spec.number]
            if not spec.steps:
                return make(storage.base, storage.device, storage=storage)
            return view_of(storage, spec.steps)

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


# --- finishing ------------------------------------------------------------------------------------
class _Finish:
    """Makes a `Trace`. `arguments` are the tensors as called, `given` those the function got."""

    def __init__(self, tracer: Tracer, arguments: Sequence[Handle], given: Sequence[Handle]):
        self.tracer, self.arguments, self.given = tracer, arguments, given
        self.order = {key: number for number, key in enumerate(tracer.inputs)}
        self.outputs: dict[int, Handle] = {}
        self.storages: dict[int, int] = {}

    # --- what comes out ---------------------------------------------------------------------------
    def collect(self, tree: Any) -> Any:
        """Note the tensors in a tree; anything that cannot be given again refuses the trace."""
        return rebuild(tree, self._collect_leaf)

    def _collect_leaf(self, value: Any) -> Any:
        if isinstance(value, Handle):
            self.outputs[id(value)] = value
        elif not (is_plain(value) or isinstance(value, _FIXED_TYPES)):
            if not self.tracer.reach.is_known(value) and value is not ABSENT:
                self.tracer.refuse(f"gives back a {type(value).__name__}, which it makes")
        return value

    def effects(self) -> list[tuple[Place, Any]]:
        """Places outside that the function binds anew without reading them."""
        reach, found = self.tracer.reach, []
        for place in reach.places.values():
            if place.name in reach.stored and not reach.is_read(place):
                now = place.now()
                if now is not place.value and not same(now, place.value):
                    found.append((place, now))
        return found

    def grads(self) -> list[tuple[Handle, Any]]:
        """Handles whose `.grad` is another one now."""
        entries = self.tracer.grads.values()
        return [(handle, handle.grad) for handle, entry in entries if handle.grad is not entry]

    def compute(self) -> None:
        """Compute everything that the function leaves behind, in one go."""
        users: dict[int, list[Handle]] = {}
        for handle in self.outputs.values():
            users.setdefault(id(handle._storage), []).append(handle)
        storages = {id(i.storage): i.storage for i in self.changed()}
        for handles in users.values():
            (handle, *others) = handles
            if not others and not is_whole(handle) and handle._storage in self.tracer.inner:
                _cut_loose(handle)
            if id(handle._storage) not in self.tracer.inputs:
                storages[id(handle._storage)] = handle._storage
        open_ones = [s for s in storages.values() if not is_buffer(s.base)]
        if open_ones:
            values = compute([(s.base, s.device) for s in open_ones])
            for storage, value in zip(open_ones, values, strict=True):
                storage.settle(storage.base, value)
                self.known[id(storage)] = value

    known: dict[int, UOp]

    def changed(self) -> list[Any]:
        """Inputs whose storage has a new value."""
        return [i for i in self.tracer.inputs.values() if i.storage.base is not i.base]

    def node_of(self, storage: Storage) -> UOp:
        """BUFFER (or RESHAPE of one) of a storage that has been computed."""
        if is_buffer(storage.base):
            return storage.base
        return self.known[id(storage)]

    # --- how it is given again --------------------------------------------------------------------
    def spec(self, tree: Any) -> Any:
        return rebuild(tree, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if not isinstance(value, Handle):
            return Fixed(value)
        for number, (given, argument) in enumerate(zip(self.given, self.arguments, strict=True)):
            if value is given or value is argument:
                return Leaf("argument", number)
        if self.tracer.reach.is_known(value):
            return Fixed(value)
        storage = value._storage
        steps = tuple(steps_of(value._path))
        if id(storage) in self.order:
            return Leaf("input", self.order[id(storage)], steps)
        return Leaf("new", self.storages.setdefault(id(storage), len(self.storages)), steps)

    def sources(self) -> list[Any]:
        """Where the storage of each input is found at a replay."""
        places: dict[int, Any] = {}
        for handle, _, _ in self.tracer.reach.tensors.values():
            places[id(handle._storage)] = handle._storage
        for handle, entry in self.tracer.grads.values():
            if entry is not None and entry._path is None:
                places[id(entry._storage)] = (self.owner(handle),)
        for number, handle in reversed(list(enumerate(self.given))):
            places[id(handle._storage)] = number
        found = []
        for key, entry in self.tracer.inputs.items():
            if key not in places:
                self.tracer.bake("a tensor to which no name leads")
            found.append(places.get(key, entry.storage))
        return found

    def owner(self, handle: Handle) -> Any:
        for number, given in enumerate(self.given):
            if handle is given:
                return number
        return handle


def _cut_loose(handle: Handle) -> None:
    """Give a view of a storage that nothing else of the outputs shares a storage of its own."""
    if handle._path is not None and not handle._path.leaf:
        storage = Storage(handle._current(), handle._storage.device, handle.requires_grad)
        handle._storage, handle._path, handle._stamp = storage, None, 0


def finish(
    tracer: Tracer, arguments: Sequence[Handle], given: Sequence[Handle], result: Any, held: Any
) -> Trace | None:
    """The trace of a run that gave `result`; None if it cannot be replayed (see its `reasons`).

    Everything that the function leaves behind is computed here, as part of the run.
    """
    work = _Finish(tracer, arguments, given)
    work.known = {}
    effects, grads = work.effects(), work.grads()
    with tracer.recording():
        work.collect(result)
        for tree in [now for _, now in (*effects, *grads) if now is not ABSENT]:
            work.collect(tree)
        work.compute()
    _check_gradients(tracer, given, work.outputs.values())
    if tracer.reasons:
        return None
    return _assemble(work, effects, grads, result, held)


def _check_gradients(tracer: Tracer, given: Sequence[Handle], outputs: Iterable[Handle]) -> None:
    if tracer.gradients_taken or not any(handle.requires_grad for handle in given):
        return
    known = {id(handle) for handle in given}
    if any(handle.requires_grad and id(handle) not in known for handle in outputs):
        tracer.refuse("gives back tensors through which gradients flow to its arguments")


def _assemble(work: _Finish, effects: Any, grads: Any, result: Any, held: Any) -> Trace:
    tracer = work.tracer
    sources = work.sources()
    specs = [(place, Fixed(now) if now is ABSENT else work.spec(now)) for place, now in effects]
    grad_specs = [(work.owner(handle), work.spec(now)) for handle, now in grads]
    result_spec = work.spec(result)
    inputs = list(tracer.inputs.values())
    storages = {id(h._storage): h._storage for h in work.outputs.values()}
    made = [storages[key] for key in work.storages]
    changed = work.changed()
    entry_buffers = [buffer_of(entry.node) for entry in inputs]
    nodes = [work.node_of(s) for s in (*made, *(entry.storage for entry in changed))]
    wanted = [buffer_of(node) for node in nodes]
    plan, slots = plan_of(tracer.recorded, entry_buffers, wanted, tracer.words)
    guards = guards_of(tracer, work.given)
    for number, source in enumerate(sources):
        storage = inputs[number].storage
        if isinstance(source, int) and any(
            h._storage is storage for h, _, _ in tracer.reach.tensors.values()
        ):
            guards.add(
                f"a[{source}]._storage is {guards.bind(storage)}", "what the arguments share"
            )
    guards.compile()
    values = [
        Value(slots[id(buffer_of(node))], shape_of(node), storage.device, storage.requires)
        for node, storage in zip(nodes, (*made, *(e.storage for e in changed)), strict=True)
    ]
    numbers = [work.order[id(entry.storage)] for entry in changed]
    advances, seeded = states_after(tracer)
    trace = Trace(
        plan, guards, tuple(sources),
        tuple((shape_of(entry.base), entry.base.dtype) for entry in inputs),
        _shared(entry_buffers), tuple(values[: len(made)]),
        tuple(zip(numbers, values[len(made) :], strict=True)), tuple(specs), tuple(grad_specs),
        result_spec, tuple(tracer.streams.values()), tuple(advances), tuple(seeded), held,
    )  # fmt: skip
    guarded = {id(h._storage) for h, _, _ in tracer.reach.tensors.values()}
    trace.fixed = frozenset(
        id(entry.storage) for entry, source in zip(inputs, sources, strict=True)
        if not isinstance(source, int) and id(entry.storage) in guarded
    )  # fmt: skip
    trace.changed = frozenset(id(entry.storage) for entry in changed)
    _sever([*made, *(entry.storage for entry in changed)], work)
    return trace


def _shared(buffers: Sequence[Buffer]) -> tuple[tuple[int, int], ...]:
    first: dict[int, int] = {}
    pairs = []
    for number, buffer in enumerate(buffers):
        before = first.setdefault(id(buffer), number)
        if before != number:
            pairs.append((before, number))
    return tuple(pairs)


def _sever(storages: Iterable[Storage], work: _Finish) -> None:
    """Take the graphs away from what the first run gives, as a replay does."""
    for storage in storages:
        if storage.requires and not is_severed(storage.base):
            storage.replace(severed(work.node_of(storage)))
