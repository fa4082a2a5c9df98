"""Builders of constants, elementwise operations and conversions."""

import numpy as np
import pytest

from tests.graph.evaluate import evaluate, tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import COMPARE, Ops
from torpor.ir.variable import Variable, bind

F32, I32, BOOL = dtypes.float32, dtypes.int32, dtypes.bool
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 1, 3)])
def test_constant(shape):
    node = build.constant(300, dtypes.uint8, shape)
    assert shape_of(node) == shape
    np.testing.assert_array_equal(evaluate(node), np.full(shape, 44, np.uint8))
    assert node is build.constant(44, dtypes.uint8, list(shape))


def test_constant_of_a_symbolic_shape():
    n = bind(Variable("n", 0, 5), 3)
    np.testing.assert_array_equal(evaluate(build.constant(2.5, F32, (n, 2))), np.full((3, 2), 2.5))


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4, 0)), ((), ())]
)
def test_operands_broadcast_as_in_numpy(left, right):
    one, other = np.full(left, 2, np.int32), np.full(right, 3, np.int32)
    for op, function in ((Ops.ADD, np.add), (Ops.CMPLT, np.less)):
        made = build.elementwise(op, tensor(one), tensor(other))
        assert made.dtype is (BOOL if op in COMPARE else I32)
        np.testing.assert_array_equal(evaluate(made), function(one, other))
    chosen = build.elementwise(Ops.WHERE, tensor(one < 0), tensor(one), tensor(other))
    np.testing.assert_array_equal(evaluate(chosen), np.where(one < 0, one, other))


def test_equal_operations_are_one_node():
    x = tensor(X)
    assert build.elementwise(Ops.ADD, x, x) is build.elementwise(Ops.ADD, x, x)


def test_casts():
    x = tensor(np.array([1.7, -1.7, 300.0, np.nan, -np.inf], np.float32))
    np.testing.assert_array_equal(evaluate(build.cast(x, dtypes.int8)), [1, -1, 127, 0, -128])
    assert build.cast(x, F32) is x
    assert build.bitcast(x, F32) is x
    bits = build.bitcast(x, I32)
    np.testing.assert_array_equal(evaluate(bits), x.arg.values.view(np.int32))


def ints(*shape):
    return build.constant(1, I32, shape)


def floats(*shape):
    return build.constant(1, F32, shape)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: build.elementwise(Ops.ADD, floats(2, 3), floats(2)), ShapeError,
         r"add of float32 \(2, 3\), float32 \(2,\): .*sizes \(3,\) and \(2,\) at axis -1"),
        (lambda: build.elementwise(Ops.ADD, floats(2), ints(2)), DTypeError,
         r"add: expected operands of one dtype, got float32 \(2,\), int32 \(2,\)"),
        (lambda: build.elementwise(Ops.ADD, floats(2)), DTypeError, "add: expected 2 operands"),
        (lambda: build.elementwise(Ops.ADD), DTypeError, "add: expected 2 operands"),
        (lambda: build.elementwise(Ops.WHERE, ints(2), ints(2), ints(2)), DTypeError,
         r"where: expected a bool condition, got int32 \(2,\)"),
        (lambda: build.elementwise(Ops.EXP, ints(2)), DTypeError, r"exp: .*kind float, got int32"),
        (lambda: build.elementwise(Ops.IDIV, floats(2), floats(2)), DTypeError, "idiv: .*int"),
        (lambda: build.elementwise(Ops.SUB, build.constant(True, BOOL), build.constant(True, BOOL)),
         DTypeError, r"sub: .*got bool \(\), bool \(\)"),
        (lambda: build.elementwise(Ops.RESHAPE, ints(2)), DTypeError, "no elementwise"),
        (lambda: build.elementwise(Ops.CAST, ints(2)), DTypeError, "no elementwise"),
        (lambda: build.cast(ints(2), dtypes.void), DTypeError, "expected a number format"),
        (lambda: build.bitcast(ints(3), dtypes.float64), ShapeError,
         r"bitcast of .* \(3,\) to .*float64: 2 elements become one, .* axis of 3 is no multiple"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_call(call, error, words):
    with pytest.raises(error, match=words):
        call()
