"""From what was seen of a run to a `Trace`: what comes out of it, and where inputs come from."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from torpor.base.attributes import attributes
from torpor.base.dtypes import DType
from torpor.capture.commit import Fixed, Leaf, Value, severed
from torpor.capture.constant import READS
from torpor.capture.draws import states_after
from torpor.capture.guards import GRADIENT_THERE, Guards, guard_numbers, guards_of
from torpor.capture.holding import is_a, is_given_one_of, is_tensor
from torpor.capture.number import Number, plain
from torpor.capture.place import ABSENT, Place
from torpor.capture.successor import is_worth_it
from torpor.capture.trace import Trace, is_whole
from torpor.capture.tracer import Input, Passed, Tracer
from torpor.capture.tree import (
    UNCHANGING,
    Path,
    has_changed,
    is_container,
    is_plain,
    mapped,
    same,
    walk,
)  # fmt: skip
from torpor.capture.undo import can_undo, let_go, undo
from torpor.device import Buffer
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.command import Word
from torpor.pipeline.compiled_graph import CompiledGraph, compiled_graph
from torpor.tensor.computing import compute_later
from torpor.tensor.handle import Handle
from torpor.tensor.storage import Storage, buffers_of, is_buffer, is_severed
from torpor.tensor.tensor import steps_of

DEEPEST: Final = 8  # functions that hold functions
_METHODS: Final = (types.MethodType, types.BuiltinFunctionType)


def is_named(value: Any) -> bool:
    """Whether a class or a builtin is what its module holds under its name."""
    holds: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        holds = attributes(holds).get(name)
    return holds is value


class _Finish:
    """Makes a `Trace`. `arguments` are the tensors as called, `given` those the function got."""

    def __init__(self, tracer: Tracer, arguments: Sequence[Handle], given: Sequence[Handle]):
        self.tracer, self.arguments, self.given = tracer, arguments, given
        self.order = {key: number for number, key in enumerate(tracer.inputs)}
        self.outputs: dict[int, Handle] = {}
        self.storages: dict[int, int] = {}
        self.specs: dict[int, tuple[Any, Any]] = {}  # by id of what they are for, which is kept
        self.numbers: list[Number] = []
        self.places: dict[Path, int] = {}  # containers among the arguments that are needed again
        self.known: dict[int, UOp] = {}  # values of storages that keep their graphs
        self.open: list[Storage] = []  # what has to be computed, and how
        self.later: Any = None

    # --- what comes out ---------------------------------------------------------------------------
    def collect(self, tree: Any) -> None:
        """Note the tensors in a tree; anything that cannot be given again refuses the trace."""
        try:
            for part, _ in walk(tree):
                passed = self.tracer.passed.get(id(part))
                if not is_container(part):
                    self._collect_leaf(part)
                elif passed and passed.path is None and not is_a(part, UNCHANGING):
                    self.tracer.refuse("gives back a list or dict that it was passed twice")
        except RecursionError:
            self.tracer.refuse("gives back or keeps a list that holds itself")

    def _collect_leaf(self, value: Any) -> None:
        if is_tensor(value):
            self.outputs[id(value)] = value
            reach = self.tracer.reach
            if not reach.is_known(value) and is_given_one_of(value, reach):
                self.tracer.refuse("has to do with attributes of tensors that it gives")
        elif type(value) is not Number and value is not ABSENT and not self._was_there(value):
            self.tracer.refuse(f"gives back a {type(value).__name__}, which it makes")

    def _was_there(self, value: Any, depth: int = 0) -> bool:
        """Whether it is the same at each call, as far as it says. A method is where what it belongs
        to is; a function that a call makes may hold what that was given.
        """
        if is_plain(value) or is_a(value, (types.ModuleType, DType)):
            return True
        if self.tracer.reach.is_known(value) or depth > DEEPEST:
            return depth <= DEEPEST
        if is_a(value, _METHODS) and value.__self__ is not None:
            return self._was_there(value.__self__, depth + 1)
        if type(value) is tuple:
            return all(self._was_there(one, depth + 1) for one in value)
        if is_a(value, types.FunctionType):
            held = (cell.cell_contents for cell in value.__closure__ or ())
            given = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
            return all(self._was_there(one, depth + 1) for one in (*held, *given))
        return is_a(value, (type, types.BuiltinFunctionType)) and is_named(value)

    def effects(self) -> list[tuple[Place, Any]]:
        """Places outside that the function binds anew; of those that it reads too, which have a
        guard, only by what is plain.
        """
        reach = self.tracer.reach
        changed = [(p, now) for p, now in reach.noted.rebound() if not same(now, p.value)]
        return [(p, now) for p, now in changed if is_plain(now) or not reach.noted.is_read(p)]

    def additions(self) -> list[tuple[Any, list[Any]]]:
        """Lists outside that the function only appended to, and what. Plain constants are a note
        about the trace, like printing: they do not depend on the call, unless it read numbers of
        tensors.
        """
        found = []
        for owner, before, path in self.tracer.altered.values():
            now = list(owner)
            kept = zip(before, now, strict=False)
            if len(now) < len(before) or any(new is not old for old, new in kept):
                self.tracer.refuse(f"changes what {path} holds")
            elif id(owner) not in self.tracer.reach.contents:
                added = now[len(before) :]
                if self.tracer.constants.numbers or not all(map(is_plain, added)):
                    found.append((owner, added))
        return found

    def rewrites(self) -> list[Passed]:
        """Lists and dicts among the arguments that hold something else now."""
        found = [p for p in self.tracer.passed.values() if has_changed(p.container, p.kept)]
        for container, _, path in found:
            if path is None or self.tracer.reach.is_known(container):
                self.tracer.refuse("changes a list or dict that it was passed and knows otherwise")
            elif type(container) not in (list, dict):
                self.tracer.refuse(f"changes a {type(container).__name__} that it was passed")
        return found

    def forget_inner(self) -> None:
        """Leave the gradients of leaves alone that the function has made and does not give back."""
        there = {*map(id, (*self.given, *self.arguments)), *self.outputs}
        for key, (leaf, _) in [*self.tracer.grads.items()]:
            if key not in there and self.tracer.reach.is_inside(leaf):
                del self.tracer.grads[key]

    def grads(self) -> list[tuple[Handle, Any]]:
        """Handles whose `.grad` is another one now, or would be at another call."""
        return [
            (handle, handle.grad)
            for key, (handle, entry) in self.tracer.grads.items()
            if handle.grad is not entry or key in self.tracer.forgotten
        ]

    def plan(self) -> None:
        """Plan how everything that the function leaves behind is computed, in one go."""
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
        self.open = [s for s in storages.values() if not is_buffer(s.base)]
        self.later = compute_later([(s.base, s.device) for s in self.open])
        self.tracer.record(self.later.ready)
        for storage, value in zip(self.open, self.later.values, strict=True):
            self.known[id(storage)] = value

    def run(self) -> None:
        """Compute it as planned."""
        self.later.run()
        for storage in self.open:
            storage.settle(storage.base, self.known[id(storage)])

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
        """The tree with `Leaf` and `Fixed` for its leaves; what is one object is one again."""
        known = self.specs.get(id(tree))
        if known is not None:
            return known[0]
        passed = self.tracer.passed.get(id(tree))
        if passed is not None and passed.path is not None:
            made: Any = Leaf("passed", self._place(passed.path))
        elif is_container(tree):
            made = Fixed(tree) if self.tracer.reach.is_known(tree) else mapped(tree, self.spec)
        else:
            made = self._leaf(tree)
        self.specs[id(tree)] = made, tree
        return made

    def rewrite_of(self, passed: Passed) -> tuple[int, Any]:
        """The number of a list or dict that was passed, and the spec of what it holds now."""
        assert passed.path is not None, "others are refused"
        return self._place(passed.path), mapped(passed.container, self.spec)

    def _place(self, path: Path) -> int:
        """The number of a container that was passed."""
        return self.places.setdefault(path, len(self.places))

    def _leaf(self, value: Any) -> Any:
        if type(value) is Number:
            return self._number(value)
        if not is_tensor(value):
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

    def _number(self, value: Number) -> Any:
        if value._tape is not self.tracer.tape:
            return Fixed(plain(value))
        self.numbers.append(value)
        return Leaf("number", len(self.numbers) - 1)

    def sources(self) -> list[Any]:
        """Where the storage of each input is found at a replay."""
        places: dict[int, Any] = {}
        for handle, *_ in self.tracer.reach.tensors.values():
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
    packed = handle.dtype.kind == "packed"  # what is in memory is below it
    if handle._path is not None and not handle._path.leaf and not packed:
        storage = Storage(handle._current(), handle._storage.device, handle.requires_grad)
        handle._storage, handle._path, handle._stamp = storage, None, 0


class _Changes(NamedTuple):
    """What a run leaves behind besides its result: places bound anew, other `.grad`s, lists that
    grew, containers that hold something else.
    """

    effects: list[tuple[Place, Any]]
    grads: list[tuple[Handle, Any]]
    additions: list[tuple[Any, list[Any]]]
    rewrites: list[Passed]

    def values(self) -> list[Any]:
        """All that is put somewhere."""
        bound = (*self.effects, *self.grads, *self.additions)
        parts = [_parts(passed.container) for passed in self.rewrites]
        return [now for _, now in bound if now is not ABSENT] + list(chain.from_iterable(parts))


def _parts(container: Any) -> Iterable[Any]:
    return list(container.values() if is_a(container, dict) else container)


def finish(
    tracer: Tracer, arguments: Sequence[Handle], given: Sequence[Handle], result: Any, held: Any,
    may_wait: bool = False,
) -> tuple[Trace | None, bool]:  # fmt: skip
    """The trace of a run that gave `result`; None if it cannot be replayed (see its `reasons`).

    Everything that the function leaves behind is computed here, as part of the run; unless that
    `may_wait`, and a replay writes it over what was before: then all that the run has changed is
    put back, and the second says that a replay has to follow.
    """
    work = _Finish(tracer, arguments, given)
    changes = _Changes(work.effects(), [], work.additions(), work.rewrites())
    with tracer.recording():
        for tree in (result, *changes.values()):
            work.collect(tree)
        work.forget_inner()
        changes = changes._replace(grads=work.grads())
        for _, gradient in changes.grads:
            work.collect(gradient)
        work.plan()
    _check_gradients(tracer, given, work.outputs.values())
    if tracer.reasons:
        work.run()
        return None, False
    trace, left = _assemble(work, changes, result, held)
    waits = may_wait and any(trace.heirs) and can_undo(tracer)
    # A replay puts nothing where it has a guard but gradients, and those not of leaves of its own.
    waits = waits and trace.guards.failing(given, GRADIENT_THERE) is None
    waits = waits and not any(tracer.reach.is_inside(leaf) for leaf, _ in changes.grads)
    if waits:
        undo(tracer)
    else:
        work.run()
        _sever(left, work)
    let_go(tracer, (*given, *arguments), {id(storage) for storage in left})
    return trace, waits


def _check_gradients(tracer: Tracer, given: Sequence[Handle], outputs: Iterable[Handle]) -> None:
    numbers, grads = tracer.constants.numbers, tracer.grads.values()
    if any(entry is not None and id(entry._storage) in numbers for _, entry in grads):
        tracer.refuse(READS)  # found by whose gradient it is
    if tracer.gradients_taken or not any(handle.requires_grad for handle in given):
        return
    known = {id(handle) for handle in given}
    if any(handle.requires_grad and id(handle) not in known for handle in outputs):
        tracer.refuse("gives back tensors through which gradients flow to its arguments")


def _assemble(
    work: _Finish, changes: _Changes, result: Any, held: Any
) -> tuple[Trace, list[Storage]]:
    """The trace, and the storages that it gives values."""
    tracer = work.tracer
    sources = work.sources()
    specs = _specs(work, changes, result)  # they number what the run makes
    made, changed = _made(work), work.changed()
    left = [*made, *(entry.storage for entry in changed)]
    numbers = [work.order[id(entry.storage)] for entry in changed]
    graph, values = _compiled(work, left, numbers)
    entries = list(tracer.inputs.values())
    fixed = [e for e, s in zip(entries, sources, strict=True) if is_a(s, Storage)]
    advances, seeded = states_after(tracer)
    trace = Trace(
        graph=graph,
        guards=_guards(work, sources),
        sources=tuple(sources),
        kinds=tuple(map(_kind, entries)),
        shared=_shared(_buffers(entries)),
        values=tuple(values[: len(made)]),
        changes=tuple(zip(numbers, values[len(made) :], strict=True)),
        passed=tuple(work.places),
        numbers=tracer.tape.compiled(work.numbers),
        used=tuple(tracer.tape.used),
        taken=tuple(tracer.tape.taken),
        draws=tuple(tracer.words.values()),
        streams=tuple(tracer.streams.values()),
        advances=tuple(advances),
        seeded=tuple(seeded),
        held=held,
        fixed=frozenset(id(entry.storage) for entry in fixed),
        changed=frozenset(id(e.storage) for e in fixed if e.storage.base is not e.base),
        **specs,
    )
    return trace, left


def _specs(work: _Finish, changes: _Changes, result: Any) -> dict[str, Any]:
    """How everything is given again, by the names of a trace's fields."""
    spec = work.spec
    effects = [
        (place, Fixed(now) if now is ABSENT else spec(now)) for place, now in changes.effects
    ]
    return {
        "effects": tuple(effects),
        "grads": tuple((work.owner(handle), spec(now)) for handle, now in changes.grads),
        "additions": tuple((owner, list(map(spec, added))) for owner, added in changes.additions),
        "rewrites": tuple(map(work.rewrite_of, changes.rewrites)),
        "result": spec(result),
    }


def _made(work: _Finish) -> list[Storage]:
    """The storages that the run makes, by their numbers."""
    storages = {id(handle._storage): handle._storage for handle in work.outputs.values()}
    return [storages[key] for key in work.storages]


def _compiled(
    work: _Finish, left: Sequence[Storage], changed: Sequence[int]
) -> tuple[CompiledGraph, list[Value]]:
    """The kernels of the run, and where they put the values of the storages `left`, of which the
    last are the next values of the inputs `changed`.
    """
    tracer = work.tracer
    nodes = [work.node_of(storage) for storage in left]
    wanted = [buffer for node in nodes for buffer in buffers_of(node)]
    names = [*tracer.words, *tracer.tape.words.values()]
    words = {name: Word(place) for place, name in enumerate(names)}
    buffers = _buffers(tracer.inputs.values())
    still = {id(buffer) for buffer in wanted}
    pairs = zip(changed, nodes[len(left) - len(changed) :], strict=True)
    plain = len(buffers) == len(tracer.inputs) == len({*map(id, buffers)})  # one buffer each
    graph, slots = compiled_graph(
        tracer.constants.varying(tracer.recorded, tracer.inputs.values(), wanted),
        buffers,
        wanted,
        lambda binding: words.get(binding.src[0].arg[0]),
        len(words),
        [
            *[
                (old, new)
                for old, node in pairs
                for new in buffers_of(node)
                if plain and is_worth_it(new) and id(buffers[old]) not in still
            ],
            *[(None, new) for new in _gradients(work) if is_worth_it(new)],
        ],
    )
    return graph, [_value(node, s, slots) for node, s in zip(nodes, left, strict=True)]


def _gradients(work: _Finish) -> list[Buffer]:
    """The memory of gradients whose last ones the run did not read."""
    entries = work.tracer.grads.values()
    return [
        buffer
        for handle, entry in entries
        if (grad := handle.grad) is not None and grad is not entry and grad._path is None
        if entry is None or id(entry._storage) not in work.tracer.inputs
        for buffer in buffers_of(work.node_of(grad._storage))
    ]


def _guards(work: _Finish, sources: Sequence[Any]) -> Guards:
    """What must hold for the trace to be replayed."""
    tracer = work.tracer
    guards = guards_of(tracer, work.given)
    inputs = [*zip(tracer.inputs.values(), sources, strict=True)]
    guard_numbers(guards, tracer, inputs)
    known = {id(handle._storage) for handle, *_ in tracer.reach.tensors.values()}
    for entry, source in inputs:
        if is_a(source, int) and id(entry.storage) in known:
            test = f"a[{source}]._storage is {guards.bind(entry.storage)}"
            guards.add(test, "what the arguments share")
    return guards


def _buffers(entries: Iterable[Input]) -> list[Buffer]:
    return [buffer for entry in entries for buffer in buffers_of(entry.node)]


def _value(node: UOp, storage: Storage, slots: dict[int, int]) -> Value:
    parts = node.src if node.op is Ops.MULTI else (node,)
    places = tuple((slots[id(b)], shape_of(p)) for p in parts for b in buffers_of(p))
    joint = node.arg if node.op is Ops.MULTI else None
    return Value(places, joint, storage.device, storage.requires)


def _kind(entry: Input) -> Any:
    cut = entry.node.arg[0] if entry.node.op is Ops.MULTI else None
    return shape_of(entry.base), entry.base.dtype, entry.storage.device, cut


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
