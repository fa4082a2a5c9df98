"""What an expand repeats is computed once: elementwise operations and sums go below it."""

import numpy as np
import pytest

from tests.graph.evaluate import evaluate, tensor
from torpor import Tensor, dtypes
from torpor.graph import build, simplify_graph
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops

X = np.arange(6, dtype=np.float32).reshape(2, 1, 3) - 2
SHAPE = (2, 5, 3)


def expanded(values=X, shape=SHAPE):
    return build.expand(tensor(values), shape)


def number(value, shape=SHAPE):
    return build.constant(value, dtypes.float32, shape)


def work(root):
    """The most elements that one node which computes has."""
    computed = [n for n in root.toposort() if n.op in (Ops.ADD, Ops.MUL, Ops.WHERE, Ops.EXP)]
    return max(int(np.prod(shape_of(n))) for n in computed)


@pytest.mark.parametrize(
    ("root", "elements"),
    [
        (build.elementwise(Ops.EXP, expanded()), 6),
        (build.elementwise(Ops.MUL, expanded(), expanded(X + 1)), 6),
        (build.elementwise(Ops.MUL, expanded(), number(3)), 6),
        (build.elementwise(Ops.ADD, number(3), expanded(X[:1], SHAPE)), 3),
        (build.elementwise(Ops.MUL, expanded(), expanded(X[:1], SHAPE)), 6),
        (build.elementwise(Ops.MUL, expanded(), expanded(X.reshape(1, 2, 3)[:, :1], SHAPE)), 6),
        (build.elementwise(Ops.MUL, expanded(), expanded(np.ones((1, 5, 1), "f"), SHAPE)), 30),
        (build.elementwise(Ops.MUL, expanded(), tensor(np.ones(SHAPE, np.float32))), 30),
    ],
)
def test_elementwise(root, elements):
    found = simplify_graph(root)
    assert shape_of(found) == SHAPE and work(found) == elements
    np.testing.assert_array_equal(evaluate(found), evaluate(root))


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_reductions(op, axes):
    square = build.elementwise(Ops.MUL, expanded(), expanded())
    root = build.elementwise(Ops.EXP, build.reduce(square, op, axes))
    found = simplify_graph(root)
    assert shape_of(found) == shape_of(root)
    np.testing.assert_allclose(evaluate(found), evaluate(root), rtol=1e-6)


def test_lengths_of_pairs_are_computed_once():
    """Norms of vectors that are compared pair by pair take no kernel over the pairs."""
    x, y = Tensor.empty(90, 64), Tensor.empty(80, 64)
    pairs = Tensor.broadcast_tensors(x[:, None], y[None])
    lengths = [one.square().sum(-1).sqrt() for one in pairs]
    items = (lengths[0] * lengths[1]).schedule()
    assert max(item.buffers[0].arg.size * 64 for item in items[:-1]) <= 90 * 64


def test_what_may_raise_still_does():
    index = build.expand(tensor(np.zeros((1,), np.int32)), (4,))
    root = build.elementwise(Ops.IDIV, build.constant(1, dtypes.int32, (4,)), index)
    assert any(n.op is Ops.IDIV for n in simplify_graph(root).toposort())
