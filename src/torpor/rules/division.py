"""Floor division and remainder of index arithmetic.

Every rule holds for all integers that meet the condition in its docstring, negative ones included.
IDIV and MOD floor: `-7//2` is -4 and `-7%2` is 1; a divisor of 0 is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import NodeRule, index_rule
from torpor.rules.linear import Terms, bounds, build, divided, linear, merge, scaled
from torpor.rules.sums import factors_of, product_of


def _divisor(node: UOp) -> int:
    """The constant divisor where it is positive, else 0."""
    divisor = node.src[1]
    return max(divisor.arg, 0) if divisor.op is Ops.CONST else 0


def _divide(value: UOp, divisor: int) -> UOp:
    if divisor == 1:
        return value
    return UOp(Ops.IDIV, dtypes.index, (value, UOp.index_const(divisor)))


def _remainder(value: UOp, divisor: int) -> UOp:
    return UOp(Ops.MOD, dtypes.index, (value, UOp.index_const(divisor)))


def _block(terms: Terms, constant: int, size: int) -> int | None:
    """The q with q*size <= terms + constant < (q+1)*size for all values, if there is one."""
    low, high = bounds(terms, constant)
    if low == -math.inf or high == math.inf or low // size != high // size:
        return None
    return int(low // size)


def by_constant(function: Callable[[Terms, int, int], UOp | None]) -> NodeRule:
    """A rule on terms + constant over a positive constant."""

    def rule(node: UOp) -> UOp | None:
        size = _divisor(node)
        return function(*linear(node.src[0]), size) if size else None

    rule.__name__, rule.__doc__ = function.__name__, function.__doc__
    return index_rule(rule)


@index_rule
def divide_by_one(node: UOp) -> UOp | None:
    """`x//1 -> x`."""
    return node.src[0] if _divisor(node) == 1 else None


@index_rule
def negative_divisor(node: UOp) -> UOp | None:
    """`x//(-c) -> (-x)//c`, x%(-c) -> -((-x)%c) for c > 0."""
    value, divisor = node.src
    if divisor.op is not Ops.CONST or divisor.arg >= 0:
        return None
    if node.op is Ops.IDIV:
        return _divide(scaled(value, -1), -divisor.arg)
    return scaled(_remainder(scaled(value, -1), -divisor.arg), -1)


@by_constant
def divide_multiples(terms: Terms, constant: int, size: int) -> UOp | None:
    """`(a*c + b)//c -> a + b//c` for c > 0."""
    whole, rest = divided(terms, size)
    if not whole and (constant % size or not constant):
        return None
    offset = 0
    if not rest or constant % size == 0:
        offset, constant = constant // size, 0
    if rest:
        whole = merge(whole, {_divide(build(rest, constant), size): 1})
    return build(whole, offset)


def _common_factors(terms: Terms, size: int) -> Iterator[int]:
    """The divisors of `size` that are worth taking out of `terms`, greatest first."""
    found = {math.gcd(scale, size) for scale in terms.values()}
    more = {math.gcd(a, b) for a in found for b in found}
    return iter(sorted(found | more - {1}, reverse=True))


@by_constant
def divide_common_factor(terms: Terms, constant: int, size: int) -> UOp | None:
    """`(a*g + r)//(g*c) -> (a + q)//c` for g, c > 0 and q*g <= r < (q+1)*g."""
    for factor in _common_factors(terms, size):
        if factor == 1:
            break
        whole, rest = divided(terms, factor)
        block = _block(rest, constant, factor)
        if block is not None:
            return _divide(build(whole, block), size // factor)
    return None


@index_rule
def divide_quotient(node: UOp) -> UOp | None:
    """`(x//a + k)//c -> (x + k*a)//(a*c)` for a, c > 0."""
    size = _divisor(node)
    value, offset = node.src[0], 0
    if value.op is Ops.ADD and value.src[1].op is Ops.CONST:
        value, offset = value.src[0], value.src[1].arg
    if not size or value.op is not Ops.IDIV or not _divisor(value):
        return None
    inner = _divisor(value)
    terms, constant = linear(value.src[0])
    return _divide(build(terms, constant + offset * inner), inner * size)


@index_rule
def divide_remainder(node: UOp) -> UOp | None:
    """`(x%(a*c))//a -> (x//a)%c` for a, c > 0."""
    size, value = _divisor(node), node.src[0]
    if not size or value.op is not Ops.MOD:
        return None
    whole = _divisor(value)
    if not whole or whole % size:
        return None
    return _remainder(_divide(value.src[0], size), whole // size)


@by_constant
def remainder_in_block(terms: Terms, constant: int, size: int) -> UOp | None:
    """`x%c -> x - q*c` for c > 0 and q*c <= x < (q+1)*c."""
    block = _block(terms, constant, size)
    return None if block is None else build(terms, constant - block * size)


def _reduced(scale: int, size: int) -> int:
    """The coefficient that `scale` may become under a remainder by `size`, its sign kept."""
    short = abs(scale) % size * (1 if scale > 0 else -1)
    return 1 if short == 1 - size else short


@by_constant
def remainder_of_multiples(terms: Terms, constant: int, size: int) -> UOp | None:
    """`(a*c + b)%c -> b%c` for c > 0."""
    rest = {term: _reduced(scale, size) for term, scale in terms.items() if scale % size}
    if rest == terms and 0 <= constant < size:
        return None
    return _remainder(build(rest, constant % size), size)


@by_constant
def remainder_of_remainder(terms: Terms, constant: int, size: int) -> UOp | None:
    """`(k*(x%(a*c)) + b)%c -> (k*x + b)%c` for a, c > 0."""
    for term, scale in terms.items():
        inner = _divisor(term) if term.op is Ops.MOD else 0
        if inner and scale * inner % size == 0:
            rest = {t: s for t, s in terms.items() if t is not term}
            more, offset = linear(term.src[0], scale)
            return _remainder(build(merge(rest, more), constant + offset), size)
    return None


@by_constant
def remainder_common_factor(terms: Terms, constant: int, size: int) -> UOp | None:
    """`(a*g + r)%(g*c) -> (a%c)*g + r` for g, c > 0 and 0 <= r < g."""
    for factor in _common_factors(terms, size):
        # Without a term that loses its multiplication the result would have one more.
        if factor == 1 or factor == size or factor not in map(abs, terms.values()):
            continue
        whole, rest = divided(terms, factor)
        block = _block(rest, constant, factor)
        if block is not None and (block or max(whole.values()) > 0):  # else `-x` would be longer
            kept = _remainder(build(whole, block), size // factor)
            return build(merge(rest, {kept: factor}), constant - block * factor)
    return None


# --- divisors that are not constants --------------------------------------------------------------


def _without_factor(term: UOp, factor: UOp) -> UOp | None:
    """The q with term = q*factor, if the product shows it."""
    coefficient, factors = factors_of(term)
    if factor not in factors:
        return None
    factors.remove(factor)
    return product_of(coefficient, factors)


def _symbolic_parts(node: UOp) -> tuple[Terms, Terms, int, int] | None:
    """The numerator of `node` as multiples of its symbolic positive divisor, and the rest."""
    divisor = node.src[1]
    if divisor.op is Ops.CONST or divisor.vmin <= 0:
        return None
    terms, constant = linear(node.src[0])
    whole: Terms = {}
    rest: Terms = {}
    offset = 0
    for term, scale in terms.items():
        quotient = _without_factor(term, divisor)
        if quotient is None:
            rest[term] = scale
        else:
            more, extra = linear(quotient, scale)
            whole, offset = merge(whole, more), offset + extra
    return whole, rest, constant, offset


@index_rule
def divide_symbolic_multiples(node: UOp) -> UOp | None:
    """`(a*n + b)//n -> a + b//n` for n > 0."""
    parts = _symbolic_parts(node)
    if parts is None:
        return None
    whole, rest, constant, offset = parts
    if not whole and not offset:
        return None
    if rest or constant:
        quotient = UOp(Ops.IDIV, dtypes.index, (build(rest, constant), node.src[1]))
        whole = merge(whole, {quotient: 1})
    return build(whole, offset)


@index_rule
def remainder_of_symbolic_multiples(node: UOp) -> UOp | None:
    """`(a*n + b)%n -> b%n` for n > 0."""
    parts = _symbolic_parts(node)
    if parts is None or (not parts[0] and not parts[3]):
        return None
    return UOp(Ops.MOD, dtypes.index, (build(parts[1], parts[2]), node.src[1]))


def _surely_below(value: UOp, limit: UOp) -> bool:
    """Whether 0 <= value < limit is certain."""
    if value.vmin < 0:
        return False
    if value.vmax < limit.vmin or (value.op is Ops.RANGE and value.src[0] is limit):
        return True
    return value.op is Ops.MOD and value.src[1] is limit and limit.vmin > 0


@index_rule
def below_divisor(node: UOp) -> UOp | None:
    """`x//n -> 0`, x%n -> x for 0 <= x < n."""
    if not _surely_below(*node.src):
        return None
    return UOp.index_const(0) if node.op is Ops.IDIV else node.src[0]
