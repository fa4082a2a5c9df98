"""Rendered expressions are Python that means the same."""

import itertools

import pytest
from hypothesis import given, settings

from tests.rules.expressions import LEAVES, conditions, indices, points, value
from torpor.ir import UOp, Variable

NAMES = dict(zip(LEAVES, ["x", "n", "ridx0", "ridx1", "y"]))
x, y = Variable("x", -3, 7), Variable("y", -5, -1)
r0, r1 = UOp.range(6, 0), UOp.range(4, 1)


@settings(max_examples=150, deadline=None)
@given(indices(5) | conditions(3))
def test_python_evaluates_it_to_the_same(root):
    code = compile(root.render(), "rendered", "eval")
    for point in itertools.islice(points(root), 200):
        env = {NAMES[leaf]: number for leaf, number in point.items()}
        assert eval(code, {"__builtins__": {}}, env) == value(root, point)


@pytest.mark.parametrize(
    ("root", "text"),
    [
        (r0 * 2 + r1, "((ridx0*2)+ridx1)"),
        (r0 * 4 + r1 * 2 + x, "((ridx0*4)+(ridx1*2)+x)"),
        (r0 + (r1 + x), "(ridx0+(ridx1+x))"),
        (x - y, "(x-y)"),
        (x // 3 % 2, "((x//3)%2)"),
        ((x < 3) & (y < 2) & (r0 < 1), "((x<3) and (y<2) and (ridx0<1))"),
        (~(x < 3), "(not (x<3))"),
        ((x < 3).where(x, y), "(x if (x<3) else y)"),
        (x.maximum(y), "(x if x>y else y)"),
    ],
)
def test_text(root, text):
    assert root.render() == text
