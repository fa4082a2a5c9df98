"""What counts once in exp(x - top) grows by one factor, as numbers say."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.schedule.online_reduction import degree, factor, known, power_of

FIRST, SECOND = (UOp.range(8, n, AxisType.REDUCE) for n in (0, 1))
X, Y = (UOp(Ops.PARAM, dtypes.float64, (), ParamArg(n, 8)) for n in (0, 1))


def element(memory: UOp, column: UOp) -> UOp:
    return UOp(Ops.LOAD, dtypes.float64, (UOp(Ops.INDEX, dtypes.float64, (memory, column)),))


TOP = UOp(Ops.REDUCE, dtypes.float64, (element(X, FIRST), FIRST), Ops.MAX)
POWER = (element(X, SECOND) - TOP).alu(Ops.EXP)
LEAVES = (POWER, element(Y, SECOND), TOP, UOp.const(dtypes.float64, 0.0), element(X, SECOND))
IS_POWER = power_of(TOP, {FIRST, SECOND})
STEPS = {Ops.MUL: operator.mul, Ops.ADD: operator.add, Ops.SUB: operator.sub}


def number(node: UOp, top: float) -> float:
    """A value where x is 0.25, y is 3 and the maximum is `top`."""
    if node is TOP:
        return top
    if node.op is Ops.LOAD:
        return 3.0 if node.src[0].src[0] is Y else 0.25
    if node.op is Ops.CONST:
        return float(node.arg)
    source = [number(s, top) for s in node.src]
    if node.op is Ops.WHERE:
        return source[1] if source[0] else source[2]
    if node.op is Ops.EXP:
        return math.exp(source[0])
    if node.op is Ops.CMPLT:
        return float(source[0] < source[1])
    if node.op is Ops.FDIV:
        return source[0] / source[1] if source[1] else math.nan
    return float(STEPS[node.op](*source))


values = st.recursive(
    st.sampled_from(LEAVES),
    lambda few: st.one_of(
        st.builds(UOp.alu, few, st.sampled_from([*STEPS, Ops.FDIV]), few),
        st.builds(lambda a, b, c, d: a.alu(Ops.CMPLT, b).where(c, d), few, few, few, few),
    ),
    max_leaves=8,
)


@given(values)
def test_a_value_of_degree_one_grows_with_its_powers(value: UOp) -> None:
    found = degree(value, IS_POWER, {TOP})
    before, after = number(value, 1.0), number(value, 1.75)
    if found is not None:
        np.testing.assert_allclose(after, before * math.exp(1.0 - 1.75) ** found, rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (POWER * element(Y, SECOND), 1),
        (POWER.alu(Ops.FDIV, element(Y, SECOND)), 1),
        (element(Y, SECOND).alu(Ops.CMPLT, element(X, SECOND)).where(POWER, 0.0), 1),
        (UOp(Ops.REDUCE, dtypes.float64, (POWER, SECOND), Ops.ADD), 1),
        (element(Y, SECOND), 0),
        (POWER + 1.0, None),
        (POWER * POWER, None),
        (POWER * TOP, None),
        (UOp(Ops.REDUCE, dtypes.float64, (POWER, SECOND), Ops.MAX), None),
        ((element(Y, SECOND) - TOP).alu(Ops.EXP), None),  # of another x: it may overflow
    ],
)
def test_what_is_linear_in_powers(value: UOp, expected: int | None) -> None:
    assert degree(value, IS_POWER, {TOP}) == expected


def test_a_maximum_of_nothing_counts_as_zero() -> None:
    """Terms of -inf are 0 then, and what has been summed, 0 as well, stays so."""
    for top, expected in ((-math.inf, 0.0), (2.0, 2.0), (math.inf, math.inf)):
        assert number_of_known(top) == expected
    assert math.exp(-math.inf - number_of_known(-math.inf)) == 0.0
    grows = factor(TOP, known(TOP))
    assert grows.op is Ops.EXP and grows.src[0].src[0] is TOP


def number_of_known(top: float) -> float:
    node = known(TOP)
    assert node.op is Ops.WHERE and node.src[0].op is Ops.CMPEQ
    return number(node.src[1] if top == node.src[0].src[1].arg else node.src[2], top)
