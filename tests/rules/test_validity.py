"""Expressions simplified under a condition: equal wherever it holds."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.expressions import LEAVES, conditions, indices, points, value
from torpor.ir import UOp, Variable
from torpor.rules import conjuncts, simplify_under, simplify_valid
from torpor.rules.cost import cost_of
from torpor.rules.validity import bounds_under

few = settings(max_examples=100, deadline=None)
x = Variable("x", -50, 50)
i, j = UOp.range(16, 0), UOp.range(5, 1)


def between(low, root, high):
    return ~(root < low) & (root < high)


@pytest.mark.parametrize(
    ("root", "condition", "text"),
    [
        (x % 12, between(0, x, 12), "x"),
        (x % 12, between(12, x, 24), "(x+-12)"),
        (x // 12, between(0, x, 12), "0"),
        (x * 3 + j, x.eq(1), "(ridx1+3)"),
        ((i - j) % 12, between(0, i - j, 12), "(ridx0+(ridx1*-1))"),
        ((i - j + 4) // 12 * 100 + (i - j + 4) % 12, between(-4, i - j, 8), None),
        (x.maximum(0), ~(x < 0), "x"),
        (x % 12, x < 12, "(x%12)"),
    ],
)
def test_a_condition_narrows(root, condition, text):
    assert simplify_under(root, condition).render() == (text or "(ridx0+(ridx1*-1)+4)")


def test_a_counter_stays_the_one_it_is_where_its_length_is_known():
    """A condition that makes the length the counter + 1."""
    length = Variable("n", 3, 40)
    counter = UOp.range(length, 0)
    found = simplify_under((counter - length + 1) * 2, (counter < length) & (length < counter + 2))
    assert set(found.ranges()) <= {counter}
    assert found.render() == "0"


def test_a_conjunct_that_the_others_imply_goes():
    condition = between(0, x, 12) & (x // 12).eq(0) & (x % 12 < 20)
    assert simplify_valid(condition).render() == "((-1<x) and (x<12))"


@few
@given(indices(5), conditions(4))
def test_the_index_is_equal_where_the_condition_holds(index, condition):
    after = simplify_under(index, condition)
    for point in itertools.islice(points(index, condition, after), 2000):
        if value(condition, point):
            assert value(index, point) == value(after, point)


@few
@given(indices(4), st.integers(-6, 6), st.integers(0, 8), indices(3))
def test_the_index_is_equal_inside_an_interval(index, low, size, bounded):
    condition = between(low, bounded, low + size)
    after = simplify_under(index + bounded % 4, condition)
    for point in itertools.islice(points(index, condition), 2000):
        if value(condition, point):
            assert value(index + bounded % 4, point) == value(after, point)


@few
@given(conditions(6))
def test_a_condition_stays_equal_and_gets_no_longer_than_simplified(condition):
    after = simplify_valid(condition)
    assert cost_of(after) <= cost_of(condition.simplify())
    for point in itertools.islice(points(condition), 2000):
        assert value(condition, point) == value(after, point)


@few
@given(st.permutations(range(9)))
def test_parts_of_a_condition_come_in_order_of_appearance(numbers):
    """Not in that of a set of nodes, which differs from process to process."""
    parts = [x < UOp.index_const(number) for number in numbers]
    condition = parts[0]
    for part in (*parts[1:], *parts[:3]):
        condition = condition & part
    assert [*conjuncts(condition)] == parts
    assert conjuncts(parts[0] & parts[4]) <= conjuncts(condition)


@few
@given(conditions(), st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9))
def test_a_sum_lies_between_its_bounds_wherever_conditions_hold(condition, a, b, constant):
    one, other = LEAVES[:2]
    low, high = bounds_under({one: a, other: b}, constant, [condition])
    for point in itertools.islice(points(one, other, condition), 2000):
        if value(condition, point):
            assert low <= point[one] * a + point[other] * b + constant <= high


def test_a_condition_narrows_bounds():
    assert bounds_under({i: 2, j: -1}, 1, [i < 3, j > 0]) == (-3, 4)
    assert bounds_under({i: 2, j: -1}, 1, []) == (-3, 31)
