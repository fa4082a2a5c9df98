"""Several values in one kernel: outputs of different shapes, reductions in one loop."""

import gc
import weakref
from random import Random

import numpy as np
import pytest

from tests.devices import needs
from tests.graph.evaluate import evaluate
from tests.kernel.kernels import add, filled, multiply, sample
from tests.schedule.graphs import compute, kernels, random_graph
from torpor import Context, Tensor, dtypes
from torpor.graph import build
from torpor.ir.ops import AxisType, Ops
from torpor.pipeline import measuring


def summed(x, axis=1, op=Ops.ADD, keepdims=False):
    return build.reduce(x, op, axis, keepdims=keepdims)


def squares(x):
    return multiply(x, x)


def centred(x, axis=1):
    """x without its mean over an axis."""
    mean = multiply(rows := summed(x, axis, keepdims=True), filled(rows, 1 / x_size(x, axis)))
    return build.elementwise(Ops.SUB, x, build.expand(mean, (12, 16)))


def x_size(x, axis):
    return (12, 16)[axis]


def doubled(x):
    return add(multiply(x, filled(x, 2)), filled(x, 1))


TOGETHER = {
    "value and its sums over rows": lambda x: [doubled(x), summed(doubled(x))],
    "value and its sums over columns": lambda x: [doubled(x), summed(doubled(x), 0)],
    "value and its sum": lambda x: [doubled(x), summed(doubled(x), (0, 1))],
    "value under another shape": lambda x: [
        build.reshape(doubled(x), (8, 24)), summed(doubled(x))],
    "sum and maximum": lambda x: [summed(x), summed(x, op=Ops.MAX)],
    "sum and maximum over columns": lambda x: [summed(x, 0), summed(x, 0, op=Ops.MAX)],
    "sums of another work on x": lambda x: [summed(doubled(x)), summed(squares(x))],
    "sum, maximum, minimum, x": lambda x: [
        summed(x), summed(x, op=Ops.MAX), summed(x, op=Ops.MIN), squares(x)],
    "sums beside elementwise work": lambda x: [squares(x), summed(doubled(x))],
    "mean and variance": lambda x: [summed(x), summed(squares(centred(x)))],
    "normalised, with statistics": lambda x: [
        centred(x), summed(x), summed(squares(centred(x)))],
    "sum with the axis kept": lambda x: [summed(x, keepdims=True), summed(x, op=Ops.MIN)],
    "two values from row sums": lambda x: [
        add(x, build.expand(summed(x, keepdims=True), (12, 16))),
        multiply(x, build.expand(summed(x, keepdims=True), (12, 16)))],
}  # fmt: skip


@pytest.mark.parametrize("device", ["CPU", "PYTHON", "OPENCL"])
@pytest.mark.parametrize("name", TOGETHER)
def test_one_kernel(name, device):
    needs(device)
    roots = TOGETHER[name](sample(12, 16))
    (item,) = kernels(*roots)
    assert (item.reason, len(item.outputs)) == ("output", len(roots))
    for noopt in (0, 1):
        with Context(CHECK=1, NOOPT=noopt):
            found = compute(roots, device)
        for got, root in zip(found, roots, strict=True):
            np.testing.assert_allclose(got, evaluate(root), rtol=1e-6, atol=1e-6)


APART = {
    # y would be stored in steps of a row, which costs more than reading it again saves.
    "value and its sums over long columns": lambda x: [
        y := doubled(sample(8, 80)), summed(y, 0)],
    "formats of other widths": lambda x: [summed(x), summed(build.cast(x, dtypes.int32))],
    "sums over rows and over columns": lambda x: [summed(x, 0), summed(x, 1)],
    "sums of different matrices": lambda x: [summed(x), summed(sample(12, 16, step=5))],
    "rows, and columns of the other way round": lambda x: [
        summed(x), summed(build.permute(sample(16, 12), (1, 0)))],
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_what_shares_no_loop_stays_apart(name):
    assert len(kernels(*APART[name](sample(12, 16)))) == 2


def test_reads_in_another_order_share_no_loop():
    x = sample(16, 16)
    assert len(kernels(summed(x), summed(build.permute(x, (1, 0))))) == 2


def test_independent_reductions_run_in_one_loop():
    (item,) = kernels(add(summed(sample(12, 16)), summed(sample(12, 16, step=5))))
    assert len([r for r in item.ast.ranges() if r.arg[1] is AxisType.REDUCE]) == 2
    x = sample(12, 16)
    (item,) = kernels(summed(x), summed(x, op=Ops.MAX))
    assert len([r for r in item.ast.ranges() if r.arg[1] is AxisType.REDUCE]) == 1


def test_dependent_reductions_do_not():
    """The variance needs the mean of the whole row first."""
    x = sample(12, 16)
    (item,) = kernels(summed(squares(centred(x))))
    assert len([r for r in item.ast.ranges() if r.arg[1] is AxisType.REDUCE]) == 2


def test_a_value_that_another_kernel_needs_turned_round():
    """Stored on the way of one sum, read by another kernel afterwards."""
    x = sample(12, 16)
    y = doubled(x)
    roots = [summed(y), summed(add(build.flip(y, (0, 1)), y), 0), y]
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


def test_no_kernel_waits_for_itself():
    """The second sum needs the first stored, and x beside it is stored by neither's reader."""
    x = sample(12, 16)
    first = build.contiguous(summed(x, keepdims=True))
    second = summed(multiply(x, build.expand(first, (12, 16))))
    roots = [second, summed(x, op=Ops.MAX), first]
    assert len(kernels(*roots)) == 2
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


def test_a_long_sum_stores_its_operand_on_the_way():
    x = Tensor(np.arange(300_000, dtype=np.float32) % 7).realize()
    y = x * 2
    total = y.sum()
    assert [item.reason for item in y.schedule(total)] == ["long reduction", "output"]
    y.realize(total)
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2)
    assert total.item() == y.numpy().sum(dtype=np.float64)


def test_loops_that_do_not_nest_are_made_apart():
    """The sum is the same for every copy of x, and all copies are stored: found by fuzzing."""
    x = build.expand(build.reshape(sample(2, 3), (1, 2, 3)), (4, 2, 3))
    roots = [build.permute(build.reduce(x, Ops.ADD, 2, keepdims=True), (2, 1, 0)), x]
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


def test_planning_keeps_no_graph_alive():
    """Without the help of the cycle collector: memory goes with the last name of a tensor."""
    x = Tensor.empty(8, 8)
    node = weakref.ref((y := (x + 3).sum(1))._storage.base)
    gc.disable()
    try:
        y.schedule((x + 2).amax(1))
        del y
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", range(40))
def test_random_roots(seed):
    """Every third value of a random graph is a root."""
    random = Random(1000 + seed)
    found = random_graph(random, dtypes.float32, random.randint(4, 12))
    inner = [n for n in found[0].toposort() if n.src and n.op is not Ops.CONTIGUOUS]
    roots = list(dict.fromkeys([*found, *inner[:: random.randint(2, 4)]]))
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


# --- rows in one kernel ---------------------------------------------------------------------------
def trained(function, *shapes):
    """How many kernels compute a function of random values and its gradients, checked to agree
    with each computed for itself.
    """
    generator = np.random.default_rng(4)
    inputs = [
        Tensor(generator.standard_normal(shape).astype(np.float32), requires_grad=True)
        for shape in shapes
    ]
    seed = Tensor(generator.standard_normal(function(*inputs).shape).astype(np.float32)).realize()

    def both():
        out = function(*inputs)
        return [out, *out.gradient(*inputs, gradient=seed)]

    apart = [made.numpy() for made in both()]
    together = both()
    with measuring() as measured:
        together[0].realize(*together[1:])
    for made, expected in zip(together, apart, strict=True):
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-6)
    return len(measured.runs)


def layer_normalised(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * weight + bias


def batch_normalised(x):
    mean, variance = x.mean((0, 2), keepdim=True), x.var((0, 2), keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def attention(query, key, value):
    return (query @ key.transpose(1, 2) * 0.25).softmax(-1) @ value


def cross_entropy(x):
    return x.cross_entropy(Tensor([1, 3, 0, 2, 2, 1, 0, 3] * 4))


@pytest.mark.parametrize(
    ("name", "function", "shapes", "most"),
    [
        ("softmax", lambda x: x.softmax(1), [(32, 48)], 1),
        ("log softmax", lambda x: x.log_softmax(1), [(32, 48)], 1),
        # What is summed over rows, and what over columns, for the weight and the bias at once.
        ("layer normalisation", layer_normalised, [(32, 48), (48,), (48,)], 2),
        ("batch normalisation", batch_normalised, [(8, 4, 12)], 1),
        # Rows; what each loses; the mean over those that count; the gradient, which is divided by
        # their number.
        ("cross entropy", cross_entropy, [(32, 4)], 4),
    ],
)
def test_forward_and_backward(name, function, shapes, most):
    assert trained(function, *shapes) <= most


def test_attention_stores_scores_and_probabilities_only():
    query, key, value = (Tensor.empty(2, 32, 16) for _ in range(3))
    assert len(attention(query, key, value).schedule()) == 3
    # Scores, two kernels for gradients of the probabilities (which share the reciprocals of sums of
    # rows, so as not to divide each element), gradients of the scores, and four results.
    assert trained(attention, *[(2, 32, 16)] * 3) <= 8


def test_a_mask_that_is_added_leaves_blocks_as_they_are():
    """Whether a row is masked whole is no condition on columns, for which blocks are smaller."""
    query, mask = Tensor.empty(1, 4, 1024, 64), Tensor.empty(1024, 1024)
    plain = query.scaled_dot_product_attention(query, query).schedule()
    assert len(query.scaled_dot_product_attention(query, query, mask).schedule()) == len(plain)


@pytest.mark.parametrize("shape", [(1 << 18,), (16, 3, 80, 80), (70_001,)])
def test_long_reductions_of_one_tensor_read_it_once(shape):
    """Least, greatest and sums over all of a tensor, and of its products with another one."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(shape, np.float32) for _ in range(2))
    x.reshape(-1)[5] = np.inf
    a, b = Tensor(x).realize(), Tensor(y).realize()
    made = [a.amin(), b.sum(), (a - 1).abs().amax(), (a * b).amax(), (b * b).mean()]
    items = made[0].schedule(*made[1:])
    read = sum(node.arg is a._storage.base.below((Ops.RESHAPE,)).arg
               for item in items for node in item.buffers)  # fmt: skip
    assert read == 1 + (shape == (70_001,))  # what is left over is read by kernels of their own
    Tensor.realize(*made)
    wanted = [x.min(), y.sum(dtype=np.float64), np.abs(x - 1).max(), (x * y).max(), (y * y).mean()]
    np.testing.assert_allclose([one.item() for one in made], wanted, rtol=1e-4)
