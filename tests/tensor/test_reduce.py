import math

import numpy as np
import pytest

from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, dtypes, jit
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

AXES = [None, 0, 1, -1, (0, 1)]
SIMPLE = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}


@pytest.mark.parametrize("name", SIMPLE)
def test_reductions_in_every_layout(name):
    for layout, x, a in layouts(numbers((4, 6), low=0.5, high=1.5)):
        if layout == "empty" and name in ("mean", "amax", "amin"):
            continue
        expected = SIMPLE[name](a.astype(np.float64)).astype(np.float32)
        check(getattr(x, name)(), expected, 1e-5)


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(axis, keepdims):
    array = numbers((4, 6), "float64")
    for name, function in SIMPLE.items():
        expected = function(array, axis=axis, keepdims=keepdims)
        check(getattr(Tensor(array), name)(axis, keepdims), expected)
    check(Tensor(array).std(axis, keepdim=keepdims), array.std(axis, ddof=1, keepdims=keepdims))
    check(Tensor(array).var(dim=axis, correction=0), array.var(axis))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64"])
def test_integers_sum_to_int64(dtype):
    array = numbers((9, 5), dtype)
    check(Tensor(array).sum(0), array.sum(0, dtype=np.int64))
    check(Tensor(array).prod(1), array.prod(1, dtype=np.int64))
    check(Tensor(array).amax(0), array.max(0))
    kind = "uint8" if dtype == "uint8" else "bool"  # as in PyTorch
    check(Tensor(array).any(1), array.any(1).astype(kind))
    check(Tensor(array).all(1), array.all(1).astype(kind))


def test_half_precision_sums_in_float32():
    assert Tensor.ones(4000, dtype="float16").sum().item() == 4000
    assert Tensor.full((4000,), 1.0, dtype="bfloat16").sum().item() == 4000
    assert Tensor.ones(3, dtype="bfloat16").sum().dtype is dtypes.bfloat16


def test_reductions_of_nothing():
    nothing = Tensor(np.zeros((0, 3), np.float32))
    check(nothing.sum(0), np.zeros(3, np.float32))
    check(nothing.prod(), np.float32(1))
    check(nothing.amax(1), np.zeros(0, np.float32))
    assert math.isnan(nothing.mean().item())
    assert nothing.all().item() is True
    for name in ("amax", "amin", "argmax"):
        with pytest.raises(ValueError, match="no elements"):
            getattr(nothing, name)(0)


def test_extremes_along_an_axis():
    array = numbers((5, 7), "int32")
    for axis in (0, 1, -1):
        found = Tensor(array).max(axis)
        check(found.values, array.max(axis))
        check(found.indices, array.argmax(axis))
        values, indices = Tensor(array).min(dim=axis, keepdim=True)
        check(values, array.min(axis, keepdims=True))
        check(indices, array.argmin(axis, keepdims=True))
    check(Tensor(array).aminmax(dim=0).max, array.max(0))
    check(Tensor(array).argmax(), array.argmax())
    check(Tensor(array).max(), array.max())
    check(Tensor([3.0]).max(Tensor([4.0])), np.array([4], np.float32))


def test_nan_wins():
    array = np.array([[1.0, math.nan, 3.0, math.nan], [0.0, 1.0, 2.0, -1.0]], np.float32)
    x = Tensor(array)
    check(x.amax(1), array.max(1))
    check(x.argmax(1), array.argmax(1))
    check(x.argmin(1), array.argmin(1))


def test_exponential_reductions():
    array = numbers((4, 6), "float64", -50, 50)
    shifted = np.exp(array - array.max(1, keepdims=True))
    total = shifted.sum(1, keepdims=True)
    check(Tensor(array).softmax(1), shifted / total)
    check(Tensor(array).log_softmax(), np.log(shifted / total))
    check(Tensor(array).logsumexp(1), (np.log(total) + array.max(1, keepdims=True))[:, 0])
    infinite = Tensor([[-math.inf, -math.inf], [math.inf, 1.0], [-math.inf, 1.0]])
    check(infinite.logsumexp(1), np.array([-math.inf, math.inf, 1], np.float32))


@pytest.mark.parametrize("p", [1, 2, 3, 0, math.inf, -math.inf])
def test_norms(p):
    array = numbers((4, 6), "float64")
    check(Tensor(array).norm(p, 1), np.linalg.norm(array, p, 1))
    check(Tensor(array).norm(p), np.linalg.norm(array.reshape(-1), p))


@pytest.mark.parametrize("length", [1, 7, 128, 129, 1000])
def test_running_sums(length):
    array = numbers((2, length), "int32")
    check(Tensor(array).cumsum(1), array.cumsum(1))
    check(Tensor(array.T.copy()).cumsum(0), array.T.cumsum(0))
    floats = numbers((length,), "float64", 0.9, 1.1)
    check(Tensor(floats).cumprod(0), floats.cumprod())


def test_running_sums_of_nothing_and_differences():
    check(Tensor(np.zeros((2, 0), np.float32)).cumsum(1), np.zeros((2, 0), np.float32))
    array = numbers((3, 5))
    check(Tensor(array).diff(), np.diff(array))
    check(Tensor(array).diff(2, 0), np.diff(array, 2, 0))


def test_wrong_calls():
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        Tensor.ones(2, 3).sum(2)
    with pytest.raises(ValueError, match="twice"):
        Tensor.ones(2, 3).sum((0, -2))
    with pytest.raises(TypeError, match="needs floats"):
        Tensor([1, 2]).mean()


def test_exponentials_of_no_elements():
    empty = Tensor.zeros(0, 3)
    assert empty.softmax(0).shape == empty.log_softmax(0).shape == (0, 3)
    assert empty.logsumexp(0).tolist() == [-math.inf] * 3
    assert empty.logsumexp(0, keepdim=True).shape == (1, 3)


def test_softmin_is_the_softmax_of_negatives():
    a = numbers((3, 4), "float64")
    expected = np.exp(-a) / np.exp(-a).sum(0)
    np.testing.assert_allclose(Tensor(a).softmin(0).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_within_functions_of_narrow_floats_do_not_overflow(dtype):
    """70,000 ones are more than float16 holds, and 300 squared is."""
    flat, high = Tensor.zeros(70_000, dtype=dtype), Tensor.full((64,), 300.0, dtype=dtype)
    found = {
        flat.logsumexp().item(): np.log(70_000), flat.softmax(0)[0].item(): 1 / 70_000,
        -flat.log_softmax(0)[0].item(): np.log(70_000), high.norm().item(): 2400,
        high.rms_norm(64)[0].item(): 1, high.normalize(dim=0)[0].item(): 1 / 8,
        flat.cross_entropy(Tensor(3)).item(): np.log(70_000),
        high.reshape(1, 1, 8, 8).avg_pool2d(8).item(): 300,
        high.reshape(8, 8).nll_loss(Tensor.zeros(8, dtype="int64"), reduction="sum").item(): -2400,
    }  # fmt: skip
    for one, expected in found.items():
        np.testing.assert_allclose(one, expected, rtol=0.02)
    spread = Tensor([300.0, -300.0] * 32, dtype=dtype)
    assert spread.layer_norm(64).tolist() == [1, -1] * 32
    assert spread.layer_norm(64).dtype == flat.softmax(0).dtype == flat.dtype


def test_differences_of_nothing():
    assert Tensor([]).diff().tolist() == Tensor([1.0]).diff(3).tolist() == []
    assert Tensor.ones(0, 3).diff(dim=0).shape == (0, 3)
    assert Tensor.ones(2, 3).diff(5).shape == (2, 0)
    check(Tensor([1, 4]).diff(0), np.array([1, 4]))
    for wrong in (lambda: Tensor(1.0).diff(), lambda: Tensor([1.0]).diff(-1)):
        with pytest.raises(ValueError, match="differences"):
            wrong()


@pytest.mark.parametrize(("shape", "axis"), [
    ((10**11,), 0), ((10**11 + 7,), 0), ((39_999_983,), 0), ((10**9, 100), 0), ((100, 10**9), 1),
    ((10**5, 3, 10**6), (0, 2))])  # fmt: skip
def test_sums_do_not_stand_still(shape, axis):
    """A register of float32 adds no ones any more from 2**24 on; of nothing but ones, no memory."""
    found = Tensor.ones(*shape).sum(axis).numpy()
    count = np.prod([shape[a] for a in np.atleast_1d(axis)], dtype=np.float64)
    np.testing.assert_allclose(found, count, rtol=2e-7)


@pytest.mark.parametrize("shape", [(2**21,), (2**21 - 9,), (2, 2**20 + 7), (2**19 + 21, 5)])
def test_long_sums_round_as_short_ones(shape):
    array = np.full(shape, 0.1, np.float32)
    axis = int(np.argmax(shape))
    expected = array.astype("f8").sum(axis)
    np.testing.assert_allclose(Tensor(array).sum(axis).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(Tensor(array).mean(axis).numpy(), array.flat[0], rtol=1e-5)


SIZES = {"float32": [1e37, 1e30, 1e19, 1.0, 1e-19, 1e-23, 1e-30, 1e-44],
         "float64": [1e307, 1e160, 1.0, 1e-160, 1e-300]}  # fmt: skip


@pytest.mark.parametrize(("dtype", "size"), [(d, s) for d, sizes in SIZES.items() for s in sizes])
def test_norms_and_deviations_whose_squares_have_no_format(dtype, size):
    rows = np.array([[1.0, -2, 3], [0.5, 0.5, 2]])
    array = (rows * size).astype(dtype)
    exact = array.astype(np.longdouble)
    limit = 1e-5 if dtype == "float32" else 1e-13
    for axis, keepdim in ((None, False), (1, False), (1, True)):
        norm = np.sqrt(np.sum(exact**2, axis, keepdims=keepdim)).astype(dtype)
        deviation = exact.std(axis, ddof=1, keepdims=keepdim).astype(dtype)
        atol = 2 * float(np.finfo(dtype).smallest_subnormal)
        found = Tensor(array).norm(2, axis, keepdim).numpy()
        np.testing.assert_allclose(found, norm, rtol=limit, atol=atol)
        found = Tensor(array).std(axis, keepdim=keepdim).numpy()
        np.testing.assert_allclose(found, deviation, rtol=limit, atol=atol)
    lengths = np.sqrt(np.sum(exact**2, 1, keepdims=True))
    if size > 1e-10:
        unit = (exact / lengths).astype(dtype)
        np.testing.assert_allclose(Tensor(array).normalize().numpy(), unit, rtol=limit)
        x = Tensor(array, requires_grad=True)
        (found,) = x.norm(2, 1).sum().gradient(x)
        np.testing.assert_allclose(found.numpy(), unit, rtol=limit)


def test_norms_of_what_is_not_finite_and_of_nothing():
    rows = np.array([[np.inf, 1, -np.inf], [np.nan, np.inf, 1e30], [0, 0, 0]], np.float32)
    np.testing.assert_array_equal(Tensor(rows).norm(2, 1).numpy(), [np.inf, np.nan, 0])
    np.testing.assert_array_equal(Tensor(rows).std(1).numpy(), [np.nan, np.nan, 0])
    assert Tensor([]).norm().item() == 0 and math.isnan(Tensor([]).std().item())
    assert Tensor.ones(2, 0).norm(2, 1).tolist() == [0, 0]
    assert Tensor([3, 4]).norm().item() == 5
    assert math.isnan(Tensor([1.0]).std().item())


def test_deviations_of_16_bits_are_taken_in_32():
    array = np.array([-60000.0, 60000, 0], np.float16)
    assert Tensor(array).std().item() == 60000
    np.testing.assert_allclose(
        Tensor(array).normalize(dim=0).numpy(), np.float16([-0.7071, 0.7071, 0])
    )
    assert Tensor([0.0, 0.0], dtype="float16").normalize(dim=0).tolist() == [0, 0]


def test_no_axes_are_all_axes_as_in_pytorch():
    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for name in ("sum", "amax", "amin", "mean", "std", "var", "norm", "count_nonzero"):
        method = getattr(x, name)
        assert method(dim=()).tolist() == method().tolist()
    assert x.sum((), keepdim=True).tolist() == [[21.0]]
    assert (x > 2).any(dim=()).tolist() == (x > 2).tolist() == (x > 2).all(dim=()).tolist()


def test_any_and_all_of_uint8_are_uint8():
    x = Tensor([[0, 2], [3, 4]], dtype="uint8")
    assert (x.any().dtype, x.all(1).dtype) == (dtypes.uint8, dtypes.uint8)
    assert (x.any().item(), x.all(1).tolist()) == (1, [0, 1])


def test_norms_that_are_not_there():
    with pytest.raises(ValueRangeError, match="'fro' or 'nuc', not 'abc'"):
        Tensor.ones(2, 3).norm("abc")
    for p in (-1, -math.inf):
        with pytest.raises(ShapeError, match="no elements"):
            Tensor.zeros(0, 3).norm(p, dim=0)


def test_the_gradient_of_a_deviation_that_has_no_value_has_none():
    one, rows = Tensor([3.0]), Tensor([[1.0], [2.0]])
    assert np.isnan(one.std().gradient(one)[0].numpy()).all()
    assert np.isnan(rows.std(1).sum().gradient(rows)[0].numpy()).all()
    assert rows.std(1, correction=0).sum().gradient(rows)[0].tolist() == [[0.0], [0.0]]


def test_no_difference_is_taken_of_what_is_laid_before():
    assert Tensor([1, 2]).diff(0, prepend=Tensor([5])).tolist() == [1, 2]


def test_a_correction_of_none_is_the_usual_one():
    assert Tensor([1.0, 2.0, 4.0]).var(correction=None).item() == pytest.approx(7 / 3)


def test_norms_in_another_format():
    x = Tensor([3e4, 4e4], dtype=dtypes.float16)
    assert x.norm(dtype=dtypes.float32).item() == pytest.approx(5e4, rel=1e-3)
    assert Tensor([3, 4]).norm(1, 0, True, dtype=dtypes.float64).dtype is dtypes.float64


def test_a_mean_is_no_integer():
    with pytest.raises(DTypeError, match="a mean is a float, not"):
        Tensor([1.0, 2.0]).mean(dtype=dtypes.int32)


def by_hand(x):
    grown = (x - x.max(1, keepdim=True).values).exp()
    return grown / grown.sum(1, keepdim=True)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * x).softmax(1),
        lambda x: (x.square().mT).softmax(0).mT,
        lambda x: (x.square() * 3.0).log_softmax(1).exp(),
        lambda x: by_hand(x * x),
        lambda x: by_hand(-(x * -1.7)),
        lambda x: (x * x).softmax(1) @ x * 0 + (x * x).softmax(1),
    ],
)
def test_products_less_their_greatest_are_at_most_0(function, wrap):
    """A fused multiply-add of x*x - max is a rounding of the square above 0: here millions."""
    x = Tensor(numbers((5, 5), low=1e6, high=3e7))
    found = wrap(function)(x).numpy()
    greatest = x.numpy().argmax(1)
    np.testing.assert_array_equal(found, np.eye(5, dtype=np.float32)[greatest])


@pytest.mark.parametrize("factor", [1.0, 3.7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_above_the_greatest_or_below_the_least(dtype, factor):
    """On either side of the difference: the root of a rounding below 0 would be NaN."""
    x = Tensor(np.random.default_rng(0).standard_normal((64, 64)).astype(dtype))
    square = x * x * factor
    assert (square.amax(1, keepdim=True) - square).numpy().min() == 0
    assert (square - square.amin(1, keepdim=True)).numpy().min() == 0
    assert (square.amin(1, keepdim=True) - square).numpy().max() == 0
    assert (square.cummax(1)[0] - square).numpy().min() == 0


def test_a_cumulative_maximum_is_not_below_the_product():
    x = Tensor(numbers((64,), low=1e6, high=3e7))
    y = x * x
    assert (y - y.cummax(0).values).max().item() == 0
    assert (y.amin() - y).max().item() == 0
