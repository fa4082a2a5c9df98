import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

RANDOM = np.random.default_rng(8)
ARRAY = RANDOM.integers(0, 9, (6, 7))


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 4), (2, 3, 4)])
def test_where_elements_are_not_zero(shape):
    x = RANDOM.integers(0, 2, shape)
    check(Tensor(x).nonzero(), np.argwhere(x))
    if shape:
        for found, wanted in zip(Tensor(x).nonzero(as_tuple=True), np.nonzero(x), strict=True):
            check(found, wanted)


def test_masks_select_and_are_written_to():
    x, mask = Tensor(ARRAY), ARRAY > 4
    check(x[x > 4], ARRAY[mask])
    check(x[mask], ARRAY[mask])
    check(x.masked_select(x[0] > 4), ARRAY[np.broadcast_to(ARRAY[0] > 4, ARRAY.shape)])
    rows = ARRAY[:, 0] > 3
    check(x[Tensor(rows), 2:4], ARRAY[rows, 2:4])
    check(x[:, Tensor(ARRAY[0] > 3)], ARRAY[:, ARRAY[0] > 3])
    made, wanted = Tensor(ARRAY), ARRAY.copy()
    made[mask] = Tensor(np.arange(mask.sum()))
    wanted[mask] = np.arange(mask.sum())
    check(made, wanted)
    made[Tensor(rows)] = -1
    wanted[rows] = -1
    check(made, wanted)
    source = np.arange(42)
    wanted[mask] = source[: mask.sum()]
    check(made.masked_scatter(Tensor(mask), Tensor(source)), wanted)
    with pytest.raises(IndexError, match="does not fit"):
        x[Tensor([True, False])]
    with pytest.raises(DTypeError, match="holds bools"):
        x.masked_select(x)


def test_what_occurs():
    found = Tensor(ARRAY).unique(return_inverse=True, return_counts=True)
    wanted = np.unique(ARRAY, return_inverse=True, return_counts=True)
    for one, other in zip(found, wanted, strict=True):
        check(one, other.reshape(one.shape))
    check(torpor.unique(Tensor([2.0, np.nan, 1.0, np.nan])), np.array([1, 2, np.nan, np.nan], "f4"))
    check(Tensor(np.zeros(0)).unique(), np.zeros(0))
    check(Tensor([3]).unique(), np.array([3]))
    with pytest.raises(ShapeError, match="axis 9"):
        Tensor(ARRAY).unique(dim=9)


def test_runs():
    values, inverse, counts = Tensor([1, 1, 2, 2, 2, 1]).unique_consecutive(True, True)
    check(values, np.array([1, 2, 1]))
    check(inverse, np.array([0, 0, 1, 1, 1, 2]))
    check(counts, np.array([2, 3, 1]))


def test_counts():
    flat = ARRAY.reshape(-1)
    check(Tensor(flat).bincount(), np.bincount(flat))
    check(Tensor(flat).bincount(minlength=20), np.bincount(flat, minlength=20))
    weights = RANDOM.standard_normal(42)
    check(Tensor(flat).bincount(Tensor(weights)), np.bincount(flat, weights))
    check(Tensor(np.zeros(0, int)).bincount(minlength=2), np.zeros(2, int))
    with pytest.raises(ShapeError, match="vector"):
        Tensor(ARRAY).bincount()
    for negative in ([1, -1], [-1], [-2, -1]):
        with pytest.raises(IndexError, match="bincount counts no negative numbers"):
            Tensor(negative).bincount().numpy()
    x = RANDOM.standard_normal(1000).astype("f4")
    check(Tensor(x).histc(10, -2, 2), np.histogram(x, 10, (-2, 2))[0].astype("f4"))
    tiny = Tensor([0.0, 1e-5, 5e-6], dtype="bfloat16").histc(1000, 0, 1e-5).tolist()
    assert (tiny[0], sum(tiny[400:600]), tiny[999]) == (1, 1, 1)
    check(Tensor(x).histc(7), np.histogram(x, 7)[0].astype("f4"))


def test_lengths_that_depend_on_values_are_right_under_the_jit():
    @torpor.jit
    def selected(x):
        return x[x > 0]

    for _ in range(4):
        x = RANDOM.standard_normal(10)
        check(selected(Tensor(x)), x[x > 0])


def test_places_in_a_tensor_of_a_bound_length():
    values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    bound = torpor.Tensor(values)[: torpor.Variable("rows", 1, 4).bind(3)]
    np.testing.assert_array_equal(
        bound.transpose(0, 1).nonzero().numpy(), np.argwhere(values[:3].T)
    )


@pytest.mark.parametrize(
    ("dtype", "length"), [("int64", 3000), ("uint8", 100), ("bool", 1), ("f4", 3000), ("f2", 100)]
)
def test_kinds_of_every_format(dtype, length):
    x = (RANDOM.standard_normal(length) * 300).astype(dtype)
    wanted = np.unique(x, return_inverse=True, return_counts=True)
    check(Tensor(x).unique(), wanted[0])
    for one, other in zip(Tensor(x).unique(True, True, True), wanted, strict=True):
        check(one, other)


def test_kinds_far_apart():
    x = RANDOM.choice(RANDOM.integers(-(1 << 62), 1 << 62, 30), 700)
    x[:2] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    wanted = np.unique(x, return_inverse=True, return_counts=True)
    check(Tensor(x).unique(), wanted[0])
    for one, other in zip(Tensor(x).unique(True, True, True), wanted, strict=True):
        check(one, other)


def test_zeros_are_one_kind_and_each_nan_is_its_own():
    x = np.array([0.0, -0.0, np.nan, 1.0, np.nan, np.inf, -np.inf] * 30, "f4")
    found = Tensor(x).unique().numpy()
    assert np.array_equal(found[:4], [-np.inf, 0, 1, np.inf])
    assert np.isnan(found[4:]).all()
    assert len(found) == 4 + 60


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_is_found_and_counted_once_for_each(dtype):
    x = np.array([1.0, np.nan, 2.0, -np.nan, 0.0, -0.0, 1.0, np.inf], dtype)
    wanted = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
    for one, other in zip(Tensor(x).unique(True, True, True), wanted, strict=True):
        check(one, other)


def test_unique_on_both_sides_of_the_largest_signed_number():
    values = np.array([2**63 + 1, 2**63 - 2, 2**63 + 1, 2**63], np.uint64)
    np.testing.assert_array_equal(Tensor(values).unique().numpy(), np.unique(values))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Tensor([1]).bincount(minlength=-1), "minlength"),
        (lambda: Tensor([1.0]).histc(bins=0), "number of bins"),
        (lambda: Tensor([1.0]).histc(bins=2, min=1, max=0), "min is between"),
        (lambda: Tensor([1, 2]).one_hot(-2), "num_classes"),
        (lambda: Tensor.searchsorted(Tensor([1.0]), Tensor([1.0]), side="middle"), "side is"),
        (lambda: Tensor.meshgrid(Tensor.ones(2, 2), Tensor.ones(2)), "vectors"),
        (lambda: Tensor([1.0]).hardtanh(1.0, -1.0), "min_val"),
        (lambda: Tensor([1.0]).round(1.5), "whole number"),
    ],
)
def test_arguments_that_make_no_sense(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("call", [lambda: Tensor([15]).round(-1), lambda: Tensor([1.0]).one_hot()])
def test_formats_that_make_no_sense(call):
    with pytest.raises(TypeError):
        call()


def test_weights_are_added_up_in_float64():
    places = Tensor([0, 1, 1])
    for kind in ("int64", "float16", "float64"):
        check(places.bincount(Tensor([1, 2, 3], dtype=kind)), np.array([1.0, 5.0]))
    check(places.bincount(Tensor([1.0, 2.0, 3.0])), np.array([1, 5], np.float32))


def test_histogram_of_one_value_and_of_none():
    check(Tensor([1.0, 1.0]).histc(3), np.array([0, 2, 0], np.float32))
    check(Tensor([1.0, np.nan, 2.0]).histc(2, 0, 2), np.array([0, 2], np.float32))
    check(Tensor(np.zeros(0, np.float32)).histc(2), np.zeros(2, np.float32))
    for unknown in (np.nan, np.inf):
        with pytest.raises(ValueRangeError, match="finite"):
            Tensor([1.0, unknown]).histc(3).numpy()
        with pytest.raises(ValueRangeError, match="between"):
            Tensor([1.0]).histc(3, 0, unknown)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_kinds_of_slices(axis):
    x = np.random.default_rng(1).integers(0, 2, (6, 2, 5)).astype(np.float32)
    x = np.concatenate([x, x[::2]])
    expected = np.unique(x, axis=axis, return_inverse=True, return_counts=True)
    made = Tensor(x).unique(return_inverse=True, return_counts=True, dim=axis)
    for one, other in zip(made, expected):
        assert (one.numpy() == other.reshape(one.shape)).all()


def test_runs_of_slices():
    x = Tensor([[1, 1, 2, 1], [3, 3, 3, 3]])
    values, inverse, counts = x.unique_consecutive(True, True, dim=1)
    assert values.tolist() == [[1, 2, 1], [3, 3, 3]]
    assert inverse.tolist() == [0, 0, 1, 2] and counts.tolist() == [2, 1, 1]


def test_nonzero_places_of_a_known_count():
    x = Tensor([0, 7, 0, 8])
    assert x.nonzero_static(3).tolist() == [[1], [3], [-1]]
    assert x.nonzero_static(1, fill_value=9).tolist() == [[1]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2"])
def test_histograms_of_narrow_formats_count_on(dtype):
    """Counts that are larger than the format's integers are those of the exact count, rounded."""
    values = np.repeat([0.5, 1.5, 2.5], [700, 2999, 5])
    counted = Tensor(values).cast(dtype).histc(3, 0, 3)
    wanted = Tensor([700.0, 2999.0, 5.0]).cast(dtype)
    assert counted.dtype is wanted.dtype
    assert counted.float().tolist() == wanted.float().tolist()


def test_what_a_mask_selects_has_a_gradient_whether_it_is_required_or_not():
    wanted = [[0.0, 4.0, 12.0]] * 2
    for required in (False, True):
        x = Tensor([1.0, 2.0, 3.0], requires_grad=required)
        chosen = [(x * x)[x > 1], (x * x).masked_select(x > 1)]
        made = [(one * Tensor([1.0, 2.0])).sum().gradient(x)[0].tolist() for one in chosen]
        assert made == wanted


@pytest.mark.parametrize("size", [0, 1, 3, 9])
@pytest.mark.parametrize("shape", [(7,), (2, 3), (0, 3), ()])
def test_masks_of_a_size_are_traced_and_differentiated(shape, size):
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    places = np.argwhere(values > 0)[:size]
    filled = np.full((size, len(shape)), -1)
    filled[: len(places)] = places
    chosen = np.full(size, 7, np.float32)
    chosen[: len(places)] = values[values > 0][:size]

    @torpor.jit
    def run(x):
        return x.masked_select(x > 0, size=size, fill_value=7), (x > 0).nonzero_static(size=size)

    for _ in range(3):
        found, where = run(Tensor(values))
        np.testing.assert_array_equal(found.numpy(), chosen)
        np.testing.assert_array_equal(where.numpy(), filled)
    assert "trace 1" in torpor.explain(run)
    x = Tensor(values, requires_grad=True)
    x.masked_select(x > 0, size=size).sum().backward()
    slopes = np.zeros(shape, np.float32)
    for place in places:
        slopes[tuple(place)] = 1
    np.testing.assert_array_equal(x.grad.numpy(), slopes)


@pytest.mark.parametrize("name", ["unique", "nonzero", "argwhere", "unique_consecutive"])
def test_what_is_computed_at_the_call_ends_no_gradient(name):
    x = Tensor([3.0, 0.0, 3.0])
    y = x * 2
    getattr(y, name)()
    assert (y * y).sum().gradient(x)[0].tolist() == [24, 0, 24]
