"""Constant folding against NumPy, wrap-around and special values included."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor.rules  # noqa: F401 (makes `simplify` work)
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp

INTEGERS = [
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
]  # fmt: skip
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
NUMPY = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.IDIV: np.floor_divide,
    Ops.MOD: np.mod,
    Ops.MAX: np.maximum,
    Ops.MIN: np.minimum,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
    Ops.FDIV: np.divide,
}
ON_FLOATS = [
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ,
]  # fmt: skip


def same(folded, expected):
    """Bit for bit, any NaN being any other."""
    if isinstance(folded, float) and math.isnan(folded):
        return bool(np.isnan(expected))
    if isinstance(folded, float):
        number = float(expected)
        return folded == number and math.copysign(1, folded) == math.copysign(1, number)
    return folded == expected.item()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_integers_wrap_as_numpy_does(data):
    dtype = data.draw(st.sampled_from(INTEGERS))
    op = data.draw(st.sampled_from([op for op in NUMPY if op is not Ops.FDIV]))
    number = st.integers(dtype.min, dtype.max) | st.sampled_from([dtype.min, dtype.max, 0, 1])
    a, b = data.draw(number), data.draw(number)
    node = UOp.const(dtype, a).alu(op, UOp.const(dtype, b))
    folded = node.simplify()
    if b == 0 and op in (Ops.IDIV, Ops.MOD):
        assert folded is node
        return
    with np.errstate(over="ignore"):
        expected = NUMPY[op](np.array([a], dtype.numpy), np.array([b], dtype.numpy))[0]
    assert folded.op is Ops.CONST
    assert folded.dtype is node.dtype
    assert same(folded.arg, expected)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FLOATS), st.sampled_from(ON_FLOATS), st.floats(), st.floats())
def test_floats_round_once_as_numpy_does(dtype, op, a, b):
    a, b = dtype.cast_scalar(a), dtype.cast_scalar(b)
    folded = UOp.const(dtype, a).alu(op, UOp.const(dtype, b)).simplify()
    with np.errstate(all="ignore"):
        expected = NUMPY[op](np.array([a], dtype.numpy), np.array([b], dtype.numpy))[0]
    assert folded.op is Ops.CONST
    if op in (Ops.MAX, Ops.MIN) and a == b == 0:
        assert folded.arg == 0  # which zero is free
    else:
        assert same(folded.arg, expected)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 31, 32, 40, 63])
@pytest.mark.parametrize("value", [1, -1, -77, 2**31 - 1, -(2**31)])
def test_shifts_past_the_width(value, count):
    a, b = UOp.const(dtypes.int32, value), UOp.const(dtypes.int32, count)
    exact = np.int64(value) << np.int64(count) if count < 32 else np.int64(0)
    assert (a << b).simplify().arg == int(np.int64(exact).astype(np.int32))
    assert (a >> b).simplify().arg == value // 2**count


def test_a_negative_shift_is_left_to_raise():
    a = UOp.const(dtypes.int32, 5) << UOp.const(dtypes.int32, -1)
    assert a.simplify() is a


@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
@pytest.mark.parametrize("dtype", [*INTEGERS, dtypes.index])
def test_division_by_zero_is_never_folded(op, dtype):
    node = UOp.const(dtype, 7).alu(op, UOp.const(dtype, 0))
    assert node.simplify() is node


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [0, 1, -3, 2**24 + 1, 2**53 + 1, 2**60 + 2**36 + 1, 2**63 - 1])
def test_an_integer_becomes_the_nearest_float_or_stays(dtype, value):
    node = UOp.const(dtypes.int64, value).cast(dtype)
    folded = node.simplify()
    if folded is not node:
        exact = np.array([value], np.int64).astype(dtype.numpy)[0]
        assert same(folded.arg, exact)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3.9, -3.9, 1e20, -1e20, 300.0])
def test_a_float_becomes_an_integer_by_truncation_and_saturation(value):
    folded = UOp.const(dtypes.float64, value).cast(dtypes.int8).simplify()
    whole = 0 if math.isnan(value) else max(-128, min(127, value))
    assert folded is UOp.const(dtypes.int8, int(whole))


def test_vectors_are_left_alone():
    a = UOp.const(dtypes.float32.vec(4), 2.0)
    assert (a + a).simplify() is a + a
