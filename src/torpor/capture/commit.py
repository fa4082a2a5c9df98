"""What a replay leaves behind: values, and the tensors and containers that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torpor.capture.tree import Call, mapped, refill
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import Shape, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.compiled_graph import Kind
from torpor.pipeline.reuse import Result, giving
from torpor.tensor.handle import Handle
from torpor.tensor.storage import SEVERED, Storage
from torpor.tensor.tensor import view_of

if TYPE_CHECKING:
    from torpor.capture.trace import Trace


MOST_BYTES: Final = 1 << 20  # making the buffer of a larger one costs little beside its kernel


class Shown(NamedTuple):
    """How the value in an output is seen: its shape, and whether it had a graph."""

    shape: Shape
    requires: bool


class Value(NamedTuple):
    """A value that a run leaves behind.

    parts: slot of the table and shape of each part, one a device.
    joint: how they are joined (the arg of a MULTI); None: there is one part.
    requires: whether it had a graph.
    """

    parts: tuple[tuple[int, Shape], ...]
    joint: Any
    device: str
    requires: bool


class Leaf(NamedTuple):
    """A tensor, a number or a container that a run gives back.

    kind: "argument" (the `number`-th), "input" (a view of that storage), "new" (of that storage),
          "number" (computed from the numbers among the arguments), or "passed" (that container
          among the arguments).
    """

    kind: str
    number: int
    steps: tuple[tuple[str, Any], ...] = ()


class Fixed(NamedTuple):
    """Something that is the same at every replay."""

    value: Any


def node_over(buffer: Buffer, shown: Shown) -> UOp:
    """The node of the value in a buffer."""
    node = buffer_node(buffer, shown.shape)
    return severed(node) if shown.requires else node


def severed(node: UOp) -> UOp:
    """The value as one whose graph is gone."""
    return shaped(UOp(Ops.LEAF, node.dtype, (node,), SEVERED), shape_of(node))


def results_of(output: Kind, shown: Shown | None) -> Callable[[], Result]:
    """A function that gives a result for the next run (see `giving`)."""
    return giving(output, None if shown is None else partial(node_over, shown=shown), MOST_BYTES)


def node_of(value: Value, table: Sequence[Buffer]) -> UOp:
    """The node of a value in the run with these buffers."""
    if value.joint is None:
        ((slot, shape),) = value.parts
        return node_over(table[slot], Shown(shape, value.requires))
    nodes = tuple([buffer_node(table[slot], shape) for slot, shape in value.parts])
    node = UOp(Ops.MULTI, nodes[0].dtype, nodes, value.joint)
    return severed(node) if value.requires else node


def shown_of(values: Sequence[Value], slots: int) -> list[Shown | None]:
    """How the buffer in each slot of the table is seen; None where it is no value of its own."""
    shown: list[Shown | None] = [None] * slots
    for value in values:
        if value.joint is None:
            ((slot, shape),) = value.parts
            shown[slot] = Shown(shape, value.requires)
    return shown


def own_result(value: Value, shown: Sequence[Shown | None], first: int) -> int | None:
    """The number of the result whose own node shows a value; None where another node has to."""
    slot, shape = value.parts[0]
    own = slot >= first and value.joint is None and shown[slot] == Shown(shape, value.requires)
    return slot - first if own else None


def owner_of(source: Any, tensors: Sequence[Handle]) -> Handle:
    """The handle that a source of a gradient names."""
    return tensors[source] if isinstance(source, int) else source


def commit(
    trace: Trace, call: Call, storages: Sequence[Storage], table: Sequence[Buffer],
    results: Sequence[Result], numbers: Sequence[Any],
) -> Any:  # fmt: skip
    """Make what a run leaves behind the current values; what the function gives. `table` has the
    buffers of the run by slot, `numbers` those that are computed from numbers among the arguments.
    """
    first = trace.graph.memory.first_result

    def node(value: Value) -> UOp:
        """A result has its own node; others are made."""
        number = own_result(value, trace.shown, first)
        own = None if number is None else results[number].node
        return node_of(value, table) if own is None else own

    fresh = [Storage(node(value), value.device, value.requires) for value in trace.values]
    passed = [_at(call, path) for path in trace.passed]
    for number, value in trace.changes:
        storage = storages[number]
        storage.requires, storage.base = value.requires, node(value)
        storage.stamp += 1
    again = _Again(call.tensors, {"new": fresh, "input": storages}, numbers, passed)
    for place, tree in trace.effects:
        place.put(again.tree(tree))
    for owner, tree in trace.grads:
        owner_of(owner, call.tensors).grad = again.tree(tree)
    for owner, added in trace.additions:
        owner.extend(again.tree(added))
    made = [(number, mapped(parts, again.tree)) for number, parts in trace.rewrites]
    for number, parts in made:
        refill(passed[number], parts)
    return again.tree(trace.result)


def _at(call: Call, path: Sequence[Any]) -> Any:
    """The container among the arguments that these keys lead to."""
    found: Any = call
    for key in path:
        found = found[key]
    return found


class _Again:
    """Makes trees of `Leaf` and `Fixed` again; one object is made once."""

    def __init__(
        self, tensors: Sequence[Handle], storages: dict[str, Sequence[Storage]],
        numbers: Sequence[Any], passed: Sequence[Any],
    ):  # fmt: skip
        self._tensors, self._storages = tensors, storages
        self._numbers, self._passed = numbers, passed
        self._made: dict[int, Any] = {}

    def tree(self, tree: Any) -> Any:
        if type(tree) is Fixed:
            return tree.value
        known = self._made.get(id(tree))
        if known is None:
            known = self._leaf(tree) if type(tree) is Leaf else mapped(tree, self.tree)
            self._made[id(tree)] = known
        return known

    def _leaf(self, leaf: Leaf) -> Any:
        if leaf.kind == "argument":
            return self._tensors[leaf.number]
        if leaf.kind == "number":
            return self._numbers[leaf.number]
        if leaf.kind == "passed":
            return self._passed[leaf.number]
        storage = self._storages[leaf.kind][leaf.number]
        return view_of(storage, leaf.steps) if leaf.steps else whole(storage)


def whole(storage: Storage) -> Any:
    """A handle on all of a storage; made without looking where in the program it is."""
    made: Any = object.__new__(Handle._type)
    made._storage, made._node, made._stamp = storage, storage.base, storage.stamp
    made._path = made._site = made.grad = None
    return made
