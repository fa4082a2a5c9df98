"""Memory, masks, barriers and faults in the interpreter."""

import numpy as np
import pytest

from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.device import Device, numpy_buffer
from torpor.ir import AxisType, Ops, ParamArg, Program, UOp

I32 = dtypes.int32


def memory(slot, size, op=Ops.PARAM):
    return UOp(op, I32, (), ParamArg(slot, size))


def at(place, index, *valid):
    return UOp(Ops.INDEX, I32, (place, index, *valid))


def load(index, count=1):
    return UOp(Ops.LOAD, I32.vec(count), (index,))


def store(index, value):
    return UOp(Ops.STORE, dtypes.void, (index, value))


def number(value):
    return UOp.const(I32, value)


def special(name, bound):
    return UOp(Ops.SPECIAL, I32, (number(bound),), name)


def effect(op, *source):
    return UOp(op, dtypes.void, source)


def run(linear, *arrays, groups=1, items=1):
    program = Program(
        "p", "", "python", global_size=(groups, 1, 1), local_size=(items, 1, 1),
        parameters=("int32",) * len(arrays), linear=tuple(linear),
    )  # fmt: skip
    return Device["PYTHON"].executable(program, b"")([numpy_buffer(a) for a in arrays])


def zeros(count):
    return np.zeros(count, np.int32)


OUT, IN = memory(0, 8), memory(1, 4)
ITEM = special("lidx0", 4)
GROUP = special("gidx0", 2)


def test_local_memory_belongs_to_a_group():
    """Each group reverses its own four numbers through local memory."""
    local = memory(0, 4, Ops.DEFINE_LOCAL)
    whole = GROUP * 4 + ITEM
    linear = [
        store(at(local, ITEM), load(at(memory(1, 8), whole))),
        effect(Ops.BARRIER),
        store(at(OUT, whole), load(at(local, number(3) - ITEM))),
    ]
    out, source = zeros(8), np.arange(8, dtype=np.int32)
    run(linear, out, source, groups=2, items=4)
    assert out.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


@pytest.mark.parametrize("index", [-1, 4, 1 << 20])
@pytest.mark.parametrize("way", ["load", "store", "vector", "local"])
def test_an_access_outside_is_a_fault(index, way):
    place = number(index)
    linear = {
        "load": [store(at(OUT, number(0)), load(at(IN, place)))],
        "store": [store(at(IN, place), number(1))],
        "vector": [store(at(OUT, number(0)), load(at(IN, place - 1), 2))],
        "local": [store(at(memory(0, 4, Ops.DEFINE_LOCAL), place), number(1))],
    }[way]
    with pytest.raises(ContractError, match="has 4 elements"):
        run(linear, zeros(8), zeros(4))


def test_what_is_masked_may_lie_outside():
    inside = ITEM < 2
    far = ITEM * 1000
    linear = [store(at(OUT, ITEM, inside), number(7) + load(at(IN, far, ITEM < 1)))]
    out = zeros(8)
    run(linear, out, np.full(4, 5, np.int32), items=4)
    assert out.tolist() == [12, 7, 0, 0, 0, 0, 0, 0]


def test_lanes_are_masked_one_by_one():
    valid = UOp(Ops.LANES, I32.vec(4)) < 2
    linear = [store(at(OUT, number(0)), load(at(IN, number(2), valid), 4))]
    out = np.full(8, 9, np.int32)
    run(linear, out, np.array([1, 2, 3, 4], np.int32))
    assert out.tolist() == [3, 4, 0, 0, 9, 9, 9, 9]


def test_a_branch_runs_for_some_items():
    branch = effect(Ops.IF, ITEM < 2)
    inner = effect(Ops.IF, number(0) < ITEM)
    total = UOp(Ops.ACC, I32, (number(10),), 0)
    linear = [
        total,
        branch,
        store(at(OUT, ITEM), load(at(IN, ITEM * 3))),
        inner,
        store(total, number(20)),
        effect(Ops.ENDIF, inner),
        effect(Ops.ENDIF, branch),
        store(at(OUT, ITEM + 4), UOp(Ops.LOAD, I32, (total,))),
    ]
    out = zeros(8)
    run(linear, out, np.array([1, 2, 3, 4], np.int32), items=4)
    assert out.tolist() == [1, 4, 0, 0, 10, 20, 10, 10]


def test_a_branch_runs_where_a_condition_holds_in_some_lane():
    values = load(at(IN, number(0)), 4)
    branch = effect(Ops.IF, values < 2)
    linear = [
        OUT,
        IN,
        values,
        values < 2,
        branch,
        store(at(OUT, number(0)), values),
        effect(Ops.ENDIF, branch),
    ]
    for least in (1, 2):
        out, given = zeros(8), np.array([3, least, 5, 6], np.int32)
        run(linear, out, given)
        assert out.tolist() == ([*given, 0, 0, 0, 0] if least < 2 else [0] * 8)


def test_a_barrier_that_some_items_miss_is_a_fault():
    branch = effect(Ops.IF, ITEM < 2)
    linear = [branch, effect(Ops.BARRIER), effect(Ops.ENDIF, branch)]
    with pytest.raises(ContractError, match="barrier"):
        run(linear, items=4)
    whole = effect(Ops.IF, GROUP < 1)
    run([whole, effect(Ops.BARRIER), effect(Ops.ENDIF, whole)], groups=2, items=4)


def test_a_loop_whose_bound_differs_is_a_fault():
    loop = UOp.range(ITEM, 0, AxisType.LOOP, I32)
    with pytest.raises(ContractError, match="bound of a loop"):
        run([loop, UOp.end(loop)], items=4)


def test_a_zero_divisor_is_a_fault():
    with pytest.raises(ContractError, match="divided by zero"):
        run([store(at(OUT, number(0)), number(1) // load(at(IN, number(0))))], zeros(8), zeros(4))


def test_the_first_failed_check_stays():
    def check(number_of_error, holds):
        return UOp(Ops.CHECK, I32, (number(number_of_error), holds), number_of_error)

    linear = [check(4, ITEM < 9), check(2, ITEM < 3), check(7, ITEM < 0)]
    assert run(linear, items=4) == 3
    assert run(linear[:1], items=4) == 0


def test_a_value_of_a_loop_that_did_not_run_is_made_again():
    """An unlisted product is put into the inner loop, which is empty, and is needed after it."""
    outer = UOp.range(number(3), 0, AxisType.LOOP, I32)
    inner = UOp.range(number(0), 1, AxisType.LOOP, I32)
    product = outer * 2
    linear = [
        outer, inner, store(at(OUT, product), inner), UOp.end(inner),
        store(at(OUT, product), product + 1), UOp.end(outer),
    ]  # fmt: skip
    out = zeros(8)
    run(linear, out)
    assert out.tolist() == [1, 0, 3, 0, 5, 0, 0, 0]


def test_a_store_of_another_format_is_a_fault():
    with pytest.raises(ContractError, match="float32 is stored in memory of int32"):
        run([store(at(OUT, number(0)), UOp.const(dtypes.float32, 1))], zeros(8))


@pytest.mark.parametrize("way", ["open", "closed"])
def test_loops_must_be_closed_once(way):
    loop = UOp.range(number(3), 0, AxisType.LOOP, I32)
    with pytest.raises(ContractError, match="closed"):
        run([loop] if way == "open" else [UOp.end(loop)])
