"""Floor division of integers, written out: every pair of 8 bits, and edges of the wider formats."""

import numpy as np
import pytest

from tests.kernel.decompose.evaluate import evaluate, variable
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for

FORMATS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
RULES = rules_for(get_target("c"))


def numbers(dtype):
    """All of 8 bits; else those around powers of two, and others."""
    if dtype.bits == 8:
        return np.arange(int(dtype.min), int(dtype.max) + 1).astype(dtype.numpy)
    near = {s * (1 << n) + d for n in range(dtype.bits) for d in (-1, 0, 1) for s in (1, -1)}
    random = np.random.default_rng(3).integers(dtype.min, dtype.max, 60, dtype.numpy, True)
    held = [n for n in sorted(near) if dtype.min <= n <= dtype.max]
    return np.concatenate([np.array(held, dtype.numpy), random])


def computed(root, values):
    """Each division is of numbers that are known to be no less than 0."""
    for node in root.toposort():
        if node.op in (Ops.IDIV, Ops.MOD):
            assert min(s.vmin for s in node.src) >= 0
    return evaluate(root, **values)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
@pytest.mark.parametrize("count", [1, 4])
def test_every_pair_agrees_with_numpy(count, op, name):
    dtype = getattr(dtypes, name)
    x, y = (v.ravel() for v in np.meshgrid(numbers(dtype), numbers(dtype)))
    x, y = np.ascontiguousarray(x[y != 0]), np.ascontiguousarray(y[y != 0])
    format = dtype.vec(count)
    root = graph_rewrite(variable(format).alu(op, variable(format, "y")), RULES)
    with np.errstate(all="ignore"):
        expected = x // y if op is Ops.IDIV else x % y
    np.testing.assert_array_equal(computed(root, {"x": x, "y": y}), expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 64, 127, -1, -2, -5, -128])
@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
def test_constant_divisors_agree_with_numpy(op, divisor, name):
    dtype = getattr(dtypes, name)
    if divisor < dtype.min:
        return
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        expected = (
            x // dtype.numpy.type(divisor) if op is Ops.IDIV else x % dtype.numpy.type(divisor)
        )
    for count in (1, 4):
        format = dtype.vec(count)
        root = graph_rewrite(variable(format).alu(op, UOp.const(format, divisor)), RULES)
        np.testing.assert_array_equal(computed(root, {"x": x}), expected)
        whole = divisor > 0 and not divisor & (divisor - 1)
        assert not whole or not {Ops.IDIV, Ops.MOD} & {n.op for n in root.toposort()}


@pytest.mark.parametrize("name", [name for name in FORMATS if "64" not in name])
@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
def test_quotients_that_are_nearly_whole_agree_with_numpy(op, name):
    """n*y and n*y - 1 by y, where a float that is too short rounds up to n."""
    dtype, random = getattr(dtypes, name), np.random.default_rng(4)
    y = random.integers(1, 1 << dtype.bits // 2 - 1, 5000).astype(dtype.numpy)
    n = random.integers(1, int(dtype.max) // y.astype("i8")).astype(dtype.numpy)
    signs = (1, -1) if dtype.min < 0 else (1,)
    x = np.concatenate([s * (n * y - below) for s in signs for below in (0, 1)], dtype=dtype.numpy)
    y = np.tile(y, 2 * len(signs))
    format = dtype.vec(4)
    root = graph_rewrite(variable(format).alu(op, variable(format, "y")), RULES)
    expected = x // y if op is Ops.IDIV else x % y
    np.testing.assert_array_equal(computed(root, {"x": x, "y": y}), expected)


def test_the_interpreter_floors_itself():
    node = variable(dtypes.int32) // variable(dtypes.int32, "y")
    assert graph_rewrite(node, rules_for(get_target("python"))) is node
