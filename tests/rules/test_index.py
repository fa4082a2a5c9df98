"""Index rules against brute force: value, cost, bounds, fixed points; and the canonical texts."""

import itertools

import pytest
from hypothesis import example, given, settings

import torpor.rules  # noqa: F401 (makes `simplify` work)
from tests.rules.expressions import conditions, indices, points, value
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp, Variable
from torpor.ir.trace import recording
from torpor.rules.cost import cost_of

few = settings(max_examples=150, deadline=None)
x, y, k = Variable("x", 0, 100), Variable("y", 0, 100), Variable("k", 1, 100)
i, j = UOp.range(3, 0), UOp.range(2, 1)


def assert_equal(before, after):
    for point in itertools.islice(points(before, after), 3000):
        assert value(before, point) == value(after, point), (before.render(), after.render(), point)


def divides_by_negative(root):
    divisions = (n for n in root.toposort() if n.op in (Ops.IDIV, Ops.MOD))
    return any(n.src[1].vmin < 0 for n in divisions)


@few
@given(indices())
@example(UOp.index_const(-8) * Variable("x", -3, 7) % 6)
def test_an_index_keeps_its_value_and_does_not_get_longer(before):
    after = before.simplify()
    assert_equal(before, after)
    if divides_by_negative(before):
        return
    assert cost_of(after)[0] <= cost_of(before)[0], (before.render(), after.render())


@few
@given(conditions())
def test_a_condition_keeps_its_value_and_does_not_get_longer(before):
    after = before.simplify()
    assert_equal(before, after)
    if divides_by_negative(before):
        return
    assert cost_of(after)[0] <= cost_of(before)[0], (before.render(), after.render())


@few
@given(indices() | conditions())
def test_what_is_simplified_is_a_fixed_point(before):
    after = before.simplify()
    assert after.simplify() is after


@few
@given(indices() | conditions())
def test_bounds_are_never_violated(root):
    simple = root.simplify()
    for point in itertools.islice(points(root), 1000):
        for node in (root, simple):
            assert node.vmin <= value(node, point) <= node.vmax


@few
@given(indices(5) | conditions(3))
def test_each_single_application_keeps_the_value(before):
    with recording() as events:
        before.simplify()
    for event in events:
        for point in itertools.islice(points(event.before, event.after), 500):
            same = value(event.before, point) == value(event.after, point)
            assert same, (event.rule, event.before.render(), event.after.render(), point)


def r(bound, axis):
    return UOp.range(bound, axis)


split = r(7, 0) * 4 + r(4, 1)
merged = r(16, 0) * 784 + r(28, 2) * 28 + r(28, 3)
CANONICAL = [
    (i * 2 + j, "((ridx0*2)+ridx1)"),
    (j + i * 2, "((ridx0*2)+ridx1)"),
    (x * 3 + y, "((x*3)+y)"),
    (
        ((i * 2 + j) % 3) * 2 + (i * 2 + j) // 3,
        "(((((ridx0*2)+ridx1)%3)*2)+(((ridx0*2)+ridx1)//3))",
    ),
    (x * 2 + x * 3, "(x*5)"),
    ((x + y) * 4 + 3 - y * 4, "((x*4)+3)"),
    ((x + y) * 4, "((x+y)*4)"),
    (x - x, "0"),
    (k * x * 2 - x * k, "(x*k)" if "k" > "x" else "(k*x)"),
    (split // 4, "ridx0"),
    (split % 4, "ridx1"),
    (merged // 784, "ridx0"),
    (merged // 28 % 28, "ridx2"),
    (merged % 784, "((ridx2*28)+ridx3)"),
    (merged // 28 % 28 * 28 + merged % 28, "((ridx2*28)+ridx3)"),
    ((x * 6 + y * 4 + 1) // 4, "(y+((x*3)//2))"),
    (x // 3 // 4, "(x//12)"),
    ((x // 3 + 2) // 4, "((x+6)//12)"),
    (x % 12 % 4, "(x%4)"),
    (x % 12 // 4, "((x//4)%3)"),
    (x // 4 * 4 + x % 4, "x"),
    ((x + 3) // 4 * 4 + (x + 3) % 4, "(x+3)"),
    (x // 4 % 3 * 4 + x % 4, "(x%12)"),
    ((i * k + r(k, 5)) // k, "ridx0"),
    ((i * k + r(k, 5)) % k, "ridx5"),
    (9 - (9 - x), "x"),
    (x.maximum(-1), "x"),
    (x * 4 < 10, "(x<3)"),
    (x + 4 < 10, "(x<6)"),
    (x // 3 < 4, "(x<12)"),
    (x // 4 > 3, "(15<x)"),
    (i * 4 + r(4, 6) < 8, "(ridx0<2)"),
    (~(x < 2), "(1<x)"),
    (x < 101, "True"),
    ((x < 5) & (x < 7), "(x<5)"),
    ((x < 5) & ~(x < 5), "False"),
    ((x < 5) & (x > 7), "False"),
    ((x < 5) | (x > 3), "True"),
    ((x * 4).eq(10), "False"),
    ((x * 4).eq(12), "(x==3)"),
    ((x < y).where(x, x), "x"),
]


@pytest.mark.parametrize(("root", "text"), CANONICAL)
def test_canonical_text(root, text):
    assert root.simplify().render() == text


def test_division_by_zero_stays():
    assert (x // 0).simplify() is x // 0
    assert (x % 0).simplify() is x % 0


def test_a_check_is_never_lost():
    checked = UOp(Ops.CHECK, dtypes.index, (x, x < 5), 0)
    for root in (checked * 0, checked - checked, (checked * 4) % 4, (checked < 200) & (x < 3)):
        assert checked in root.simplify().toposort()


def test_wrapping_integers_have_no_index_rules():
    a = UOp(Ops.ACC, dtypes.int32, (UOp.const(dtypes.int32, 0),), 0)
    assert ((a * 2) // 2).simplify() is (a * 2) // 2
