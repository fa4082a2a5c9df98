"""The order of kernels: what frees memory runs as soon as it can, nothing before what it needs."""

import numpy as np

from tests.schedule.graphs import buffer_of
from torpor.base.dtypes import dtypes
from torpor.graph import build
from torpor.graph.reduce import leaf
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline import realize, schedule

X = np.float32(np.random.default_rng(0).standard_normal((64, 64)))


def value():
    """A stored tensor of 64 x 64."""
    return build.reshape(buffer_of(X, "CPU"), (64, 64))


def stored(node):
    return build.contiguous(node)


def grown(node):
    """Something of the node that takes all of it, stored."""
    turned = build.permute(node, (1, 0))
    return stored(build.elementwise(Ops.ADD, node, turned))


def test_a_result_that_frees_what_it_reads_comes_at_once():
    first = grown(value())
    chain = grown(grown(grown(first)))
    square = build.elementwise(Ops.MUL, first, build.permute(first, (1, 0)))
    total = build.reduce(square, Ops.ADD, None)
    items = schedule([(chain, "CPU"), (total, "CPU")])
    made = items[0].buffers[items[0].outputs[0]]
    readers = [n for n, item in enumerate(items) if made in item.buffers]
    assert readers == [0, 1, 2]


def test_what_is_computed_again_comes_after_what_it_awaits():
    x = value()
    awaited = grown(grown(x))
    early = grown(x)
    again = grown(UOp(Ops.AFTER, dtypes.float32, (x, awaited)))
    root = build.elementwise(Ops.ADD, early, again)
    items = schedule([(build.elementwise(Ops.MUL, root, awaited), "CPU")])
    same = [n for n, item in enumerate(items) if item.ast is items[0].ast]
    assert len(same) >= 3, "it is computed once more"
    assert all(len(item.buffers) > 1 for item in items)
    assert not [item for item in items if item.reason == "after"], "nothing is copied"
    node = build.elementwise(Ops.MUL, root, awaited)
    (result,) = realize([(node, "CPU")])
    once = X + X.T
    twice = once + once.T
    np.testing.assert_array_equal(values_of(result), (once + once) * twice)


def values_of(node):
    buffer = node.below((Ops.RESHAPE,)).arg
    return np.frombuffer(buffer.as_buffer(), np.float32).reshape(64, 64)


def test_a_copy_that_is_asked_for_is_made():
    x = value()
    copy = UOp(Ops.AFTER, dtypes.float32, (x, grown(x)))
    (result,) = realize([(leaf(copy), "CPU")])
    assert result.below((Ops.RESHAPE,)) is not x.below((Ops.RESHAPE,))
    np.testing.assert_array_equal(values_of(result), X)
