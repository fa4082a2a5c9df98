"""Every integer rule is proved: its laws by z3, and random rewrites before against after."""

import itertools
import math

import pytest
from hypothesis import given, settings

from tests.rules.expressions import LEAVES, conditions, indices
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.ir.trace import recording
from torpor.rules import exact_rules, index_rules
from torpor.rules.exact import (
    add_constants_by_licence,
    bitcast_bitcast,
    cast_cast,
    cast_to_same,
    negate_twice,
)
from torpor.rules.laws import LAWS

z3 = pytest.importorskip("z3")
solver = pytest.importorskip("tests.rules.solver")

MACHINE_BITS = (8, 32)
# Rules on floats and conversions; test_exact.py tries their values.
NOT_INTEGER = {
    add_constants_by_licence,
    bitcast_bitcast,
    cast_cast,
    cast_to_same,
    negate_twice,
}


def operands_of(law):
    found = UOp.sink(law.before, law.after, law.condition).toposort()
    return [node for node in found if node.op is Ops.VARIABLE]


def choices(law):
    """Every combination of values of the enumerated constants."""
    ranges = [range(1, 65)] * len(law.enumerated)
    for values in itertools.product(*ranges):
        if math.prod(values) <= 64:
            yield dict(zip(law.enumerated, values))


def prove(law, term, number, chosen):
    known = {
        node: number(chosen[name])
        if name in chosen
        else z3.Bool(name)
        if node.dtype is dtypes.bool
        else term(name)
        for node in operands_of(law)
        for name in node.arg[:1]
    }
    before, after, condition = (
        solver.translate(root, known, number) for root in (law.before, law.after, law.condition)
    )
    assert solver.is_proved(before == after, condition)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.rule.__name__)
def test_a_law_holds(law):
    if all(node.dtype is not dtypes.int32 for node in operands_of(law)):
        for chosen in choices(law):
            prove(law, z3.Int, z3.IntVal, chosen)
        return
    for bits in MACHINE_BITS:
        prove(
            law,
            lambda name, bits=bits: z3.BitVec(name, bits),
            lambda constant, bits=bits: z3.BitVecVal(constant, bits),
            {},
        )


def test_every_integer_rule_has_a_law():
    proved = {law.rule for law in LAWS}
    rules = {rule for _, rule in (*index_rules.rules, *exact_rules.rules)}
    assert rules - proved == NOT_INTEGER
    assert proved <= rules


def test_a_false_law_is_refuted():
    x = z3.Int("x")
    with pytest.raises(AssertionError):
        solver.is_proved(x / 2 * 2 == x)


def bounded(known):
    return [
        condition
        for leaf, term in known.items()
        if leaf in LEAVES
        for condition in (leaf.vmin <= term, term <= leaf.vmax)
    ]


def leaf_terms():
    return {leaf: z3.Int(f"leaf{n}") for n, leaf in enumerate(LEAVES)}


def divisors_are_fixed(*roots):
    """z3 decides divisions by constants; others are left to brute force."""
    nodes = [n for root in roots for n in root.toposort()]
    products = (n for n in nodes if n.op is Ops.MUL)
    divisions = (n for n in nodes if n.op in (Ops.IDIV, Ops.MOD))
    return all(n.src[1].op is Ops.CONST for n in divisions) and all(
        any(s.op is Ops.CONST for s in n.src) for n in products
    )


@settings(max_examples=200, deadline=None)
@given(indices(6) | conditions(3))
def test_random_rewrites_are_proved(before):
    with recording() as events:
        before.simplify()
    for event in events:
        if divisors_are_fixed(event.before, event.after):
            known = leaf_terms()
            terms = [solver.translate(root, known) for root in (event.before, event.after)]
            assert solver.is_proved(terms[0] == terms[1], *bounded(known)), event.rule
