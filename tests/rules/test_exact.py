"""Identities on user formats: what must hold bit for bit, and what must not be done."""

import math

import pytest

import torpor.rules  # noqa: F401 (makes `simplify` work)
from torpor.base.dtypes import SCALARS, dtypes
from torpor.base.settings import Context
from torpor.ir import Ops, UOp
from torpor.rules.exact import holds_all

z3 = pytest.importorskip("z3")
solver = pytest.importorskip("tests.rules.solver")


def register(dtype, number=0):
    """A value of this format that nothing is known of."""
    return UOp(Ops.ACC, dtype, (UOp.const(dtype, 0),), number)


N, F, B = register(dtypes.int32), register(dtypes.float32), register(dtypes.bool)
G = register(dtypes.float32, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (N * 1, N),
        (N * 0, UOp.const(dtypes.int32, 0)),
        (N + 0, N),
        (N - 0, N),
        (N // 1, N),
        (5 + N + 7, N + 12),
        (N + (2**31 - 1) + 1, N + -(2**31)),
        (N * 3 * 5, N * 15),
        (F * 1.0, F),
        (F / 1.0, F),
        (F + -0.0, F),
        (F - 0.0, F),
        (F * -1.0 * -1.0, F),
        (F + 4.0 + 3.0, F + 7.0),
        (B.where(F, F), F),
        (UOp.const(dtypes.bool, True).where(F, G), F),
        (UOp.const(dtypes.bool, False).where(F, G), G),
        ((~B).where(F, G), B.where(G, F)),
        (B.where(UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)), B),
        (B.where(B.where(F, G), N.cast(dtypes.float32)), B.where(F, N.cast(dtypes.float32))),
        (~~B, B),
        (~F.eq(G), F.ne(G)),
        (F.maximum(F), F),
        (N.cast(dtypes.int64).cast(dtypes.int8), N.cast(dtypes.int8)),
        (F.cast(dtypes.float64).cast(dtypes.float32), F),
        (F.bitcast(dtypes.int32).bitcast(dtypes.float32), F),
    ],
)
def test_an_identity_is_used(before, after):
    assert before.simplify() is after


@pytest.mark.parametrize(
    "root",
    [
        F + 0.0,  # -0.0 + 0.0 is 0.0
        F - -0.0,
        F * 0.0,  # NaN and infinity
        F - F,
        F / F,
        F + 1.0 + -1.0,
        F + 2.0**24 + 1.0,  # the sum is not exact in float32
        F * 2.0 * 3.0,
        (N * 2) // 2,  # wraps
        N % 4 + N // 4 * 4 - N - N,
        ~(F < G),  # NaN
        N.cast(dtypes.float32).cast(dtypes.int32),  # 24 bits of significand
        F.cast(dtypes.int32).cast(dtypes.float32),
        N.cast(dtypes.int8).cast(dtypes.int32),
        N.cast(dtypes.uint32).cast(dtypes.int64),
    ],
)
def test_what_is_not_exact_is_left_alone(root):
    assert root.simplify() is root


def test_the_licence_can_be_taken_away():
    root = F + 4.0 + 3.0
    with Context(STRICT_FLOAT=1):
        assert root.simplify() is root
    assert (N + 4 + 3).simplify() is N + 7


def test_a_check_is_never_lost():
    checked = UOp(Ops.CHECK, dtypes.int32, (N, B), 0)
    assert (checked * 0).simplify() is checked * 0
    condition = checked < 3
    assert condition.where(F, F).simplify() is condition.where(F, F)


def exactly(value, dtype):
    """Whether a number of format `dtype` is that number after NumPy's cast there and back."""
    import numpy as np

    with np.errstate(all="ignore"):
        return np.array([value]).astype(dtype.numpy)[0] == value


EXTREMES = {
    d: [d.min, d.max]
    if d.is_integral
    else [d.smallest_normal * 2.0**-d.fraction, 1 + 2.0**-d.fraction, d.largest]
    for d in SCALARS
}


@pytest.mark.parametrize("wide", SCALARS, ids=lambda d: d.name)
def test_a_cast_that_is_called_exact_keeps_the_extremes(wide):
    for narrow in SCALARS:
        if holds_all(wide, narrow) and wide.kind != "bool":
            for value in EXTREMES[narrow]:
                assert exactly(int(value) if narrow.is_integral else value, wide), narrow


@pytest.mark.parametrize("sort", [z3.FPSort(5, 11), z3.Float32()], ids=["float16", "float32"])
def test_float_identities_are_proved(sort):
    x, nearest = z3.FP("x", sort), z3.RNE()
    zero, one = z3.fpPlusZero(sort), z3.FPVal(1.0, sort)
    minus = z3.FPVal(-1.0, sort)
    for made in (
        z3.fpAdd(nearest, x, z3.fpMinusZero(sort)),
        z3.fpSub(nearest, x, zero),
        z3.fpMul(nearest, x, one),
        z3.fpDiv(nearest, x, one),
        z3.fpMul(nearest, z3.fpMul(nearest, x, minus), minus),
    ):
        assert solver.is_proved(made == x)  # `==` on FP terms is identity: -0 is not +0, NaN is NaN
    with pytest.raises(AssertionError):
        solver.is_proved(z3.fpAdd(nearest, x, zero) == x)


def test_negative_zero_is_a_constant_of_its_own():
    folded = (UOp.const(dtypes.float32, -0.0) + UOp.const(dtypes.float32, -0.0)).simplify()
    assert math.copysign(1, folded.arg) == -1
