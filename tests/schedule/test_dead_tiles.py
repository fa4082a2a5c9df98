"""What is known where a condition on columns fails: values as NumPy's, on finite numbers."""

import math

import numpy as np
import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.schedule.dead_tiles import column_at, folded

FLOAT = dtypes.float32
SPECIAL = (0.0, 1.0, -math.inf)
FUNCTIONS = {Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.divide}
UNKNOWN = UOp.variable("x", 1, 9).cast(FLOAT)  # finite, and not 0: a licence speaks of no others


def value(node: UOp, unknown: float) -> float:
    """What a folded node is, where it is a constant or the unknown number itself."""
    return unknown if node is UNKNOWN else float(node.arg)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("given", SPECIAL)
@pytest.mark.parametrize("left", [True, False])
def test_what_folds_has_the_value_that_it_had(op: Ops, given: float, left: bool) -> None:
    constant = UOp.const(FLOAT, given)
    node = constant.alu(op, UNKNOWN) if left else UNKNOWN.alu(op, constant)
    made = folded(node)
    if made is node:
        return
    for unknown in (1.0, 3.0, 7.5):
        pair = (given, unknown) if left else (unknown, given)
        assert value(made, unknown) == FUNCTIONS[op](*np.float32(pair))


def test_what_a_mask_leaves_is_nothing() -> None:
    outside = UOp.const(FLOAT, -math.inf)
    assert folded(outside.alu(Ops.SUB, UNKNOWN)) is outside
    assert folded(outside.alu(Ops.EXP)).arg == 0
    assert folded(UOp.const(FLOAT, 0).alu(Ops.MUL, UNKNOWN)).arg == 0
    assert folded(UOp.const(FLOAT, 0).alu(Ops.ADD, UNKNOWN)) is UNKNOWN


@pytest.mark.parametrize("holds", [True, False, None])
@pytest.mark.parametrize("same", [True, False])
def test_choices_fold_where_the_choice_or_both_values_are_known(holds, same) -> None:
    one = UOp.const(FLOAT, 2)
    other = one if same else UOp.const(FLOAT, 3)
    condition = UNKNOWN.alu(Ops.CMPLT, one) if holds is None else UOp.const(dtypes.bool, holds)
    node = condition.where(one, other)
    made = folded(node)
    if holds is None and not same:
        assert made is node
    else:
        assert made is (one if holds or same else other)


def test_columns_are_counted_by_a_range_of_their_number_alone() -> None:
    memory = UOp(Ops.PARAM, FLOAT, (), ParamArg(0, 60))
    row = UOp.range(6, 0, AxisType.GLOBAL)
    column, short = UOp.range(10, 1, AxisType.GLOBAL), UOp.range(9, 1, AxisType.GLOBAL)

    def at(position: UOp) -> UOp | None:
        return column_at(UOp(Ops.INDEX, FLOAT, (memory, position)), frozenset((row,)), 10)

    assert at(row * 10 + column) is column
    assert at(row * 10 + short) is None, "not all columns"
    assert at(row * 10 + column + 1) is None, "moved"
    assert at(row * 9 + column) is None, "rows of another length"
