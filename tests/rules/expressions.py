"""Random index expressions, and what they mean, by Python's integers."""

import itertools
import operator

from hypothesis import strategies

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp, Variable

MEANING = {
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.IDIV: operator.floordiv,
    Ops.MOD: operator.mod,
    Ops.MAX: max,
    Ops.MIN: min,
    Ops.CMPLT: operator.lt,
    Ops.CMPEQ: operator.eq,
    Ops.CMPNE: operator.ne,
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.WHERE: lambda c, a, b: a if c else b,
}


def leaves():
    return [
        Variable("x", -3, 7),
        Variable("n", 1, 4),
        UOp.range(6, 0),
        UOp.range(4, 1),
        Variable("y", -5, -1),
    ]


LEAVES = leaves()


def domain(leaf):
    return range(leaf.vmin, leaf.vmax + 1)


def points(*roots):
    """Every assignment of values to the leaves that occur below `roots`."""
    present = [leaf for leaf in LEAVES if any(leaf in root.toposort() for root in roots)]
    for values in itertools.product(*(domain(leaf) for leaf in present)):
        yield dict(zip(present, values))


def value(root, point):
    """The number that `root` is at `point`; a ZeroDivisionError as Python has it."""
    known = dict(point)
    for node in root.toposort(lambda n: n not in point):
        if node not in known:
            known[node] = (
                node.arg
                if node.op is Ops.CONST
                else MEANING[node.op](*(known[s] for s in node.src))
            )
    return known[root]


def _short(strategy):
    """The same strategy with a short repr: Hypothesis would spell a recursive one out."""
    return strategies.deferred(lambda: strategy)


def _grow(children):
    constant = strategies.integers(-13, 13).map(UOp.index_const)
    divisor = strategies.sampled_from([-6, -4, -1, 1, 2, 3, 4, 6, 8, 12]).map(UOp.index_const)
    positive = strategies.sampled_from([LEAVES[1], LEAVES[1] * 2, LEAVES[2] + 1])

    def of(op, left, right):
        return strategies.builds(lambda a, b: a.alu(op, b), left, right)

    def branch(c, d, a, b):
        return (c < d).where(a, b)

    return strategies.one_of(
        of(Ops.ADD, children, children),
        of(Ops.ADD, children, constant),
        of(Ops.SUB, children, children),
        of(Ops.MUL, children, constant),
        of(Ops.MUL, constant, children),
        of(Ops.MUL, children, positive),
        of(Ops.IDIV, children, divisor),
        of(Ops.MOD, children, divisor),
        of(Ops.IDIV, children, positive),
        of(Ops.MOD, children, positive),
        of(Ops.MAX, children, children),
        of(Ops.MIN, children, constant),
        strategies.builds(branch, children, constant, children, children),
    )


def indices(max_leaves=8):
    """Expressions of dtype index, negative values and symbolic divisors included."""
    leaf = strategies.sampled_from(LEAVES) | strategies.integers(-9, 9).map(UOp.index_const)
    return _short(strategies.recursive(leaf, _grow, max_leaves=max_leaves))


def conditions(max_leaves=5):
    """Bools over comparisons of index expressions."""
    operand = indices(3)
    comparison = strategies.builds(
        lambda op, a, b: a.alu(op, b),
        strategies.sampled_from([Ops.CMPLT, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE]),
        operand,
        operand | strategies.integers(-9, 30).map(UOp.index_const),
    )

    def grow(children):
        joined = strategies.builds(
            lambda op, a, b: a.alu(op, b),
            strategies.sampled_from([Ops.AND, Ops.AND, Ops.OR, Ops.XOR]),
            children,
            children,
        )
        return joined | children.map(operator.invert)

    truth = strategies.booleans().map(lambda b: UOp.const(dtypes.bool, b))
    base = _short(comparison | comparison | truth)
    return _short(strategies.recursive(base, grow, max_leaves=max_leaves))
