"""Phases: sums that meet something only at every s-th place become kernels without the zeros."""

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.split.phases import PRODUCTS_WORTH, fewer_rounds


def sums(tensor):
    """The kernels that sum."""
    items = tensor.schedule()
    return [i for i in items if any(n.op is Ops.REDUCE for n in i.ast.toposort())]


def image_gradient(w, seed, stride, padding, side, apart=1):
    """The gradient by the images of a convolution, in float64."""
    images, _, rows, columns = seed.shape
    wide = np.zeros((images, w.shape[1], side + 2 * padding, side + 2 * padding))
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = np.einsum("nohw,oc->nchw", seed, w[:, :, i, j].astype(np.float64))
            down = slice(i * apart, i * apart + stride * (rows - 1) + 1, stride)
            across = slice(j * apart, j * apart + stride * (columns - 1) + 1, stride)
            wide[:, :, down, across] += part
    return wide[:, :, padding : padding + side, padding : padding + side]


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 8, 28, 16, 3, 2, 1),
        (2, 16, 27, 8, 3, 2, 1),
        (1, 3, 64, 16, 7, 2, 3),
    ],
    ids=lambda s: "-".join(map(str, s)),
)
def test_gradients_by_images_of_strided_convolutions(sizes):
    images, channels, side, results, kernel, stride, padding = sizes
    random = np.random.default_rng(1)
    b = random.standard_normal((results, channels, kernel, kernel), np.float32)
    x, w = Tensor.empty(images, channels, side, side).requires_grad_(), Tensor(b)
    y = x.conv2d(w, stride=stride, padding=padding)
    seed = random.standard_normal(tuple(y.shape), np.float32)
    (y * Tensor(seed)).sum().backward()
    summed = sums(x.grad)
    assert len({item.buffers[0] for item in summed}) == 1
    assert len(summed) == stride**2
    products = images * channels * side**2 * results * kernel**2
    assert products > PRODUCTS_WORTH
    counted = sum(p.ops for p in torpor.lower(x.grad, target="cpu")) / 2
    assert counted < 1.4 * products / stride**2
    expected = image_gradient(b, seed, stride, padding, side)
    error = np.linalg.norm(x.grad.numpy().astype(np.float64) - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_no_phases_where_little_is_summed():
    x, w = Tensor.empty(1, 2, 5, 5), Tensor.empty(2, 3, 3, 3)
    assert len(sums(x.conv_transpose2d(w, stride=2))) == 1
    x, w = Tensor.empty(2, 16, 24, 24), Tensor.empty(16, 16, 3, 3)
    assert len(sums(x.conv_transpose2d(w, stride=2))) == 4
    with Context(STRICT_FLOAT=1):
        assert len(sums(x.conv_transpose2d(w, stride=2))) == 4  # no product is with the zeros


@pytest.mark.parametrize("more", [False, True])
def test_a_phase_that_meets_nothing_still_reads_what_is_added(more):
    """Windows further apart than they are long: no window has the places between."""
    random = np.random.default_rng(3)
    w = random.standard_normal((32, 32, 3, 3), np.float32)
    seed = random.standard_normal((1, 32, 14, 14), np.float32)
    x = Tensor.zeros(1, 32, 55, 55).contiguous().requires_grad_()
    (found,) = (x.conv2d(Tensor(w), stride=4) * Tensor(seed)).sum().gradient(x)
    added = random.standard_normal((1, 32, 55, 55), np.float32)
    if more:
        found = found + Tensor(added)
    expected = image_gradient(w, seed, 4, 0, 55) + more * added
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-4)


def test_a_recurring_graph_in_phases_is_computed_alike():
    random = np.random.default_rng(2)
    w = Tensor(random.standard_normal((16, 16, 3, 3), np.float32))
    results = []
    for _ in range(3):
        x = Tensor(np.ones((2, 16, 24, 24), np.float32))
        results.append((x.conv_transpose2d(w, stride=2).relu() + 1).numpy())
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
    step = torpor.jit(lambda x: (x.conv_transpose2d(w, stride=2).relu() + 1).realize())
    for _ in range(4):
        assert (step(Tensor(np.ones((2, 16, 24, 24), np.float32))).numpy() == results[0]).all()


def test_windows_no_longer_than_their_step_sum_one_place_in_each_phase():
    """The rounds that count are then told apart by bounds, without a remainder."""
    x, w = Tensor.empty(2, 32, 24, 24), Tensor.empty(32, 16, 2, 2)
    programs = torpor.lower(x.conv_transpose2d(w, stride=2), target="cpu")
    assert sum(p.ops for p in programs) < 1.1 * 2 * 2 * 32 * 16 * 48**2


def test_long_steps_have_phases_along_one_axis_only():
    x, w = Tensor.empty(2, 32, 128), Tensor.empty(32, 16, 16)
    assert len(sums(x.conv_transpose1d(w, stride=8, padding=4))) == 8


def test_dilated_short_sums_meet_no_zeros():
    x = Tensor(np.random.default_rng(4).standard_normal((4, 16, 28, 28), np.float32))
    b = np.random.default_rng(5).standard_normal((16, 1, 5, 5), np.float32)
    y = x.conv2d(Tensor(b), stride=2, padding=4, dilation=3, groups=16)
    seed = np.random.default_rng(6).standard_normal(y.shape, np.float32)
    gradient = y.gradient(x, gradient=Tensor(seed))[0]
    programs = torpor.lower(gradient, target="cpu")
    assert sum(p.ops for p in programs) < 4 * 16 * 28**2 * 5**2
    parts = [image_gradient(b[[c]], seed[:, [c]], 2, 4, 28, 3) for c in range(16)]
    expected = np.concatenate(parts, 1)
    error = np.linalg.norm(gradient.numpy() - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_phases_have_no_remainders():
    x, w = Tensor.empty(2, 16, 24, 24), Tensor.empty(16, 16, 3, 3)
    for item in x.conv_transpose2d(w, stride=2).schedule():
        assert not any(node.op is Ops.MOD for node in item.ast.toposort())


@pytest.mark.parametrize(
    "sizes",
    [(3, 2, 5), (3, 1, 3), (4, 1, 5), (2, 3, 3), (2, 2, 3), (3, 1, 1), (2, 1, 2), (4, 1, 4)],
)
def test_any_stride_dilation_and_window(sizes, monkeypatch):
    """Stride and dilation without a common factor have phases; with one, what there is."""
    stride, apart, kernel = sizes
    monkeypatch.setattr("torpor.kernel.split.phases.PRODUCTS_WORTH", 0)
    random = np.random.default_rng(3)
    seed = random.standard_normal((1, 3, 6, 6), np.float32)
    b = random.standard_normal((3, 2, kernel, kernel), np.float32)
    result = Tensor(seed).conv_transpose2d(Tensor(b), stride=stride, dilation=apart)
    side = result.shape[-1]
    expected = image_gradient(b, seed.astype(np.float64), stride, 0, side, apart)
    error = np.linalg.norm(result.numpy().astype(np.float64) - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_a_border_longer_than_what_is_looked_at():
    """No round of the first ones counts, but later ones do."""
    random = np.random.default_rng(4)
    w = random.standard_normal((32, 16, 300), np.float32)
    x = Tensor(np.zeros((8, 16, 2), np.float32)).requires_grad_()
    y = x.conv1d(Tensor(w), stride=2, padding=200)
    seed = random.standard_normal(tuple(y.shape), np.float32)
    (y * Tensor(seed)).sum().backward()
    wide = np.zeros((8, 16, 402))
    for k in range(300):
        part = np.einsum("nol,oc->ncl", seed.astype(np.float64), w[:, :, k].astype(np.float64))
        wide[:, :, k : k + 2 * seed.shape[2] - 1 : 2] += part
    expected = wide[:, :, 200:202]
    error = np.linalg.norm(x.grad.numpy() - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_a_border_of_many_channels_leaves_phases():
    x, w = Tensor.empty(2, 30, 24, 24), Tensor.empty(100, 16, 3, 3)
    padded = x.pad((0, 0, 0, 0, 70, 0))
    assert len(sums(padded.conv_transpose2d(w, stride=2))) == 4


def test_what_is_read_does_not_tell_which_rounds_count():
    one, memory = UOp.range(8, 1), UOp(Ops.PARAM, dtypes.int64, (), ParamArg(1, 8))
    read = UOp(Ops.LOAD, dtypes.int64, (UOp(Ops.INDEX, dtypes.int64, (memory, one)),))
    value = (read < 1).where(read, 0)
    total = UOp(Ops.REDUCE, dtypes.int64, (value, one), Ops.ADD)
    assert fewer_rounds(UOp.sink(total), total, read < 1) is None


@pytest.mark.parametrize("heads", [4, 8, 16])
def test_heads_of_an_attention_are_no_phases(heads):
    """Images in windows, whose heads and batches are one axis: digits of it, without zeros."""
    random = np.random.default_rng(4)
    x = random.standard_normal((2, heads * 16, 16, 16)).astype(np.float32)
    parts = (2, heads, 16, 4, 4, 4, 4)
    windows = Tensor(x).reshape(parts).permute(0, 1, 3, 5, 4, 6, 2).reshape(-1, 16, 16)
    scores = windows @ windows.transpose(1, 2)
    assert len(sums(scores)) == 1
    expected = x.astype(np.float64).reshape(parts).transpose(0, 1, 3, 5, 4, 6, 2)
    expected = expected.reshape(-1, 16, 16)
    expected = expected @ expected.transpose(0, 2, 1)
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-4, atol=1e-4)
