"""Rules on tensors are tried on random tensors."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.explore.check import Tried, first_difference
from torpor.explore.tensors import same_tensor
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp

F32 = dtypes.float32
MEMORY = UOp(Ops.BUFFER, F32, (), ParamArg(1, 24))


def made(op, x, arg=None, dtype=F32):
    return UOp(op, dtype, (x,), arg)


X = made(Ops.RESHAPE, MEMORY, (2, 3, 4))
SHEARED = made(Ops.SHEAR, X, (2, 1, 2, 1, 1, 0))  # out[i, k, o] = x[i, k, o + k]


@pytest.mark.parametrize(
    ("before", "right", "wrong"),
    [
        (
            made(Ops.PERMUTE, made(Ops.PERMUTE, X, (1, 2, 0)), (1, 2, 0)),
            made(Ops.PERMUTE, X, (2, 0, 1)),
            made(Ops.RESHAPE, X, (4, 2, 3)),
        ),
        (
            made(Ops.SHRINK, made(Ops.PAD, MEMORY, ((1, 2),)), ((1, 25),)),
            MEMORY,
            made(Ops.FLIP, MEMORY, (True,)),
        ),
        (
            made(Ops.REDUCE_AXIS, made(Ops.FLIP, X, (False, True, False)), (Ops.ADD, (1,))),
            made(Ops.REDUCE_AXIS, X, (Ops.ADD, (1,))),
            made(Ops.REDUCE_AXIS, X, (Ops.MAX, (1,))),
        ),
        (
            made(Ops.SHRINK, SHEARED, ((0, 2), (1, 2), (0, 2))),
            made(Ops.SHRINK, X, ((0, 2), (1, 2), (1, 3))),
            made(Ops.SHRINK, X, ((0, 2), (1, 2), (0, 2))),
        ),
        (made(Ops.DETACH, X) * made(Ops.LEAF, X), X * X, X + X),
    ],
)
def test_equal_graphs_and_others_are_told_apart(before, right, wrong):
    assert same_tensor(before, right) is True
    assert same_tensor(before, wrong) is False
    assert first_difference(None, [Tried(False, before, one) for one in (right, wrong)])[0] == 1


def test_a_rule_may_know_what_its_operands_are_made_of():
    positive = made(Ops.EXP, X)
    assert same_tensor(positive.maximum(positive * -1), positive) is True


def test_what_cannot_be_computed_is_not_judged():
    other = UOp(Ops.BUFFER, F32, (), ParamArg(2, 24))
    picked = UOp(Ops.GATHER, F32, (MEMORY, made(Ops.CAST, other, dtype=dtypes.int64)), 0)
    assert same_tensor(picked, picked + 1) is None
    assert same_tensor(UOp.sink(X), UOp.sink(MEMORY)) is None
    large = UOp(Ops.BUFFER, F32, (), ParamArg(1, 1 << 40))
    assert same_tensor(made(Ops.FLIP, large, (True,)), large) is None
