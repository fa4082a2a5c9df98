"""Sizes as polynomials: equality and order hold whatever way the size is written."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.ir import UOp, Variable
from torpor.rules.sizes import is_never_less, is_same, same
from torpor.view import ShapeTracker, View
from torpor.view.view import larger, smaller

N, M = Variable("n", 1, 6), Variable("m", 2, 5)
VALUES = [(n, m) for n in range(1, 7) for m in range(2, 6)]


def evaluated(size, n, m):
    """The size where the variables have these values."""
    if isinstance(size, int):
        return size
    return eval(size.render(), {"__builtins__": {}, "n": n, "m": m})


@st.composite
def sizes(draw, depth=3):
    """A size of +, -, *, // over the variables and small constants."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([N, M, *map(UOp.index_const, range(-2, 4))]))
    left, right = draw(sizes(depth - 1)), draw(sizes(depth - 1))
    kind = draw(st.sampled_from("+-*/"))
    if kind == "/":
        return left // draw(st.integers(1, 3))
    return {"+": left + right, "-": left - right, "*": left * right}[kind]


@settings(max_examples=200, deadline=None)
@given(sizes(), sizes())
def test_what_is_proved_holds_for_all_values(left, right):
    pairs = [(evaluated(left, *at), evaluated(right, *at)) for at in VALUES]
    if is_same(left, right):
        assert all(a == b for a, b in pairs)
    if is_never_less(left, right):
        assert all(a >= b for a, b in pairs)


@settings(max_examples=150, deadline=None)
@given(sizes(), sizes())
def test_lesser_and_greater_are_what_they_say(left, right):
    less, more = smaller(left, right), larger(left, right)
    for at in VALUES:
        pair = (evaluated(left, *at), evaluated(right, *at))
        assert (evaluated(less, *at), evaluated(more, *at)) == (min(pair), max(pair))


@settings(max_examples=100, deadline=None)
@given(sizes(depth=2), sizes(depth=2), sizes(depth=2))
def test_sizes_are_a_ring(a, b, c):
    assert same(a * b, b * a)
    assert same(a * (b + c), a * c + b * a)
    assert same((a - b) * (a + b), a * a - b * b)
    assert not same(a, a + 1)


def test_dimensions_of_sums_join_and_part():
    tracker = ShapeTracker.from_shape((N, N + 2, M + 1))
    joined = tracker.permute((1, 0, 2)).reshape((N + 2, N * (M + 1)))
    assert joined.reshape((N + 2, N, M + 1)).permute((1, 0, 2)).contiguous
    assert joined.reshape(((N + 2) * N, M + 1)).shape == ((N + 2) * N, M + 1)


def test_two_masks_of_which_none_is_known_to_be_tighter_both_stay():
    both = ShapeTracker((View.create((9,), mask=((N, 9),)), View.create((9,), mask=((M, 9),))))
    one = both.simplify()
    assert len(one.views) == 1
    for n, m in VALUES:
        for i in range(9):
            scope = {"__builtins__": {}, "n": n, "m": m, "ridx0": i}
            assert eval(one.to_indexed_uops()[1].render(), scope) == (max(n, m) <= i)


def test_a_mask_that_may_start_before_a_box_stays_inside_it():
    view = View.create((9,), mask=((N, 9),)).shrink(((M, 9),)).pad(((3, 0),))
    position, valid = (e.render() for e in view.to_indexed_uops())
    for n, m in VALUES:
        array = np.where(np.arange(9) >= n, np.arange(9), -1)[m:]
        for i, expected in enumerate(np.pad(array, (3, 0), constant_values=-1)):
            scope = {"__builtins__": {}, "n": n, "m": m, "ridx0": i}
            assert (eval(position, scope) if eval(valid, scope) else -1) == expected
