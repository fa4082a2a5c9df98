"""Loops and branches that stay in a compiled graph: `scan`, `while_loop` and `cond`.

The function that says what a step is runs once, on tensors that stand for what any step has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.device import Device
from torpor.graph import branch, build
from torpor.graph.loop import Enclosed, last, slot, steps
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Size, shape_of
from torpor.ir.uop import UOp
from torpor.ir.variable import is_above
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle, common_device, located, make, node_on, render_shape
from torpor.tensor.host import known_shape
from torpor.tensor.inside import Branch, Inside, Step, fresh
from torpor.tensor.mode import grad_enabled, no_grad
from torpor.tensor.nested import holds_complex
from torpor.tensor.pending import wait_for_loop
from torpor.tensor.tree import map_tree
from torpor.tensor.watch import is_watched, watcher

Leaf = tuple[str, Any]  # where a leaf is in its tree, as text, and the leaf


# --- trees ----------------------------------------------------------------------------------------
def leaves_of(tree: Any, where: str = "") -> Iterator[Leaf]:
    """Everything in lists, tuples and dicts but None, in order; of complex tensors both parts."""
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from leaves_of(part, f"{where}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for number, part in enumerate(tree):
            yield from leaves_of(part, f"{where}[{number}]")
    elif isinstance(tree, Handle) and tree.is_pair:
        yield from zip((f"{where}.real", f"{where}.imag"), tree._parts, strict=True)
    elif tree is not None:
        yield where, tree


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same structure with other leaves."""
    if isinstance(tree, dict):
        return {key: filled(part, leaves) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [filled(part, leaves) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, Handle) and tree.is_pair:
        return tree._of([next(leaves), next(leaves)])
    return None if tree is None else next(leaves)


def of_tensors(tree: Any, device: str | None = None) -> Any:
    """The tree with complex numbers as tensors; with a device all numbers and arrays, on it."""

    def tensor(leaf: Any) -> Any:
        is_one = isinstance(leaf, Handle) or not (device or holds_complex(leaf))
        return leaf if is_one else as_tensor(leaf, device=device)

    return filled(tree, (tensor(leaf) for _, leaf in leaves_of(tree)))


def structure(tree: Any) -> Any:
    """What is left of a tree without its leaves."""
    if isinstance(tree, dict):
        return dict, tuple((key, structure(part)) for key, part in tree.items())
    if isinstance(tree, list | tuple):
        return type(tree), tuple(map(structure, tree))
    return tree is None, isinstance(tree, Handle) and tree.is_pair


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
    return scanned("scan", f, init, xs, length, reverse)


def scanned(
    what: str, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any,
    length: int | None = None, reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`scan`, which errors call `what`."""
    device = _device_of(init, xs)
    init, xs = of_tensors(init, device), of_tensors(xs, device)
    begins, rows = [*leaves_of(init)], [*leaves_of(xs)]
    given = [tensor for _, tensor in (*begins, *rows)]
    count = _length_of(rows, length)
    sizes = [t.shape for _, t in begins] + [t.shape[1:] for _, t in rows]
    if not all(map(is_plain, sizes)):
        return _written_out(f, init, xs, count, reverse)
    body = Step(what, count, device)
    with body.watching():
        slots = [_placeholder(tensor, device) for _, tensor in begins]
        row_slots = [_placeholder(tensor, device, stepped=True) for _, tensor in rows]
        made = f(
            filled(init, (handle for _, handle in slots)),
            filled(xs, (handle for _, handle in row_slots)),
        )
    if not isinstance(made, tuple) or len(made) != 2:
        raise DTypeError(f"scan: the function gives (carry, y), not {type(made).__name__}")
    made = of_tensors(made)
    after = _carried_on("scan", init, begins, made[0], device)
    outs = [as_tensor(leaf, device=device) for _, leaf in leaves_of(made[1])]
    requires = grad_enabled() and any(t.requires_grad for t in (*given, *after, *outs))
    if count == 0:
        empty = [make(build.constant(0, o.dtype, (0, *o.shape)), device) for o in outs]
        return filled(init, iter([tensor for _, tensor in begins])), filled(made[1], iter(empty))
    closed = Enclosed(
        [node_on(device, tensor) for tensor in (*after, *outs)],
        {node: node_on(device, t) for (node, _), (_, t) in zip(slots, begins, strict=True)},
        {node: node_on(device, t) for (node, _), (_, t) in zip(row_slots, rows, strict=True)}
        | body.numbers(),
    )
    if not closed.has_plain_shapes():
        return _written_out(f, init, xs, count, reverse)
    loop = closed.loop(count, reverse)
    depth = 1 + max([tensor._storage.depth for tensor in given], default=0)
    ends = [_made(last(loop, n), device, requires, depth) for n in range(len(begins))]
    for end in ends:
        wait_for_loop(end._storage)
    stacked = [steps(loop, node) for node in closed.roots[len(begins) :]]
    values = [_made(node, device, requires, depth) for node in stacked]
    return filled(init, iter(ends)), filled(made[1], iter(values))


def _written_out(
    f: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any, count: Size, reverse: bool
) -> tuple[Any, Any]:
    """A scan whose sizes are not all known: step by step in the graph."""
    if not isinstance(count, int):
        raise ShapeError("scan: how long xs is has to be known, where another size is a variable")
    found = []
    for number in reversed(range(count)) if reverse else range(count):
        rows = (as_tensor(leaf)[number] for _, leaf in leaves_of(xs))
        carry, y = f(carry, filled(xs, rows))
        found.append(y)
    found = found[::-1] if reverse else found
    columns = zip(*([as_tensor(leaf) for _, leaf in leaves_of(y)] for y in found), strict=True)
    return carry, filled(found[0], (Handle._type.stack(*column) for column in columns))


def _device_of(*trees: Any) -> str:
    """Where the tensors in trees are."""
    handles = [leaf for _, leaf in leaves_of(trees) if isinstance(leaf, Handle)]
    return common_device(handles) if handles else Device.canonicalize(None)


def _length_of(rows: Sequence[Leaf], length: int | None) -> Size:
    """How many steps there are: a number, or one above a bound variable."""
    count: Size | None = length
    for where, tensor in rows:
        if not tensor.ndim:
            raise located(ShapeError(f"scan: xs{where} has no axis to go along"), (tensor,))
        size = tensor.shape[0]
        if not (isinstance(size, int) or is_above(size)):
            raise located(ShapeError(f"scan: how long xs{where} is has to be known"), (tensor,))
        other = count is not None and size is not count
        if other and not (is_plain((size, count)) and size == count):
            what = f"scan: xs{where} has {shown_size(size)} steps, not {shown_size(count)}"
            raise located(ShapeError(what), (tensor,))
        count = size
    if count is None or (isinstance(count, int) and count < 0):
        raise ShapeError("scan: needs xs, or a length from 0 on")
    return count


def shown_size(size: Size | None) -> str:
    """A size as text."""
    return size.render() if isinstance(size, UOp) else str(size)


def _placeholder(tensor: Tensor, device: str, stepped: bool = False) -> tuple[UOp, Tensor]:
    """A SLOT for a tensor, or a row of it, and a tensor that stands for it."""
    known_shape(tensor.shape[int(stepped) :])
    node = slot(fresh(), tensor._current(), stepped)
    return node, make(node, device, tensor.requires_grad)


def _made(node: UOp, device: str, requires: bool, depth: int = 0) -> Tensor:
    """A result of a loop."""
    return make(node, device, requires and node.dtype.is_float, depth=depth)


def _carried_on(
    what: str, init: Any, begins: Sequence[Leaf], made: Any, device: str
) -> list[Tensor]:
    """What the carry is after a step, which must be like what it was before."""
    leaves = [*leaves_of(made)]
    after = [
        (where, as_tensor(leaf, *([] if isinstance(leaf, Handle) else [before.dtype, device])))
        for (where, leaf), (_, before) in zip(leaves, begins, strict=False)
    ]
    names = "before a step", "after it"
    _alike(f"{what}: the carry", (init, begins), (made, after), names)
    return [tensor for _, tensor in after]


def _alike(
    what: str, one: tuple[Any, Sequence[Leaf]], other: tuple[Any, Sequence[Leaf]],
    names: tuple[str, str],
) -> None:  # fmt: skip
    """An error unless two trees have the same structure, and leaves of the same kind."""
    if structure(one[0]) != structure(other[0]):
        trees = f"{shown(one[0])} {names[0]} and {shown(other[0])} {names[1]}"
        raise ShapeError(f"{what} is {trees}")
    for (where, first), (_, second) in zip(one[1], other[1], strict=True):
        if first.shape != second.shape or first.dtype is not second.dtype:
            fault = ShapeError if first.shape != second.shape else DTypeError
            kinds = f"{kind_of(first)} {names[0]} and {kind_of(second)} {names[1]}"
            raise located(fault(f"{what}{where} is {kinds}"), (first, second))


def shown(tree: Any) -> str:
    """A tree's structure as text."""
    dots = map_tree(lambda leaf: leaf if leaf is None else "·", tree)
    return repr(dots).replace("'·'", "·")


def kind_of(tensor: Tensor) -> str:
    """Format and shape as text."""
    return f"{tensor.dtype.name} {render_shape(tensor.shape)}"


# --- cond and while_loop --------------------------------------------------------------------------
def cond(pred: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """`then(*operands)` if `pred` (a bool, or a tensor of one) holds, else `otherwise(*operands)`.

    Outside of a graph that is being traced, `pred` is read, and just that function runs. In a
    jitted function, and in a step of `scan`, both are traced, and give trees of the same structure,
    shapes and formats. If there are sums, products or loops in them, one is computed; else, and for
    the many examples of `vmap`, both are, and the result is chosen. Nothing raises, and no gradient
    flows, in the other one.

    >>> torpor.cond(Tensor(3) > 2, lambda x: x * 2, lambda x: x, Tensor([1])).tolist()
    [2]
    """
    if not isinstance(pred, Handle) or not is_watched():
        return (then if pred else otherwise)(*operands)
    if pred.size != 1:
        raise located(ShapeError(f"cond: needs one bool, not {render_shape(pred.shape)}"), (pred,))
    holds = pred.cast(dtypes.bool).reshape(())
    yes_tree, yes, given = _branch(then, operands)
    no_tree, no, more = _branch(otherwise, operands)
    _alike("cond: the result", (yes_tree, yes), (no_tree, no), ("of then", "of otherwise"))
    pairs = [(one, other) for (_, one), (_, other) in zip(yes, no, strict=True)]
    entered = list(dict.fromkeys(one._current() for one in (*given, *more)))
    device = common_device([one for pair in pairs for one in pair] or [holds])
    sides = [[node_on(device, one) for one in side] for side in zip(*pairs, strict=True)]
    condition = node_on(device, holds)
    requires = [grad_enabled() and any(one.requires_grad for one in pair) for pair in pairs]
    inside = watcher()
    for_all = isinstance(inside, Inside) and inside.of_examples()
    heavy = not for_all and branch.is_heavy([*sides[0], *sides[1]], entered)
    if not pairs:
        found = []
    elif heavy and _plain(pairs, entered):
        found = branch.branches(condition, sides[0], sides[1], entered)
    else:
        found = branch.either(condition, sides[0], sides[1], entered)
    results = [_made(node, device, needs) for node, needs in zip(found, requires, strict=True)]
    return filled(yes_tree, iter(results))


def _plain(pairs: Sequence[tuple[Tensor, Tensor]], entered: Sequence[UOp]) -> bool:
    """Whether all sizes are known."""
    shapes = [*(pair[0].shape for pair in pairs), *map(shape_of, entered)]
    return all(map(is_plain, shapes))


def _branch(
    function: Callable[..., Any], operands: Any
) -> tuple[Any, list[Leaf], Iterable[Handle]]:
    """What a function gives, its leaves, and the tensors from outside that it looked at."""
    inside = Branch()
    with inside.watching():
        made = of_tensors(function(*operands))
    return made, [(where, as_tensor(leaf)) for where, leaf in leaves_of(made)], inside.entered


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """The carry after `carry = body(carry)` as long as `cond(carry)` (one bool) holds, from `init`
    on: a tensor, or lists, tuples and dicts of them, that keeps its structure, shapes and formats.

    Both functions run once, on tensors that stand for what any round begins with; a round is
    compiled once. No gradient flows through. A `ValueRangeError` for random numbers: nobody knows
    how many will be drawn.

    >>> torpor.while_loop(lambda x: x < 100, lambda x: x * 2, Tensor(3)).item()
    192
    """
    device = _device_of(init)
    init = of_tensors(init, device)
    begins = [*leaves_of(init)]
    inside = Step("while_loop", None, device)
    with no_grad(), inside.watching():
        slots = [_placeholder(tensor, device) for _, tensor in begins]
        goes_on = as_tensor(cond(filled(init, (handle for _, handle in slots))), device=device)
        if goes_on.size != 1:
            what = f"while_loop: needs one bool, not {render_shape(goes_on.shape)}"
            raise located(ShapeError(what), (goes_on,))
        made = of_tensors(body(filled(init, (handle for _, handle in slots))))
        after = _carried_on("while_loop", init, begins, made, device)
        roots = [*after, goes_on.cast(dtypes.bool).reshape(())]
        nodes = [node_on(device, one) for one in roots]
        carried = [node_on(device, one) for _, one in begins]
    if not all(is_plain(one.shape) for one in roots):
        raise ShapeError("while_loop: all sizes have to be known")
    closed = Enclosed(nodes, dict(zip((node for node, _ in slots), carried, strict=True)), {})
    loop = closed.rounds()
    depth = 1 + max([tensor._storage.depth for _, tensor in begins], default=0)
    nodes = [build.detach(last(loop, n)) for n in range(len(begins))]
    return filled(init, iter([make(node, device, depth=depth) for node in nodes]))
