from tests.source.programs import at, load, number, param, store
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.source.linear import prepare
from torpor.source.placement import Placement

OUT, IN = param(0, dtypes.float32), param(1, dtypes.float32)
VALUE = load(at(IN, number(0)))


def placed(*linear: UOp) -> Placement:
    return Placement(prepare(linear))


def test_a_value_used_once_stands_at_its_use():
    total = VALUE + 1.0
    found = placed(store(at(OUT, number(0)), total))
    assert total in found.used
    assert total not in found.named
    assert VALUE in found.named


def test_a_value_used_twice_has_a_name():
    total = VALUE + 1.0
    assert total in placed(store(at(OUT, number(0)), total * total)).named


def test_two_lanes_of_one_value_are_two_uses():
    vector = load(at(IN, number(0)), 4) + 1.0
    assert vector in placed(store(at(OUT, number(0)), vector.gep(0) + vector.gep(1))).named


def test_a_value_used_in_a_loop_is_computed_before_it():
    total, loop = VALUE + 1.0, UOp.range(4, 0, dtype=dtypes.int32)
    found = placed(total, loop, store(at(OUT, loop), total), UOp.end(loop))
    assert total in found.named


def test_unused_values_are_left_out():
    total = VALUE + 1.0
    assert total not in placed(total).used


def test_a_register_read_before_a_write_keeps_its_value():
    register = UOp(Ops.ACC, dtypes.float32, (UOp.const(dtypes.float32, 0.0),), 0)
    old = UOp(Ops.LOAD, dtypes.float32, (register,))
    write = store(register, VALUE)
    late = placed(register, old, write, store(at(OUT, number(0)), old))
    assert old in late.named
    early = placed(register, old, store(at(OUT, number(0)), old), write)
    assert old not in early.named
