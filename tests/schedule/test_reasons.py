"""Why a value is stored: by graphs that leave one reason only."""

from __future__ import annotations

import pytest

from tests.kernel.kernels import add, filled, multiply, sample
from tests.schedule.graphs import kernels
from torpor import Context, Tensor
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.schedule.reasons import reductions_near


def empty(*shape):
    return Tensor.empty(*shape)


def squared_norms(x):
    """Of rows, each added to each."""
    norms = (x * x).sum(1)
    return norms.reshape(-1, 1) + norms.reshape(1, -1)


def shares_a_sum(total):
    return total * empty(3), total * empty(4)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: (squared_norms(empty(64, 100)),), "used at several indices"),
        (lambda: shares_a_sum(empty(64, 100).sum()), "used by several kernels"),
        (lambda: (empty(64, 100) @ empty(100, 64).exp(),), "recompute"),
        (lambda: (empty(300, 500).sum(1).amax(),), "nested reduction"),
        (lambda: (empty(300, 500).cumsum(0) + 1,), "scan_axis"),
        (lambda: (empty(64, 100).contiguous() + 1,), "contiguous"),
    ],
)
def test_the_first_kernel_stores_for_this_reason(make, reason):
    roots = make()
    items = roots[0].schedule(*roots[1:])
    assert [item.reason for item in items] == [reason, *["output"] * len(roots)]


@pytest.mark.parametrize("narrow", ["bfloat16", "float16", "int8"])
def test_what_is_made_wide_again_is_stored_as_it_was(narrow):
    rounded = empty(64, 100).exp().cast(narrow).cast("float32")
    items = (rounded @ empty(100, 64)).schedule()
    between = items[0].buffers[0]
    assert len(items) == 2 and between.dtype.name == narrow and between in items[1].buffers


def test_a_small_kernel_ends_where_the_setting_says():
    x = sample(8)
    chain = x
    for step in range(6):
        chain = multiply(add(chain, filled(x, step + 1)), x)
    with Context(KERNEL_SIZE=5):
        items = kernels(chain)
    assert {item.reason for item in items[:-1]} == {"kernel size"} and len(items) > 1
    assert len(kernels(chain)) == 1


def test_reductions_are_looked_for_below_elementwise_work_and_movements_only():
    inner = build.reduce(sample(4, 6), Ops.ADD, 1, keepdims=True)
    outer = build.reduce(multiply(inner, inner), Ops.MAX, 0, keepdims=True)
    other = build.reduce(sample(4, 3), Ops.MUL, 1, keepdims=True)
    top = add(multiply(build.expand(outer, (4, 1)), inner), build.contiguous(other))
    assert set(reductions_near(top)) == {outer, inner}
