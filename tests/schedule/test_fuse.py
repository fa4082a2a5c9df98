"""What becomes one kernel, what does not, and why: counts of kernels and their reasons."""

import numpy as np
import pytest

from tests.graph.evaluate import evaluate, tensor
from tests.kernel.kernels import add, convolve, filled, matmul, multiply, sample
from tests.schedule.graphs import compute, kernels
from torpor import Context, Tensor, dtypes, nn
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import AxisType, Ops

PLAIN_REASONS = {"output", "contiguous", "copy"}


def empty(*shape):
    return Tensor.empty(*shape)


def rows(x, op=Ops.ADD, axis=1):
    """A reduction over an axis, broadcast back."""
    return build.expand(build.reduce(x, op, axis, keepdims=True), shape_of(x))


def normalised(x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def batch_normalised(x):
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = x.var((0, 2, 3), keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def picked(x, labels):
    """Cross entropy of rows, with labels compared rather than gathered."""
    classes = Tensor.arange(x.shape[1]).reshape(1, -1)
    chosen = (classes == labels.reshape(-1, 1)).where(x.log_softmax(1), 0.0)
    return -chosen.sum(1)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("chain", lambda: ((empty(64, 32) + 1) * 2).exp().relu()),
        ("broadcast", lambda: empty(64, 1) * empty(1, 32) + empty(32)),
        ("reduce with producers", lambda: (empty(64, 32).exp() * 2).sum(1)),
        ("reduce with epilogue", lambda: (empty(64, 32).sum(1) + 1).sqrt()),
        ("softmax", lambda: empty(64, 128).softmax(-1)),
        ("softmax of columns", lambda: empty(64, 128).softmax(0)),
        ("log softmax", lambda: empty(64, 128).log_softmax(-1)),
        ("layer normalisation", lambda: normalised(empty(64, 128))),
        ("variance", lambda: empty(64, 128).var(1)),
        ("cross entropy", lambda: picked(empty(64, 10), Tensor.empty(64, dtype=dtypes.int64))),
        ("batch normalisation", lambda: batch_normalised(empty(16, 4, 12, 12))),
        ("matmul", lambda: empty(64, 48) @ empty(48, 32)),
        ("matmul with bias", lambda: (empty(64, 48) @ empty(48, 32) + empty(32)).relu()),
        ("convolution", lambda: empty(2, 3, 16, 16).conv2d(empty(8, 3, 3, 3), padding=1).relu()),
        ("sum of a sum", lambda: empty(64, 32).sum(1).sum()),
        ("diamond", lambda: (empty(64) + 1).exp() * (empty(64) + 1)),
        ("movements", lambda: empty(8, 6).T.reshape(4, 12).flip(0).pad(((1, 1), (2, 0))) + 1),
        ("range of a row", lambda: empty(64, 128).amax(1) - empty(64, 128).amin(1)),
        ("argmax", lambda: empty(64, 10).argmax(1)),
    ],
)
def test_one_kernel(name, make):
    (item,) = make().schedule()
    assert item.reason == "output"


def test_a_transpose_of_itself_is_one_kernel():
    x = empty(8, 8)
    assert len((x + x.T).schedule()) == 1
    assert len((x.exp() + x.exp().T).schedule()) == 1


def test_contiguous_is_a_boundary():
    first, second = ((empty(4, 4) + 4).contiguous() + 3).schedule()
    assert (first.reason, second.reason) == ("contiguous", "output")
    assert first.buffers[0] in second.buffers[1:]


def test_roots_of_one_shape_that_read_the_same_share_a_kernel():
    x = sample(6, 7)
    roots = [add(x, filled(x, 1)), multiply(x, filled(x, 2))]
    (item,) = kernels(*roots)
    assert item.outputs == (0, 1)
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


def test_roots_that_read_nothing_in_common_stay_apart():
    assert len(kernels(add(sample(6), sample(6)), multiply(sample(6, step=2), sample(6)))) == 2


def test_a_root_that_another_reads_elsewhere_is_stored_first():
    """The kernel that reads x turned round must not be the one that stores x."""
    x = multiply(sample(4, 3), sample(4, 3))
    roots = [build.flip(add(build.flip(x, (1,)), x), (0,)), x]
    for device in ("CPU", "PYTHON"):
        for got, root in zip(compute(roots, device), roots, strict=True):
            np.testing.assert_array_equal(got, evaluate(root))


def test_a_value_that_is_both_output_and_used():
    x = sample(6, 7)
    y = add(x, filled(x, 1))
    roots = [y, multiply(y, y)]
    assert len(kernels(*roots)) == 1
    for got, root in zip(compute(roots), roots, strict=True):
        np.testing.assert_array_equal(got, evaluate(root))


def test_two_matmuls_in_a_row_store_the_first():
    first, second = kernels(matmul(matmul(sample(32, 24), sample(24, 32)), sample(32, 16)))
    assert first.reason not in PLAIN_REASONS
    assert second.reason == "output"


def test_expensive_values_are_not_computed_again_for_every_use():
    """exp of 64 numbers for each of 4096 columns: 4096 times the work."""
    x = Tensor.empty(64, 64).exp()
    items = (x @ Tensor.empty(64, 4096)).schedule()
    assert [item.reason for item in items] == ["recompute", "output"]


def test_sums_over_both_axes_of_one_value():
    x = sample(12, 9)
    y = add(rows(x, axis=1), rows(x, axis=0))
    (got,) = compute([y])
    np.testing.assert_array_equal(got, evaluate(y))
    assert {item.reason for item in kernels(y)} <= {"output", "loops do not nest"}


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("diamond", lambda x: multiply(add(x, x), build.elementwise(Ops.MAX, x, add(x, x)))),
        ("rows of columns", lambda x: build.elementwise(Ops.SUB, rows(rows(x), axis=0), x)),
        ("a sum of maxima", lambda x: build.reduce(build.reduce(x, Ops.MAX, 1), Ops.ADD, 0)),
        ("a max of sums", lambda x: build.reduce(rows(x), Ops.MAX, 0)),
        ("turned sums", lambda x: add(rows(x), build.flip(rows(x), (0, 1)))),
        ("padded sums", lambda x: build.pad(rows(x), ((1, 2), (0, 3)))),
        ("a sum of what is padded", lambda x: rows(build.pad(rows(x), ((1, 2), (0, 3))))),
        ("statistics", lambda x: multiply(rows(multiply(x, x)), build.elementwise(
            Ops.SUB, x, rows(x)))),
        ("whole and row", lambda x: add(rows(x), build.expand(build.reshape(build.reduce(
            x, Ops.ADD, None), (1, 1)), shape_of(x)))),
    ],
)  # fmt: skip
def test_nested_and_shared_reductions(name, make, device):
    root = make(sample(9, 6))
    with Context(CHECK=1):
        (got,) = compute([root], device)
    np.testing.assert_array_equal(got, evaluate(root))


def test_every_reason_is_said_in_words():
    x, y = Tensor.empty(64, 64), Tensor.empty(64, 64)
    h = (x @ y).softmax(1) @ y
    reasons = [item.reason for item in (h.sum() + (h * h).contiguous().sum(0)).schedule()]
    assert reasons[-1] == "output"
    assert all(len(reason) > 3 for reason in reasons)


def chain(length):
    x = tensor(np.ones(4))
    y = x
    for _ in range(length):
        y = add(y, x)
    return y


def test_long_chains_are_cut_into_kernels_of_one_key():
    with Context(KERNEL_SIZE=100):
        items = kernels(chain(1000))
    assert len(items) == 10
    assert [item.reason for item in items] == [*["kernel size"] * 9, "output"]
    assert len({item.ast.key for item in items}) == 2, "the first adds x to itself"
    with Context(KERNEL_SIZE=100):
        (got,) = compute([chain(1000)])
    np.testing.assert_array_equal(got, np.full(4, 1001.0))


def test_a_chain_of_100_000_additions_is_scheduled_and_computed():
    (got,) = compute([chain(100_000)])
    np.testing.assert_array_equal(got, np.full(4, 100_001.0))


def test_convolution_agrees_with_numpy_in_one_kernel():
    root = convolve(sample(3, 9, 7), sample(4, 3, 3, 3))
    assert len(kernels(root)) == 1
    (got,) = compute([root])
    np.testing.assert_array_equal(got, evaluate(root))


@pytest.mark.parametrize("shape", [(4, 8, 3, 8), (9, 16, 9, 19), (11, 13, 8)])
def test_transposes_of_odd_sizes(shape):
    """Both the axis that is read along and the one that is written along have a rest."""
    x = sample(*shape)
    for last in range(len(shape) - 1):
        order = [axis for axis in range(len(shape)) if axis != last] + [last]
        root = build.contiguous(build.permute(x, order))
        (got,) = compute([root])
        np.testing.assert_array_equal(got, evaluate(root))


@pytest.mark.parametrize(
    ("op", "shape", "pairs", "axes"),
    [
        (Ops.ADD, (3, 12, 2), ((0, 4), (3, 0), (2, 5)), (0, 1)),
        (Ops.MAX, (17, 16, 2), ((0, 1), (0, 3), (0, 1)), (0, 2)),
    ],
)
def test_columns_of_which_some_are_padding(op, shape, pairs, axes):
    """Copies that lie in the padding are constants, in no loop: found by fuzzing."""
    x = sample(*shape, dtype=dtypes.int64)
    x = build.pad(add(x, build.flip(x, (0,))), pairs)
    for y in (multiply(x, x), add(x, filled(x, 1))):
        root = build.reduce(y, op, axes)
        (got,) = compute([root])
        np.testing.assert_array_equal(got, evaluate(root))


def test_asking_changes_nothing():
    x = Tensor([1.0, 2.0]) + 1
    first, second = x.schedule(), x.schedule()
    assert [item.ast for item in first] == [item.ast for item in second]
    np.testing.assert_array_equal(x.numpy(), [2.0, 3.0])


def test_products_that_are_put_beside_each_other_keep_their_own_kernels():
    """The gradient of attention whose queries, keys and values are parts of one tensor."""
    mixed = Tensor.empty(1, 64, 3, 2, 16).requires_grad_()
    q, k, v = (mixed[:, :, n].transpose(1, 2) for n in range(3))
    q.scaled_dot_product_attention(k, v).square().sum().backward()
    items = mixed.grad.schedule()
    assert "product in an outer loop" in {item.reason for item in items}
    last = items[-1].ast.toposort()
    assert not any(node.op is Ops.REDUCE for node in last), "parts that are there are put together"


def test_small_products_are_computed_where_they_are_used():
    x, w, y = empty(4, 16), empty(16, 4), empty(4, 4, 8)
    (item,) = ((x @ w).reshape(4, 4, 1) + y).schedule()
    assert item.reason == "output"


def test_functions_count_as_what_they_are_written_out_in():
    value = sample(4)
    for _ in range(1200):
        value = build.elementwise(Ops.SIN, value)
    with Context(KERNEL_SIZE=11 * 64):
        items = kernels(value)
    assert len(items) == 100, "eleven sines of 64 steps each, and the one that is stored"
    assert len({item.ast.key for item in items}) == 1


def reductions_beside_products(items):
    """How many kernels have a product and, not inside its sum, another reduction."""
    found = 0
    for item in items:
        sums = [n for n in item.ast.toposort() if n.op is Ops.REDUCE]
        inner = {n for one in sums for n in one.src[0].toposort()}
        long = [max(int(r.src[0].arg) for r in one.src[1:]) >= 32 for one in sums]
        found += any(long) and sum(one not in inner for one in sums) > 1
    return found


def test_a_short_sum_beside_a_product_is_stored():
    generator = np.random.default_rng(0)
    x, w = (Tensor(generator.random((32, 32)).astype(np.float32)).realize() for _ in range(2))
    counted = Tensor(generator.random((32, 32, 3)).astype(np.float32)).realize()
    result = (x @ w) / counted.sum(2)
    items = result.schedule()
    assert not reductions_beside_products(items)
    assert "beside a product" in {item.reason for item in items}
    expected = x.numpy().astype(float) @ w.numpy() / counted.numpy().astype(float).sum(2)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)


def test_two_products_in_one_result_are_two_kernels():
    generator = np.random.default_rng(1)
    x, h, v, w = (Tensor(generator.random((32, 32)).astype(np.float32)).realize() for _ in range(4))
    result = (x @ v + h @ w).tanh()
    assert not reductions_beside_products(result.schedule())
    total = x.numpy().astype(float) @ v.numpy() + h.numpy().astype(float) @ w.numpy()
    np.testing.assert_allclose(result.numpy(), np.tanh(total), rtol=1e-5)


def test_two_products_of_one_operand_do_not_join():
    x, v, w = (Tensor(np.ones((32, 32), np.float32)).realize() for _ in range(3))
    items = (x @ v).schedule(x @ w)
    assert len(items) == 2
    assert not reductions_beside_products(items)


def test_a_product_has_few_streams_beside_it():
    """Gradient descent without momentum meets two values of the gradient's size, with it four."""
    rng = np.random.default_rng(0)
    x, y, moment, weight = (
        Tensor(rng.standard_normal(shape, np.float32)).realize()
        for shape in ((32, 64), (32, 48), (64, 48), (64, 48))
    )
    gradient = x.T @ y
    plain = weight - gradient * 0.5
    assert {item.reason for item in plain.schedule()} == {"output"}
    moved = moment * 0.5 + gradient
    updated = weight - moved
    reasons = [item.reason for item in updated.schedule(moved)]
    assert reasons == ["product beside many streams", "output"]
    updated.realize(moved)
    expected = moment.numpy() * 0.5 + x.numpy().astype(np.float64).T @ y.numpy()
    np.testing.assert_allclose(moved.numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(updated.numpy(), weight.numpy() - expected, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_a_pool_is_apart_from_that_of_the_convolution_after_it():
    """The pool counts its ties, and the images' gradient is a sum of masked sums of products."""
    x = Tensor.empty(4, 64, 28, 28).requires_grad_()
    norm = nn.BatchNorm2d(64)
    pooled = norm(x).relu().max_pool2d(3, stride=2, padding=1)
    (pooled.conv2d(Tensor.empty(64, 64, 3, 3), padding=1) + pooled).square().sum().backward()
    items = x.grad.schedule(norm.weight.grad, norm.bias.grad)
    products = [item for item in items if 64 in summed_lengths(item)]
    assert len(products) == 2
    assert not reductions_beside_products(items)
    assert all(len(output_axes(item)) <= 4 for item in products), "windows are written out later"


def summed_lengths(item):
    return [int(r.src[0].arg) for r in item.ast.ranges() if r.arg[1] is AxisType.REDUCE]


def output_axes(item):
    return [r for r in item.ast.ranges() if r.arg[1] is AxisType.GLOBAL]


def test_a_number_that_all_rows_share_stays_out_of_a_kernel_for_all_cores():
    many, few = Tensor.empty(256, 256), Tensor.empty(4096)
    assert len((many.softmax(1) * few.sum()).schedule()) == 2
    assert len((few[:256].softmax(0) * few.sum()).schedule()) == 1


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("size", [100, 300])
def test_a_product_is_no_part_of_a_sum_that_leaves_it_no_tiles(size, axis):
    x = np.random.default_rng(0).random((size, size), np.float32)
    total = (Tensor(x) @ Tensor(x)).sum(axis)
    assert "sum of a product" in {item.reason for item in total.schedule()}
    want = (x.astype(np.float64) @ x).sum(axis)
    np.testing.assert_allclose(total.numpy(), want, rtol=1e-6)


def test_products_summed_over_a_batch_are_one_product():
    x, w = Tensor.empty(20, 128, 96), Tensor.empty(20, 128, 80)
    (item,) = (x.transpose(1, 2) @ w).sum(0).schedule()
    assert item.reason == "output"


def test_outputs_of_several_levels_that_read_a_narrow_value():
    """A value that an output reads, whose kernel is visited before that of another output."""
    random = np.random.default_rng(7)
    wide, narrow = (random.random((127, n)).astype(np.float16) for n in (17, 1))
    whole = Tensor(wide)
    sums, more = whole.logsumexp(0), whole + 2 * Tensor(narrow)
    sums.realize(more)
    np.testing.assert_array_equal(more.numpy(), wide + 2 * narrow)
    expected = np.log(np.exp(wide.astype(np.float64)).sum(0))
    np.testing.assert_allclose(sums.numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize(("channels", "size", "window"), [(128, 12, 1), (32, 24, 3)])
def test_a_mean_pool_of_a_convolution_is_no_sum_with_it(channels, size, window):
    """The weights do not have the axes of the pool: it would be a sum without tiles."""
    draw = np.random.default_rng(8)
    image = draw.standard_normal((2, channels, size, size))
    weights = draw.standard_normal((64, channels, window, window))
    made = Tensor(image).conv2d(Tensor(weights), padding=window // 2)
    pooled = made.avg_pool2d(2)
    items = pooled.schedule()
    sums = [sum(n.op is Ops.REDUCE for n in item.ast.toposort()) for item in items]
    assert sums.count(1) == 2
    wide = np.pad(image, ((0, 0), (0, 0), *[(window // 2, window // 2)] * 2))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (window, window), (2, 3))
    whole = np.einsum("ncyxij,ocij->noyx", windows, weights)
    wanted = whole.reshape(2, 64, size // 2, 2, size // 2, 2).mean((3, 5))
    np.testing.assert_allclose(pooled.numpy(), wanted, rtol=1e-9, atol=1e-9)
