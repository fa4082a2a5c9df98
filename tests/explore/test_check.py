"""Steps of a trace are executed, and the first that gives another result is found."""

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.explore import content
from torpor.explore.check import Tried, first_difference, same_outcome, same_value
from torpor.explore.check import outcome as outcome_of
from torpor.explore.remake import compute_check, material
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.text import parse_all
from torpor.ir.uop import UOp


def steps_of(trace, kernel):
    found = content.in_order(trace, kernel)
    nodes = parse_all(trace.text(content.below_steps(trace, found, kernel.ast)))
    return nodes[kernel.ast], [
        Tried(not step.stage, nodes[step.before], nodes[step.after]) for step in found
    ]


def test_every_step_of_the_fusion_example_holds(trace):
    for kernel in (None, *trace.kernels):
        found = compute_check(material(trace, kernel, "check"))
        assert found["first"] is None
        assert found["tried"] == found["steps"] > 0


def test_a_rule_that_is_wrong_is_found_at_its_step(trace):
    ast, steps = steps_of(trace, trace.kernels[0])
    place = next(n for n, step in enumerate(steps) if not step.whole)
    steps[place] = steps[place]._replace(after=steps[place].after + 1)
    assert first_difference(ast, steps) == (place, place + 1)


def test_a_pass_that_is_wrong_is_found_at_its_step(trace):
    ast, steps = steps_of(trace, trace.kernels[0])
    place = next(n for n, step in enumerate(steps) if step.whole)
    (four,) = [n for n in ast.toposort() if n.op is Ops.CONST and n.dtype is dtypes.float32]
    broken = steps[place].after.substitute({four: four.const(four.dtype, 5.0)})
    steps[place] = steps[place]._replace(after=broken)
    assert first_difference(ast, steps)[0] == place


def test_expressions_are_told_apart():
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 1, 5)
    assert same_value(x // y * y + x % y, x) is True
    assert same_value(x * 2, x * 3) is False
    assert same_value(x, x + y) is None  # y is nothing that x is made of


def test_floats_that_are_read_as_integers_may_differ_in_their_last_bits():
    def kernel(value):
        target, source = (
            UOp(Ops.PARAM, dtype, (), ParamArg(slot, 64))
            for slot, dtype in enumerate((dtypes.int32, dtypes.float32))
        )
        axis = UOp.range(64, 0)
        loaded = UOp(Ops.LOAD, dtypes.float32, (UOp(Ops.INDEX, dtypes.float32, (source, axis)),))
        bits = value(loaded).bitcast(dtypes.int32)
        place = UOp(Ops.INDEX, dtypes.int32, (target, axis))
        return UOp.sink(UOp(Ops.STORE, dtypes.void, (place, bits, axis)))

    wanted = outcome_of(kernel(lambda x: x + 0.1 + 0.2))
    assert same_outcome(wanted, kernel(lambda x: x + 0.1 + 0.2)) is True
    assert same_outcome(wanted, kernel(lambda x: x + 0.3)) is None


def test_what_a_kernel_leaves_is_what_its_ast_says(trace):
    ast, _ = steps_of(trace, trace.kernels[0])
    left = outcome_of(ast)
    np.testing.assert_array_equal(left[0], left[1] + 4)
    assert same_outcome(None, ast) is None
    assert left[0].dtype == dtypes.float32.numpy
