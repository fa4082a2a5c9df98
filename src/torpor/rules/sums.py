"""Sums, products and extrema of index arithmetic. Every rule holds for all integers."""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import index_rule
from torpor.rules.linear import bounds, build, difference, linear, merge, order_of

_OF_SUMS: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.CONST})  # what `linear` looks into


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
    if node.op is Ops.ADD and _extends(*node.src):
        return None
    if node.op is Ops.MUL and _is_scaled_term(*node.src):
        return None
    terms, constant = linear(node)
    return build(terms, constant)


def _is_scaled_term(term: UOp, scale: UOp) -> bool:
    """Whether `term * scale` is canonical: a quick yes."""
    if scale.op is not Ops.CONST or scale.arg in (0, 1) or term.op in _OF_SUMS:
        return False
    return bool(term.vmin != term.vmax)


def _split(part: UOp) -> tuple[UOp, int]:
    """A summand as term and coefficient."""
    if part.op is Ops.MUL and part.src[1].op is Ops.CONST:
        return part.src[0], part.src[1].arg
    return part, 1


def _extends(total: UOp, part: UOp) -> bool:
    """Whether the canonical sum `total` stays canonical with `part` after it: a quick yes.

    The operands have been rewritten already; no is always safe, it means the long way.
    """
    term, scale = _split(part)
    last, size = _split(total.src[1] if total.op is Ops.ADD else total)
    if last.op in _OF_SUMS or last.op is Ops.CONST:
        return False
    if term.op is Ops.CONST:
        return bool(term.arg)
    if term.op in _OF_SUMS or term.vmin == term.vmax or abs(size) < abs(scale):
        return False
    if abs(size) == abs(scale) and (abs(size) != 1 or order_of(last) >= order_of(term)):
        return False
    while total.op is Ops.ADD:  # the same term with another coefficient would have to be merged
        earlier = _split(total.src[1])[0]
        if earlier is term or earlier.op is Ops.ADD:
            return False
        total = total.src[0]
    first = _split(total)[0]
    return first is not term and first.op is not Ops.ADD and first.vmin != first.vmax


def _has_remainder(total: UOp) -> bool:
    """Whether a summand of the canonical sum may be a remainder."""
    while True:
        term = _split(total.src[1] if total.op is Ops.ADD else total)[0]
        if term.op in (Ops.MOD, Ops.ADD):
            return True
        if total.op is not Ops.ADD:
            return False
        total = total.src[0]


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


@index_rule
def rejoin_quotient(node: UOp) -> UOp | None:
    """`(x//c)*c + x%c -> x`."""
    if not _has_remainder(node):
        return None
    terms, constant = linear(node)
    for term, scale in terms.items():
        if term.op is not Ops.MOD or term.src[1].op is not Ops.CONST:
            continue
        value, size = term.src[0], term.src[1].arg
        if size <= 0 or scale * size not in terms.values():
            continue
        for quotient, other in terms.items():
            if other == scale * size and quotient is not term:
                whole = _whole(quotient, value, size)
                if whole is not None:
                    rest = {t: s for t, s in terms.items() if t not in (term, quotient)}
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
    if not _has_remainder(node):
        return None
    terms, constant = linear(node)
    for term, scale in terms.items():
        if term.op is not Ops.MOD or term.src[1].op is not Ops.CONST or term.src[1].arg <= 0:
            continue
        value, size = term.src[0], term.src[1].arg
        for upper, other in terms.items():
            if other != scale * size or upper.op is not Ops.MOD or upper is term:
                continue
            count = upper.src[1]
            if count.op is Ops.CONST and count.arg > 0:
                whole = _whole(upper.src[0], value, size)
                if whole is not None:
                    rest = {t: s for t, s in terms.items() if t not in (term, upper)}
                    joined = whole % UOp.index_const(size * count.arg)
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
