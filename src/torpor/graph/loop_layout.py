"""Products in a loop's body read what is the same at each step in the order that suits them.

before  at each step: h' = tanh(h @ W.T), which reads W along the axis that is summed
after   V = W.T stored before the loop;  at each step: h' = tanh(h @ V)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from torpor.graph.loop import slot
from torpor.ir.infer import Size, largest, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import Stored
from torpor.ir.uop import UOp

LAID_OUT: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE})


def with_transposes(
    body: UOp, fixed: Mapping[UOp, UOp], moving: set[UOp]
) -> tuple[UOp, dict[UOp, UOp]]:
    """The body, of which products of what moves from step to step with a matrix that is `fixed`
    (SLOT -> its value) read that from a transpose, where the axis that they sum over is its last in
    memory; and the SLOTs of these transposes, with their values.
    """
    found: dict[UOp, UOp] = {}
    stored: dict[UOp, UOp] = {}
    for node in body.toposort():
        if node.op is not Ops.REDUCE_AXIS or node.arg[0] is not Ops.ADD or node not in moving:
            continue
        for one, other in _each_beside_the_other(node.src[0]):
            base = one.below(MOVEMENT)
            if base not in fixed or other not in moving or _rows(other, node) < 2:
                continue
            view = one.substitute({base: fixed[base]})
            memory = _memory(view)
            last = len(shape_of(memory)) - 1
            if source_axes(view, node.arg[1], memory) == {last}:
                turned = _permuted(memory, (last, *range(last)))
                here = slot((base.arg[0], "transposed"), turned)
                stored[here] = UOp(
                    Ops.CONTIGUOUS, turned.dtype, (turned,), Stored("read by a loop")
                )
                found[one] = view.substitute({memory: _permuted(here, (*range(1, last + 1), 0))})
    return body.substitute(found), stored


def _permuted(node: UOp, order: tuple[int, ...]) -> UOp:
    return UOp(Ops.PERMUTE, node.dtype, (node,), order)


def _each_beside_the_other(product: UOp) -> list[tuple[UOp, UOp]]:
    """The operands of a MUL, each with the other."""
    if product.op is not Ops.MUL:
        return []
    x, y = product.src
    return [(x, y), (y, x)]


def _rows(operand: UOp, product: UOp) -> int:
    """How many sums of a product an operand has terms of its own for."""
    summed = math.prod(largest(shape_of(product.src[0])[axis]) for axis in product.arg[1])
    return math.prod(map(largest, shape_of(operand.below(LAID_OUT)))) // max(1, summed)


def _memory(view: UOp) -> UOp:
    """What lies in memory as it is, of which movements make a view."""
    chain = [view]
    while chain[-1].op in MOVEMENT:
        chain.append(chain[-1].src[0])
    while len(chain) > 1 and chain[-2].op is Ops.RESHAPE:
        chain.pop()
    return chain[-1]


def source_axes(view: UOp, axes: Iterable[int], memory: UOp) -> set[int] | None:
    """The axes of memory that some axes of a view of it come from; None where a RESHAPE did more
    than add or drop axes of one element, or there was a movement of another kind.
    """
    found = set(axes)
    while view is not memory:
        if view.op not in LAID_OUT:
            return None
        if view.op is Ops.PERMUTE:
            found = {view.arg[axis] for axis in found}
        elif view.op is Ops.RESHAPE:
            same = _same_axes(shape_of(view), shape_of(view.src[0]))
            if not found <= same.keys():
                return None
            found = {same[axis] for axis in found}
        view = view.src[0]
    return found


def _same_axes(after: tuple[Size, ...], before: tuple[Size, ...]) -> dict[int, int]:
    """Axes of two shapes that are the same but for axes of one element."""
    places = [[axis for axis, size in enumerate(shape) if size != 1] for shape in (after, before)]
    alike = [after[axis] for axis in places[0]] == [before[axis] for axis in places[1]]
    return dict(zip(*places, strict=True)) if alike else {}
