"""What every integer rule rests on, as statements that an SMT solver proves in the tests.

A statement takes its operands by name and gives (before, after, condition): wherever `condition`
holds, `before` and `after` are equal. Names `p` to `s` are bools, all others integers. A rule that
takes several elementary steps has a law for each. A test fails if a rule has no law here.

Index laws are about unbounded integers, machine laws about integers that wrap (bit vectors). What
a law lists as `enumerated` is tried for every value from 1 to 64 (several names: for every
combination whose product is at most 64); everything else is symbolic, so the law is proved for all
of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.uop import UOp
from torpor.rules import compare, division, exact, logic, sums

Claim = tuple[UOp, UOp, UOp]
TRUE: Final = UOp.const(dtypes.bool, True)
FALSE: Final = UOp.const(dtypes.bool, False)


@dataclass(frozen=True)
class Law:
    """One statement that `rule` rests on. `machine`: about wrapping integers, not index."""

    rule: Callable[..., UOp | None]
    statement: Callable[..., Claim]
    enumerated: tuple[str, ...] = ()
    machine: bool = False


def _between(low: UOp, x: UOp, high: UOp) -> UOp:
    """The condition `low <= x < high`."""
    return (low < x + 1) & (x < high)


def bounds_meet(x: UOp, c: UOp) -> Claim:
    return x, c, (c < x + 1) & (x < c + 1)


def like_terms(x: UOp, c: UOp, d: UOp) -> Claim:
    return x * c + x * d, x * (c + d), TRUE


def constant_over_sum(x: UOp, y: UOp, c: UOp) -> Claim:
    return (x + y) * c, x * c + y * c, TRUE


def difference_is_sum(x: UOp, y: UOp) -> Claim:
    return x - y, x + y * -1, TRUE


def sums_in_any_order(x: UOp, y: UOp, z: UOp) -> Claim:
    return x + (y + z), (z + x) + y, TRUE


def products_in_any_order(x: UOp, y: UOp, c: UOp, d: UOp) -> Claim:
    return (x * c) * (d * y), (y * x) * (c * d), TRUE


def quotient_and_remainder(x: UOp, c: UOp) -> Claim:
    return (x // c) * c + x % c, x, c.ne(0)


def congruent_remainder(x: UOp, m: UOp, c: UOp) -> Claim:
    return ((x + m * c) // c) * c + x % c, x + m * c, c > 0


def two_remainders(x: UOp, a: UOp, b: UOp) -> Claim:
    return ((x // a) % b) * a + x % a, x % (a * b), (a > 0) & (b > 0)


def greater_is_maximum(x: UOp, y: UOp) -> Claim:
    return x.maximum(y), x, (x - y) > -1


def lesser_is_not_maximum(x: UOp, y: UOp) -> Claim:
    return x.maximum(y), y, (x - y) < 1


def greater_is_not_minimum(x: UOp, y: UOp) -> Claim:
    return x.minimum(y), y, (x - y) > -1


def lesser_is_minimum(x: UOp, y: UOp) -> Claim:
    return x.minimum(y), x, (x - y) < 1


def maximum_of_constants(x: UOp, c: UOp, d: UOp) -> Claim:
    return c.maximum(x).maximum(d), x.maximum(c.maximum(d)), TRUE


def minimum_of_constants(x: UOp, c: UOp, d: UOp) -> Claim:
    return c.minimum(x).minimum(d), x.minimum(c.minimum(d)), TRUE


# --- division -------------------------------------------------------------------------------------


def by_one(x: UOp) -> Claim:
    return x // 1, x, TRUE


def by_negative(x: UOp, c: UOp) -> Claim:
    return x // (c * -1), (x * -1) // c, c > 0


def remainder_negative(x: UOp, c: UOp) -> Claim:
    return x % (c * -1), ((x * -1) % c) * -1, c > 0


def multiples_split_off(x: UOp, y: UOp, c: UOp) -> Claim:
    return (x * c + y) // c, x + y // c, c > 0


def common_factor(x: UOp, y: UOp, k: UOp, g: UOp, c: UOp) -> Claim:
    condition = (g > 0) & (c > 0) & _between(k * g, y, (k + 1) * g)
    return (x * g + y) // (g * c), (x + k) // c, condition


def quotient_of_quotient(x: UOp, k: UOp, a: UOp, c: UOp) -> Claim:
    return (x // a + k) // c, (x + k * a) // (a * c), (a > 0) & (c > 0)


def quotient_of_remainder(x: UOp, a: UOp, c: UOp) -> Claim:
    return (x % (a * c)) // a, (x // a) % c, (a > 0) & (c > 0)


def remainder_of_block(x: UOp, k: UOp, c: UOp) -> Claim:
    return x % c, x - k * c, (c > 0) & _between(k * c, x, (k + 1) * c)


def multiples_dropped(x: UOp, y: UOp, c: UOp) -> Claim:
    return (x * c + y) % c, y % c, c > 0


def remainder_of_scaled_remainder(x: UOp, y: UOp, k: UOp, a: UOp, c: UOp) -> Claim:
    return ((x % a) * k + y) % c, (x * k + y) % c, (a > 0) & (c > 0) & ((k * a) % c).eq(0)


def remainder_of_negated_remainder(x: UOp, y: UOp, k: UOp, a: UOp, c: UOp) -> Claim:
    condition = (a > 0) & (c > 0) & ((k * a) % c).eq(0)
    return ((x % a) * (k * -1) + y) % c, (x * (k * -1) + y) % c, condition


def remainder_factor(x: UOp, y: UOp, k: UOp, g: UOp, c: UOp) -> Claim:
    condition = (g > 0) & (c > 0) & _between(k * g, y, (k + 1) * g)
    return (x * g + y) % (g * c), ((x + k) % c) * g + y - k * g, condition


def small_over_great(x: UOp, n: UOp) -> Claim:
    return x // n, UOp.index_const(0), _between(UOp.index_const(0), x, n)


def small_modulo_great(x: UOp, n: UOp) -> Claim:
    return x % n, x, _between(UOp.index_const(0), x, n)


def remainder_is_small(x: UOp, n: UOp) -> Claim:
    return (x % n) // n, UOp.index_const(0), n > 0


# --- comparisons ----------------------------------------------------------------------------------


def surely_less(x: UOp, y: UOp) -> Claim:
    return x < y, TRUE, (x - y) < 0


def surely_not_less(x: UOp, y: UOp) -> Claim:
    return x < y, FALSE, (x - y) > -1


def surely_different(x: UOp, y: UOp) -> Claim:
    return x.eq(y), FALSE, (x - y).ne(0)


def surely_equal(x: UOp, y: UOp) -> Claim:
    return x.ne(y), FALSE, (x - y).eq(0)


def terms_change_sides(x: UOp, y: UOp, z: UOp) -> Claim:
    return x + z < y, x < y + z * -1, TRUE


def less_factor(x: UOp, y: UOp, c: UOp, d: UOp, g: UOp) -> Claim:
    return x * g + c < y * g + d, x < y + ((c - d) // g) * -1, g > 0


def less_small_part(x: UOp, y: UOp, d: UOp, k: UOp, g: UOp) -> Claim:
    """With k = ceil((d-y)/g), written without a division."""
    return x * g + y < d, x < k, (g > 0) & ((k - 1) * g < d - y) & (d - y < k * g + 1)


def quotient_below(x: UOp, d: UOp, c: UOp) -> Claim:
    return x // c < d, x < d * c, c > 0


def quotient_above(x: UOp, d: UOp, c: UOp) -> Claim:
    return d < x // c, d * c + c - 1 < x, c > 0


def equal_factor(x: UOp, y: UOp, c: UOp, d: UOp, g: UOp) -> Claim:
    return (x * g + c).eq(y * g + d), x.eq(y + (d - c) // g), (g > 0) & ((d - c) % g).eq(0)


def equal_never(x: UOp, y: UOp, c: UOp, d: UOp, g: UOp) -> Claim:
    return (x * g + c).eq(y * g + d), FALSE, (g > 0) & ((d - c) % g).ne(0)


# --- bools ----------------------------------------------------------------------------------------


def and_constant(p: UOp) -> Claim:
    return (p & TRUE) ^ (p & FALSE), p, TRUE


def or_constant(p: UOp) -> Claim:
    return (p | FALSE) & (p | TRUE), p, TRUE


def and_repeated(p: UOp, q: UOp) -> Claim:
    return (p & q) & p, p & q, TRUE


def or_repeated(p: UOp, q: UOp) -> Claim:
    return (p | q) | p, p | q, TRUE


def and_complement(p: UOp, q: UOp) -> Claim:
    return (p & q) & ~p, FALSE, TRUE


def or_complement(p: UOp, q: UOp) -> Claim:
    return (p | q) | ~p, TRUE, TRUE


def both_less(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x < c) & (x < d), x < c.minimum(d), TRUE


def contradictory(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x < c) & (x * -1 < d), FALSE, c + d < 2


def either_less(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x < c) | (x < d), x < c.maximum(d), TRUE


def exhaustive(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x < c) | (x * -1 < d), TRUE, c + d > 0


def xor_constant(p: UOp) -> Claim:
    return FALSE ^ p, p, TRUE


def double_negation(p: UOp) -> Claim:
    return (p ^ TRUE) ^ TRUE, p, TRUE


def xor_itself(p: UOp) -> Claim:
    return p ^ p, FALSE, TRUE


def not_less(x: UOp, y: UOp) -> Claim:
    return ~(x < y), y < x + 1, TRUE


def not_equal(x: UOp, y: UOp) -> Claim:
    return ~x.eq(y), x.ne(y), TRUE


# --- integers that wrap ---------------------------------------------------------------------------


def times_one(x: UOp) -> Claim:
    return x * 1, x, TRUE


def times_zero(x: UOp) -> Claim:
    return x * 0, x.const_like(0), TRUE


def plus_zero(x: UOp) -> Claim:
    return x + 0, x, TRUE


def minus_zero(x: UOp) -> Claim:
    return x - 0, x, TRUE


def add_twice(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x + c) + d, x + (c + d), TRUE


def multiply_twice(x: UOp, c: UOp, d: UOp) -> Claim:
    return (x * c) * d, x * (c * d), TRUE


def sum_commutes(x: UOp, c: UOp) -> Claim:
    return c + x, x + c, TRUE


def product_commutes(x: UOp, c: UOp) -> Claim:
    return c * x, x * c, TRUE


def bits_commute(x: UOp, c: UOp) -> Claim:
    return (c & x) + (c | x) + (c ^ x), (x & c) + (x | c) + (x ^ c), TRUE


def where_known(x: UOp, y: UOp) -> Claim:
    return TRUE.where(x, y) - FALSE.where(x, y), x - y, TRUE


def where_either(p: UOp, x: UOp) -> Claim:
    return p.where(x, x), x, TRUE


def where_negated(p: UOp, x: UOp, y: UOp) -> Claim:
    return (~p).where(x, y), p.where(y, x), TRUE


def where_itself(p: UOp) -> Claim:
    return p.where(TRUE, FALSE), p, TRUE


def where_again(p: UOp, x: UOp, y: UOp, z: UOp) -> Claim:
    return p.where(p.where(x, y), z), p.where(x, z), TRUE


def maximum_of_same(x: UOp) -> Claim:
    return x.maximum(x) + x.minimum(x), x + x, TRUE


def bits_of_same(x: UOp) -> Claim:
    return (x & x) + (x | x), x + x, TRUE


_TWO: Final = ("g", "c")

LAWS: Final[tuple[Law, ...]] = (
    Law(sums.constant_by_bounds, bounds_meet),
    Law(sums.collect_terms, like_terms),
    Law(sums.collect_terms, constant_over_sum),
    Law(sums.collect_terms, difference_is_sum),
    Law(sums.collect_terms, sums_in_any_order),
    Law(sums.order_factors, products_in_any_order),
    Law(sums.rejoin_quotient, quotient_and_remainder, ("c",)),
    Law(sums.rejoin_quotient, congruent_remainder, ("c",)),
    Law(sums.rejoin_remainder, two_remainders, ("a", "b")),
    Law(sums.extremum_by_difference, greater_is_maximum),
    Law(sums.extremum_by_difference, lesser_is_not_maximum),
    Law(sums.extremum_by_difference, greater_is_not_minimum),
    Law(sums.extremum_by_difference, lesser_is_minimum),
    Law(sums.extremum_of_constants, maximum_of_constants),
    Law(sums.extremum_of_constants, minimum_of_constants),
    Law(division.divide_by_one, by_one),
    Law(division.divide_by_negative, by_negative),
    Law(division.remainder_by_negative, remainder_negative),
    Law(division.divide_multiples, multiples_split_off, ("c",)),
    Law(division.divide_common_factor, common_factor, _TWO),
    Law(division.divide_quotient, quotient_of_quotient, ("a", "c")),
    Law(division.divide_remainder, quotient_of_remainder, ("a", "c")),
    Law(division.remainder_in_block, remainder_of_block, ("c",)),
    Law(division.remainder_of_multiples, multiples_dropped, ("c",)),
    Law(division.remainder_of_remainder, remainder_of_scaled_remainder, ("k", "a", "c")),
    Law(division.remainder_of_remainder, remainder_of_negated_remainder, ("k", "a", "c")),
    Law(division.remainder_common_factor, remainder_factor, _TWO),
    Law(division.divide_symbolic_multiples, multiples_split_off),
    Law(division.remainder_of_symbolic_multiples, multiples_dropped),
    Law(division.divide_below, small_over_great),
    Law(division.divide_below, remainder_is_small),
    Law(division.remainder_below, small_modulo_great),
    Law(compare.compare_bounds, surely_less),
    Law(compare.compare_bounds, surely_not_less),
    Law(compare.compare_bounds, surely_different),
    Law(compare.compare_bounds, surely_equal),
    Law(compare.less_collect, terms_change_sides),
    Law(compare.less_collect, less_factor, ("g",)),
    Law(compare.less_block, less_small_part, ("g",)),
    Law(compare.less_quotient, quotient_below),
    Law(compare.quotient_greater, quotient_above),
    Law(compare.equal_collect, equal_factor, ("g",)),
    Law(compare.equal_collect, equal_never, ("g",)),
    Law(logic.fold_constant, and_constant),
    Law(logic.fold_constant, or_constant),
    Law(logic.drop_repeated, and_repeated),
    Law(logic.drop_repeated, or_repeated),
    Law(logic.drop_complement, and_complement),
    Law(logic.drop_complement, or_complement),
    Law(logic.join_inequalities, both_less),
    Law(logic.join_inequalities, contradictory),
    Law(logic.widen_inequalities, either_less),
    Law(logic.widen_inequalities, exhaustive),
    Law(logic.not_constant, xor_constant),
    Law(logic.not_not, double_negation),
    Law(logic.xor_same, xor_itself),
    Law(logic.not_comparison, not_less),
    Law(logic.not_comparison, not_equal),
    Law(exact.multiply_by_one, times_one, machine=True),
    Law(exact.multiply_by_zero, times_zero, machine=True),
    Law(exact.add_zero, plus_zero, machine=True),
    Law(exact.subtract_zero, minus_zero, machine=True),
    Law(exact.divide_by_one, by_one, machine=True),
    Law(exact.add_constants, add_twice, machine=True),
    Law(exact.multiply_constants, multiply_twice, machine=True),
    Law(exact.constant_last, sum_commutes, machine=True),
    Law(exact.constant_last, product_commutes, machine=True),
    Law(exact.constant_last, bits_commute, machine=True),
    Law(exact.where_constant, where_known, machine=True),
    Law(exact.where_same, where_either, machine=True),
    Law(exact.where_bool, where_itself, machine=True),
    Law(exact.where_not, where_negated, machine=True),
    Law(exact.where_where, where_again, machine=True),
    Law(exact.extremum_same, maximum_of_same, machine=True),
    Law(exact.extremum_same, bits_of_same, machine=True),
)
