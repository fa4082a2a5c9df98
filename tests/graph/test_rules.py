"""Simplified graphs have the same values and are smaller."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate, tensor
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.graph import build, simplify_graph
from torpor.graph.gradient import gradient
from torpor.ir.infer import shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind
from torpor.tensor.joining import _cat_two

F32, I32 = dtypes.float32, dtypes.int32
X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def same(root):
    """The simplified graph, which has the same value, bit for bit."""
    simple = simplify_graph(root)
    assert shape_of(simple) == shape_of(root)
    assert simple.dtype is root.dtype
    np.testing.assert_array_equal(evaluate(simple), evaluate(root))
    zeros = evaluate(root) == 0
    if root.dtype.is_float:
        signs = [np.signbit(evaluate(node))[zeros] for node in (simple, root)]
        np.testing.assert_array_equal(*signs)
    return simple


def const(value, dtype=F32, shape=(3, 4)):
    return build.constant(value, dtype, shape)


@pytest.mark.parametrize(
    ("move", "shape"),
    [
        (lambda c: build.reshape(c, (2, 6)), (2, 6)),
        (lambda c: build.permute(c, (1, 0)), (4, 3)),
        (lambda c: build.expand(c, (5, 3, 4)), (5, 3, 4)),
        (lambda c: build.shrink(c, ((1, 2), (0, 3))), (1, 3)),
        (lambda c: build.flip(c, (0, 1)), (3, 4)),
        (lambda c: build.window(c, 1, 2), (3, 3, 2)),
        (lambda c: build.permute(build.flip(build.reshape(c, (4, 3, 1)), 0), (2, 1, 0)), (1, 3, 4)),
    ],
)
def test_a_moved_constant_is_a_constant(move, shape):
    assert same(move(const(2.5))) is const(2.5, shape=shape)


def test_padded_constants():
    pairs = ((1, 0), (0, 2))
    assert same(build.pad(const(0.0), pairs)) is const(0.0, shape=(4, 6))
    for value in (1.0, -0.0):
        assert same(build.pad(const(value), pairs)).op is Ops.PAD


def test_arithmetic_on_constants_folds_through_movements():
    row = build.expand(build.reshape(const(3, I32, (4,)), (1, 4)), (3, 4))
    made = build.elementwise(Ops.ADD, const(2, I32), row)
    assert same(made) is const(5, I32)
    assert same(build.elementwise(Ops.CMPLT, made, const(6, I32))) is const(True, dtypes.bool)
    assert same(build.cast(made, F32)) is const(5.0)


def test_identities():
    x, condition = tensor(X), build.elementwise(Ops.CMPLT, tensor(X), const(0.0))
    add, multiply = Ops.ADD, Ops.MUL
    assert same(build.elementwise(multiply, x, const(1.0))) is x
    assert same(build.elementwise(multiply, const(1.0), x)) is x
    assert same(build.elementwise(add, x, const(-0.0))) is x
    assert same(build.elementwise(add, x, const(0.0))) is not x
    assert same(build.elementwise(multiply, x, const(0.0))) is not const(0.0)
    assert same(build.elementwise(Ops.WHERE, const(True, dtypes.bool), x, const(1.0))) is x
    assert same(build.elementwise(Ops.WHERE, condition, x, x)) is x
    assert same(build.cast(build.cast(x, dtypes.float64), F32)) is x
    rounded = build.cast(build.cast(x, dtypes.float16), F32)
    assert same(rounded) is rounded
    integers = build.cast(x, I32)
    assert same(build.elementwise(multiply, integers, const(0, I32))) is const(0, I32)
    assert same(build.elementwise(add, integers, const(0, I32))) is integers


def test_sums_of_constants_by_licence():
    twice = build.elementwise(
        Ops.ADD, build.elementwise(Ops.ADD, tensor(X), const(4.0)), const(3.0)
    )
    assert const(7.0) in same(twice).src
    with Context(STRICT_FLOAT=1):
        assert simplify_graph(twice) is twice
    mixed = build.elementwise(
        Ops.ADD, build.elementwise(Ops.ADD, tensor(X), const(4.0)), const(-3.0)
    )
    assert simplify_graph(mixed) is mixed


def test_movements_merge():
    x = tensor(X)
    assert same(build.reshape(build.reshape(x, (2, 6)), (3, 4))) is x
    assert same(build.permute(build.permute(x, (1, 0)), (1, 0))) is x
    assert same(build.flip(build.flip(x, (0, 1)), (0, 1))) is x
    assert same(build.shrink(build.pad(x, ((1, 2), (3, 4))), ((1, 4), (3, 7)))) is x
    assert same(build.shrink(build.pad(x, ((1, 2), (3, 4))), ((0, 4), (3, 7)))).op is Ops.SHRINK
    column = build.shrink(x, ((0, 3), (1, 2)))
    wide = build.expand(build.expand(column, (3, 1)), (3, 5))
    for axes in ((1,), (0, 1)):
        made = same(build.reduce(wide, Ops.MAX, axes))
        assert all(node.op is not Ops.EXPAND for node in made.toposort())


STEPS = st.sampled_from(
    [
        lambda x: build.reshape(x, (-1,)),
        lambda x: build.reshape(x, (2, -1)) if math.prod(shape_of(x)) % 2 == 0 else x,
        lambda x: build.permute(x, tuple(reversed(range(len(shape_of(x)))))),
        lambda x: build.flip(x, 0),
        lambda x: build.flip(x, None),
        lambda x: build.pad(x, [(1, 0)] * len(shape_of(x))),
        lambda x: build.pad(x, [(0, 2)] + [(0, 0)] * (len(shape_of(x)) - 1)),
        lambda x: build.shrink(x, [(min(1, s), s) for s in shape_of(x)]),
        lambda x: build.shrink(x, [(0, s - s // 3) for s in shape_of(x)]),
        lambda x: build.expand(x, (2, *shape_of(x))),
        lambda x: build.stride_axis(x, 0, 2),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=6))
def test_random_chains_of_movements(steps):
    node = tensor(X)
    for step in steps:
        if math.prod(shape_of(node)) <= 200 and len(shape_of(node)) < 5:
            node = step(node)
    simple = same(node)
    mergeable = MOVEMENT - {Ops.SHEAR}
    chain = [n for n in simple.toposort() if n.op in mergeable]
    assert all(n.src[0].op is not n.op for n in chain)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN], ids=str)
@pytest.mark.parametrize(
    ("value", "dtype"),
    [(3, I32), (-2, dtypes.int8), (200, dtypes.uint8), (True, dtypes.bool), (1.0, F32), (0.5, F32),
     (0.0, F32), (math.inf, F32), (math.nan, F32)],
)  # fmt: skip
def test_reduced_constants(op, value, dtype):
    made = same(build.reduce(const(value, dtype), op, None))
    if not (dtype.is_float and op is Ops.MUL and value not in (0.0, 1.0)):
        assert made.op is Ops.CONST


def test_a_sum_that_rounds_is_not_folded():
    for value in (0.1, -0.0):
        made = build.reduce(const(value), Ops.ADD, None)
        assert simplify_graph(made).op is not Ops.CONST
    many = build.constant(1.0, F32, (1 << 25,))
    assert simplify_graph(build.reduce(many, Ops.ADD, None)).op is not Ops.CONST


def test_nothing_is_computed_of_no_elements():
    x = tensor(np.zeros((0, 3), np.float32))
    assert same(build.elementwise(Ops.EXP, x)) is const(0.0, shape=(0, 3))
    assert same(build.reduce(x, Ops.ADD, (0,))) is const(0.0, shape=(3,))
    assert same(build.reduce(x, Ops.MUL, (0,))) is const(1.0, shape=(3,))
    assert shape_of(simplify_graph(build.reduce(x, Ops.MAX, (1,)))) == (0,)


def divides(op=Ops.IDIV):
    return build.elementwise(op, const(6, I32), build.cast(tensor(X), I32))


@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD], ids=str)
def test_what_may_raise_is_kept(op):
    node, two = divides(op), const(2, I32)
    below = build.elementwise(Ops.CMPLT, node, two)
    for root in (
        build.elementwise(Ops.MUL, node, const(0, I32)),
        build.elementwise(Ops.MUL, build.elementwise(Ops.ADD, node, two), const(0, I32)),
        build.elementwise(Ops.WHERE, below, two, two),
        build.elementwise(op, two, const(0, I32)),
    ):
        assert any(found.op is op for found in simplify_graph(root).toposort())


def test_what_cannot_raise_goes():
    x = build.cast(tensor(X), I32)
    harmless = build.elementwise(Ops.IDIV, x, const(3, I32))
    assert same(build.elementwise(Ops.MUL, harmless, const(0, I32))) is const(0, I32)


def test_a_sink_and_shared_nodes():
    x = build.elementwise(Ops.MUL, tensor(X), const(1.0))
    left, right = build.elementwise(Ops.EXP, x), build.reduce(x, Ops.ADD, None)
    simple = simplify_graph(UOp.sink(left, right, left))
    assert simple.op is Ops.SINK
    assert simple.src[0] is simple.src[2]
    assert simple.src[0].src[0] is x.src[0]


def test_axes_of_one_element_change_places_without_a_copy():
    x = build.reshape(tensor(X), (3, 1, 4, 1))
    for order in (1, 0, 2, 3), (0, 2, 3, 1), (3, 0, 1, 2):
        moved = build.permute(x, order)
        assert same(moved) is simplify_graph(build.reshape(x, shape_of(moved)))
    assert same(build.permute(x, (2, 1, 0, 3))).op is Ops.PERMUTE


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("at", [1, 2])
def test_parts_joined_again_are_the_whole(axis, at):
    x = tensor(X)
    cut = [((0, size),) * 2 for size in shape_of(x)]
    cut[axis] = (0, at), (at, shape_of(x)[axis])
    parts = [build.shrink(x, tuple(boxes[n] for boxes in cut)) for n in (0, 1)]
    assert same(_cat_two(*parts, axis)) is x
    turned = [build.permute(part, (1, 0)) for part in parts]
    assert same(_cat_two(*turned, 1 - axis)) is not x  # transposed
    assert same(_cat_two(*parts[::-1], axis)) is not x
    assert same(_cat_two(parts[0], parts[0], axis)) is not x


def test_pairs_that_are_stacked_again_are_the_whole():
    x = build.reshape(tensor(X), (6, 2))
    columns = [build.shrink(x, ((0, 6), (n, n + 1))) for n in (0, 1)]
    assert same(_cat_two(*columns, 1)) is simplify_graph(x)
    flat = [build.reshape(column, (2, 3, 1)) for column in columns]
    assert same(_cat_two(*flat, 2)) is simplify_graph(build.reshape(x, (2, 3, 2)))
    doubled = [build.elementwise(Ops.ADD, column, column) for column in columns]
    assert same(_cat_two(*doubled, 1)).op is Ops.WHERE


def test_symbolic_sizes():
    n = bind(Variable("n", 2, 3), 3)
    x = build.shrink(tensor(X), ((0, n), (0, 4)))
    halves = build.reshape(build.reshape(x, (n, 2, 2)), (n, 4))
    assert same(halves) is x
    inner = build.shrink(x, ((1, n), (0, 4)))
    assert same(build.shrink(inner, ((0, 1), (0, 4)))).src[0] is x.src[0]
    assert same(build.pad(build.pad(x, ((0, n), (0, 0))), ((1, 0), (0, 0)))).op is Ops.PAD
    ones = build.constant(1.0, F32, (n, 4))
    assert simplify_graph(build.reduce(ones, Ops.ADD, None)).op is not Ops.CONST
    assert evaluate(build.reduce(ones, Ops.ADD, None)) == 12


def test_gradients_simplify():
    x = tensor(X.astype(np.float64))
    root = build.reduce(
        build.elementwise(Ops.MUL, x, build.elementwise(Ops.TANH, x)), Ops.ADD, None
    )
    (found,) = gradient(root, [x], build.constant(1, dtypes.float64))
    assert len(same(found).toposort()) < len(found.toposort())


def test_a_long_chain_needs_no_recursion():
    node = tensor(X)
    for number in range(2000):
        node = build.elementwise(Ops.MUL, node, const(1.0 + number % 2))
    assert len(simplify_graph(node).toposort()) < 1010
