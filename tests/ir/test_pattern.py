"""What a pattern matches, and the order in which rules are tried."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, PatternMatcher, UOp, UPat, Variable

a, b = Variable("a", 0, 9), Variable("b", 0, 9)
x, y, c = UPat.var("x"), UPat.var("y"), UPat.cvar("c")
half = UOp.const(dtypes.float32, 0.5)


@pytest.mark.parametrize(
    ("pattern", "node", "count"),
    [
        (x, a, 1),
        (c, a, 0),
        (c, UOp.index_const(1), 1),
        (UPat.const(1), UOp.index_const(1), 1),
        (UPat.const(2), UOp.index_const(1), 0),
        (UPat(Ops.VARIABLE, dtypes.float32), a, 0),
        (UPat((Ops.ADD, Ops.MUL)), a * b, 1),
        (x + y, a + b, 2),
        (x - y, a - b, 1),
        (x + c, a + 1, 1),
        (c + x, a + 1, 1),
        (x + x, a + b, 0),
        (x + x, a + a, 1),
        ((x + c) * c, (a + 2) * 2, 1),
        ((x + c) * c, (a + 2) * 3, 0),
        (UPat(Ops.ADD, src=UPat(Ops.VARIABLE)), a + b, 1),
        (UPat(Ops.ADD, src=UPat(Ops.VARIABLE)), a + 1, 0),
        (UPat(Ops.SINK, src=(x,)), UOp.sink(a, b), 0),
        (UPat(Ops.SINK, src=(x,), more=True), UOp.sink(a, b), 1),
        (UPat(Ops.VECTORIZE, dtypes.float32), half.broadcast(4), 1),
        (UPat(Ops.VECTORIZE, dtypes.float32.vec(4)), half.broadcast(4), 1),
        (UPat(Ops.VECTORIZE, dtypes.float32.vec(2)), half.broadcast(4), 0),
    ],
)
def test_matches(pattern, node, count):
    found = {frozenset(m.items()) for m in pattern.match(node, {})}
    assert len(found) == count


def first(x):
    return x.src[0]


def second(x):
    return x.src[1]


def decline(x):
    return None


def nothing():
    return UOp.index_const(7)


def test_the_first_rule_that_gives_a_node_wins():
    pattern = UPat(Ops.ADD, name="x")
    rules = PatternMatcher([(pattern, decline), (pattern, second), (pattern, first)])
    assert rules.rewrite(a + b) == (b, "second")
    assert rules.rewrite(a * b) is None


def test_sets_of_rules_add_up_in_order():
    pattern = UPat(Ops.ADD, name="x")
    both = PatternMatcher([(pattern, first)]) + PatternMatcher([(pattern, second)])
    assert both.rewrite(a + b) == (a, "first")


def test_a_rule_takes_only_the_names_that_it_asks_for():
    rules = PatternMatcher([(UPat(Ops.ADD, name="x"), nothing)])
    assert rules.rewrite(a + b) == (UOp.index_const(7), "nothing")


def test_a_rule_without_arguments_after_a_constant_pattern():
    rules = PatternMatcher([(UPat(Ops.CONST, dtypes.float, arg=1.0), nothing)])
    assert rules.rewrite(UOp.const(dtypes.float, 1.0)) is not None
    assert rules.rewrite(UOp.const(dtypes.float, 2.0)) is None


def test_the_format_of_a_plain_pattern_counts():
    rules = PatternMatcher([(UPat(Ops.ADD, dtypes.float32, name="x"), first)])
    assert rules.rewrite(a + b) is None
    assert rules.rewrite(half + half) == (half, "first")
    assert rules.rewrite(half.broadcast(2) + half.broadcast(2)) is not None
