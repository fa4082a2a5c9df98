"""A view read back from its index expressions: how views with symbolic sizes become one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torpor.ir.infer import Shape, Size, product
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.movement import groups, map_reshape, split
from torpor.rules.sizes import plus, polynomial, same, times
from torpor.view.merge import Mask
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
    for parts, factor in polynomial(expression).items():
        inside = [part for part in parts if axes_of(part)]
        value: Size = factor
        for part in parts:
            value = times(value, part) if part not in inside else value
        if not inside:
            offset = plus(offset, value)
        elif len(inside) == 1 and inside[0].op is Ops.RANGE:
            axis = inside[0].arg[0]
            before = factors[axis]
            factors[axis] = None if before is None else plus(before, value)
        else:
            for axis in set().union(*map(axes_of, inside)):
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


def expressions(views: Sequence[View], indices: Sequence[UOp] | None = None) -> tuple[UOp, UOp]:
    """(position in memory, condition) of a chain of views at indices into the last one: a reshape
    by groups of axes that hold the same elements, as the scheduler does; all in fewest dimensions.
    """
    shape = views[-1].shape
    at = tuple(indices or (UOp.range(size, axis) for axis, size in enumerate(shape)))
    position, valid = views[-1].to_indexed_uops(at)
    for outer, inner in pairwise(reversed(views)):
        if outer.contiguous and same(product(outer.shape), product(inner.shape)):
            small = inner.minify([own for _, own in groups(outer.shape, inner.shape)])
            at = map_reshape(outer.shape, small.shape, at)
        else:
            small = inner.minify()
            at = tuple(split(position, small.shape))
        position, valid = small.to_indexed_uops(at, valid)
    return position, valid
