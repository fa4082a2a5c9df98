"""Axes are cut where positions divide them: in sums of products, and in long rows of a view."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.ir.ops import AxisType, Ops
from torpor.kernel.opts.digits import cut_axes
from torpor.kernel.opts.normalise import normalise
from torpor.kernel.ranges import kind_of, size_of


def sizes(ast, kind=AxisType.REDUCE):
    return [size_of(r) for r in ast.ranges() if kind_of(r) is kind]


def scaled(block):
    """A weighted sum of 96 numbers whose blocks share a factor."""
    shared = Tensor.arange(96 // block, dtype="float32").reshape(-1, 1).expand(96 // block, block)
    return Tensor.arange(96, dtype="float32") * shared.reshape(96)


@pytest.mark.parametrize("block", [4, 12, 24])
def test_a_block_and_a_place_in_it(block):
    total = scaled(block).sum()
    (item,) = total.schedule()
    assert sorted(sizes(normalise(item.ast))) == sorted([96 // block, block])
    x = np.arange(96)
    assert total.item() == (x * (x // block)).sum()


def test_other_kernels_stay_as_they_are():
    for result in (scaled(4) + 1, Tensor.empty(8, 12).sum(), Tensor.empty(8, 8) @ Tensor.empty(8)):
        (item,) = result.schedule()
        assert cut_axes(item.ast) is item.ast


def widened(x, y):
    """A row to whose every second number another one is added."""
    rows, columns = y.shape
    return x + y.reshape(rows, columns, 1).pad((0, 1)).reshape(rows, 2 * columns)


def test_rows_whose_squares_a_norm_adds_up_are_not_cut():
    """Both factors move along the same axes: pieces of a row bring nothing, and are no vectors."""
    random = np.random.default_rng(6)
    x, y = random.standard_normal((8, 40)), random.standard_normal((8, 20))
    row = widened(Tensor(x).realize(), Tensor(y).realize())
    total = (row * row).sum(1)
    (item,) = total.schedule()
    assert sizes(normalise(item.ast)) == [40]
    x[:, ::2] += y
    np.testing.assert_allclose(total.numpy(), (x * x).sum(1), rtol=1e-12)


@pytest.mark.parametrize("way", ["sum", "var", "mean", "argmax"])
def test_rows_of_a_crop_that_is_flattened(way):
    """The positions of a flattened crop are of no one stride: its rows are loops of their own."""
    x = np.random.default_rng(0).standard_normal((3, 30, 50), np.float32)
    crop = Tensor(x).realize()[:, 3:27, 5:45].flatten(1)
    found = getattr(crop, way)(1)
    assert any({24, 40} <= {*sizes(normalise(i.ast))} for i in found.schedule())
    flat = x[:, 3:27, 5:45].reshape(3, -1)
    wanted = flat.var(1, ddof=1) if way == "var" else getattr(flat, way)(1)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_results(rows):
    """A crop that is flattened meets what was flat: no result asks which row it is of."""
    random = np.random.default_rng(2)
    x, y = random.standard_normal((rows, 30, 50)), random.standard_normal(24 * 40)
    found = Tensor(x).realize()[:, 3:27, 5:45].flatten(1) + Tensor(y)
    (item,) = found.schedule()
    normal = normalise(item.ast)
    assert {24, 40} <= {*sizes(normal, AxisType.GLOBAL)}
    assert not any(n.op in (Ops.IDIV, Ops.MOD) for n in normal.toposort())
    np.testing.assert_array_equal(found.numpy(), x[:, 3:27, 5:45].reshape(rows, -1) + y)


def test_three_digits():
    """A byte holds two numbers of the same block: first and second half."""
    x, codes = np.arange(128, dtype=np.float32), np.arange(64, dtype=np.uint8) * 37
    shift = Tensor.full((1,), 4, dtype="uint8").pad((1, 0)).reshape(1, 2, 1)
    halves = (Tensor(codes).reshape(4, 1, 16) >> shift) & 15
    total = (Tensor(x) * halves.cast("float32").reshape(128)).sum()
    (item,) = total.schedule()
    assert sorted(sizes(normalise(item.ast))) == [2, 4, 16]
    rows = codes.reshape(4, 16)
    want = np.stack([rows & 15, rows >> 4], 1).reshape(128)
    assert total.item() == (x * want).sum()


def test_groups_of_results_share_what_they_read():
    """The gradient by the images of a convolution in groups: each group's channels read the same
    results, of which there are 4 groups.
    """
    random = np.random.default_rng(1)
    w = random.standard_normal((8, 3, 3), np.float32)
    x, seed = Tensor.empty(2, 12, 10), random.standard_normal((2, 8, 8), np.float32)
    (found,) = x.conv1d(Tensor(w), groups=4).gradient(x, gradient=Tensor(seed))
    (item,) = found.schedule()
    assert sorted(sizes(normalise(item.ast), AxisType.GLOBAL)) == [2, 3, 4, 10]
    wide = np.pad(seed, ((0, 0), (0, 0), (2, 2))).reshape(2, 4, 2, 12)
    taps = np.stack([wide[..., 2 - k : 12 - k] for k in range(3)], -1)
    expected = np.einsum("ngolk,gock->ngcl", taps, w.reshape(4, 2, 3, 3)).reshape(2, 12, 10)
    assert np.abs(found.numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_what_is_repeated_go_on_from_row_to_row(axis):
    """An axis that a scan goes along is not cut: its steps go on from each other."""
    x = np.random.default_rng(5).standard_normal((32, 48)).astype("f")
    found = Tensor(x).tile((2, 2)).cumsum(axis).numpy()
    np.testing.assert_allclose(found, np.tile(x, (2, 2)).cumsum(axis), rtol=1e-4, atol=1e-4)
    found = Tensor(x[0]).tile(3).cummax(0).values.numpy()
    np.testing.assert_array_equal(found, np.maximum.accumulate(np.tile(x[0], 3)))


@pytest.mark.parametrize("length", [8 * 64, 9 * 64 + 1, 20 * 64 - 1, 64 + 3])
@pytest.mark.parametrize("shift", [0, 5])
def test_rows_of_a_table_whose_last_one_is_a_part(length, shift):
    rows = np.random.default_rng(0).random((-(-length // 64) + 1, 1), np.float32)
    places = np.random.default_rng(1).random((1, 64), np.float32)
    whole = (Tensor(rows) * Tensor(places)).reshape(-1)
    made = whole[shift : shift + length].sin() + Tensor.arange(length)
    expected = np.sin((rows * places).reshape(-1)[shift : shift + length]) + np.arange(length)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("length", [8193, 10007])
def test_ranges_and_random_numbers_of_odd_lengths_are_those_of_the_interpreter(length):
    assert (Tensor.arange(length).numpy() == np.arange(length)).all()
    torpor.manual_seed(length)
    some = torpor.rand(length).numpy()
    torpor.manual_seed(length)
    assert (some == torpor.rand(length, device="python").numpy()).all()
