"""Sums, products and extrema of index arithmetic. Every rule holds for all integers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import index_rule
from torpor.rules.linear import Terms, bounds, build, difference, linear, merge, order_of


@index_rule
def constant_by_bounds(node: UOp) -> UOp | None:
    """`x -> c` where c <= x <= c."""
    low = node.vmin
    if low != node.vmax or low in (math.inf, -math.inf):
        return None
    return UOp(Ops.CONST, node.dtype, (), node.dtype.cast_scalar(low))


@index_rule
def collect_terms(node: UOp) -> UOp | None:
    """`a*c + a*d -> a*(c+d)`: a sum in canonical order, constants multiplied in."""
    return build(*linear(node))


@index_rule
def order_factors(node: UOp) -> UOp | None:
    """`(a*c)*(b*d) -> (a*b)*(c*d)`: factors in canonical order, the constant last."""
    if node.src[0].op is Ops.CONST or node.src[1].op is Ops.CONST:
        return None
    coefficient, factors = factors_of(node)
    return product_of(coefficient, factors)


def factors_of(node: UOp) -> tuple[int, list[UOp]]:
    """The constant and the other factors of a product."""
    coefficient, factors, stack = 1, [], [node]
    while stack:
        factor = stack.pop()
        if factor.op is Ops.MUL:
            stack.extend(reversed(factor.src))
        elif factor.op is Ops.CONST:
            coefficient *= factor.arg
        else:
            factors.append(factor)
    return coefficient, factors


def product_of(coefficient: int, factors: list[UOp]) -> UOp:
    """The canonical product of a constant and other factors."""
    if not factors or not coefficient:
        return UOp.index_const(coefficient)
    ordered = sorted(factors, key=order_of)
    total = ordered[0]
    for factor in ordered[1:]:
        total = UOp(Ops.MUL, dtypes.index, (total, factor))
    return build({total: coefficient})


def _beside_remainders(node: UOp) -> Iterator[tuple[Terms, int, UOp, UOp, int]]:
    """For each term scale*(v%c) of a sum and each term scale*c*other: the rest of the sum, its
    constant, the remainder, `other` and the scale.
    """
    terms, constant = linear(node)
    for term, scale in terms.items():
        if term.op is Ops.MOD and term.src[1].op is Ops.CONST and term.src[1].arg > 0:
            for other, more in terms.items():
                if more == scale * term.src[1].arg and other is not term:
                    rest = {t: s for t, s in terms.items() if t not in (term, other)}
                    yield rest, constant, term, other, scale


@index_rule
def rejoin_quotient(node: UOp) -> UOp | None:
    """`(x//c)*c + x%c -> x`."""
    for rest, constant, remainder, quotient, scale in _beside_remainders(node):
        whole = _whole(quotient, remainder.src[0], remainder.src[1].arg)
        if whole is not None:
            more, offset = linear(whole, scale)
            return build(merge(rest, more), constant + offset)
    return None


def _whole(quotient: UOp, value: UOp, size: int) -> UOp | None:
    """The x of `(x//size)*size + value%size`, where `quotient` is x//size; None if it is not."""
    wanted = UOp.index_const(size)
    if quotient.op is Ops.IDIV and quotient.src[1] is wanted:
        terms, constant = difference(quotient.src[0], value)
        if constant % size == 0 and all(scale % size == 0 for scale in terms.values()):
            return quotient.src[0]
    exact = UOp(Ops.IDIV, dtypes.index, (value, wanted)).simplify()
    return value if exact is quotient else None


@index_rule
def rejoin_remainder(node: UOp) -> UOp | None:
    """`((x//a)%b)*a + x%a -> x%(a*b)`."""
    for rest, constant, remainder, upper, scale in _beside_remainders(node):
        size = remainder.src[1].arg
        if upper.op is Ops.MOD and upper.src[1].op is Ops.CONST and upper.src[1].arg > 0:
            whole = _whole(upper.src[0], remainder.src[0], size)
            if whole is not None:
                joined = whole % UOp.index_const(size * upper.src[1].arg)
                return build(merge(rest, {joined: scale}), constant)
    return None


@index_rule
def extremum_by_difference(node: UOp) -> UOp | None:
    """`max(a, b) -> a` where a - b >= 0, min(a, b) -> b; and the other way round."""
    low, high = bounds(*difference(*node.src))
    if low >= 0:
        return node.src[node.op is Ops.MIN]
    return node.src[node.op is Ops.MAX] if high <= 0 else None


@index_rule
def extremum_of_constants(node: UOp) -> UOp | None:
    """`max(max(x, c), d) -> max(x, max(c, d))`; likewise min; the constant last."""
    left, right = node.src
    if left.op is Ops.CONST:
        return node.replace(src=(right, left))
    if right.op is Ops.CONST and left.op is node.op and left.src[1].op is Ops.CONST:
        choose = max if node.op is Ops.MAX else min
        constant = UOp.index_const(choose(left.src[1].arg, right.arg))
        return node.replace(src=(left.src[0], constant))
    return None
