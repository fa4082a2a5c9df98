"""Comparisons of index arithmetic. Every rule holds for all integers.

Canonical forms: all terms with positive coefficients left, the others right, the constant right;
where nothing is left on one side, that side is the constant: `x < 5`, `4 < x`, `x < y+1`.
"""

from __future__ import annotations

import math

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import index_rule
from torpor.rules.cost import cost_of
from torpor.rules.linear import Linear, Terms, bounds, build, difference, divided, order_of


def truth(value: bool) -> UOp:
    """The bool constant."""
    return UOp(Ops.CONST, dtypes.bool, (), value)


def below(terms: Terms, limit: int) -> UOp:
    """The canonical node of `terms < limit`."""
    positive = {term: scale for term, scale in terms.items() if scale > 0}
    negative = {term: -scale for term, scale in terms.items() if scale < 0}
    if positive:
        sides = build(positive), build(negative, limit)
    else:
        sides = UOp.index_const(-limit), build(negative)
    return UOp(Ops.CMPLT, dtypes.bool, sides)


def as_upper_bound(node: UOp) -> Linear:
    """Terms and limit of `terms < limit` for the node `left < right`."""
    terms, constant = difference(*node.src)
    return terms, -constant


def tightened(terms: Terms, limit: int) -> Linear:
    """The equal inequality with the common factor of the coefficients divided out."""
    factor = math.gcd(*terms.values())
    if factor <= 1:
        return terms, limit
    return {term: scale // factor for term, scale in terms.items()}, -(-limit // factor)


@index_rule
def compare_bounds(node: UOp) -> UOp | None:
    """`a < b -> true` where a - b < 0, false where a - b >= 0; likewise a == b and a != b."""
    low, high = bounds(*difference(*node.src))
    if node.op is Ops.CMPLT:
        return truth(True) if high < 0 else truth(False) if low >= 0 else None
    if low > 0 or high < 0:
        return truth(node.op is Ops.CMPNE)
    return truth(node.op is Ops.CMPEQ) if low == high == 0 else None


@index_rule
def less_collect(node: UOp) -> UOp | None:
    """`a*g + c < b*g + d -> a < b + ceil((d-c)/g)` for g > 0: in canonical form."""
    terms, limit = as_upper_bound(node)
    return _unless_longer(node, below(*tightened(terms, limit))) if terms else None


def _unless_longer(node: UOp, made: UOp) -> UOp | None:
    """`made`, but None where moving a term across to a 0 made an addition of a comparison."""
    zero = any(s.op is Ops.CONST and s.arg == 0 for s in made.src)
    return None if zero and cost_of(made) > cost_of(node) else made


@index_rule
def less_block(node: UOp) -> UOp | None:
    """`a*g + r < d -> a < ceil((d-r)/g)` for g > 0 where that is the same for every value of r."""
    terms, limit = as_upper_bound(node)
    for factor in sorted({abs(scale) for scale in terms.values()} - {1}, reverse=True):
        whole, rest = divided(terms, factor)
        low, high = bounds(rest)
        if not rest or low == -math.inf or high == math.inf:
            continue
        new = -((low - limit) // factor)
        if new == -((high - limit) // factor):
            return below(whole, int(new))
    return None


@index_rule
def less_quotient(node: UOp) -> UOp | None:
    """`x//c < d -> x < d*c`, d < x//c -> d*c + c - 1 < x, for c > 0."""
    quotient, limit = node.src if node.src[1].op is Ops.CONST else node.src[::-1]
    if quotient.op is not Ops.IDIV or limit.op is not Ops.CONST:
        return None
    value, divisor = quotient.src
    if divisor.op is not Ops.CONST or divisor.arg <= 0:
        return None
    low = limit.arg * divisor.arg
    if quotient is node.src[0]:
        return value < UOp.index_const(low)
    return UOp.index_const(low + divisor.arg - 1) < value


@index_rule
def equal_collect(node: UOp) -> UOp | None:
    """`a*g + c == b*g + d -> a == b + (d-c)/g` for g > 0; false if g does not divide; also !=."""
    terms, constant = difference(*node.src)
    if not terms:
        return None
    factor = math.gcd(*terms.values())
    if constant % factor:
        return truth(node.op is Ops.CMPNE)
    if terms[min(terms, key=order_of)] < 0:
        factor = -factor
    positive = {term: scale // factor for term, scale in terms.items() if scale // factor > 0}
    negative = {term: -(scale // factor) for term, scale in terms.items() if scale // factor < 0}
    sides = build(positive), build(negative, -constant // factor)
    return _unless_longer(node, UOp(node.op, dtypes.bool, sides))
