"""Accesses whose condition is a constant, and reductions of values that change nothing."""

from __future__ import annotations

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.ops import AxisType
from torpor.ir.records import ParamArg

F = dtypes.float32
MEMORY = UOp(Ops.PARAM, F, (), ParamArg(0, 8))
ROW = UOp.range(4, 0, AxisType.REDUCE)
ALWAYS, NEVER = (UOp.const(dtypes.bool, value) for value in (True, False))
PLACE = UOp(Ops.INDEX, F, (MEMORY, ROW))
X, ONE, ZERO = UOp(Ops.LOAD, F, (PLACE,)), UOp.const(F, 1), UOp.const(F, 0)


def where(condition):
    return PLACE.replace(src=(MEMORY, ROW, condition))


def stored(place):
    return UOp(Ops.STORE, dtypes.void, (place, X, ROW))


def reduced(op, *values, one=ROW):
    return UOp(Ops.REDUCE, F, (*values, one), op)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (where(ALWAYS), PLACE),
        (X.replace(src=(where(NEVER),)), ZERO),
        (UOp.sink(stored(PLACE), stored(where(NEVER))), UOp.sink(stored(PLACE))),
        (reduced(Ops.ADD, X, ZERO), reduced(Ops.ADD, X)),
        (reduced(Ops.ADD, ZERO), ZERO),
        (reduced(Ops.MAX, ONE), ONE),
    ],
)
def test_what_is_decided_goes_away(before, after):
    assert before.simplify() is after


NONE = UOp.range(UOp.variable("n", 0, 4), 0, AxisType.REDUCE)


@pytest.mark.parametrize(
    "root",
    [UOp.sink(stored(where(NEVER))), reduced(Ops.ADD, ONE), reduced(Ops.MAX, ONE, one=NONE)],
)
def test_what_is_not_decided_stays(root):
    assert root.simplify() is root
