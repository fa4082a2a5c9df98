import numpy as np
import pytest

from tests.kernel.decompose.evaluate import decomposed, evaluate, variable
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, graph_rewrite
from torpor.ir.ops import TRANSCENDENTAL
from torpor.kernel.decompose import rules_for

TARGETS = ["cpu", "c", "python", "cuda", "opencl", "metal", "wgsl"]
BASIC = {
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT,
    Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.CAST, Ops.BITCAST, Ops.SQRT, Ops.TRUNC, Ops.RINT,
    Ops.CONST, Ops.VARIABLE, Ops.VECTORIZE,
}  # fmt: skip
FUNCTIONS = sorted(TRANSCENDENTAL | {Ops.MOD})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_only_basic_operations_of_the_targets_formats_are_left(op, target):
    missing = get_target(target).missing
    for dtype in (dtypes.float32, dtypes.float64):
        if dtype.name in missing:
            continue
        root = decomposed(op, dtype, 2 if op in (Ops.POW, Ops.MOD) else 1, target)
        assert {n.op for n in root.toposort()} <= BASIC
        assert not {n.dtype.name for n in root.toposort()} & missing


@pytest.mark.parametrize("target", TARGETS)
def test_a_magnitude_takes_no_comparison(target):
    x = variable(dtypes.float32)
    root = x.alu(Ops.MAX, x * -1.0) + 0.0
    made = graph_rewrite(root, rules_for(get_target(target)))
    assert not {n.op for n in made.toposort()} & {Ops.MAX, Ops.CMPLT, Ops.WHERE}
    values = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -1e-40], np.float32)
    found = evaluate(made, x=values)
    np.testing.assert_array_equal(found, np.abs(values))
    assert not np.signbit(found[:2]).any()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_vectors_are_computed_as_scalars_are(op, dtype):
    count = 2 if op in (Ops.POW, Ops.MOD) else 1
    values = {n: np.linspace(-3, 5, 101).astype(dtype.numpy) for n in "xy"[:count]}
    scalar, vector = (decomposed(op, d, count) for d in (dtype, dtype.vec(8)))
    assert {n.dtype.count for n in vector.toposort() if n.op is not Ops.CONST} == {8}
    np.testing.assert_array_equal(evaluate(scalar, **values), evaluate(vector, **values))


@pytest.mark.parametrize("target", TARGETS)
def test_rules_are_made_once_a_target(target):
    assert rules_for(get_target(target)) is rules_for(get_target(target))


def test_what_is_written_out_is_final():
    rules = rules_for(get_target("c"))
    for op in FUNCTIONS:
        root = decomposed(op, dtypes.float32, 2 if op in (Ops.POW, Ops.MOD) else 1, "c")
        assert graph_rewrite(root, rules) is root


def test_sine_and_cosine_of_one_angle_share_its_reduction():
    x = variable(dtypes.float32)
    rules = rules_for(get_target("cpu"))
    apart = [len(graph_rewrite(x.alu(op), rules).toposort()) for op in (Ops.SIN, Ops.COS)]
    both = graph_rewrite(x.alu(Ops.SIN) + x.alu(Ops.COS), rules)
    assert len(both.toposort()) < apart[0] + 0.2 * apart[1]


def test_a_chain_of_functions_needs_no_stack():
    node = variable(dtypes.float32)
    for _ in range(1000):
        node = node.alu(Ops.EXP)
    root = graph_rewrite(node, rules_for(get_target("cpu")))
    assert len(root.toposort()) > 20_000
