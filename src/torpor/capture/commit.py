"""Two generated functions for each trace: where its inputs lie, and what a run leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torpor.capture.output import Shown, node_over, severed, table_of
from torpor.capture.tree import refill
from torpor.device import Buffer
from torpor.device.buffer import address_of
from torpor.ir.infer import Shape
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.reuse import Result
from torpor.tensor.differentiate import SEVERED
from torpor.tensor.handle import Handle
from torpor.tensor.host import buffer_node
from torpor.tensor.storage import Storage
from torpor.tensor.tensor import view_of

if TYPE_CHECKING:
    from torpor.capture.trace import Trace


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


def _whole(writer: Writer, storage: str) -> str:
    """The name of a handle on all of a storage; made without looking where in the program it is."""
    made = f"h{len(writer.lines)}"
    writer.lines += [f"{made} = new(Tensor)", f"{made}._storage = {storage}"]
    writer.lines += [f"{made}._node, {made}._stamp = {storage}.base, {storage}.stamp"]
    writer.lines += [f"{made}._path = {made}._site = {made}.grad = None"]
    return made


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


def owner_of(source: Any, tensors: Sequence[Handle]) -> Handle:
    """The handle that a source of a gradient names."""
    return tensors[source] if isinstance(source, int) else source


Gathered = tuple[list[Storage], list[Buffer], list[int]]
Gather = Callable[[Sequence[Any]], Gathered | None]
Given = tuple[tuple[Any, ...], dict[str, Any]]  # what a function is called with
Commit = Callable[
    [Sequence[Any], Sequence[Storage], Sequence[Buffer], Sequence[Result], Sequence[Any], Given],
    Any,
]


def below_leaf(base: UOp) -> UOp:
    """What lies below a value whose graph is gone; any other node itself."""
    return base.src[0] if base.op is Ops.LEAF and base.arg == SEVERED else base


class Writer:
    """Lines of a function, and the constants in them."""

    def __init__(self, **scope: Any):
        self.lines: list[str] = []
        self.made_things: dict[int, str] = {}  # names of what has been made, by id of its spec
        self.scope: dict[str, Any] = scope

    def bind(self, value: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def made(self, head: str) -> Any:
        body = "\n ".join(self.lines)
        exec(f"def made({head}):\n {body}\n", self.scope)
        return self.scope["made"]


def gather_for(trace: Trace) -> Gather:
    """A function from the tensors of a call to the inputs' storages, buffers and addresses.

    It gives None where an input is a view, is not computed, or is found in another way.
    """
    writer = Writer(MISS=None)
    if not all(isinstance(source, int | Storage) for source in trace.sources):
        writer.lines.append("return MISS")
    write_gather(writer, trace)
    places = range(len(trace.sources))
    storages, buffers = (", ".join(f"{x}{number}" for number in places) for x in "sb")
    found = ", ".join(map(PLACE.format, places)) if trace.on_host else ""
    writer.lines.append(f"return [{storages}], [{buffers}], [{found}]")
    gather: Gather = writer.made("t")
    return gather


PLACE: Final = "b{0}.place or address_of(b{0})"  # the address of an input, of which there is one


def write_gather(writer: Writer, trace: Trace, plain: bool = False) -> None:
    """The lines that find storages and buffers, `s0` and `b0` and so on, of the tensors `t`; they
    leave by `return MISS`. `plain`: it is known that no tensor has a path.
    """
    writer.scope |= {"below_leaf": below_leaf, "RESHAPE": Ops.RESHAPE, "BUFFER": Ops.BUFFER,
                     "address_of": address_of, "id": id}  # fmt: skip
    lines = writer.lines
    for number, source in enumerate(trace.sources):
        if isinstance(source, int):
            lines.append(f"t{number} = t[{source}]")
            if not plain:
                path = f"p{number}"
                leaf = f"{path}.kind == 'leaf' and {path}.previous is None"
                lines.append(f"{path} = t{number}._path")
                lines.append(f"if {path} is not None and not ({leaf}): return MISS")
            lines.append(f"s{number} = t{number}._storage")
            if trace.fixed:
                lines.append(f"if id(s{number}) in {writer.bind(trace.fixed)}: return MISS")
        elif isinstance(source, Storage):
            lines.append(f"s{number} = {writer.bind(source)}")
        base = f"n{number}"
        lines.append(f"{base} = s{number}.base")
        lines.append(f"if {base}.op is not BUFFER:")
        lines.append(f" if {base}.op is not RESHAPE: {base} = below_leaf({base})")
        lines.append(f" if {base}.op is RESHAPE: {base} = {base}.src[0]")
        lines.append(f" if {base}.op is not BUFFER: return MISS")
        lines.append(f"b{number} = {base}.arg")
    for left, right in trace.shared:
        lines.append(f"if b{left} is not b{right}: return MISS")


def commit_for(trace: Trace) -> Commit:
    """A function that makes what a run leaves behind the current values, and gives its result."""
    writer = Writer()
    for list_of, count in (("s", len(trace.sources)), ("r", len(trace.plan.outputs))):
        names = "".join(f"{list_of}{number}, " for number in range(count))
        writer.lines += [f"{names}= {list_of}"] if count else []
    write_commit(writer, trace)
    found: Commit = writer.made("t, s, i, r, n, c")
    return found


def write_commit(writer: Writer, trace: Trace) -> None:
    """The lines that leave behind what a run does, and return its result.

    They name tensors `t`, storages and results (`s0` and `r0` and so on), numbers `n`, what the
    function is called with `c`; and where they name `table`, also all inputs `i` and results `r`.
    """
    writer.scope |= {"Storage": Storage, "new": object.__new__, "Tensor": Handle._type,
                     "node": node_of, "view": view_of, "owner": owner_of,
                     "refill": refill}  # fmt: skip
    for number, path in enumerate(trace.passed):
        writer.lines.append(f"c{number} = c{''.join(f'[{writer.bind(key)}]' for key in path)}")
    nodes = _Nodes(writer, trace)
    for number, value in enumerate(trace.values):
        node = nodes.text(value)
        name = f"m{number}"
        writer.lines += [f"{name} = new(Storage)", f"{name}.base = {node}", f"{name}.stamp = 0"]
        writer.lines += [f"{name}.device, {name}.requires = {value.device!r}, {value.requires}"]
        writer.lines += [f"{name}.external = None"]
    for number, value in trace.changes:
        writer.lines.append(f"s{number}.requires = {value.requires}")
        writer.lines += [f"s{number}.base = {nodes.text(value)}", f"s{number}.stamp += 1"]
    for place, tree in trace.effects:
        writer.lines.append(f"{writer.bind(place)}.put({_tree(writer, tree)})")
    for owner, tree in trace.grads:
        writer.lines.append(f"owner({writer.bind(owner)}, t).grad = {_tree(writer, tree)}")
    for owner, added in trace.additions:
        writer.lines.append(f"{writer.bind(owner)}.extend({_tree(writer, added)})")
    made = [(number, _container(writer, parts)) for number, parts in trace.rewrites]
    for number, parts in made:
        writer.lines.append(f"refill(c{number}, {parts})")
    writer.lines.append(f"return {_tree(writer, trace.result)}")


class _Nodes:
    """The expressions for the nodes of values: a result has its own, others are made."""

    def __init__(self, writer: Writer, trace: Trace):
        self._writer, self._shown, self._kept = writer, trace.shown, trace.plan.kept
        self._first = len(trace.shown) - len(trace.plan.outputs)
        self._has_table = False

    def text(self, value: Value) -> str:
        slot, shape = value.parts[0]
        if value.joint is None and slot >= self._first:
            if self._shown[slot] == Shown(shape, value.requires):
                return f"r{slot - self._first}.node"
        if not self._has_table:
            self._has_table = True
            self._writer.scope["table"] = table_of
            self._writer.lines.append(f"b = table(i, {self._writer.bind(self._kept)}, r)")
        return f"node({self._writer.bind(value)}, b)"


def _tree(writer: Writer, tree: Any) -> str:
    """The expression that makes a tree of `Leaf` and `Fixed` again; one object is made once."""
    if type(tree) is Fixed:
        return writer.bind(tree.value)
    known = writer.made_things.get(id(tree))
    if known is None:
        text = _leaf(writer, tree) if type(tree) is Leaf else _container(writer, tree)
        known = writer.made_things[id(tree)] = f"x{len(writer.made_things)}"
        writer.lines.append(f"{known} = {text}")
    return known


def _container(writer: Writer, tree: Any) -> str:
    if isinstance(tree, list | tuple):
        parts = "".join(f"{_tree(writer, part)}, " for part in tree)
        if type(tree) is list:
            return f"[{parts}]"
        if type(tree) is tuple:
            return f"({parts})"
        kind = writer.bind(type(tree))
        return f"{kind}({parts})" if hasattr(tree, "_fields") else f"{kind}([{parts}])"
    pairs = [f"{writer.bind(key)}: {_tree(writer, part)}" for key, part in tree.items()]
    return f"{{{', '.join(pairs)}}}"


def _leaf(writer: Writer, leaf: Leaf) -> str:
    if leaf.kind == "argument":
        return f"t[{leaf.number}]"
    if leaf.kind == "number":
        return f"n[{leaf.number}]"
    if leaf.kind == "passed":
        return f"c{leaf.number}"
    storage = f"m{leaf.number}" if leaf.kind == "new" else f"s{leaf.number}"
    return f"view({storage}, {writer.bind(leaf.steps)})" if leaf.steps else _whole(writer, storage)
