"""IR as text: what is written is read back as the same object."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.expressions import conditions, indices
from torpor.base.dtypes import SCALARS, dtypes
from torpor.base.errors import ParseError
from torpor.ir import AxisType, Ops, ParamArg, UOp, Variable, parse, show
from torpor.ir.records import Requirement, Stored


@settings(max_examples=150, deadline=None)
@given(indices() | conditions())
def test_expressions_round_trip(root):
    assert parse(show(root)) is root


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SCALARS), st.floats() | st.integers(-(2**70), 2**70))
def test_constants_round_trip(dtype, number):
    if dtype.is_integral and isinstance(number, float) and not math.isfinite(number):
        number = 0
    if dtype.is_float and isinstance(number, int):
        number = float(number)
    if dtype.is_float and math.isnan(dtype.cast_scalar(number)):
        number = math.nan  # the text knows one NaN, without sign and payload
    root = UOp.const(dtype, number)
    assert parse(show(root)) is root


def test_a_kernel_round_trips():
    r = UOp.range(8, 0, AxisType.GLOBAL)
    k = UOp.range(Variable("v0", 1, 9), 1, AxisType.REDUCE)
    inputs = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 72))
    output = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, None))
    place = UOp(Ops.INDEX, dtypes.float32, (inputs, r * 9 + k, k < 5))
    total = UOp(Ops.REDUCE, dtypes.float32, (UOp(Ops.LOAD, dtypes.float32, (place,)), k), Ops.ADD)
    store = UOp(Ops.INDEX, dtypes.float32, (output, r))
    root = UOp.sink(UOp(Ops.STORE, dtypes.void, (store, total, r)))
    assert parse(show(root)) is root
    assert parse("# a comment\n\n" + show(root)) is root


def test_records_of_graphs_round_trip():
    value = UOp.const(dtypes.float32, 2.0)
    stored = UOp(Ops.CONTIGUOUS, dtypes.float32, (value,), Stored("long scan", "CPU:1"))
    asked = Requirement("index", "an index is out of bounds for axis 0")
    root = UOp(Ops.CHECK, dtypes.float32, (stored, UOp.const(dtypes.bool, True)), asked)
    assert parse(show(root)) is root


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no node"),
        ("nonsense", "line 1"),
        ("%0 = Ops.NOTHING index", "line 1"),
        ("%0 = Ops.CONST index = 1\n%1 = Ops.ADD index (%0, %7)", "line 2"),
        ("%0 = Ops.CONST index = __import__('os')", "line 1"),
        ("%0 = Ops.CONST index = 1 +", "line 1"),
    ],
)
def test_bad_text_is_an_error_that_names_the_line(text, words):
    with pytest.raises(ParseError, match=words):
        parse(text)
