"""What an expression costs."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, ParamArg, UOp, Variable
from torpor.rules.cost import cost_of

x, y = Variable("x", 0, 9), Variable("y", 0, 9)
word = UOp(Ops.INDEX, dtypes.int64, (UOp(Ops.PARAM, dtypes.int64, (), ParamArg(0, 10)), x))
loaded = UOp(Ops.LOAD, dtypes.int64, (word,))


@pytest.mark.parametrize(
    ("expression", "operators", "divisions"),
    [
        (x + y, 1, 0),
        (x + y * -1, 1, 0),  # a subtraction
        (x * 3 + y // 4, 3, 1),
        (loaded + 4, 1, 0),  # a user's sum is no sum of index terms
        ((loaded + 4).cast(dtypes.index) * 2 + x, 4, 0),
    ],
)
def test_operators_and_divisions(expression, operators, divisions):
    assert cost_of(expression) == (operators, divisions)
