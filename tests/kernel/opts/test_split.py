"""Axes made longer: what runs beyond the end reads, stores and checks nothing."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.opts.split import mask_beyond

SIZE, PADDED = 5, 8
OUT, DOWN = UOp.range(PADDED, 0, AxisType.GLOBAL), UOp.range(PADDED, 1, AxisType.REDUCE)


def loaded(*axes: UOp, op: Ops = Ops.PARAM, size: int = 99) -> UOp:
    memory = UOp(op, dtypes.float32, (), ParamArg(1, size))
    position = UOp.index_const(0)
    for one in axes:
        position = position * SIZE + one
    return UOp(Ops.LOAD, dtypes.float32, (UOp(Ops.INDEX, dtypes.float32, (memory, position)),))


def stored(value: UOp) -> UOp:
    out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, SIZE))
    place = UOp(Ops.INDEX, dtypes.float32, (out, OUT))
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place, value, OUT)))


def conditions(root: UOp) -> dict[int, tuple[UOp, ...]]:
    """By parameter, the conditions of its accesses."""
    return {n.src[0].arg.slot: n.src[2:] for n in root.toposort() if n.op is Ops.INDEX}


def test_an_output_axis():
    masked = mask_beyond(stored(loaded(OUT)), [OUT], OUT < SIZE)
    inside = UOp.index_const(SIZE) > OUT
    assert conditions(masked) == {0: (inside,), 1: (inside,)}


def test_packed_memory_that_has_room_is_not_asked():
    roomy = loaded(OUT, op=Ops.DEFINE_LOCAL, size=PADDED)
    inside = UOp.index_const(SIZE) > OUT
    assert conditions(mask_beyond(stored(roomy), [OUT], OUT < SIZE)) == {0: (inside,), 1: ()}
    tight = loaded(OUT, op=Ops.DEFINE_LOCAL, size=SIZE)
    assert conditions(mask_beyond(stored(tight), [OUT], OUT < SIZE))[1] == (inside,)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_a_reduction_takes_its_identity(op):
    total = UOp(Ops.REDUCE, dtypes.float32, (loaded(OUT, DOWN), DOWN), op)
    masked = mask_beyond(stored(total), [DOWN], DOWN < SIZE)
    (reduction,) = (n for n in masked.toposort() if n.op is Ops.REDUCE)
    choice = reduction.src[0]
    assert choice.op is Ops.WHERE and choice.src[0] is (UOp.index_const(SIZE) > DOWN)
    assert choice.src[2] is UOp.const(dtypes.float32, identity(op, dtypes.float32))
    assert conditions(masked)[0] == ()


def test_a_sum_of_products_that_are_zero_there_is_left_alone():
    product = loaded(OUT, DOWN).alu(Ops.MUL, loaded(DOWN))
    total = UOp(Ops.REDUCE, dtypes.float32, (product, DOWN), Ops.ADD)
    masked = mask_beyond(stored(total), [DOWN], DOWN < SIZE)
    (reduction,) = (n for n in masked.toposort() if n.op is Ops.REDUCE)
    assert reduction.src[0].op is Ops.MUL


def test_a_check_holds_beyond():
    condition = loaded(OUT).alu(Ops.CMPLT, UOp.const(dtypes.float32, 1.0))
    checked = UOp(Ops.CHECK, dtypes.float32, (loaded(OUT), condition), 0)
    (found,) = (
        n for n in mask_beyond(stored(checked), [OUT], OUT < SIZE).toposort() if n.op is Ops.CHECK
    )
    assert found.src[1].op is Ops.OR
    assert ~(UOp.index_const(SIZE) > OUT) in found.src[1].src
