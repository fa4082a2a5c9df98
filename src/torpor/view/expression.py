"""A view read back from its index expressions: how views with symbolic sizes become one."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.ir.infer import Shape, Size
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.view.merge import Mask, plus, times
from torpor.view.movement import split
from torpor.view.view import View, larger, smaller


def terms(root: UOp, op: Ops) -> list[UOp]:
    """The operands of a tree of `op`."""
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if node.op is op:
            stack.extend(node.src)
        else:
            found.append(node)
    return found


def axes_of(node: UOp) -> set[int]:
    """The axes whose ranges are in the expression.

    By number: simplifying may also simplify the bound of a RANGE, which makes it another node.
    """
    return {below.arg[0] for below in node.toposort() if below.op is Ops.RANGE}


def slopes(expression: UOp, count: int) -> tuple[Size, list[Size | None]]:
    """(offset, factor of the range of each of `count` axes); None where an axis is not linear."""
    offset: Size = 0
    factors: list[Size | None] = [0] * count
    for term in terms(expression, Ops.ADD):
        factor: Size = 1
        inside = []
        for part in terms(term, Ops.MUL):
            if axes_of(part):
                inside.append(part)
            else:
                factor = times(factor, part)
        if not inside:
            offset = plus(offset, factor)
        elif len(inside) == 1 and inside[0].op is Ops.RANGE:
            axis = inside[0].arg[0]
            before = factors[axis]
            factors[axis] = None if before is None else plus(before, factor)
        else:
            for axis in axes_of(term):
                factors[axis] = None
    return offset, factors


def linear(expression: UOp, count: int) -> tuple[Size, list[Size]] | None:
    """(offset, factor of each axis) of an expression that is linear in the ranges."""
    offset, factors = slopes(expression, count)
    known = [factor for factor in factors if factor is not None]
    return (offset, known) if len(known) == count else None


def box_of(condition: UOp, shape: Shape) -> Mask | None:
    """The limits that a condition sets on each range; None where it is no box."""
    limits: list[tuple[Size, Size]] = [(0, size) for size in shape]
    for part in terms(condition, Ops.AND):
        if part.op is Ops.CONST and part.arg:
            continue
        negated = part.op is Ops.XOR and part.src[1].op is Ops.CONST and bool(part.src[1].arg)
        compared = part.src[0] if negated else part
        if compared.op is not Ops.CMPLT:
            return None
        difference = linear((compared.src[0] - compared.src[1]).simplify(), len(shape))
        if difference is None:
            return None
        offset, factors = difference
        used = [axis for axis, factor in enumerate(factors) if factor != 0]
        if len(used) != 1 or factors[used[0]] not in (1, -1):
            return None
        axis = used[0]
        low, high = limits[axis]
        # upwards: x + offset < 0, or not; downwards: -x + offset < 0, or not
        if factors[axis] == 1:
            bound = times(offset, -1)
        else:
            bound = plus(offset, 1)
        if (factors[axis] == 1) != negated:
            limits[axis] = (low, smaller(high, bound))
        else:
            limits[axis] = (larger(low, bound), high)
    return tuple(limits)


def compose_expressions(views: Sequence[View]) -> View | None:
    """The view that the index expressions of a chain of views spell out, if they do."""
    shape = views[-1].shape
    ranges = [UOp.range(size, axis) for axis, size in enumerate(shape)]
    position, valid = views[-1].to_indexed_uops(ranges)
    for view in reversed(views[:-1]):
        position, valid = view.to_indexed_uops(split(position, view.shape), valid)
    found = linear(position, len(shape))
    box = box_of(valid, shape)
    if found is None or box is None:
        return None
    offset, strides = found
    return View.create(shape, strides, offset, box)
