"""Nodes of a graph made again with other numbers, and what refuses that: see `vary.py`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

from torpor.base.dtypes import DType
from torpor.base.errors import ShapeError
from torpor.device import Buffer
from torpor.graph.abreast import becomes_one
from torpor.ir.contract_graph import GRAPH
from torpor.ir.infer import Size, largest, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.records import BufferSpec
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import BODIED, roots_of, with_roots
from torpor.pipeline.general import Roots

# Terms of a sum of floats up to which their number varies. It is added up in order: n terms lose
# about the square root of n units in the last place, 64 by choice. Longer sums are split. Others
# lose time alone, in a thousand runs about what compiling takes.
TERMS: Final = 1 << 12
EXACT_TERMS: Final = 1 << 16
_FUNCTION: Final = Ops.FUNCTION  # an enumeration is slow to ask for its members
_ROUNDED: Final = frozenset({Ops.ADD, Ops.MUL})


def nodes_of(roots: Roots) -> list[UOp]:
    """The nodes of a graph in order, its sink last, without what only gradients need."""
    stack, order = [UOp.sink(*(node for node, _ in roots))], dict[UOp, None]()
    while stack:
        node = stack[-1]
        below = node.src[:1] if node.op is _FUNCTION else node.src
        if node not in order and (more := [one for one in below if one not in order]):
            stack += more
        else:
            order[stack.pop()] = None
    return [*order]


def remake(
    nodes: Iterable[UOp],
    args: Mapping[UOp, Any],
    done: dict[UOp, UOp],
    look: Callable[[UOp, UOp], None] | None = None,
) -> None:
    """Make nodes with these args, and those of loops' bodies, where they are not `done` already;
    `look` is told of what each has become, and is to have bodies checked.
    """
    for node in nodes:
        if node in done:
            continue
        if node.op is Ops.FUNCTION:
            done[node] = done[node.src[0]]
            continue
        source, arg = tuple([done[s] for s in node.src]), args.get(node, node.arg)
        if node.op in BODIED:
            inside: dict[UOp, UOp] = {}
            body = UOp.sink(*roots_of(node))
            remake(body.toposort(), args, inside, look)
            arg = with_roots(arg, inside[body].src)
            if look is not None:
                loop = node if node.op is Ops.LOOP else node.src[0]
                given = source if loop is node else source[0].src
                check_body(inside.values(), loop.arg.stepped, given)
        done[node] = made = UOp(node.op, node.dtype, source, arg)
        if look is not None:
            look(made, node)
        made.origins = made.origins or node.origins


def stand_in(dtype: DType, device: str, size: int, shape: tuple[Size, ...]) -> UOp:
    """Memory that other memory stands for, in a shape."""
    buffer = Buffer(device, size, dtype, BufferSpec(varying=True))
    memory = UOp(Ops.BUFFER, dtype, (), buffer)
    return shaped(UOp(Ops.RESHAPE, dtype, (memory,), shape), shape)


def refuse_another(made: UOp, node: UOp, changed: Container[UOp]) -> None:
    """A `ShapeError` where a node with other sizes is not of the same graph as the one that it was;
    `changed`: nodes whose numbers differ.
    """
    if node.op is Ops.LOOP and node in changed and made.arg.count < 1:
        raise ShapeError("a loop without steps is another graph")
    if node.op is Ops.LOOP and rows_of(made) != rows_of(node):
        raise ShapeError("rows and carries of a loop have known sizes")
    if node.op is Ops.STEPS and shape_of(made.arg) != shape_of(node.arg):
        raise ShapeError("rows and carries of a loop have known sizes")
    if node.op is Ops.STEPS and node.src[0] in changed and becomes_one(node):
        raise ShapeError("loops of so many examples are one loop for this number alone")
    if node.op is Ops.EXPAND and not repeat_alike(made, node):
        raise ShapeError("an axis is repeated for some of the sizes, and not for others")


def rows_of(loop: UOp) -> list[Any]:
    """The shapes of what changes from step to step."""
    carries, stepped = len(loop.arg.nexts), loop.arg.stepped
    moving = [n for n in range(len(loop.src)) if n < carries or n in stepped]
    return [shape_of(loop.src[n])[n in stepped :] for n in moving]


def repeat_alike(one: UOp, other: UOp) -> bool:
    """Whether two EXPANDs may be one: each axis is repeated by both, or kept by both."""
    sides = ((shape_of(node.src[0]), node.arg) for node in (one, other))
    axes = zip(*(zip(*side, strict=True) for side in sides), strict=True)
    return all(
        source == 1 == before or (source == target and before == after)
        for (source, target), (before, after) in axes
    )


def check_body(nodes: Iterable[UOp], stepped: Sequence[int], operands: Sequence[UOp]) -> None:
    """Whether a loop's body is legal over what a step has of these."""
    slots = {node for node in nodes if node.op is Ops.SLOT}
    GRAPH.check_all(node for node in nodes if node not in slots)
    for node in slots:
        number, shape = node.arg
        if shape != shape_of(operands[number])[number in stepped :]:
            raise ShapeError("a step has another shape than what it is of")


def terms_in_order(node: UOp, other: UOp) -> int:
    """How many terms a REDUCE_AXIS adds up in order, if their number is not that of another one. Of
    a sum of all elements those along axes of known sizes are split.
    """
    shape, before = shape_of(node.src[0]), shape_of(other.src[0])
    varying = [shape[axis] for axis in node.arg[1] if shape[axis] != before[axis]]
    if not varying:
        return 0
    alone = all(size == 1 for size in shape_of(node))
    return prod(map(largest, varying)) if alone else terms_of(node)


def most_terms(node: UOp) -> int:
    """How many terms a REDUCE_AXIS may add up in order."""
    return TERMS if node.dtype.is_float and node.arg[0] in _ROUNDED else EXACT_TERMS


def terms_of(node: UOp) -> int:
    """How many elements make one of a REDUCE_AXIS."""
    shape = shape_of(node.src[0])
    return prod(largest(shape[axis]) for axis in node.arg[1])
