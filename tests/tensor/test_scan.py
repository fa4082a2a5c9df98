import math

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, dtypes

RANDOM = np.random.default_rng(9)


def latest(x, combine):
    """Values and places of running extremes, one element after the other."""
    values, places = np.empty_like(x), np.zeros(x.shape, np.int64)
    for n in range(x.shape[-1]):
        before = x[..., n] if n == 0 else values[..., n - 1]
        values[..., n] = combine(before, x[..., n])
        here = (x[..., n] == values[..., n]) | np.isnan(x[..., n])
        places[..., n] = np.where(here, n, places[..., n - 1] if n else 0)
    return values, places


SHAPES = [(5,), (1, 1), (3, 40), (3, 7, 65), (9001,), (2, 8192), (16384, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_axis(shape):
    x = RANDOM.integers(-9, 9, shape).astype(np.float32)
    for axis in range(-1, len(shape)):
        check(Tensor(x).cumsum(axis), np.cumsum(x, axis))
        wanted = np.maximum.accumulate(x, axis)
        check(Tensor(x).cummax(axis).values, wanted)
    signs = np.where(x > 0, 1, -1)
    check(Tensor(signs).cumprod(0), np.cumprod(signs, 0))


def test_every_layout():
    for _, x, a in layouts(numbers((4, 6))):
        if a.ndim and a.size:
            check(x.cumsum(0), np.cumsum(a, 0, dtype=a.dtype))
            check(x.cumprod(-1), np.cumprod(a, -1, dtype=a.dtype), 1e-5)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("bool", "int64"), ("int8", "int64"), ("uint32", "int64"), ("int64", "int64"),
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("float64", "float64"),
    ],
)  # fmt: skip
def test_formats(name, result):
    x = Tensor([1, 0, 1, 1]).cast(getattr(dtypes, name))
    made = x.cumsum(0)
    assert made.dtype is getattr(dtypes, result)
    np.testing.assert_array_equal(made.cast(dtypes.float64).numpy(), [1, 1, 2, 3])
    top = x.cummin(0)
    assert top.values.dtype is x.dtype
    np.testing.assert_array_equal(top.values.cast(dtypes.float64).numpy(), [1, 0, 0, 0])
    np.testing.assert_array_equal(top.indices.numpy(), [0, 1, 1, 1])
    assert x.cumsum(0, dtype=dtypes.int32).dtype is dtypes.int32


def test_running_extremes_and_where_they_stand():
    x = RANDOM.integers(-5, 5, (4, 50)).astype(np.float64)
    x[1, 20] = np.nan
    for name, combine in (("cummax", np.maximum), ("cummin", np.minimum)):
        found = getattr(torpor, name)(Tensor(x), 1)
        values, places = latest(x, combine)
        check(found.values, values)
        check(found.indices, places)
        again = getattr(Tensor(x.T.copy()), name)(0)
        check(again.indices, places.T)


def test_log_of_running_sums_of_exponentials():
    x = RANDOM.standard_normal((3, 37)) * 200
    x[0, :4], x[1, 5] = -np.inf, np.inf
    check(Tensor(x).logcumsumexp(1), np.logaddexp.accumulate(x, 1), 1e-12)


def test_nothing_and_one():
    check(Tensor(np.zeros((0, 3))).cumsum(0), np.zeros((0, 3)))
    check(Tensor(np.zeros((3, 0))).cumsum(0), np.zeros((3, 0)))
    check(Tensor(3.0).cumsum(0), np.array(3, "f4"))
    found = Tensor(3.0).cummax(0)
    check(found.indices, np.array(0))


def test_a_long_sum_is_the_same_for_any_number_of_threads():
    x = Tensor(RANDOM.standard_normal(100_000).astype("f4"))

    def total() -> np.ndarray:
        return torpor.jit(lambda x: x.cumsum(0))(x).numpy()  # by kernels of this length alone

    found = total()
    np.testing.assert_allclose(found, np.cumsum(x.numpy(), dtype="f8"), atol=0.02)
    with torpor.Context(THREADS=1):
        np.testing.assert_array_equal(total(), found)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp"])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradients(name, zeros):
    values, weight = RANDOM.standard_normal((2, 6)), Tensor(RANDOM.standard_normal((2, 6)))
    values[:, 1 : 1 + 2 * zeros : 2] = 0

    def function(x):
        made = getattr(x, name)(1)
        made = made.values if name == "cummax" else made
        return (made * made * weight).sum()

    if name == "cummax":
        values += np.arange(12).reshape(2, 6) * 1e-3  # no two are equal
    x = Tensor(values, requires_grad=True)
    (found,) = function(x).gradient(x)
    found = found.numpy()
    for place in np.ndindex(values.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = values.copy()
            moved[place] += step
            ends.append(function(Tensor(moved)).item())
        np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-5, atol=1e-6)


def test_gradients_of_gradients():
    x = Tensor(RANDOM.standard_normal(5), requires_grad=True)
    (first,) = (x.cumprod(0).square()).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    steps = [Tensor(x.numpy() + s, requires_grad=True) for s in (1e-5, -1e-5)]
    ends = [s.cumprod(0).square().sum().gradient(s)[0].sum().item() for s in steps]
    np.testing.assert_allclose(second.sum().item(), (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("zeros", [(), (0,), (2,), (1, 3), (0, 1, 4)])
def test_running_products_have_second_gradients_beside_zeros(zeros):
    values = RANDOM.uniform(0.5, 1.5, (2, 5))
    values[:, list(zeros)] = 0
    weights = Tensor(RANDOM.uniform(0.5, 1.5, (2, 5)))

    def slope(x):
        return (x.cumprod(1) * weights).sum().gradient(x)[0]

    x = Tensor(values, requires_grad=True)
    (found,) = (slope(x) * weights).sum().gradient(x)
    for place in np.ndindex(values.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = values.copy()
            moved[place] += step
            ends.append((slope(Tensor(moved, requires_grad=True)) * weights).sum().item())
        expected = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(found.numpy()[place], expected, rtol=1e-5, atol=1e-7)


def test_long_running_sums_do_not_stand_still():
    found = Tensor.ones(3 << 23).cumsum(0)
    assert found[-1].item() == 3 << 23
    assert found[(1 << 24) + 2].item() == (1 << 24) + 4  # the nearest even number


def test_logcumsumexp_of_small_floats_rounds_at_the_end():
    array = np.random.default_rng(2).normal(size=200).astype(dtypes.bfloat16.numpy)
    x = Tensor(array, requires_grad=True)
    found = x.logcumsumexp(0)
    exact = np.logaddexp.accumulate(array.astype(np.float64))
    np.testing.assert_array_equal(found.numpy(), exact.astype(np.float32).astype(array.dtype))
    (slope,) = found.float().sum().gradient(x)
    weights = np.exp(array.astype(np.float64)[None] - exact[:, None]) * np.tri(200)
    np.testing.assert_allclose(slope.float().numpy(), weights.sum(0), 2**-8)


def test_gradients_of_sums_of_exponentials_beside_infinity() -> None:
    """d out[j] / d x[i] = exp(x[i] - out[j]): nothing reaches what is less than infinity."""
    inf = math.inf
    x = Tensor([1.0, 0.5, inf, 2.0, -1.0], requires_grad=True)
    x.logcumsumexp(0).sum().backward()
    share = 1 / (1 + math.exp(0.5 - 1.0))
    np.testing.assert_allclose(x.grad.numpy()[[0, 1, 3, 4]], [1 + share, 1 - share, 0, 0], 1e-6)
    one, other = (Tensor([inf, 1.0, -inf, inf], requires_grad=True) for _ in "ab")
    one.logaddexp(other.flip(0)).sum().backward()
    np.testing.assert_array_equal(one.grad.numpy(), [np.nan, 1, 0, np.nan])
    np.testing.assert_array_equal(other.grad.numpy(), [np.nan, 1, 0, np.nan])


@pytest.mark.parametrize("values", [[math.inf], [math.nan], [2.0, math.inf, 0.0, 3.0]])
def test_gradients_of_running_products_beside_infinities_are_those_of_torch(values):
    torch = pytest.importorskip("torch")
    x, y = (lib.tensor(values, requires_grad=True) for lib in (torpor, torch))
    x.cumprod(0).sum().backward()
    y.cumprod(0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
