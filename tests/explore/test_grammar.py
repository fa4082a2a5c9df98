"""Expressions and values read by the page's grammar."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.explore.grammar import Call, SyntaxFault, expression, value
from torpor.explore.layout import offsets
from torpor.ir.uop import UOp

X, Y = UOp.variable("x", -3, 4), UOp.variable("y", 1, 3)
NAMES = {"x": X, "y": Y}


@pytest.mark.parametrize(
    "text",
    [
        "x", "x*4 + y", "x//2 - -y % 3", "-x*2", "(x+1)*(y-2)", "x - y - 1", "x//y", "x%y",
        "min(x, y, 2)", "max(x, 0)", "x if x < y else y*2", "1 if x<0 else 2 if x<2 else 3",
        "x\n + y", "((((x))))",
    ],
)  # fmt: skip
def test_numbers_mean_what_they_mean_in_python(text):
    assert cells(text) == python(text)


@pytest.mark.parametrize(
    "text",
    [
        "x < y", "x <= y and not y == 2", "0 <= x < 3", "x != 1 or y > 2 and x >= 0", "True",
        "not x < 1 < y", "False or x == 1",
    ],
)  # fmt: skip
def test_conditions_mean_what_they_mean_in_python(text):
    found = [bool(one) for one in cells(text)]
    assert found == python(text)


def cells(text):
    truth = UOp.const(X.eq(X).dtype, True)
    return offsets(expression(text, NAMES), truth, [X, Y])[0]


def python(text):
    points = itertools.product(range(-3, 5), range(1, 4))
    text = text.replace("\n", " ")
    return [eval(text, {"min": min, "max": max}, {"x": x, "y": y}) for x, y in points]


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "the text ends"),
        ("x +", 3, "the text ends"),
        ("x + * y", 4, "found '\\*'"),
        ("x + z", 4, "'z' is no variable; there are x, y"),
        ("(x", 2, r"expected '\)'"),
        ("x y", 2, "not expected"),
        ("x $ y", 2, "no meaning"),
        ("x + (y < 2)", 4, "a number is expected"),
        ("x and y < 2", 0, "a condition is expected"),
        ("1 if x else 2", 2, "a condition is expected"),
        ("x // (y-1)", 5, "may be zero"),
        ("x % 0", 4, "may be zero"),
        ("9" * 30, 0, "too large"),
        ("(" * 100, 41, "parentheses"),
        ("-" * 100, 41, "parentheses"),
        ("x.__class__", 1, "not expected"),
        ("__import__('os')", 11, "no meaning"),
        ("x" * 5000, 4000, "longer"),
    ],
)
def test_faults_say_where(text, offset, message):
    with pytest.raises(SyntaxFault, match=message) as caught:
        expression(text, NAMES)
    assert caught.value.offset == offset


@given(st.text(st.sampled_from("xy01 +-*/%<>=!()andorifelsenot,.[]"), max_size=40))
def test_any_text_is_read_or_refused(text):
    for read in (lambda: expression(text, NAMES), lambda: value(text)):
        assert 0 <= fault_of(read) <= len(text)


def fault_of(read):
    try:
        read()
    except SyntaxFault as fault:
        return fault.offset
    return 0


def test_values_are_data():
    assert value("(1, -2, (None, True), [3])") == (1, -2, (None, True), (3,))
    call = value("View.create(shape=(2, 3), offset=-1).pad(((1, 0),)).flip(0)")
    assert (call.name, call.arguments, call.on.name) == ("flip", [0], "pad")
    assert call.on.on == Call("View.create", [], {"shape": (2, 3), "offset": -1}, 0)


@pytest.mark.parametrize("text", ["f(a=1, 2)", "f(", "f", "f(1", "(1 2)", "f(1)(2)", "'a'", "1.5"])
def test_what_is_no_value_is_refused(text):
    with pytest.raises(SyntaxFault):
        value(text)
