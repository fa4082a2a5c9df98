"""What positions are made of, against the positions themselves at every point of their loops."""

import itertools

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.rules.affine import affine, is_dense, strides_of, strides_read

A, B = (UOp.range(4, number, AxisType.GLOBAL) for number in range(2))
ONE = UOp.range(1, 7, AxisType.GLOBAL)


def number(value):
    return UOp.const(dtypes.index, value)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (A * 12 + B, {A: 12, B: 1}),
        ((A + B) * 5 - B, {A: 5, B: 4}),
        (((A + number(3)) * 2 + B) * 7, {A: 14, B: 7}),
        ((A * 3 + (B * -1) + number(9)) * 4 + A + ONE, {A: 13, B: -4}),
    ],
)
def test_coefficients(position, expected):
    assert strides_of(position) == expected
    assert affine(position) is affine(position)
    for a, b in itertools.product(range(4), repeat=2):
        at = position.substitute({A: number(a), B: number(b), ONE: number(0)}).simplify()
        assert at.arg == affine(position).constant + a * expected[A] + b * expected[B]


def test_what_moves_unevenly_has_no_stride():
    assert strides_of((A + B) // 2 + B) == {A: None, B: None}
    assert strides_of(A * 8 + B % 2) == {A: 8, B: None}
    total = UOp(Ops.REDUCE, dtypes.index, (A * B, B), Ops.ADD)
    assert strides_of(total * 2 + B) == {A: None, B: 1}  # the sum runs over its own B


@pytest.mark.parametrize(
    ("position", "size", "dense"),
    [
        (A * 4 + B, 16, True),
        (A + B * 4 + ONE * 99, 16, True),
        (A * 4 + B, 17, False),
        (A * 5 + B, 20, False),
        (A * 4 - B, 16, False),
        (A // 2 * 4 + B, 8, False),
        (A * 2 + B, 10, False),
    ],
)
def test_loops_that_reach_every_number_once(position, size, dense):
    assert is_dense(strides_of(position), size) == dense


def test_strides_of_all_that_is_read():
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 64))
    first, second = (
        UOp(Ops.LOAD, dtypes.float32, (UOp(Ops.INDEX, dtypes.float32, (memory, place)),))
        for place in (A * 4 + B, A * 4)
    )
    assert strides_read(first * second, A) == {4}
    assert strides_read(first * second, B) == {1, 0}
