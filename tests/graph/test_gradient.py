"""Gradients against finite differences in float64, for every op, twice, and for compositions."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate, tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import GradientError, ShapeError
from torpor.graph import build
from torpor.graph.gradient import RULES, gradient
from torpor.ir.infer import shape_of
from torpor.ir.ops import ALU, GRAPH, Ops, Trait, having
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind

F64 = dtypes.float64
STEP = 1e-5  # central differences: error about STEP**2 = 1e-10 relative, rounding 1e-16 / STEP


def total(node, weights=None):
    """A scalar that depends on every element in its own way."""
    size = int(np.prod(shape_of(node)))
    weights = np.cos(np.arange(size) + 1.0).reshape(shape_of(node)) if weights is None else weights
    return build.reduce(build.elementwise(Ops.MUL, node, tensor(weights)), Ops.ADD, None)


def differences(function, arrays, which):
    """d function(arrays) / d arrays[which] by central differences."""
    slope = np.zeros_like(arrays[which])
    for place in np.ndindex(slope.shape):
        ends = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[which][place] += sign * STEP
            ends.append(float(evaluate(function(*map(tensor, moved)))))
        slope[place] = (ends[0] - ends[1]) / (2 * STEP)
    return slope


def check(function, *arrays, twice=True):
    """Gradients of total(function) and, once more, of a function of those gradients."""
    arrays = [np.asarray(array, dtype=np.float64) for array in arrays]

    def first(*nodes):
        return total(function(*nodes))

    def second(*nodes):
        found = gradient(first(*nodes), nodes, build.constant(1, F64))
        parts = [total(part) for part in found if part is not None]
        return parts[0] if len(parts) == 1 else build.elementwise(Ops.ADD, parts[0], parts[-1])

    for scalar in (first, second) if twice else (first,):
        nodes = [tensor(array) for array in arrays]
        root = scalar(*nodes)
        for which, part in enumerate(gradient(root, nodes, build.constant(1, F64))):
            expected = differences(scalar, arrays, which)
            found = np.zeros_like(expected) if part is None else evaluate(part)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def apply(op, *constants):
    def function(*nodes):
        return build.elementwise(op, *nodes, *[build.constant(c, F64) for c in constants])

    return function


POSITIVE = np.array([[0.5, 1.25, 2.0], [3.5, 0.75, 1.5]])
SIGNED = np.array([[-0.5, 1.25, -2.0], [3.5, 0.25, -1.5]])
OTHER = np.array([[1.5, -0.75, 0.5], [2.25, -3.0, 1.0]])
UNARY = {
    Ops.EXP: SIGNED, Ops.EXP2: SIGNED, Ops.LOG: POSITIVE, Ops.LOG2: POSITIVE, Ops.SIN: SIGNED,
    Ops.COS: SIGNED, Ops.TANH: SIGNED, Ops.ERF: SIGNED, Ops.SQRT: POSITIVE, Ops.FLOOR: SIGNED + 0.1,
    Ops.TRUNC: SIGNED + 0.1, Ops.RINT: SIGNED + 0.1,
}  # fmt: skip
BINARY = {
    Ops.ADD: (SIGNED, OTHER), Ops.SUB: (SIGNED, OTHER), Ops.MUL: (SIGNED, OTHER),
    Ops.FDIV: (SIGNED, OTHER), Ops.MOD: (SIGNED + 0.1, OTHER), Ops.POW: (POSITIVE, OTHER),
    Ops.MAX: (SIGNED, OTHER), Ops.MIN: (SIGNED, OTHER),
}  # fmt: skip


def test_every_op_of_a_graph_has_a_rule():
    # a user's kernel has a rule around it, and calls are written out
    without = {Ops.BUFFER, Ops.SLOT, Ops.TRAIL, Ops.KERNEL, Ops.CALL, Ops.PART}
    of_loops = {Ops.LOOP, Ops.LAST, Ops.STEPS}  # their gradients are taken together
    of_graphs = (ALU | GRAPH) - having(Trait.KERNEL)
    assert of_graphs - without <= set(RULES) | of_loops


@pytest.mark.parametrize("op", UNARY, ids=str)
def test_unary(op):
    rounding = op in (Ops.FLOOR, Ops.TRUNC, Ops.RINT)
    check(apply(op), UNARY[op], twice=not rounding)


@pytest.mark.parametrize("op", BINARY, ids=str)
def test_binary_and_broadcast(op):
    left, right = BINARY[op]
    check(apply(op), left, right)
    check(apply(op), left, right[:1])


def test_where_and_what_has_no_gradient():
    def function(x, y):
        return build.elementwise(Ops.WHERE, build.elementwise(Ops.CMPLT, x, y), x, y)

    check(function, SIGNED, OTHER, twice=False)
    x, y = tensor(SIGNED), tensor(OTHER)
    counted = build.cast(build.cast(x, dtypes.int32), F64)
    root = build.elementwise(Ops.ADD, counted, build.detach(y))
    assert gradient(root, [x, y], build.constant(1, F64, (2, 3))) == [None, None]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5])
def test_power_of_a_constant_exponent(exponent):
    check(apply(Ops.POW, exponent), POSITIVE)


def test_power_at_zero_is_finite():
    x, y = tensor([0.0, 0.0, 0.0, 2.0]), tensor([0.0, 1.0, 2.0, 0.0])
    root = build.elementwise(Ops.POW, x, y)
    ones = build.constant(1, F64, (4,))
    by_base, by_exponent = gradient(root, [x, y], ones)
    np.testing.assert_allclose(evaluate(by_base), [0, 1, 0, 0])
    np.testing.assert_allclose(evaluate(by_exponent), [0, 0, 0, np.log(2)])
    (twice,) = gradient(by_base, [x], ones)
    np.testing.assert_allclose(evaluate(twice), [0, 0, 2, 0])


def test_ties():
    x, y = tensor([1.0, 2.0, 3.0]), tensor([1.0, 3.0, 2.0])
    ones = build.constant(1, F64, (3,))
    for op, left in ((Ops.MAX, [0.5, 0, 1]), (Ops.MIN, [0.5, 1, 0])):
        found = gradient(build.elementwise(op, x, y), [x, y], ones)
        np.testing.assert_array_equal(evaluate(found[0]), left)
        np.testing.assert_array_equal(evaluate(found[1]), 1 - np.array(left))
    row = tensor([4.0, 1.0, 4.0, 1.0])
    for op, expected in ((Ops.MAX, [1.5, 0, 1.5, 0]), (Ops.MIN, [0, 1.5, 0, 1.5])):
        (found,) = gradient(build.reduce(row, op, (0,)), [row], build.constant(3, F64))
        np.testing.assert_array_equal(evaluate(found), expected)


def test_relu_needs_only_its_result():
    x, bound = tensor([-1.0, 0.0, 2.0, np.nan]), build.constant(0, F64)
    clipped = build.elementwise(Ops.MAX, x, bound)
    result = build.function(clipped, [x, bound], "within")
    seed = tensor([5.0, 6.0, 7.0, 8.0])
    (found,) = gradient(result, [x], seed)
    np.testing.assert_array_equal(evaluate(found), [0, 0, 7, 8])
    assert x not in found.toposort(lambda node: node is not result)


MOVEMENTS = {
    "reshape": lambda x: build.reshape(x, (3, 4)),
    "permute": lambda x: build.permute(build.reshape(x, (2, 3, 2)), (2, 0, 1)),
    "expand": lambda x: build.expand(build.reshape(x, (2, 1, 6)), (2, 3, 6)),
    "pad": lambda x: build.pad(x, ((1, 2), (0, 3))),
    "shrink": lambda x: build.shrink(x, ((0, 1), (2, 5))),
    "flip": lambda x: build.flip(x, (1,)),
    "window": lambda x: build.window(x, 1, 3),
    "window stride": lambda x: build.window(x, 1, 2, stride=3),
    "window dilation": lambda x: build.window(x, 1, 2, stride=2, dilation=3),
    "window side by side": lambda x: build.window(x, 1, 2, stride=2),
    "stride": lambda x: build.stride_axis(x, 1, 4),
    "shear back": lambda x: build.shear(x, 1, 0, 3, -2, 1, 4),
    "shear still": lambda x: build.shear(x, 1, 0, 3, 0, -2, 5),
    "shear down": lambda x: build.shear(x, 1, 0, 2, 2, -2, 3),
    "contiguous": build.contiguous,
    "leaf": build.leaf,
}


@pytest.mark.parametrize("name", MOVEMENTS)
def test_movement(name):
    def function(x):
        moved = MOVEMENTS[name](x)
        return build.elementwise(Ops.MUL, moved, moved)

    check(function, np.concatenate([SIGNED, OTHER], axis=1))


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN], ids=str)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), None])
def test_reduce(op, axes):
    values = np.random.default_rng(3).normal(size=(2, 3, 2))
    check(lambda x: build.reduce(x, op, axes), values)


@pytest.mark.parametrize("zeros", [1, 2])
def test_product_with_zeros(zeros):
    values = np.array([[2.0, -3.0, 0.5, 4.0, 1.5]])
    values[0, 1 : 1 + zeros] = 0
    check(lambda x: build.reduce(x, Ops.MUL, (1,)), values)


def test_gather():
    index = tensor(np.array([[4, 0], [2, 4]]))
    check(lambda x: build.gather(build.elementwise(Ops.MUL, x, x), index), OTHER.reshape(6))


def test_gather_of_one_element_along_an_axis():
    index = tensor(np.array([[1], [0]]))
    values = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]])
    check(lambda x: build.gather(build.elementwise(Ops.MUL, x, x), index, 1), values)


def test_gather_keeps_a_nan_where_it_belongs():
    x, index = tensor(np.ones(5)), tensor(np.array([1, 1, 3]))
    (found,) = gradient(build.gather(x, index), [x], tensor([np.nan, 1.0, 2.0]))
    np.testing.assert_array_equal(evaluate(found), [0, np.nan, 0, 2, 0])
    (found,) = gradient(build.gather(x, tensor(np.zeros(0, np.int64))), [x], tensor(np.zeros(0)))
    np.testing.assert_array_equal(evaluate(found), np.zeros(5))


def test_casts_between_floats():
    x = tensor(np.array([1.5, 2.5], np.float32))
    root = build.cast(build.elementwise(Ops.MUL, x, x), F64)
    (found,) = gradient(root, [x], build.constant(1, F64, (2,)))
    assert found.dtype is dtypes.float32
    np.testing.assert_array_equal(evaluate(found), np.array([3, 5], np.float32))


def test_a_copy_sends_its_gradient_back():
    x = tensor([1.0, 2.0])
    (found,) = gradient(build.copy_to(x, "CPU:1"), [x], tensor([3.0, 4.0]))
    assert found.op is Ops.COPY
    assert found.arg == "CPU"


def test_nothing_flows_below_a_leaf_that_is_a_target():
    x = tensor(SIGNED)
    inner = build.leaf(build.elementwise(Ops.MUL, x, x))
    root = total(build.elementwise(Ops.MUL, inner, inner))
    one = build.constant(1, F64)
    found = gradient(root, [inner, x], one)
    assert found[1] is None
    assert gradient(root, [x], one)[0] is not None
    middle = build.elementwise(Ops.MUL, x, x)
    both = gradient(total(middle), [middle, x], one)
    assert None not in both


def test_a_target_between_two_movements_of_a_kind():
    x = tensor(SIGNED)
    flat = build.reshape(x, (6,))
    again = build.reshape(flat, (3, 2))
    other = build.reshape(x, (3, 2))
    root = total(build.elementwise(Ops.MUL, again, other), np.ones((3, 2)))
    found = gradient(root, [flat, x], build.constant(1, F64))
    np.testing.assert_array_equal(evaluate(found[1]), 2 * SIGNED)
    np.testing.assert_array_equal(evaluate(found[0]), SIGNED.reshape(6))


def test_symbolic_sizes():
    n = bind(Variable("n", 3, 6), 5)
    x = tensor(np.concatenate([SIGNED, OTHER]).reshape(12)[:6])
    part = build.shrink(x, ((0, n),))
    windows = build.reduce(build.window(part, 0, 3), Ops.MAX, (1,))
    root = build.reduce(build.elementwise(Ops.MUL, windows, windows), Ops.ADD, None)
    (found,) = gradient(root, [x], build.constant(1, F64))
    values = evaluate(x)
    expected = np.zeros(6)
    for start in range(3):
        place = start + np.argmax(values[start : start + 3])
        expected[place] += 2 * values[place]
    np.testing.assert_allclose(evaluate(found), expected)


def test_root_seed_and_dtype_are_checked():
    x = tensor(SIGNED)
    seed = build.constant(2, F64, (2, 3))
    assert gradient(x, [x, x], seed) == [seed, seed]
    with pytest.raises(ShapeError, match=r"float64 \(2, 3\).*float64 \(2,\)"):
        gradient(x, [x], build.constant(2, F64, (2,)))
    with pytest.raises(GradientError, match="int64"):
        gradient(tensor(np.arange(3)), [x], seed)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)])
def test_small_shapes(shape):
    values = np.full(shape, 1.5)

    def function(x):
        wide = build.expand(x, (3, *shape))
        made = build.elementwise(Ops.MUL, wide, build.elementwise(Ops.SIN, wide))
        made = build.reduce(made, Ops.MUL, (0,))
        return build.reduce(made, Ops.MUL, None)

    check(function, values)


STEPS = st.sampled_from(
    [
        lambda x: build.elementwise(Ops.SIN, x),
        lambda x: build.elementwise(Ops.TANH, x),
        lambda x: build.elementwise(Ops.MUL, x, build.flip(x, 0)),
        lambda x: build.elementwise(Ops.ADD, x, build.reduce(x, Ops.ADD, (1,), keepdims=True)),
        lambda x: build.elementwise(
            Ops.EXP, build.elementwise(Ops.MUL, x, build.constant(-0.5, F64))
        ),
        lambda x: build.elementwise(Ops.SUB, x, build.reduce(x, Ops.MAX, (0,), keepdims=True)),
        lambda x: build.reduce(build.window(x, 1, 2), Ops.MUL, (2,)),
        lambda x: build.pad(x, ((0, 0), (1, 1))),
        lambda x: build.permute(x, (1, 0)),
        lambda x: build.reshape(build.contiguous(x), (-1, 2)) if shape_of(x)[1] % 2 == 0 else x,
        lambda x: build.elementwise(Ops.MAX, x, build.constant(0.03, F64)),
    ]
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(STEPS, min_size=2, max_size=5))
def test_random_compositions(steps):
    def function(x):
        for step in steps:
            if shape_of(x)[1] < 2:
                break
            x = step(x)
        return x

    x, way = np.random.default_rng(len(steps)).normal(size=(2, 3, 4))[:, :2]
    node = tensor(x)
    root = total(function(node))
    moved = [float(evaluate(total(function(tensor(x + s * STEP * way))))) for s in (1, -1)]
    expected = (moved[0] - moved[1]) / (2 * STEP)
    (found,) = gradient(root, [node], build.constant(1, F64))
    np.testing.assert_allclose((evaluate(found) * way).sum(), expected, rtol=2e-5, atol=2e-6)


def chain(x: UOp, length: int) -> float:
    """Seconds to derive a chain of `length` operations."""
    node = x
    for _ in range(length // 2):
        node = build.elementwise(Ops.ADD, build.elementwise(Ops.MUL, node, x), x)
    began = time.perf_counter()
    (found,) = gradient(node, [x], build.constant(1, F64, (2, 3)))
    taken = time.perf_counter() - began
    assert found is not None
    return taken


def test_a_long_chain_needs_no_recursion():
    chain(tensor(SIGNED), 20_000)
