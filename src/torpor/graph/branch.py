"""Branches of which one is taken: what the other one would have computed must not show.

    either(condition, then, other, given)    both are computed, and the results chosen
    branches(condition, then, other, given)  one is computed: two loops, of no round and of one

`given` is what is computed outside of both. Where both are computed, nothing in a branch that is
not taken raises: its checks hold, its indices are 0, and it divides by 1. Nor does a gradient flow
through it: 0 times infinity is NaN, and would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from torpor.graph.elementwise import constant, elementwise
from torpor.graph.gradient_elementwise import Gradients
from torpor.graph.gradient_loop import Differentiate
from torpor.graph.loop import HEAVY, Enclosed, last, slot
from torpor.graph.movement import broadcast_to
from torpor.graph.reduce import detach, function
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import LOOPED, Ops
from torpor.ir.rewrite import unite_origins
from torpor.ir.uop import UOp

INDEXED: Final = frozenset({Ops.GATHER, Ops.SCATTER})
BRANCHED: Final = HEAVY - {Ops.GATHER}  # for what a branch is taken, rather than both computed
CHOSEN: Final = "chosen"  # the FUNCTION of what branches give
DIVIDED: Final = frozenset({Ops.IDIV, Ops.MOD})


def chosen(condition: UOp, yes: UOp, no: UOp) -> UOp:
    """One of two values, by a bool without axes."""
    return elementwise(Ops.WHERE, broadcast_to(condition, shape_of(yes)), yes, no)


def otherwise(condition: UOp) -> UOp:
    """Whether it does not hold."""
    return elementwise(Ops.XOR, condition, constant(True, condition.dtype))


def either(
    condition: UOp, then: Sequence[UOp], other: Sequence[UOp], given: Sequence[UOp]
) -> list[UOp]:
    """What two branches give, both of which are computed."""
    yes = taken(then, given, condition)
    no = taken(other, given, otherwise(condition))
    return [chosen(condition, *pair) for pair in zip(yes, no, strict=True)]


def taken(nodes: Sequence[UOp], given: Iterable[UOp], condition: UOp) -> list[UOp]:
    """The nodes as they are in a branch that is taken where the condition (without axes) holds;
    `given` are those that are computed outside of it.
    """
    entered = {node: entering(node, condition) for node in given}
    return under(nodes, entered, condition)


def entering(node: UOp, condition: UOp) -> UOp:
    """A value for a branch: a gradient comes back from it only if it is taken."""
    return function(node, (node, condition), "taken") if node.dtype.is_float else node


def under(nodes: Sequence[UOp], entered: dict[UOp, UOp], condition: UOp) -> list[UOp]:
    """The nodes, what may fail in them under the condition."""
    done = dict(entered)
    for node in UOp.sink(*nodes).toposort(lambda n: n not in entered):
        if node in done or node.op is Ops.SINK:
            continue
        source = [done[s] for s in node.src]
        if node.op is Ops.CHECK:
            source[1] = chosen(condition, source[1], like(source[1], True))
        elif node.op in INDEXED:
            source[1] = chosen(condition, source[1], like(source[1], 0))
        elif node.op in DIVIDED and node.dtype.is_int:
            source[1] = chosen(condition, source[1], like(source[1], 1))
        elif node.op in LOOPED:
            done[node] = of_loop(node, source[0], condition)
            continue
        made = node.over(tuple(source))
        unite_origins(node, made)
        done[node] = shaped(made, shape_of(node))
    return [done[node] for node in nodes]


def of_loop(node: UOp, loop: UOp, condition: UOp) -> UOp:
    """What a LOOP gives, whose steps may fail only under the condition: one more operand."""
    number = len(loop.src)
    inside = slot(number, condition)
    nexts = tuple(under(loop.arg.nexts, {}, inside))
    goes_on = loop.arg.goes_on
    if goes_on is not None:
        goes_on = elementwise(Ops.AND, under([goes_on], {}, inside)[0], inside)
    arg = replace(loop.arg, nexts=nexts, goes_on=goes_on)
    made = loop.replace(src=(*loop.src, condition), arg=arg)
    arg = under([node.arg], {}, inside)[0] if node.op is Ops.STEPS else node.arg
    return node.replace(src=(made,), arg=arg)


def like(node: UOp, number: int | bool) -> UOp:
    """A number in the shape and format of a node."""
    return constant(number, node.dtype, shape_of(node))


# --- branches of which one is run -----------------------------------------------------------------
@dataclass(frozen=True)
class Sides:
    """Results of two branches, by nodes over SLOTs: as many of each."""

    then: tuple[UOp, ...]
    other: tuple[UOp, ...]


def is_heavy(nodes: Sequence[UOp], given: Iterable[UOp]) -> bool:
    """Whether there is more than elementwise work between what is given and the nodes."""
    outside = set(given)
    order = UOp.sink(*nodes).toposort(lambda node: node not in outside)
    return any(node.op in BRANCHED and node not in outside for node in order)


def branches(
    condition: UOp, then: Sequence[UOp], other: Sequence[UOp], given: Iterable[UOp]
) -> list[UOp]:
    """What two branches give, of which one is run; `given`: what is computed outside of both."""
    body = Enclosed([*then, *other], {}, {}, {node: node for node in given})
    sides = Sides(tuple(body.roots[: len(then)]), tuple(body.roots[len(then) :]))
    return chosen_side(condition, sides, body.operands)


def chosen_side(condition: UOp, sides: Sides, operands: Sequence[UOp]) -> list[UOp]:
    """The results of one side: of two loops that begin with zeros, one has a round and the other
    has none.
    """
    found = [constant(0, node.dtype, shape_of(node)) for node in sides.then]
    fixed = {slot(number, one): one for number, one in enumerate(operands)}
    for holds, nodes in ((condition, sides.then), (otherwise(condition), sides.other)):
        carried = {slot(("result", number), one): one for number, one in enumerate(found)}
        goes_on = slot("goes on", holds)
        done = constant(False, goes_on.dtype)
        body = Enclosed([*nodes, done, goes_on], {**carried, goes_on: holds}, {}, fixed)
        loop = body.rounds()
        found = [last(loop, number) for number in range(len(nodes))]
    return [
        UOp(
            Ops.FUNCTION,
            value.dtype,
            (detach(value), condition, *operands),
            (CHOSEN, Side(sides, number)),
        )
        for number, value in enumerate(found)
    ]


@dataclass(frozen=True)
class Side:
    """One of the results of two branches, for its gradient."""

    sides: Sides
    number: int


def side_gradient(node: UOp, g: UOp, differentiate: Differentiate) -> Gradients:
    """d of a result of two branches: the gradient in the branch that is taken, which is run again
    for it.
    """
    _, condition, *operands = node.src
    side: Side = node.arg[1]
    floats = [number for number, one in enumerate(operands) if one.dtype.is_float]
    slots = [slot(number, operands[number]) for number in floats]
    seed = slot(len(operands), g)
    both = []
    for nodes in (side.sides.then, side.sides.other):
        parts = differentiate([nodes[side.number]], [seed], slots)
        zeros = [constant(0, one.dtype, shape_of(one)) for one in slots]
        both.append(tuple(z if p is None else p for z, p in zip(zeros, parts, strict=True)))
    made = dict(zip(floats, chosen_side(condition, Sides(*both), (*operands, g)), strict=True))
    return None, *(made.get(number) for number in range(len(operands)))
