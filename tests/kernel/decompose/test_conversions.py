import numpy as np
import pytest

from tests.kernel.decompose.evaluate import evaluate, variable
from torpor import Tensor, lower
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for

INTEGERS = [
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
]  # fmt: skip


def edges(integer, real):
    """Numbers around the limits of `integer`, and others."""
    limits = [float(integer.min), float(integer.max), float(integer.max) + 1, -1.0, 0.0, 0.99, 1.5]
    near = np.array(limits, real.numpy)
    steps = [near, np.nextafter(near, real.numpy.type(-np.inf)), near - 1, near + 1, near - 0.5]
    above = np.nextafter(near, real.numpy.type(np.inf))
    special = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0], real.numpy)
    return np.concatenate([*steps, above, special])


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("real", [dtypes.float32, dtypes.float64])
def test_float_to_integer_saturates_and_nan_is_zero(integer, real):
    root = graph_rewrite(variable(real).cast(integer), rules_for(get_target("c")))
    values = edges(integer, real)
    found = evaluate(root, x=values)
    expected = [integer.cast_scalar(float(v)) for v in values]
    assert found.tolist() == expected


def test_the_conversion_itself_only_sees_numbers_in_range():
    root = graph_rewrite(variable(dtypes.float32).cast(dtypes.int32), rules_for(get_target("c")))
    inner = [n for n in root.toposort() if n.op is Ops.CAST]
    assert len(inner) == 1
    values = edges(dtypes.int32, dtypes.float32)
    operand = evaluate(inner[0].src[0], x=values)
    assert ((operand >= -(2.0**31)) & (operand < 2.0**31)).all()


def test_the_interpreter_saturates_itself():
    node = variable(dtypes.float32).cast(dtypes.int32)
    assert graph_rewrite(node, rules_for(get_target("python"))) is node


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_more(dtype):
    x, n = variable(dtype), variable(dtype, "n")
    counts = np.array([0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 1, 127], dtype.numpy)
    numbers = np.array([0, 1, 5, dtype.max, dtype.min, dtype.max // 3], dtype.numpy)
    number, count = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(numbers, counts))
    for op, meaning in ((Ops.SHL, lambda a, b: a << b), (Ops.SHR, lambda a, b: a >> b)):
        root = graph_rewrite(x.alu(op, n), rules_for(get_target("cpu")))
        found = evaluate(root, x=number, n=count)
        expected = [dtype.cast_scalar(meaning(int(a), int(b))) for a, b in zip(number, count)]
        assert found.tolist() == expected


def test_shifts_by_a_count_in_range_stay():
    x = variable(dtypes.int32)
    node = x << 3
    assert graph_rewrite(node, rules_for(get_target("cpu"))) is node
    vector = variable(dtypes.int32.vec(4)) >> 31
    assert graph_rewrite(vector, rules_for(get_target("cpu"))) is vector


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32, dtypes.uint8])
def test_conversion_to_bool_compares_with_zero(dtype):
    root = graph_rewrite(variable(dtype).cast(dtypes.bool), rules_for(get_target("cpu")))
    assert root.op is Ops.CMPNE
    assert evaluate(root, x=np.array([0, 1, 2], dtype.numpy)).tolist() == [False, True, True]


def test_nan_is_true():
    root = graph_rewrite(variable(dtypes.float32).cast(dtypes.bool), rules_for(get_target("cpu")))
    assert evaluate(root, x=np.array([np.nan, -0.0], np.float32)).tolist() == [True, False]


@pytest.mark.parametrize("narrow", [dtypes.uint8, dtypes.uint16])
def test_bits_become_floats_through_int32(narrow):
    x = variable(narrow)
    root = ((((x >> 3) ^ 5) | (x & 6)) & 0x7F).cast(dtypes.float32)
    made = graph_rewrite(root, rules_for(get_target("cpu")))
    bits = (Ops.AND, Ops.OR, Ops.XOR, Ops.SHR)
    assert {n.dtype for n in made.toposort() if n.op in bits} == {dtypes.int32}
    values = np.arange(int(narrow.max) + 1, dtype=narrow.numpy)
    expected = (((values >> 3) ^ 5) | (values & 6)) & 0x7F
    assert evaluate(made, x=values).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("count", "mask", "masked"), [(4, 15, 0), (3, 15, 1), (4, 7, 1), (0, 255, 0)]
)
def test_a_mask_that_covers_all_bits_is_no_operation(count, mask, masked):
    """Of bytes that become floats: x >> 4 has four bits."""
    x = variable(dtypes.uint8, "x")
    bits = (x >> UOp.const(dtypes.uint8, count)) & UOp.const(dtypes.uint8, mask)
    made = graph_rewrite(bits.cast(dtypes.float32), rules_for(get_target("cpu")), name="decompose")
    assert sum(n.op is Ops.AND for n in made.toposort()) == masked
    values = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(evaluate(made, x=values), (values >> count) & mask)


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_bools_are_moved_as_bytes_and_are_0_or_1(dtype):
    """A byte that is told to be a bool is 0 or 1, also after it has been moved; a copy of bools is
    compiled to what a copy of bytes is.
    """
    bytes_ = np.random.default_rng(0).integers(0, 3, (32, 48)).astype(dtype)
    given = Tensor(bytes_).realize()
    bools = given.bitcast("bool") if dtype == "uint8" else given
    for moved, expected in (
        (bools.T, bytes_.T != 0),
        (bools.T & bools.flip(0).T, (bytes_.T != 0) & (bytes_[::-1].T != 0)),
        (bools[3:, 5:].pad(((1, 2), (2, 1))), np.pad(bytes_[3:, 5:] != 0, ((1, 2), (2, 1)))),
    ):
        assert moved.contiguous().numpy().view("u1").tolist() == expected.astype("u1").tolist()


def test_a_transposition_of_bools_is_one_of_bytes():
    bools, numbers = (Tensor(np.zeros((32, 48), dtype)).realize() for dtype in ("?", "u1"))
    texts = [[p.source for p in lower(x.T.contiguous())] for x in (bools, numbers)]
    assert texts[0] == texts[1]
