"""What every integer rule rests on, as statements that an SMT solver proves in the tests.

A statement is a pair of expressions, `before` and `after`, that are equal wherever its condition
holds. A rule that takes several elementary steps has a law for each. A test fails if a rule has no
law here.

Laws on _x, _y, ... are about unbounded integers, those on _u, _v, _w about integers that wrap (bit
vectors); _p and _q are bools. What a law lists as `enumerated` is tried for every value from 1 to
64 (several names: for every combination whose product is at most 64); everything else is symbolic,
so the law is proved for all of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules import compare, division, exact, logic, sums

TRUE: Final = UOp.const(dtypes.bool, True)
FALSE: Final = UOp.const(dtypes.bool, False)


@dataclass(frozen=True)
class Law:
    """One statement that `rule` rests on; `enumerated`: letters of constants that are tried."""

    rule: Callable[..., UOp | None]
    before: UOp
    after: UOp
    condition: UOp = TRUE
    enumerated: str = ""


def _symbols(letters: str, dtype: DType) -> list[UOp]:
    return [UOp(Ops.VARIABLE, dtype, (), (letter, -9, 9)) for letter in letters]


def _between(low: UOp, x: UOp, high: UOp) -> UOp:
    """The condition `low <= x < high`."""
    return (low < x + 1) & (x < high)


_x, _y, _z, _k, _n, _a, _b, _c, _d, _g = _symbols("xyzknabcdg", dtypes.index)
_u, _v, _w = _symbols("uvw", dtypes.int32)
_p, _q = _symbols("pq", dtypes.bool)
_0: Final = UOp.index_const(0)
_in_block: Final = (_g > 0) & (_c > 0) & _between(_k * _g, _y, (_k + 1) * _g)
_whole: Final = (_a > 0) & (_c > 0) & ((_k * _a) % _c).eq(0)

LAWS: Final[tuple[Law, ...]] = (
    Law(sums.constant_by_bounds, _x, _c, (_c < _x + 1) & (_x < _c + 1)),
    Law(sums.collect_terms, _x * _c + _x * _d, _x * (_c + _d)),
    Law(sums.collect_terms, (_x + _y) * _c, _x * _c + _y * _c),
    Law(sums.collect_terms, _x - _y, _x + _y * -1),
    Law(sums.collect_terms, _x + (_y + _z), (_z + _x) + _y),
    Law(sums.order_factors, (_x * _c) * (_d * _y), (_y * _x) * (_c * _d)),
    Law(sums.rejoin_quotient, (_x // _c) * _c + _x % _c, _x, _c.ne(0), "c"),
    Law(
        sums.rejoin_quotient,
        ((_x + _k * _c) // _c) * _c + _x % _c, _x + _k * _c, _c > 0, "c",
    ),
    Law(
        sums.rejoin_remainder,
        ((_x // _a) % _b) * _a + _x % _a, _x % (_a * _b), (_a > 0) & (_b > 0), "ab",
    ),
    Law(sums.extremum_by_difference, _x.maximum(_y), _x, (_x - _y) > -1),
    Law(sums.extremum_by_difference, _x.maximum(_y), _y, (_x - _y) < 1),
    Law(sums.extremum_by_difference, _x.minimum(_y), _y, (_x - _y) > -1),
    Law(sums.extremum_by_difference, _x.minimum(_y), _x, (_x - _y) < 1),
    Law(sums.extremum_of_constants, _c.maximum(_x).maximum(_d), _x.maximum(_c.maximum(_d))),
    Law(sums.extremum_of_constants, _c.minimum(_x).minimum(_d), _x.minimum(_c.minimum(_d))),
    # --- division
    Law(division.divide_by_one, _x // 1, _x),
    Law(division.negative_divisor, _x // (_c * -1), (_x * -1) // _c, _c > 0),
    Law(division.negative_divisor, _x % (_c * -1), ((_x * -1) % _c) * -1, _c > 0),
    Law(division.divide_multiples, (_x * _c + _y) // _c, _x + _y // _c, _c > 0, "c"),
    Law(
        division.divide_common_factor,
        (_x * _g + _y) // (_g * _c), (_x + _k) // _c, _in_block, "gc",
    ),
    Law(
        division.divide_quotient,
        (_x // _a + _k) // _c, (_x + _k * _a) // (_a * _c), (_a > 0) & (_c > 0), "ac",
    ),
    Law(
        division.divide_remainder,
        (_x % (_a * _c)) // _a, (_x // _a) % _c, (_a > 0) & (_c > 0), "ac",
    ),
    Law(
        division.remainder_in_block,
        _x % _c, _x - _k * _c, (_c > 0) & _between(_k * _c, _x, (_k + 1) * _c), "c",
    ),
    Law(division.remainder_of_multiples, (_x * _c + _y) % _c, _y % _c, _c > 0, "c"),
    Law(
        division.remainder_of_remainder,
        ((_x % _a) * _k + _y) % _c, (_x * _k + _y) % _c, _whole, "kac",
    ),
    Law(
        division.remainder_of_remainder,
        ((_x % _a) * (_k * -1) + _y) % _c, (_x * (_k * -1) + _y) % _c, _whole, "kac",
    ),
    Law(
        division.remainder_common_factor,
        (_x * _g + _y) % (_g * _c), ((_x + _k) % _c) * _g + _y - _k * _g, _in_block, "gc",
    ),
    Law(division.divide_symbolic_multiples, (_x * _c + _y) // _c, _x + _y // _c, _c > 0),
    Law(division.remainder_of_symbolic_multiples, (_x * _c + _y) % _c, _y % _c, _c > 0),
    Law(division.below_divisor, _x // _n, _0, _between(_0, _x, _n)),
    Law(division.below_divisor, (_x % _n) // _n, _0, _n > 0),
    Law(division.below_divisor, _x % _n, _x, _between(_0, _x, _n)),
    # --- comparisons
    Law(compare.compare_bounds, _x < _y, TRUE, (_x - _y) < 0),
    Law(compare.compare_bounds, _x < _y, FALSE, (_x - _y) > -1),
    Law(compare.compare_bounds, _x.eq(_y), FALSE, (_x - _y).ne(0)),
    Law(compare.compare_bounds, _x.ne(_y), FALSE, (_x - _y).eq(0)),
    Law(compare.less_collect, _x + _z < _y, _x < _y + _z * -1),
    Law(
        compare.less_collect,
        _x * _g + _c < _y * _g + _d, _x < _y + ((_c - _d) // _g) * -1, _g > 0, "g",
    ),
    Law(  # with k = ceil((d-y)/g), written without a division
        compare.less_block,
        _x * _g + _y < _d, _x < _k,
        (_g > 0) & ((_k - 1) * _g < _d - _y) & (_d - _y < _k * _g + 1), "g",
    ),
    Law(compare.less_quotient, _x // _c < _d, _x < _d * _c, _c > 0),
    Law(compare.less_quotient, _d < _x // _c, _d * _c + _c - 1 < _x, _c > 0),
    Law(
        compare.equal_collect,
        (_x * _g + _c).eq(_y * _g + _d), _x.eq(_y + (_d - _c) // _g),
        (_g > 0) & ((_d - _c) % _g).eq(0), "g",
    ),
    Law(
        compare.equal_collect,
        (_x * _g + _c).eq(_y * _g + _d), FALSE, (_g > 0) & ((_d - _c) % _g).ne(0), "g",
    ),
    # --- bools
    Law(logic.fold_constant, (_p & TRUE) ^ (_p & FALSE), _p),
    Law(logic.fold_constant, (_p | FALSE) & (_p | TRUE), _p),
    Law(logic.drop_repeated, (_p & _q) & _p, _p & _q),
    Law(logic.drop_repeated, (_p | _q) | _p, _p | _q),
    Law(logic.drop_complement, (_p & _q) & ~_p, FALSE),
    Law(logic.drop_complement, (_p | _q) | ~_p, TRUE),
    Law(logic.join_inequalities, (_x < _c) & (_x < _d), _x < _c.minimum(_d)),
    Law(logic.join_inequalities, (_x < _c) & (_x * -1 < _d), FALSE, _c + _d < 2),
    Law(logic.join_inequalities, (_x < _c) | (_x < _d), _x < _c.maximum(_d)),
    Law(logic.join_inequalities, (_x < _c) | (_x * -1 < _d), TRUE, _c + _d > 0),
    Law(logic.not_constant, FALSE ^ _p, _p),
    Law(logic.not_not, (_p ^ TRUE) ^ TRUE, _p),
    Law(logic.xor_same, _p ^ _p, FALSE),
    Law(logic.not_comparison, ~(_x < _y), _y < _x + 1),
    Law(logic.not_comparison, ~_x.eq(_y), _x.ne(_y)),
    # --- integers that wrap
    Law(exact.multiply_by_one, _u * 1, _u),
    Law(exact.multiply_by_zero, _u * 0, _u.const_like(0)),
    Law(exact.add_zero, _u + 0, _u),
    Law(exact.add_zero, _u - 0, _u),
    Law(exact.multiply_by_one, _u // 1, _u),
    Law(exact.add_constants, (_u + _v) + _w, _u + (_v + _w)),
    Law(exact.multiply_constants, (_u * _v) * _w, _u * (_v * _w)),
    Law(exact.constant_last, _v + _u, _u + _v),
    Law(exact.constant_last, _v * _u, _u * _v),
    Law(exact.constant_last, (_v & _u) + (_v | _u) + (_v ^ _u), (_u & _v) + (_u | _v) + (_u ^ _v)),
    Law(exact.where_constant, TRUE.where(_u, _v) - FALSE.where(_u, _v), _u - _v),
    Law(exact.where_same, _p.where(_u, _u), _u),
    Law(exact.where_bool, _p.where(TRUE, FALSE), _p),
    Law(exact.where_not, (~_p).where(_u, _v), _p.where(_v, _u)),
    Law(exact.where_where, _p.where(_p.where(_u, _v), _w), _p.where(_u, _w)),
    Law(exact.extremum_same, _u.maximum(_u) + _u.minimum(_u), _u + _u),
    Law(exact.extremum_same, (_u & _u) + (_u | _u), _u + _u),
)  # fmt: skip
