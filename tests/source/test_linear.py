import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.source import programs
from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError, DeviceError
from torpor.ir import UOp
from torpor.source import render
from torpor.source.linear import alignment, factor, prepare, signature, stays_in_range

X = UOp(programs.Ops.VARIABLE, dtypes.int32, (), ("x", 0, 50))
Y = UOp(programs.Ops.VARIABLE, dtypes.int32, (), ("y", 0, 50))
LEAVES = st.one_of(
    st.sampled_from([X, Y]), st.integers(0, 12).map(lambda n: UOp.const(dtypes.int32, n))
)


def combined(parts: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.tuples(parts, parts).map(lambda p: p[0] + p[1]),
        st.tuples(parts, parts).map(lambda p: p[0] - p[1]),
        st.tuples(parts, parts).map(lambda p: p[0] * p[1]),
        st.tuples(parts, st.integers(0, 3)).map(lambda p: p[0] << p[1]),
    )


@given(st.recursive(LEAVES, combined, max_leaves=6), st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_factor_divides_every_value(expression, x, y):
    value = eval(expression.render(), {"__builtins__": {}}, {"x": x, "y": y})
    found = factor(expression)
    assert value == 0 if found == 0 else value % found == 0


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (X * 4, 16),
        (X * 4 + 2, 8),
        (X * 6, 8),
        (X, 4),
        (X * 64, 64),
        (UOp.const(dtypes.int32, 0), 64),
    ],
)
def test_alignment(index, expected):
    assert alignment(index, 4, 64) == expected


def test_only_proved_sums_do_not_wrap():
    loaded = programs.load(programs.at(programs.param(0, dtypes.int32), X))
    assert stays_in_range(X * 1000 + Y)
    assert not stays_in_range(loaded + 1)
    assert not stays_in_range(X * 100_000_000)


def test_signature_names_every_slot_up_to_the_last():
    case = programs.checked(1, -1)
    takes = signature(case.linear)
    assert [n for n, _ in takes.parameters] == [0, 1]
    assert takes.checks
    assert takes.thread is None
    third = programs.param(2, dtypes.float32)
    gap = signature([programs.param(0, dtypes.float32), third])
    assert gap.parameters[1:] == ((1, None), (2, third))


def test_two_parameters_of_one_slot_are_refused():
    with pytest.raises(ContractError, match="number 0"):
        signature([programs.param(0, dtypes.float32), programs.param(0, dtypes.int32)])


def test_loops_must_nest():
    first, second = UOp.range(2, 0), UOp.range(3, 1)
    with pytest.raises(ContractError, match="END"):
        prepare([first, second, UOp.end(first), UOp.end(second)])
    with pytest.raises(ContractError, match="never closed"):
        prepare([first])


def test_unknown_targets_are_named():
    with pytest.raises(DeviceError, match="python"):
        render([], "python", "f")


@pytest.mark.parametrize("op", [programs.Ops.IDIV, programs.Ops.MOD])
def test_what_may_be_below_zero_is_not_divided(op):
    below = UOp(programs.Ops.VARIABLE, dtypes.int32, (), ("z", -1, 50))
    assert prepare([X.alu(op, Y)])
    for node in (below.alu(op, Y), X.alu(op, below)):
        with pytest.raises(ContractError, match="below 0"):
            prepare([node])
