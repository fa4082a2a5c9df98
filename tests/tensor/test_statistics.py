"""Statistics beside NumPy's."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

NAN = math.nan
X = np.random.default_rng(5).normal(size=(3, 7)).astype(np.float32)
HOLES = X.copy()
HOLES[0, 2] = HOLES[2, :] = NAN


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.filterwarnings("ignore:.*(slice|NaN)")
def test_reductions_pass_over_nan(dim):
    for name in ("nansum", "nanmean"):
        expected = getattr(np, name)(HOLES, axis=dim)
        np.testing.assert_allclose(getattr(Tensor(HOLES), name)(dim).numpy(), expected, 1e-5, 1e-6)
    expected = np.nanquantile(HOLES, 0.3, axis=dim)
    np.testing.assert_allclose(Tensor(HOLES).nanquantile(0.3, dim).numpy(), expected, 1e-5)
    with pytest.raises(DTypeError, match="needs floats"):
        Tensor([1]).nanmean()


def test_medians_pass_over_nan():
    made = Tensor(HOLES).nanmedian(1)
    first = np.sort(HOLES[0][~np.isnan(HOLES[0])])[2]
    assert made.values.tolist()[:2] == [first, np.sort(HOLES[1])[3]]
    assert math.isnan(made.values.tolist()[2])
    assert HOLES[0, made.indices.tolist()[0]] == first
    assert Tensor([NAN, 3.0, 1.0, 2.0]).nanmedian().item() == 2.0


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method):
    q = np.float32([0.0, 0.25, 0.4, 1.0])
    for dim in (None, 0, -1):
        made = Tensor(X).quantile(Tensor(q), dim, interpolation=method).numpy()
        np.testing.assert_allclose(made, np.quantile(X, q, axis=dim, method=method), 1e-5, 1e-6)
    kept = Tensor(X).quantile(0.4, 1, True, interpolation=method)
    assert kept.shape == (3, 1)
    with pytest.raises(ValueRangeError, match="interpolation is 'linear'"):
        Tensor(X).quantile(0.5, interpolation="cubic")


def test_a_quantile_of_nan_is_nan_and_its_slope_goes_to_both_neighbours():
    assert np.isnan(Tensor(HOLES).quantile(0.5, 1).numpy()).tolist() == [True, False, True]
    x = Tensor([3.0, 1.0, 2.0, 5.0]).requires_grad_()
    (made,) = x.quantile(0.25).gradient(x)
    assert made.tolist() == pytest.approx([0, 0.25, 0.75, 0])


def test_modes():
    x = Tensor([[3, 1, 3, 1, 2], [5, 4, 4, 5, 4]])
    assert x.mode().values.tolist() == [1, 4]
    assert x.mode().indices.tolist() == [3, 4]
    assert x.mode(0, True).values.tolist() == [[3, 1, 3, 1, 2]]


@pytest.mark.parametrize("density", [False, True])
def test_histograms(density):
    flat, weights = X.reshape(-1), np.abs(X)
    made = Tensor(X).histogram(5, weight=Tensor(weights), density=density)
    expected = np.histogram(flat, 5, weights=weights.reshape(-1), density=density)
    for one, other in zip(made, expected):
        np.testing.assert_allclose(one.numpy(), other, 1e-5)
    made = Tensor(X).histogram(4, range=(-0.5, 1.0), density=density)
    expected = np.histogram(flat, 4, (-0.5, 1.0), density=density)[0]
    np.testing.assert_allclose(made.hist.numpy(), expected, 1e-5)
    edges = np.float32([-1.0, 0.0, 0.25, 2.0])
    made = Tensor(X).histogram(Tensor(edges)).hist
    np.testing.assert_allclose(made.numpy(), np.histogram(flat, edges)[0])
    points = np.random.default_rng(1).uniform(0, 1, (20, 2)).astype(np.float32)
    hist, edges = Tensor(points).histogramdd([2, 3], range=[0.0, 1.0, 0.0, 1.0], density=density)
    expected, known = np.histogramdd(points, [2, 3], [(0, 1), (0, 1)], density=density)
    np.testing.assert_allclose(hist.numpy(), expected, 1e-5)
    for one, other in zip(edges, known):
        np.testing.assert_allclose(one.numpy(), other, 1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_slopes_on_a_grid(order):
    x = np.random.default_rng(5).normal(size=(4, 5))
    places = np.array([0.0, 1.0, 1.5, 4.0])
    for made, expected in zip(
        torpor.gradient(Tensor(x), edge_order=order), np.gradient(x, edge_order=order)
    ):
        np.testing.assert_allclose(made.numpy(), expected, 1e-12)
    made = torpor.gradient(Tensor(x), dim=(1, 0), spacing=(0.5, 2.0), edge_order=order)
    expected = np.gradient(x, 0.5, 2.0, axis=(1, 0), edge_order=order)
    np.testing.assert_allclose([m.numpy() for m in made], expected, 1e-12)
    (made,) = torpor.gradient(Tensor(x), dim=0, spacing=(Tensor(places),), edge_order=order)
    np.testing.assert_allclose(made.numpy(), np.gradient(x, places, axis=0, edge_order=order))


def test_slopes_need_neighbours():
    with pytest.raises(ShapeError, match="3 places are needed"):
        torpor.gradient(Tensor([1.0, 2.0]), edge_order=2)
    with pytest.raises(ShapeError, match="along 1 axes needs as many spacings, not 2"):
        torpor.gradient(Tensor([1.0, 2.0]), spacing=(1.0, 2.0))


def test_the_quantile_of_a_number_has_no_axis_to_keep():
    assert Tensor(2.0).quantile(0.5, 0, True).shape == ()
    assert Tensor(2.0).quantile(Tensor([0.2, 0.5]), 0, True).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("low", "high", "bins"), [
    (-3.0, 3.0, 100), (0.1, 0.7, 1000), (1e6, 1e6 + 1, 50), (-1.0, 1e-3, 333),
])  # fmt: skip
def test_equal_bins_hold_what_lies_between_their_edges(low, high, bins):
    wide = (high - low) / 10
    given = np.random.default_rng(0).uniform(low - wide, high + wide, 4000).astype(np.float32)
    given[: bins + 1] = np.linspace(low, high, bins + 1)
    given[-3:] = np.nan, np.inf, -np.inf
    hist, edges = Tensor(given).histogram(bins, range=(low, high))
    edges = edges.numpy()
    held = given[(given >= edges[0]) & (given <= edges[-1])]
    places = np.minimum(np.searchsorted(edges, held, side="right") - 1, bins - 1)
    np.testing.assert_array_equal(hist.numpy(), np.bincount(places, minlength=bins))


def test_equal_bins_are_found_without_a_search():
    x = Tensor(np.zeros(1 << 16, np.float32)).realize()

    def operations(bins):
        made = x.histogram(bins, range=(0.0, 1.0)).hist
        return sum(program.ops for program in torpor.lower(made))

    assert operations(1024) < 1.2 * operations(16)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_gradient_of_nanmedian_of_narrow_floats(kind):
    x = Tensor([NAN, 3.0, 1.0, 2.0], dtype=kind, requires_grad=True)
    x.nanmedian().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 1.0] and x.grad.dtype.name == kind


def test_gradient_of_nanmedian_is_shared_by_equal_elements():
    x = Tensor([1.0, 1.0, 2.0, NAN], requires_grad=True)
    x.nanmedian().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0, 0]
