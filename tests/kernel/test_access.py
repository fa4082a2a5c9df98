"""Strides of positions, also of multiples of sums, against the positions themselves."""

import itertools

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where, strides_of
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


def test_one_more_condition():
    """On an INDEX without one and with one, of several lanes too; on a LOAD and a STORE at it."""
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 16))
    first, second = number(2) > A, number(3) > B
    plain = UOp(Ops.INDEX, dtypes.float32, (memory, A))
    once = only_where(plain, first)
    assert once.src == (memory, A, first)
    assert only_where(once, second).src == (memory, A, first & second)
    lanes = first.broadcast(4)
    wide = plain.replace(src=(memory, A, lanes))
    assert only_where(wide, second).src == (memory, A, lanes & second.broadcast(4))
    load = UOp(Ops.LOAD, dtypes.float32, (plain, A))
    assert only_where(load, first) is load.replace(src=(once, A))
    store = UOp(Ops.STORE, dtypes.void, (plain, load, A))
    assert only_where(store, first).src == (once, load, A)
