"""Each op of the interpreter on edge values, against NumPy or exact Python numbers."""

import math

import numpy as np
import pytest

from torpor.base.dtypes import SCALARS, dtypes
from torpor.device.interpreter.arithmetic import ARITHMETIC, bitcast, cast
from torpor.ir.ops import ALU, BINARY, COMPARE, ROWS, TRANSCENDENTAL, Ops, Trait, having

INTEGERS = [d for d in SCALARS if d.is_int]
FLOATS = [dtypes.float16, dtypes.float32, dtypes.float64]
FLOAT_VALUES = [0.0, -0.0, 1.5, -2.5, 3.5, 1e-3, 100.25, -7.0, math.inf, -math.inf, math.nan]


def integers(dtype):
    low, high = int(dtype.min), int(dtype.max)
    values = {low, low + 1, -7, -1, 0, 1, 3, 7, high - 1, high}
    return sorted(value for value in values if low <= value <= high)


def pairs(values, dtype):
    both = [(a, b) for a in values for b in values]
    return both, *(np.array(column, dtype.numpy) for column in zip(*both, strict=True))


def run(op, *operands):
    with np.errstate(all="ignore"):
        return ARITHMETIC[op](*operands)


def test_every_op_has_a_meaning():
    assert set(ARITHMETIC) | {Ops.CAST, Ops.BITCAST} == ALU - having(Trait.KERNEL)


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
@pytest.mark.parametrize("op", sorted(BINARY - {Ops.FDIV, Ops.POW}), ids=repr)
def test_integers_are_exact_and_wrap(op, dtype):
    both, a, b = pairs(integers(dtype), dtype)
    if op in (Ops.IDIV, Ops.MOD):
        keep = b != 0
    elif op in (Ops.SHL, Ops.SHR):
        keep = (b >= 0) & (b <= 64)
    else:
        keep = np.ones(len(both), bool)
    got = run(op, a[keep], b[keep])
    result = dtypes.bool if op in COMPARE else dtype
    fold = ROWS[op].fold
    expected = [
        result.cast_scalar(fold(*pair)) for pair, kept in zip(both, keep, strict=True) if kept
    ]
    assert got.dtype == result.numpy
    assert got.tolist() == expected


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR])
def test_bools(op):
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    exact = {Ops.ADD: a | b, Ops.MAX: a | b, Ops.OR: a | b, Ops.XOR: a ^ b}
    assert run(op, a, b).tolist() == exact.get(op, a & b).tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (Ops.ADD, np.add), (Ops.SUB, np.subtract), (Ops.MUL, np.multiply),
        (Ops.FDIV, np.divide), (Ops.MAX, np.maximum), (Ops.MIN, np.minimum),
        (Ops.CMPLT, np.less), (Ops.CMPNE, np.not_equal), (Ops.CMPEQ, np.equal),
    ],
)  # fmt: skip
def test_floats_round_once(op, exact, dtype):
    """In float64 every operation on two shorter floats is exact enough to round only once."""
    _, a, b = pairs(FLOAT_VALUES, dtype)
    with np.errstate(all="ignore"):
        expected = exact(a.astype(np.float64), b.astype(np.float64))
        expected = expected if op in COMPARE else expected.astype(dtype.numpy)
    np.testing.assert_array_equal(run(op, a, b), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_float_remainders_take_the_sign_of_the_divisor(dtype):
    a, b = np.array([7.5, -7.5, 7.5, -7.5], dtype.numpy), np.array([2, 2, -2, -2], dtype.numpy)
    assert run(Ops.MOD, a, b).tolist() == [1.5, 0.5, -0.5, -1.5]


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_rounding(dtype):
    a = np.array([2.5, -2.5, 3.5, -0.5, 1.75], dtype.numpy)
    assert run(Ops.RINT, a).tolist() == [2, -2, 4, 0, 2]
    assert run(Ops.FLOOR, a).tolist() == [2, -3, 3, -1, 1]
    assert run(Ops.TRUNC, a).tolist() == [2, -2, 3, 0, 1]
    assert run(Ops.SQRT, np.array([4, 0, -1], dtype.numpy))[:2].tolist() == [2, 0]


@pytest.mark.parametrize("op", sorted(TRANSCENDENTAL - {Ops.POW}), ids=repr)
def test_functions_are_right_to_the_last_bit_but_one(op):
    exact = {
        Ops.EXP: math.exp, Ops.EXP2: math.exp2, Ops.LOG: math.log, Ops.LOG2: math.log2,
        Ops.SIN: math.sin, Ops.COS: math.cos, Ops.TANH: math.tanh, Ops.ERF: math.erf,
    }[op]  # fmt: skip
    a = np.array([0.1, 0.5, 1, 2, 10], np.float32)
    expected = np.array([exact(x) for x in a.tolist()]).astype(np.float32)
    np.testing.assert_array_max_ulp(run(op, a), expected, 1)


def test_powers():
    a, b = np.array([2, -2, 0, 4], np.float32), np.array([10, 3, 0, 0.5], np.float32)
    assert run(Ops.POW, a, b).tolist() == [1024, -8, 1, 2]


@pytest.mark.parametrize("target", INTEGERS, ids=repr)
@pytest.mark.parametrize("source", FLOATS, ids=repr)
def test_floats_become_integers_truncated_and_saturated(source, target):
    values = [*FLOAT_VALUES, 0.99, -0.99, 127.9, -128.5, 255.5, 65504, 2.0**31, -(2.0**31)]
    values += [2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, float(target.max), float(target.min)]
    with np.errstate(all="ignore"):
        a = np.array(values).astype(source.numpy)
        got = cast(a, source, target)
    assert got.dtype == target.numpy
    assert got.tolist() == [target.cast_scalar(float(x)) for x in a]


@pytest.mark.parametrize("source", [*INTEGERS, dtypes.bool], ids=repr)
@pytest.mark.parametrize("target", INTEGERS, ids=repr)
def test_integers_become_others_by_wrapping(source, target):
    values = [False, True] if source is dtypes.bool else integers(source)
    got = cast(np.array(values, source.numpy), source, target)
    assert got.tolist() == [target.cast_scalar(int(value)) for value in values]


def test_anything_but_zero_is_true():
    a = np.array([0.0, -0.0, math.nan, 1e-40], np.float32)
    assert cast(a, dtypes.float32, dtypes.bool).tolist() == [False, False, True, True]


def test_bits_are_kept():
    a = np.array([[1.0, -0.0]], np.float32)
    got = bitcast(a, dtypes.uint32)
    assert got.tolist() == [[0x3F800000, 0x80000000]]
    assert bitcast(got, dtypes.float32).tobytes() == a.tobytes()
