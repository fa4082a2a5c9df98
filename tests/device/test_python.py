"""The interpreter as a device: whole linear programs."""

import numpy as np
import pytest

from tests.source import programs as written
from torpor.base.dtypes import dtypes
from torpor.base.errors import DeviceError
from torpor.device import Buffer, Device, numpy_buffer
from torpor.device.python import ITEMS_AT_ONCE
from torpor.ir import AxisType, Ops, ParamArg, Program, UOp

# A share of threads is something that native programs have.
CASES = [case for case in written.all_cases() if case.threads is None]


def program_of(linear, groups=1, items=1, name="p"):
    parameters = {n.arg.slot: n.dtype.name for n in linear if n.op is Ops.PARAM}
    variables = [(n.arg[0], n.dtype.name) for n in linear if n.op is Ops.VARIABLE]
    return Program(
        name, "", "python", global_size=(groups, 1, 1), local_size=(items, 1, 1),
        parameters=tuple(parameters[slot] for slot in sorted(parameters)),
        variables=tuple(variables), linear=tuple(linear),
    )  # fmt: skip


def load(program):
    device = Device["PYTHON"]
    return device.executable(program, device.compiler.compile(program))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_programs_agree_with_numpy(case):
    """The same programs that every renderer's tests use, against the same expectations."""
    outputs = [np.zeros_like(expected) for expected in case.expected]
    arrays = [*outputs, *(array.copy() for array in case.inputs)]
    run = load(program_of(case.linear, *case.groups, name=case.name))
    error = run([numpy_buffer(array, "PYTHON") for array in arrays], case.variables)
    for got, expected in zip(outputs, case.expected, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert error == (case.error or 0)


def doubled(size, groups, items):
    """out[g*items + l] = in[g*items + l] * 2, complete as the compiler makes it."""
    out = UOp(Ops.PARAM, dtypes.int64, (), ParamArg(0, size))
    source = UOp(Ops.PARAM, dtypes.int64, (), ParamArg(1, size))
    count = UOp.const(dtypes.int32, items)
    group = UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(dtypes.int32, groups),), "gidx0")
    item = UOp(Ops.SPECIAL, dtypes.int32, (count,), "lidx0")
    place = group * count + item
    value = UOp(Ops.LOAD, dtypes.int64, (UOp(Ops.INDEX, dtypes.int64, (source, place)),))
    target = UOp(Ops.INDEX, dtypes.int64, (out, place))
    return list(UOp(Ops.STORE, dtypes.void, (target, value * 2)).toposort())


@pytest.mark.parametrize(("groups", "items"), [(1, 1), (5, 3), (ITEMS_AT_ONCE // 4, 7)])
def test_groups_are_run_in_portions(groups, items):
    size = groups * items
    source = np.arange(size, dtype=np.int64)
    out = np.zeros(size, np.int64)
    run = load(program_of(doubled(size, groups, items), groups, items))
    assert run([numpy_buffer(out), numpy_buffer(source)]) == 0
    np.testing.assert_array_equal(out, source * 2)


def test_no_groups_run_nothing():
    run = load(program_of(doubled(4, 4, 1), 0))
    out = np.zeros(4, np.int64)
    assert run([numpy_buffer(out), numpy_buffer(np.ones(4, np.int64))]) == 0
    assert not out.any()


def test_a_small_format_is_stored_as_its_bits():
    """The linear IR names bfloat16 memory uint16; the buffer keeps the true name."""
    out = UOp(Ops.PARAM, dtypes.uint16, (), ParamArg(0, 1))
    where = UOp(Ops.INDEX, dtypes.uint16, (out, UOp.const(dtypes.int32, 0)))
    store = UOp(Ops.STORE, dtypes.void, (where, UOp.const(dtypes.uint16, 0x3FC0)))
    buffer = Buffer("PYTHON", 1, dtypes.bfloat16).allocate()
    load(program_of([out, store]))([buffer])
    assert float(buffer.numpy()[0]) == 1.5


def test_a_call_that_does_not_fit_is_refused():
    with pytest.raises(DeviceError, match="takes 2 buffers"):
        load(program_of(doubled(4, 4, 1), 4))([])


def test_the_bound_of_a_loop_may_be_computed():
    variable = UOp(Ops.VARIABLE, dtypes.int32, (), ("v0", 0, 9))
    out = UOp(Ops.PARAM, dtypes.int32, (), ParamArg(0, 1))
    loop = UOp.range(variable * 2, 0, AxisType.LOOP, dtypes.int32)
    total = UOp(Ops.ACC, dtypes.int32, (UOp.const(dtypes.int32, 100),), 0)
    grown = UOp(Ops.LOAD, dtypes.int32, (total, loop)) + loop
    where = UOp(Ops.INDEX, dtypes.int32, (out, UOp.const(dtypes.int32, 0)))
    end = UOp.end(loop)
    read = UOp(Ops.LOAD, dtypes.int32, (total, end))
    linear = [
        out, variable, total, loop, UOp(Ops.STORE, dtypes.void, (total, grown)), end,
        read, UOp(Ops.STORE, dtypes.void, (where, read)),
    ]  # fmt: skip
    result = np.zeros(1, np.int32)
    run = load(program_of(linear))
    for value in (0, 1, 4):
        run([numpy_buffer(result)], [value])
        assert result[0] == 100 + sum(range(2 * value))
