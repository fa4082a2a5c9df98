"""Variables, binding and writing out over ranges."""

import pytest

import torpor.rules  # noqa: F401 (makes `simplify` work)
from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.ir import Ops, UOp, Variable, expand

a, b = Variable("a", 5, 7), Variable("b", 0, 9)


def test_bounds_follow_arithmetic():
    x = Variable("x", 0, 10)
    bounds = [(e.vmin, e.vmax) for e in (x + 1, x * 3, x // 4, x % 4, x * -1)]
    assert bounds == [(1, 11), (0, 30), (0, 2), (0, 3), (-10, 0)]


def test_bind_and_unbind():
    bound = a.bind(6)
    assert bound.op is Ops.BIND
    assert bound.unbind() == (a, 6)
    assert (bound.vmin, bound.vmax) == (5, 7)
    assert a.bind(6) is bound


@pytest.mark.parametrize("number", [4, 8, -1])
def test_a_value_out_of_bounds_is_refused(number):
    with pytest.raises(ShapeError, match=f"between 5 and 7; it cannot be {number}"):
        a.bind(number)


def test_only_variables_are_bound():
    with pytest.raises(ShapeError):
        (a + 1).bind(3)
    with pytest.raises(ShapeError):
        a.unbind()
    with pytest.raises(ShapeError, match="no value"):
        Variable("empty", 3, 2)


def test_expand():
    assert [e.render() for e in expand(UOp.const(dtypes.int, 42), a)] == ["42"]
    assert [e.render() for e in expand(a, a)] == ["5", "6", "7"]
    assert [e.render() for e in expand(a * 3, a)] == ["15", "18", "21"]
    assert expand(b, a) == [b]
    assert expand(a) == [a]
    i, j = UOp.range(2, 0), UOp.range(3, 1)
    assert [e.arg for e in expand(i * 10 + j, i, j)] == [0, 1, 2, 10, 11, 12]
    assert [e.render() for e in expand(i + b, i, j)] == ["b", "(b+1)"]


def test_a_condition_on_a_bound_variable_holds_or_not() -> None:
    n = Variable("n", 1, 10).bind(7)
    seen = ["more" if n > other else "less" for other in (5, 7, 9)]
    assert seen == ["more", "less", "less"]
    assert [bool(n >= 7), bool(n <= 6), bool((n * 2 < 15) & (n > 6))] == [True, False, True]
    assert bool(n) and bool(n - 7)  # a number is there: only conditions are looked at


def test_whether_a_condition_on_an_unbound_variable_holds_is_an_error() -> None:
    n = Variable("n", 1, 10)
    with pytest.raises(ValueRangeError, match="n"):
        bool(n > 5)
    assert bool(n < 11) and not bool(n > 10)  # whatever it is
