"""Loops and branches that stay in a compiled graph: `scan`, `while_loop` and `cond`.

The function that says what a step is runs once, on tensors that stand for what any step has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, GradientError, ShapeError, ValueRangeError
from torpor.device import Device
from torpor.graph import build
from torpor.graph.loop import Enclosed, last, slot, steps
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle, common_device, located, make, node_on, render_shape
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.mode import grad_enabled
from torpor.tensor.watch import Watcher, active, watcher

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

_numbers: Final = itertools.count()
Leaf = tuple[str, Any]  # where a leaf is in its tree, as text, and the leaf


# --- trees ----------------------------------------------------------------------------------------
def leaves_of(tree: Any, where: str = "") -> Iterator[Leaf]:
    """Everything in lists, tuples and dicts but None, in order."""
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from leaves_of(part, f"{where}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for number, part in enumerate(tree):
            yield from leaves_of(part, f"{where}[{number}]")
    elif tree is not None:
        yield where, tree


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same structure with other leaves."""
    if isinstance(tree, dict):
        return {key: filled(part, leaves) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [filled(part, leaves) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return None if tree is None else next(leaves)


def structure(tree: Any) -> Any:
    """What is left of a tree without its leaves."""
    if isinstance(tree, dict):
        return dict, tuple((key, structure(part)) for key, part in tree.items())
    if isinstance(tree, list | tuple):
        return type(tree), tuple(map(structure, tree))
    return tree is None


# --- tracing a body -------------------------------------------------------------------------------
class Body(Watcher):
    """Watches while the function that says what a step is runs: it must leave nothing behind, and
    read nothing that depends on a step.

    what:   the loop's name, for errors.
    count:  how many steps; `number`: the SLOT of a step's number, once somebody asked for it.
    """

    def __init__(self, what: str, count: int, device: str):
        self.what, self.count, self.device = what, count, device
        self.outer = watcher() if active else None
        self.own: dict[int, Any] = {}
        self.number: UOp | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the function runs."""
        thread = get_ident()
        active[thread] = self
        try:
            yield
        finally:
            if self.outer is None:
                active.pop(thread, None)
            else:
                active[thread] = self.outer

    def is_own(self, handle: Handle) -> bool:
        return id(handle._storage) in self.own

    def refuse(self, handle: Handle, what: str) -> None:
        """An error for what would outlive the body."""
        raise located(GradientError(f"{self.what}: {what}; hand it on as a carry"), (handle,))

    def step_number(self) -> UOp:
        """The number of a step, as a node (uint32)."""
        if self.number is None:
            rows = iota(self.count, self.device, dtypes.uint32)
            self.number = slot(("step", next(_numbers)), rows, stepped=True)
        return self.number

    def numbers(self) -> dict[UOp, UOp]:
        """The SLOT of the step's number and what it is a row of, if anything asked for it."""
        rows = iota(self.count, self.device, dtypes.uint32)
        return {} if self.number is None else {self.number: rows}

    def made(self, storage: Any) -> None:
        self.own[id(storage)] = storage
        if self.outer is not None:
            self.outer.made(storage)

    def touch(self, handle: Handle) -> None:
        if self.outer is not None and not self.is_own(handle):
            self.outer.touch(handle)

    def writing(self, handle: Handle) -> None:
        if not self.is_own(handle):
            self.refuse(handle, "a step cannot write to a tensor from outside")
        if self.outer is not None:
            self.outer.writing(handle)

    def read(self, handle: Handle) -> None:
        if any(node.op is Ops.SLOT for node in handle._current().toposort()):
            what = "a value that depends on the step cannot be read while the step is traced"
            raise located(ValueRangeError(f"{self.what}: {what}"), (handle,))
        if self.outer is not None:
            self.outer.read(handle)

    def differentiated(self, leaf: Handle | None) -> None:
        if leaf is not None and not self.is_own(leaf):
            self.refuse(leaf, "backward() in a step cannot set .grad of a tensor from outside")
        if self.outer is not None:
            self.outer.differentiated(leaf)

    def forgot(self, leaf: Handle) -> None:
        if not self.is_own(leaf):
            self.refuse(leaf, "a step cannot set .grad of a tensor from outside")

    def draws(self, rounds: int) -> int:
        rounds *= self.count
        return rounds if self.outer is None else self.outer.draws(rounds)

    def numbered(self, rounds: int) -> UOp | None:
        further = build.constant(rounds, dtypes.uint32)
        further = build.elementwise(Ops.MUL, self.step_number(), further)
        more = None if self.outer is None else self.outer.numbered(rounds * self.count)
        return further if more is None else build.elementwise(Ops.ADD, further, more)

    def drew(self, generator: Any, state: Any) -> None:
        if self.outer is not None:
            self.outer.drew(generator, state)

    def stands_for(self, node: UOp, value: UOp) -> bool:
        return self.outer is None or self.outer.stands_for(node, value)


# --- scan -----------------------------------------------------------------------------------------
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """(carry, ys) after carry, y = f(carry, x) for each x along the first axis of `xs`, from
    carry = `init` on; ys[steps, ...] are the y's, in the order of xs.

    All are tensors, or lists, tuples and dicts of them. `f` runs once, on tensors that stand for
    what any step has; one step is compiled. Without `xs`, x is None and `length` says how many
    steps. With `reverse` the steps go from the last x to the first. Differentiable, also for
    tensors that `f` uses from outside. The carry keeps its structure, shapes and formats (a
    `ShapeError` or `DTypeError` that names the leaf).

    >>> torpor.scan(lambda total, x: (total + x, total), Tensor(0), Tensor([1, 2, 3]))[1].tolist()
    [0, 1, 3]
    """
    begins = [(where, as_tensor(leaf)) for where, leaf in leaves_of(init)]
    rows = [(where, as_tensor(leaf)) for where, leaf in leaves_of(xs)]
    count = _length_of(rows, length)
    given = [tensor for _, tensor in (*begins, *rows)]
    device = common_device(given) if given else Device.canonicalize(None)
    body = Body("scan", count, device)
    with body.watching():
        slots = [_placeholder(tensor, device) for _, tensor in begins]
        row_slots = [_placeholder(tensor, device, stepped=True) for _, tensor in rows]
        made = f(
            filled(init, (handle for _, handle in slots)),
            filled(xs, (handle for _, handle in row_slots)),
        )
    if not isinstance(made, tuple) or len(made) != 2:
        raise DTypeError(f"scan: the function gives (carry, y), not {type(made).__name__}")
    after = _carried_on("scan", init, begins, made[0], device)
    outs = [as_tensor(leaf, device=device) for _, leaf in leaves_of(made[1])]
    requires = grad_enabled() and any(t.requires_grad for t in (*given, *after, *outs))
    if count == 0:
        empty = [make(steps_of_none(out), device) for out in outs]
        return filled(init, iter([tensor for _, tensor in begins])), filled(made[1], iter(empty))
    closed = Enclosed(
        [node_on(device, tensor) for tensor in (*after, *outs)],
        {node: node_on(device, t) for (node, _), (_, t) in zip(slots, begins, strict=True)},
        {node: node_on(device, t) for (node, _), (_, t) in zip(row_slots, rows, strict=True)}
        | body.numbers(),
    )
    loop = closed.loop(count, reverse)
    ends = [_made(last(loop, n), device, requires) for n in range(len(begins))]
    values = [_made(steps(loop, node), device, requires) for node in closed.roots[len(begins) :]]
    return filled(init, iter(ends)), filled(made[1], iter(values))


def _length_of(rows: Sequence[Leaf], length: int | None) -> int:
    """How many steps there are."""
    for where, tensor in rows:
        if not tensor.ndim:
            raise located(ShapeError(f"scan: xs{where} has no axis to go along"), (tensor,))
        size = known_shape(tensor.shape[:1])[0]
        if length is not None and size != length:
            what = f"scan: xs{where} has {size} steps, not {length}"
            raise located(ShapeError(what), (tensor,))
        length = size
    if length is None or length < 0:
        raise ShapeError("scan: needs xs, or a length from 0 on")
    return length


def _placeholder(tensor: Tensor, device: str, stepped: bool = False) -> tuple[UOp, Tensor]:
    """A SLOT for a tensor, or a row of it, and a tensor that stands for it."""
    known_shape(tensor.shape)
    node = slot(("step", next(_numbers)), tensor._current(), stepped)
    return node, make(node, device, tensor.requires_grad)


def _made(node: UOp, device: str, requires: bool) -> Tensor:
    """A result of a loop."""
    return make(node, device, requires and node.dtype.is_float)


def steps_of_none(out: Tensor) -> UOp:
    """Values of no step."""
    return build.constant(0, out.dtype, (0, *out.shape))


def _carried_on(
    what: str, init: Any, begins: Sequence[Leaf], made: Any, device: str
) -> list[Tensor]:
    """What the carry is after a step, which must be like what it was before."""
    if structure(init) != structure(made):
        raise ShapeError(
            f"{what}: the carry is {shown(init)} before a step and {shown(made)} after it"
        )
    found = []
    for (where, before), (_, leaf) in zip(begins, leaves_of(made), strict=True):
        dtype = None if isinstance(leaf, Handle) else before.dtype
        after = as_tensor(leaf, dtype, device if dtype else None)
        if after.shape != before.shape or after.dtype is not before.dtype:
            fault = ShapeError if after.shape != before.shape else DTypeError
            text = f"{kind_of(before)} before a step and {kind_of(after)} after it"
            raise located(fault(f"{what}: carry{where} is {text}"), (before, after))
        found.append(after)
    return found


def shown(tree: Any) -> str:
    """A tree's structure as text."""
    return repr(filled(tree, itertools.repeat("·"))).replace("'·'", "·")


def kind_of(tensor: Tensor) -> str:
    """Format and shape as text."""
    return f"{tensor.dtype.name} {render_shape(tensor.shape)}"
