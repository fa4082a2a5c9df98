"""Branches of which one is chosen by a bool: what was computed for the other one must not show.

    chosen(condition, x, y)        x where the condition holds, else y
    taken(nodes, given, condition) nodes computed from `given` for a branch, under its condition

Nothing in a branch that is not taken raises: its checks hold, its indices are 0, and it divides by
1. Nor does a gradient flow through it: 0 times infinity is NaN, and would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from torpor.graph.elementwise import constant, elementwise
from torpor.graph.loop import slot
from torpor.graph.movement import broadcast_to
from torpor.graph.reduce import function
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import LOOPED, Ops
from torpor.ir.rewrite import unite_origins
from torpor.ir.uop import UOp

INDEXED: Final = frozenset({Ops.GATHER, Ops.SCATTER})
DIVIDED: Final = frozenset({Ops.IDIV, Ops.MOD})


def chosen(condition: UOp, yes: UOp, no: UOp) -> UOp:
    """One of two values, by a bool without axes."""
    return elementwise(Ops.WHERE, broadcast_to(condition, shape_of(yes)), yes, no)


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
        made = node if tuple(source) == node.src else node.replace(src=tuple(source))
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
