"""The rewriter: both orders, depth, origins, events, and rules without end."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, PatternMatcher, UOp, UPat, Variable, graph_rewrite
from torpor.ir.rewrite import hand_down_origins
from torpor.ir.trace import recording

a, b = Variable("a", 0, 9), Variable("b", 0, 9)
c, d = UPat.cvar("c"), UPat.cvar("d")


def fold_sum(c, d):
    return c.const_like(c.arg + d.arg)


def double_to_sum(x, c):
    return x + x if c.arg == 2 else None


SUMS = PatternMatcher([(c + d, fold_sum)])
DOUBLES = PatternMatcher([(UPat.var("x") * c, double_to_sum)])


def test_operands_are_rewritten_first_and_what_is_made_again():
    one = UOp.index_const(1)
    assert graph_rewrite((one + one) + (one + one), SUMS) is UOp.index_const(4)
    assert graph_rewrite((a * 2) * 2, DOUBLES) is (a + a) + (a + a)


def test_bottom_up_sees_the_node_before_its_operands():
    seen = []

    def note(x):
        seen.append(x)

    rules = PatternMatcher([(UPat((Ops.ADD, Ops.MUL), name="x"), note)])
    root = (a * 3) + b
    graph_rewrite(root, rules)
    assert seen == [a * 3, root]
    seen.clear()
    graph_rewrite(root, rules, bottom_up=True)
    assert seen == [root, a * 3]


def test_the_context_reaches_the_rule():
    def named(x, ctx):
        return ctx[x]

    rules = PatternMatcher([(UPat(Ops.VARIABLE, arg=a.arg, name="x"), named)])
    assert graph_rewrite(a + b, rules, ctx={a: b}) is b + b


def test_a_shared_node_is_rewritten_once():
    count = []

    def note(x):
        count.append(x)

    shared = a * 3
    graph_rewrite(shared + shared, PatternMatcher([(UPat(Ops.MUL, name="x"), note)]))
    assert count == [shared]


@pytest.mark.parametrize("bottom_up", [False, True])
def test_100_000_deep(bottom_up):
    node, three = a, UOp.index_const(3)
    for _ in range(100_000):
        node = UOp(Ops.MAX, dtypes.index, (node, three))

    def swap(x):
        return UOp(Ops.MIN, x.dtype, x.src)

    rules = PatternMatcher([(UPat(Ops.MAX, name="x"), swap)])
    made = graph_rewrite(node, rules, bottom_up=bottom_up)
    assert sum(n.op is Ops.MIN for n in made.toposort()) == 100_000
    assert not any(n.op is Ops.MAX for n in made.toposort())


@pytest.mark.parametrize("bottom_up", [False, True])
def test_rules_without_end_are_an_error(bottom_up):
    def grow(x, c):
        return x + (c.arg + 1)

    rules = PatternMatcher([(UPat(Ops.ADD, None, (UPat.var("x"), c)), grow)])
    with pytest.raises(RecursionError, match="without end"):
        graph_rewrite(a + 1, rules, bottom_up=bottom_up)


def test_events_name_the_stage_and_the_rule():
    with recording() as events:
        graph_rewrite(a * 2, DOUBLES, name="doubles")
    (event,) = events
    assert (event.stage, event.rule) == ("doubles", "double_to_sum")
    assert (event.before, event.after) == (a * 2, a + a)


def test_origins_are_united():
    before = Variable("origin", 0, 9) * 2
    before.origins = ("line 1",)
    made = graph_rewrite(before, DOUBLES)
    assert "line 1" in made.origins


def test_inner_nodes_inherit_origins_but_keep_their_own():
    known = Variable("known", 0, 9) * 3
    known.origins = ("line 1",)
    inner = known + 4
    root = inner * 5
    root.origins = ("line 2",)
    hand_down_origins(root)
    assert (inner.origins, known.origins) == (("line 2",), ("line 1",))
    assert all(not node.origins for node in root.toposort() if not node.src)


def test_what_the_rules_leave_alone_is_not_looked_at_again():
    looked: list[UOp] = []

    def look(x: UOp) -> UOp | None:
        """x = x."""
        looked.append(x)
        return None

    rules = PatternMatcher([(UPat(Ops.ADD, name="x"), look)])
    shared = a + 70007
    root = shared * shared + 1
    bit = 1 << 20  # of no other rule set
    for _ in range(2):
        assert graph_rewrite(root, rules, bit=bit) is root
    assert looked == [shared, root]
    assert graph_rewrite(root * 3, rules, bit=bit) is root * 3
    assert looked == [shared, root]
    assert graph_rewrite(root, rules) is root, "without a bit nothing is known"
    assert looked == [shared, root] * 2
