"""The gradient of a loop: a loop that goes the other way.

A step of it has the gradients of what the carries were after the step (its own carries), and those
of the values that somebody has of the step. It gives the gradients of what the step was made of.
What a step of the loop had is there again: what its carries were before it, and the results of its
reductions and of functions such as exp, are kept step by step; all else is computed anew. The
gradient of an operand that is the same at each step is a sum over the steps: its terms are values
of the reverse loop, and a pass before scheduling makes one sum, or product, of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from torpor.base.errors import GradientError
from torpor.graph.elementwise import constant, elementwise
from torpor.graph.gradient_elementwise import Gradients
from torpor.graph.loop import Enclosed, bytes_of, last, slot, slots_of, steps
from torpor.graph.movement import reshape
from torpor.graph.reduce import reduce
from torpor.ir.infer import largest, shape_of
from torpor.ir.ops import LOOPED, TRANSCENDENTAL, Ops
from torpor.ir.uop import UOp

Differentiate = Callable[[Sequence[UOp], Sequence[UOp], Sequence[UOp]], list[UOp | None]]

# Results that a step of the reverse loop finds kept, as long as they are not far larger than what a
# step reads and hands on: the others are computed anew.
KEPT: Final = (
    frozenset({Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.SCATTER, Ops.PRIOR}) | LOOPED,
    TRANSCENDENTAL,
)
KEPT_MOST: Final = 16  # times the bytes that a step reads and hands on
TERMS_MOST: Final = 1 << 26  # bytes of the terms of a sum over steps that may wait to be summed


def loop_gradient(node: UOp, given: Mapping[UOp, UOp], differentiate: Differentiate) -> Gradients:
    """The gradient of each operand of a LOOP, of the gradients of what it gives."""
    loop, slots = node.arg, slots_of(node)
    if loop.goes_on is not None:
        raise GradientError("no gradient flows through a while_loop")
    floats = [n for n in range(len(loop.nexts)) if slots[n].dtype.is_float]
    after = {n: slot(("after", n), node.src[n]) for n in floats}
    seeds = seeds_of(given)
    rows = {slot(("row", n), g, stepped=True): g for n, g in enumerate(seeds.values())}
    roots = [*(loop.nexts[n] for n in floats), *seeds]
    targets = [n for n, one in enumerate(slots) if one.dtype.is_float]
    parts = differentiate(roots, [*after.values(), *rows], [slots[n] for n in targets])
    found = {n: part for n, part in zip(targets, parts, strict=True) if part is not None}
    carried = {one: end_of(node, n, given) for n, one in after.items()}
    nexts = [found.get(n, zeros_of(slots[n])) for n in floats]
    grown = {n: slot(("sum", n), node.src[n]) for n in found if waits_too_long(node, n, found[n])}
    for n, one in grown.items():
        carried[one] = zeros_of(node.src[n])
        nexts.append(elementwise(Ops.ADD, one, found[n]))
    wanted = [n for n in found if n >= len(loop.nexts) and n not in grown]
    body = Enclosed(
        [*nexts, *(found[n] for n in wanted)],
        carried,
        {**kept(node, [*loop.nexts, *seeds]), **rows},
        {one: node.src[n] for n, one in enumerate(slots) if is_fixed(node, n)},
    )
    reverse = body.loop(loop.length, not loop.backwards)
    results = {n: last(reverse, place) for place, n in enumerate((*floats, *grown))}
    for n, inside in zip(wanted, body.roots[len(nexts) :], strict=True):
        each = steps(reverse, inside)
        results[n] = total(each) if is_fixed(node, n) else each
    return tuple([results.get(n) for n in range(len(node.src))])


def end_of(node: UOp, number: int, given: Mapping[UOp, UOp]) -> UOp:
    """The gradient of what a carry is in the end."""
    found = [g for item, g in given.items() if item.op is Ops.LAST and item.arg == number]
    return found[0] if found else zeros_of(node.src[number])


def seeds_of(given: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """Nodes of the body, with the gradients of their values."""
    return {item.arg: g for item, g in given.items() if item.op is Ops.STEPS}


def is_fixed(node: UOp, number: int) -> bool:
    """Whether an operand is the same at each step."""
    return number >= len(node.arg.nexts) and number not in node.arg.stepped


def zeros_of(like: UOp) -> UOp:
    """Zeros in the shape of a node."""
    return constant(0, like.dtype, shape_of(like))


def total(each: UOp) -> UOp:
    """The sum over the steps."""
    return reshape(reduce(each, Ops.ADD, 0), shape_of(each)[1:])


def waits_too_long(node: UOp, number: int, term: UOp) -> bool:
    """Whether the terms of a sum over steps are rather added up at each: there is no product that
    would sum them, and they would take much memory.
    """
    below = term.below((Ops.RESHAPE, Ops.PERMUTE, Ops.CAST))
    large = bytes_of([term]) * largest(node.arg.length) > TERMS_MOST
    return is_fixed(node, number) and below.op is not Ops.REDUCE_AXIS and large


def kept(node: UOp, roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """What the reverse loop reads of each step: nodes of the body, and their values by step."""
    loop, slots = node.arg, slots_of(node)
    found = {slots[n]: node.src[n] for n in loop.stepped}
    found |= {slots[n]: steps(node, slots[n]) for n in range(len(loop.nexts))}
    order = UOp.sink(*roots).toposort()
    room = KEPT_MOST * bytes_of([*found, *loop.nexts])
    for kind in KEPT:
        for one in order:
            if one.op in kind and bytes_of([one]) <= room and not is_constant(one):
                found[one] = steps(node, one)
                room -= bytes_of([one])
    return found


def is_constant(node: UOp) -> bool:
    """Whether a node of a body has the same value at each step of any loop."""
    return not any(below.op is Ops.SLOT for below in node.toposort())
