"""Strides of positions, also of multiples of sums, against the positions themselves."""

import itertools

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType
from torpor.ir.uop import UOp
from torpor.kernel.access import strides_of
from torpor.kernel.ranges import find_loops

A, B = (UOp.range(4, number, AxisType.GLOBAL) for number in range(2))


def number(value):
    return UOp.const(dtypes.index, value)


POSITIONS = [
    (A * 12 + B, {A: 12, B: 1}),
    ((A + B) * 5 + B, {A: 5, B: 6}),
    (((A + number(3)) * 2 + B) * 7, {A: 14, B: 7}),
    ((A * 3 + (B * -1) + number(9)) * 4 + A, {A: 13, B: -4}),
    ((A + B) // 2 + B, {A: None, B: None}),
]


@pytest.mark.parametrize(("position", "expected"), POSITIONS, ids=range(len(POSITIONS)))
def test_strides(position, expected):
    found = strides_of(position, find_loops(position))
    if None in expected.values():
        assert None in found.values()
        return
    assert found == expected
    for a, b in itertools.product(range(4), repeat=2):
        at = position.substitute({A: number(a), B: number(b)}).simplify()
        start = position.substitute({A: number(0), B: number(0)}).simplify()
        assert at.arg - start.arg == a * expected[A] + b * expected[B]
