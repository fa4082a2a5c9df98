import math

import numpy as np
import pytest

import torpor
from tests.devices import needs
from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, dtypes
from torpor.base.errors import ShapeError
from torpor.tensor.sorting import _block

RANDOM = np.random.default_rng(3)
FORMATS = ["?", "u1", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8"]


def mixed(shape, kind):
    """Numbers with many equal ones; of floats also NaN, infinities and both zeros."""
    made = (RANDOM.standard_normal(shape) * 6).astype("i8").astype(kind)
    if kind[0] == "f":
        made += RANDOM.integers(0, 2, shape).astype(kind) / 2
        flat = made.reshape(-1)
        for number, value in enumerate([np.nan, 0.0, -0.0, np.inf, -np.inf]):
            flat[number::31] = value
    return made


@pytest.mark.parametrize("kind", FORMATS)
def test_sorts_are_stable_and_put_nan_last(kind):
    for shape, axis in [((40,), 0), ((2, 150), 1), ((150, 2), 0)]:
        x = mixed(shape, kind)
        found = Tensor(x).sort(axis)
        check(found.indices, np.argsort(x, axis, kind="stable"))
        np.testing.assert_array_equal(found.values.numpy(), np.sort(x, axis))


@pytest.mark.parametrize("length", [32768, 32771])
@pytest.mark.parametrize("kind", ["f4", "i8"])
def test_long_rows_are_sorted_by_parts(length, kind):
    x = mixed((length,), kind)
    found = Tensor(x).argsort()
    check(found, np.argsort(x, kind="stable"))
    with torpor.Context(THREADS=1):
        check(Tensor(x).argsort(), found.numpy())


def test_all_bits_count():
    x = RANDOM.integers(-(1 << 63), (1 << 63) - 1, 300)
    x[:4] = [-(1 << 63), (1 << 63) - 1, -1, 0]
    check(Tensor(x).sort().values, np.sort(x))
    check(Tensor(x.view("u8")).sort().values, np.sort(x.view("u8")))
    wide = x.view("f8")[np.isfinite(x.view("f8"))]
    check(Tensor(wide).sort().values, np.sort(wide))


def test_descending_is_stable_too():
    for length in (20, 200):
        x = mixed((length,), "f4")
        order = np.argsort(np.where(np.isnan(x), -np.inf, -x), kind="stable")
        first = np.concatenate((order[np.isnan(x[order])], order[~np.isnan(x[order])]))
        check(Tensor(x).argsort(descending=True), first)


def test_every_layout():
    for _, x, a in layouts(numbers((4, 6))):
        if a.ndim and a.size:
            check(x.sort(0).values, np.sort(a, 0))
            check(torpor.argsort(x, axis=-1), np.argsort(a, -1, kind="stable"))
    check(Tensor(2.0).sort().indices, np.array(0))
    check(Tensor(np.zeros((0, 3))).sort(0).values, np.zeros((0, 3)))
    check(Tensor(np.zeros((3, 0))).sort().values, np.zeros((3, 0)))


@pytest.mark.parametrize("length", [1, 5, 129, 1000, 5000])
@pytest.mark.parametrize("largest", [True, False])
def test_the_greatest(length, largest):
    x = mixed((3, length), "f4")
    order = Tensor(x).argsort(1, descending=largest).numpy()
    for k in {0, 1, min(length, 10), length}:
        found = Tensor(x).topk(k, 1, largest=largest)
        check(found.indices, order[:, :k])
        np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(x, order[:, :k], 1))
    with pytest.raises(IndexError, match="topk"):
        Tensor(x).topk(length + 1)


def test_the_middle_and_the_kth():
    x = RANDOM.standard_normal((5, 8)).astype("f4")
    check(Tensor(x).median(), np.sort(x.reshape(-1))[19])
    found = Tensor(x).median(1)
    check(found.values, np.sort(x, 1)[:, 3])
    check(found.indices, np.argsort(x, 1)[:, 3])
    check(Tensor(x).kthvalue(2, 0, keepdim=True).values, np.sort(x, 0)[1:2])
    x[1, 3] = np.nan
    check(Tensor(x).median(1).indices, np.where(np.isnan(x).any(1), 3, np.argsort(x, 1)[:, 3]))
    assert np.isnan(Tensor(x).median().item())


def test_gradients_flow_to_what_was_selected():
    values = RANDOM.standard_normal((3, 90))
    x = Tensor(values, requires_grad=True)
    weight = RANDOM.standard_normal((3, 90))
    (found,) = (x.sort(1).values * Tensor(weight)).sum().gradient(x)
    ranks = np.argsort(np.argsort(values, 1), 1)
    check(found, np.take_along_axis(weight, ranks, 1))
    (found,) = x.topk(2, 1).values.sum().gradient(x)
    check(found, (ranks >= 88) * 1.0)


@pytest.mark.parametrize("right", [False, True])
def test_searching(right):
    side = "right" if right else "left"
    for length in (0, 1, 2, 7, 100):
        row, asked = np.sort(RANDOM.integers(0, 30, length)), RANDOM.integers(-3, 33, (4, 5))
        wanted = np.searchsorted(row, asked, side)
        check(torpor.searchsorted(Tensor(row), Tensor(asked), right=right), wanted)
        check(Tensor(asked).bucketize(Tensor(row), right=right), wanted)
    rows, asked = np.sort(RANDOM.standard_normal((3, 9)), 1), RANDOM.standard_normal((3, 4))
    wanted = np.stack([np.searchsorted(r, a, side) for r, a in zip(rows, asked)])
    check(torpor.searchsorted(Tensor(rows), Tensor(asked), side=side), wanted)
    with pytest.raises(ShapeError, match="a row for each row"):
        torpor.searchsorted(Tensor(rows), Tensor(asked[:2]))


def test_random_orders_are_permutations():
    for length in (0, 1, 100, 3000):
        assert sorted(Tensor.randperm(length).tolist()) == list(range(length))


def test_grids():
    for indexing in ("ij", "xy"):
        wanted = np.meshgrid(np.arange(3), np.arange(4), np.arange(2), indexing=indexing)
        parts = [Tensor(np.arange(n)) for n in (3, 4, 2)]
        for found, one in zip(torpor.meshgrid(*parts, indexing=indexing), wanted, strict=True):
            check(found, one)


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL"])
def test_other_devices(device):
    needs(device)
    x = mixed((2, 140), "f4")
    check(Tensor(x, device=device).argsort(1), np.argsort(x, 1, kind="stable"))


def test_narrow_formats_and_dtype_of_indices():
    x = Tensor(RANDOM.standard_normal(200)).cast(dtypes.bfloat16)
    found = x.sort()
    assert found.values.dtype is dtypes.bfloat16 and found.indices.dtype is dtypes.int64
    np.testing.assert_array_equal(
        found.values.cast(dtypes.float32).numpy(), np.sort(x.cast(dtypes.float32).numpy())
    )


@pytest.mark.parametrize("length", [1, 100, 1000, 1 << 20])
@pytest.mark.parametrize("k", [1, 5, 32, 1000])
def test_rows_are_cut_into_more_blocks_than_are_wanted(length, k):
    for rows in (1, 1000):
        cost, size = _block(length, k, rows)
        assert cost > 0
        assert not size or -(-length // size) > k
    assert _block(1 << 20, 5, 1)[1] > 1
    assert _block(100, 100, 1000)[1] == 0


def test_the_middle_of_nothing():
    """NaN, and the least integer, as PyTorch; along an axis of no elements there is none."""
    for shape in ((0,), (2, 0)):
        assert math.isnan(Tensor.zeros(*shape).median().item())
    for dtype in ("int8", "int64", "uint8"):
        found = Tensor([], dtype=dtype).median()
        assert (found.dtype.name, found.item()) == (dtype, np.iinfo(dtype).min)
    found = Tensor.zeros(0, 3).median(1)
    assert found.values.tolist() == found.indices.tolist() == []
    assert Tensor.zeros(0, 3).median(1, True).values.shape == (0, 1)
    with pytest.raises(ValueError, match="median"):
        Tensor.zeros(0, 3).median(0)


def test_a_side_has_one_name():
    with pytest.raises(ValueError, match="side is 'left', and right is True"):
        torpor.searchsorted(Tensor([1.0, 2.0]), 1.5, right=True, side="left")
