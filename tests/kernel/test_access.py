"""Conditions of accesses."""

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where

A, B = (UOp.range(4, number, AxisType.GLOBAL) for number in range(2))


def number(value):
    return UOp.const(dtypes.index, value)


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
