"""The width of index arithmetic: decided by bounds, and proved sound by z3."""

import pytest
from hypothesis import assume, given, settings

from tests.rules.expressions import LEAVES, indices
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp, Variable
from torpor.rules import index_dtype
from torpor.rules.width import fits

z3 = pytest.importorskip("z3")
solver = pytest.importorskip("tests.rules.solver")
LIMIT = 2**31


def test_small_is_int32():
    assert index_dtype([UOp.range(1 << 16, 0) * (1 << 14)]) is dtypes.int32


def test_large_is_int64():
    assert index_dtype([UOp.range(1 << 16, 0) * (1 << 16)]) is dtypes.int64


@pytest.mark.parametrize(("bound", "dtype"), [(LIMIT - 1, "int32"), (LIMIT, "int64")])
def test_a_loop_bound_must_fit_because_the_counter_reaches_it(bound, dtype):
    assert index_dtype([UOp.range(bound, 0)]).name == dtype


def test_an_intermediate_value_counts_though_the_result_is_small():
    n = Variable("n", 0, LIMIT - 1)
    assert index_dtype([(n + 1) % 7]) is dtypes.int64
    assert index_dtype([n % 7]) is dtypes.int32
    assert not fits([n * (1 << 40)], dtypes.int64)


def test_other_formats_do_not_count():
    wide = UOp.const(dtypes.int64, 1 << 40).cast(dtypes.index)
    assert index_dtype([wide]) is dtypes.int64
    assert index_dtype([UOp.const(dtypes.int64, 1 << 40) < UOp.const(dtypes.int64, 3)]).bits == 32


MACHINE = {
    Ops.ADD: lambda a, b: a + b,
    Ops.SUB: lambda a, b: a - b,
    Ops.MUL: lambda a, b: a * b,
}


@pytest.mark.parametrize("op", list(MACHINE), ids=lambda op: op.name)
def test_no_overflow_means_the_machine_agrees(op):
    """If the exact result fits, the wrapped one is it: the step of the induction, at 16 bits."""
    bits = 16
    a, b = z3.BitVecs("a b", bits)
    wide = MACHINE[op](z3.SignExt(bits, a), z3.SignExt(bits, b))
    fitting = z3.And(wide >= -(1 << (bits - 1)), wide < 1 << (bits - 1))
    assert solver.is_proved(z3.SignExt(bits, MACHINE[op](a, b)) == wide, fitting)


@settings(max_examples=60, deadline=None)
@given(indices(5))
def test_proved_bounds_hold_for_every_node(root):
    """What the decision rests on: each node lies between its vmin and its vmax."""
    nodes = [n for n in root.toposort() if n.op is not Ops.CONST]
    divisions = [n for n in nodes if n.op in (Ops.IDIV, Ops.MOD)]
    products = [n for n in nodes if n.op is Ops.MUL]
    assume(all(n.src[1].op is Ops.CONST for n in divisions))
    assume(all(any(s.op is Ops.CONST for s in n.src) for n in products))
    known = {leaf: z3.Int(f"leaf{n}") for n, leaf in enumerate(LEAVES)}
    given_bounds = [c for n, t in known.items() for c in (n.vmin <= t, t <= n.vmax)]
    for node in nodes:
        if node.dtype is dtypes.index:
            term = solver.translate(node, known)
            assert solver.is_proved(z3.And(node.vmin <= term, term <= node.vmax), *given_bounds)
