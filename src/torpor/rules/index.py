"""The rule set of index arithmetic, the comparisons of it, and bool logic.

Laws of the set, each tested: every rule holds for all integers (proved, see `laws`); the written
expression does not get longer, but for the sign of a negative constant divisor; none loses a CHECK;
the result is a fixed point, so it terminates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import COMPARE, Ops
from torpor.ir.pattern import PatternMatcher, Rule, UPat
from torpor.ir.uop import UOp
from torpor.rules import compare, division, logic, sums

_Ordered = tuple[Callable[[UOp], UOp | None], ...]

_ANY: Final = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.MIN, Ops.WHERE,
)  # fmt: skip
_RULES: Final[dict[Ops, _Ordered]] = {
    Ops.ADD: (sums.collect_terms, sums.rejoin_quotient, sums.rejoin_remainder),
    Ops.SUB: (sums.collect_terms,),
    Ops.MUL: (sums.order_factors, sums.collect_terms),
    Ops.IDIV: (
        division.divide_by_one,
        division.negative_divisor,
        division.divide_multiples,
        division.divide_common_factor,
        division.divide_quotient,
        division.divide_remainder,
        division.divide_symbolic_multiples,
        division.below_divisor,
    ),
    Ops.MOD: (
        division.negative_divisor,
        division.remainder_in_block,
        division.remainder_of_multiples,
        division.remainder_of_remainder,
        division.remainder_common_factor,
        division.remainder_of_symbolic_multiples,
        division.below_divisor,
    ),
    Ops.MAX: (sums.extremum_by_difference, sums.extremum_of_constants),
    Ops.MIN: (sums.extremum_by_difference, sums.extremum_of_constants),
}
_COMPARISONS: Final[dict[Ops, _Ordered]] = {
    Ops.CMPLT: (
        compare.compare_bounds,
        compare.less_collect,
        compare.less_block,
        compare.less_quotient,
    ),
    Ops.CMPEQ: (compare.compare_bounds, compare.equal_collect),
    Ops.CMPNE: (compare.compare_bounds, compare.equal_collect),
}
_LOGIC: Final[dict[Ops, _Ordered]] = {
    Ops.AND: (
        logic.fold_constant,
        logic.drop_repeated,
        logic.drop_complement,
        logic.join_inequalities,
    ),
    Ops.OR: (
        logic.fold_constant,
        logic.drop_repeated,
        logic.drop_complement,
        logic.join_inequalities,
    ),
    Ops.XOR: (logic.not_constant, logic.not_not, logic.xor_same, logic.not_comparison),
}


def _rows() -> list[Rule]:
    rows: list[Rule] = [(UPat(_ANY, dtypes.index, name="node"), sums.constant_by_bounds)]
    for table, formats in ((_RULES, dtypes.index), (_COMPARISONS, None), (_LOGIC, dtypes.bool)):
        for op, functions in table.items():
            rows.extend((UPat(op, formats, name="node"), function) for function in functions)
    return rows


assert set(_COMPARISONS) == COMPARE
index_rules: Final = PatternMatcher(_rows())
