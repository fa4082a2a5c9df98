import math
import operator

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, dtypes
from torpor.base.errors import ShapeError

ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITS = [operator.and_, operator.or_, operator.xor]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def as_torpor(function, expected):
    """What differs from NumPy on purpose: integers divide to the default float, float32."""
    return expected.astype(np.float32) if function is operator.truediv else expected


@pytest.mark.parametrize("function", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
def test_operators_in_every_layout(function):
    left, right = numbers((4, 6)), numbers((4, 6), seed=1)
    right = np.where(abs(right) < 0.25, np.float32(1), right)
    for (_, x, a), (_, y, b) in zip(layouts(left), layouts(right)):
        check(function(x, y), function(a, b), 1e-5)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", ARITHMETIC + BITS, ids=lambda f: f.__name__)
def test_integer_operators(function, dtype):
    left, right = numbers((5, 7), dtype), numbers((5, 7), dtype, seed=1)
    check(function(Tensor(left), Tensor(right)), as_torpor(function, function(left, right)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", ARITHMETIC, ids=lambda f: f.__name__)
def test_float_operators(function, dtype):
    left, right = numbers((5, 7), dtype), numbers((5, 7), dtype, low=0.5, seed=1)
    limit = 1e-2 if dtype == "float16" else None
    check(function(Tensor(left), Tensor(right)), function(left, right), limit)


@pytest.mark.parametrize("function", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
def test_python_numbers_are_weak_on_both_sides(function):
    array = numbers((3, 4), low=0.5)
    x = Tensor(array)
    check(function(x, 2), function(array, np.float32(2)), 1e-5)
    check(function(5.5, x), function(np.float32(5.5), array), 1e-5)


def test_broadcasting():
    a, b = numbers((3, 1, 4)), numbers((5, 1), seed=1)
    check(Tensor(a) + Tensor(b), a + b)
    check(Tensor(a) * Tensor(b[0, 0]), a * b[0, 0])


def test_promotion_follows_the_standard():
    def kind(left, right):
        return (Tensor.ones(2, dtype=left) + Tensor.ones(2, dtype=right)).dtype

    assert kind("int32", "int64") is dtypes.int64
    assert kind("uint8", "int8") is dtypes.int16
    assert kind("int64", "float16") is dtypes.float16
    assert kind("float16", "bfloat16") is dtypes.float32
    assert (Tensor.ones(2, dtype="float16") + 1.5).dtype is dtypes.float16
    assert (Tensor([1, 2]) + 1.5).dtype is dtypes.float32
    assert (Tensor([True]) + 1).dtype is dtypes.int64
    assert (Tensor.ones(2, dtype="int8") + np.float64(2.5)).dtype is dtypes.float32
    with pytest.raises(TypeError, match=r"cast"):
        Tensor([1], dtype="uint64") + Tensor([1])
    with pytest.raises(TypeError, match="does not fit"):
        Tensor.ones(2, dtype="int8") + 300


def test_division_of_integers():
    a, b = np.array([7, -7, 7, -7, -128]), np.array([2, 2, -2, -2, -1])
    x, y = Tensor(a, dtype="int8"), Tensor(b, dtype="int8")
    check(x // y, np.array([3, -4, -4, 3, -128], np.int8))
    check(x % y, np.array([1, 1, -1, -1, 0], np.int8))
    check(x.div(y, rounding_mode="trunc"), np.array([3, -3, -3, 3, -128], np.int8))
    check(x.fmod(y), np.array([1, -1, 1, -1, 0], np.int8))
    check(x.div(y, rounding_mode="floor"), np.array([3, -4, -4, 3, -128], np.int8))


def test_integer_division_by_zero_raises_when_realised():
    for function in (operator.floordiv, operator.mod):
        made = function(Tensor([1, 2]), Tensor([1, 0]))
        with pytest.raises(ZeroDivisionError, match="test_elementwise"):
            made.numpy()


def test_float_floor_division_and_remainder_at_the_edges():
    a = np.array([1.0, -1.0, 0.0, math.nan, 5.5, -5.5], np.float32)
    b = np.array([0.0, 0.0, 0.0, 1.0, -2.0, 2.0], np.float32)
    with np.errstate(all="ignore"):
        check(Tensor(a) // Tensor(b), a // b)
        check(Tensor(a).fmod(Tensor(b)), np.fmod(a, b))
        check(Tensor(a).div(Tensor(b), rounding_mode="trunc"), np.trunc(a / b))


def test_powers():
    a, e = numbers((3, 4), low=0.1), numbers((3, 4), seed=2)
    for exponent in (0, 1, 2, 3, -1, 0.5, 2.5):
        check(Tensor(a) ** exponent, (a.astype(np.float64) ** exponent).astype(np.float32), 1e-5)
    check(Tensor(a) ** Tensor(e), a**e, 1e-5)
    check(2.0 ** Tensor(e), np.float32(2) ** e, 1e-5)
    whole = np.array([-3, -1, 0, 2, 3])
    for exponent in (0, 1, 2, 5, 63):
        check(Tensor(whole) ** exponent, whole**exponent)
    check(
        Tensor(whole) ** Tensor(np.array([3, 64, 0, 10, 41])), whole ** np.array([3, 64, 0, 10, 41])
    )
    with pytest.raises(ValueError, match="power"):
        Tensor(whole) ** -1


@pytest.mark.parametrize("jitted", [False, True])
def test_negative_counts_and_exponents_are_named(jitted):
    for function, text in (
        (operator.lshift, "negative shift count"),
        (operator.rshift, "negative shift count"),
        (operator.pow, "integer to a negative integer power"),
    ):
        call = torpor.jit(function) if jitted else function
        for _ in range(3):
            found = call(Tensor([2, 3]), Tensor([1, 2]))
            check(found, function(np.array([2, 3]), np.array([1, 2])))
        with pytest.raises(ValueError, match=rf"{text}[\s\S]*\.py:"):
            call(Tensor([2, 3]), Tensor([1, -1])).numpy()
        guarded = Tensor([True, False]).where(function(Tensor([2, 3]), Tensor([1, -1])), 0)
        check(guarded, np.array([function(2, 1), 0]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
def test_shifts(dtype):
    values = numbers((8,), dtype)
    width = np.dtype(dtype).itemsize * 8
    counts = [0, 1, 3, width - 1, width, width + 5]
    for count in counts:
        left = [(int(v) << count) & ((1 << width) - 1) for v in values]
        check(Tensor(values) << count, np.array(left, np.uint64).astype(dtype))
        check(Tensor(values) >> count, np.array([int(v) >> count for v in values], dtype))
    with pytest.raises(ValueError, match="negative"):
        Tensor(values) << -1


def test_logic_and_bits():
    a, b = numbers((4, 5), "bool"), numbers((4, 5), "bool", seed=1)
    x, y = Tensor(a), Tensor(b)
    for function in BITS:
        check(function(x, y), function(a, b))
    check(~x, ~a)
    check(x.logical_not(), ~a)
    check(x.logical_xor(y), a ^ b)
    whole = numbers((5,), "int32")
    check(~Tensor(whole), ~whole)
    check(~Tensor(whole.astype("uint8")), ~whole.astype("uint8"))
    check(Tensor([0.0, 2.0]).logical_and(Tensor([1, 1])), np.array([False, True]))
    with pytest.raises(TypeError, match="bitwise"):
        Tensor([1.0]) & Tensor([1.0])
    with pytest.raises(TypeError, match="bool"):
        x - y


def test_choice_and_bounds():
    a, b = numbers((3, 4)), numbers((3, 4), seed=1)
    x, y = Tensor(a), Tensor(b)
    check(torpor.where(x > y, x, y), np.maximum(a, b))
    check((x > 0).where(x, -1), np.where(a > 0, a, np.float32(-1)))
    check((x > 0).where(1, 0), np.where(a > 0, 1, 0))
    check(x.clamp(-1, 1), np.clip(a, -1, 1))
    check(x.clamp(max=0.5), np.minimum(a, np.float32(0.5)))
    check(x.lerp(y, 0.25), a + (b - a) * np.float32(0.25))
    nan = Tensor([math.nan, 1.0])
    assert np.isnan(nan.maximum(2.0).numpy()[0])
    assert np.isnan(nan.clamp(0, 1).numpy()[0])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_to_integers_saturate(dtype):
    values = np.array(
        [0.9, -0.9, 3.7, -3.7, 1e30, -1e30, math.inf, -math.inf, math.nan], np.float32
    )
    limits = np.iinfo(dtype)
    expected = [
        0 if math.isnan(v) else int(min(max(np.trunc(float(v)), limits.min), limits.max))
        for v in values
    ]
    check(Tensor(values).cast(dtype), np.array(expected, dtype))


def test_casts_wrap_integers_and_test_for_zero():
    check(Tensor([300, -1, 128]).cast("uint8"), np.array([44, 255, 128], np.uint8))
    check(Tensor([0.0, -0.0, math.nan, 2.0]).bool(), np.array([False, False, True, True]))
    check(Tensor([1.5, -2.0]).bitcast("int32"), np.array([1.5, -2.0], np.float32).view(np.int32))
    check(Tensor([1, 2]).half(), np.array([1, 2], np.float16))


def test_not_everything_is_an_operand():
    with pytest.raises(TypeError, match="cannot be combined"):
        Tensor([1.0]) + "one"
    assert (Tensor([1.0]) == None) is False  # noqa: E711 (that it is no error is what is tested)
    check(np.array([1.0, 2.0], np.float32) + Tensor([1.0, 1.0]), np.array([2, 3], np.float32))


def test_floor_division_of_floats_has_no_holes():
    inf, nan = math.inf, math.nan
    left = np.array([1e300, 5, -5, 5, -5, inf, nan, 7, 1e308, -1e300, 3, 0])
    right = np.array([3, inf, inf, -inf, -inf, 2, 1, nan, 1e-300, 7e-5, 0, 0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((Tensor(left) // Tensor(right)).numpy(), left // right)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_multiples_are_taken_in_the_common_format(name):
    sign = 1 if name == "add" else -1
    small, wide = np.array([200, 100], np.uint8), np.array([1, 2], np.int64)
    check(getattr(Tensor(wide), name)(Tensor(small), alpha=2), wide + sign * 2 * small.astype("i8"))
    floats = np.array([0.25, 0.5], np.float32)
    check(getattr(Tensor(floats), name)(Tensor(wide), alpha=0.5),
          (floats + sign * 0.5 * wide).astype(np.float32))  # fmt: skip
    check(getattr(Tensor(wide), name)(0.5, alpha=3), (wide + sign * 1.5).astype(np.float32))
    check(getattr(Tensor(wide), name)(Tensor([True, False]), alpha=3), wide + [sign * 3, 0])
    check(getattr(Tensor(wide), name)(Tensor(small), alpha=Tensor(2)),
          wide + sign * 2 * small.astype("i8"))  # fmt: skip
    half, single = np.array([1, 2], np.float16), np.array([3, 3], np.float32)
    check(getattr(Tensor(single), name)(Tensor(half), alpha=0.1),
          (single + sign * 0.1 * half.astype("f4")).astype("f4"))  # fmt: skip
    for alpha in (0.5, 1.0):
        with pytest.raises(TypeError, match="whole"):
            getattr(Tensor(wide), name)(Tensor(wide), alpha=alpha)
    with pytest.raises(TypeError, match="300"):
        getattr(Tensor(small), name)(Tensor(small), alpha=300)


def test_rsub_takes_multiples_of_its_first_operand():
    small, wide = np.array([200, 100], np.uint8), np.array([1, 2], np.int64)
    check(Tensor(small).rsub(Tensor(wide), alpha=3), wide - 3 * small.astype("i8"))
    check(torpor.rsub(Tensor(wide), 7, alpha=2), 7 - 2 * wide)
    check(Tensor(small).rsub(Tensor(wide)), wide - small)


def test_interpolation_from_the_nearer_side():
    """A weight of 1 gives the end itself, infinite ones as in PyTorch."""
    left = np.array([1e30, 1.0, math.inf, 0.0, -0.0])
    right = np.array([1.0, 1e30, 1.0, -math.inf, 3.0])
    check(Tensor(left).lerp(Tensor(right), 1.0)[:2], right[:2])
    check(Tensor(left).lerp(Tensor(right), Tensor(np.ones(5)))[:2], right[:2])
    for weight in (0.25, 0.75):
        with np.errstate(invalid="ignore"):
            apart = right - left
            near, far = left + weight * apart, right - apart * (1 - weight)
        expected = near if weight < 0.5 else far
        check(Tensor(left).lerp(Tensor(right), weight), expected)
        check(Tensor(left).lerp(Tensor(right), Tensor(np.full(5, weight))), expected)
    check(Tensor(left).lerp(Tensor(right), np.full(5, 0.25))[1], np.array(0.75 + 0.25e30))


def test_interpolation_has_the_slopes_of_its_weights():
    """1 - w, w and the way between, each of its own shape and times a gradient that may be inf."""
    left, right, weight = np.arange(6.0).reshape(2, 3), np.array([2.0, -1.0, 0.5]), np.array([0.25])
    given = [Tensor(one, requires_grad=True) for one in (left, right, weight)]
    slopes = given[0].lerp(given[1], given[2]).sum().gradient(*given)
    check(slopes[0], np.full((2, 3), 0.75))
    check(slopes[1], np.full(3, 0.5))
    check(slopes[2], np.array([(right - left).sum()]))
    x = Tensor([0.0, 1.0], requires_grad=True)
    assert x.lerp(x * 2, 0.25).log2().sum().gradient(x)[0].tolist()[0] == math.inf


def test_where_is_pytorchs():
    x, held = np.float32([1, 2]), np.array([True, False])
    for condition in (held, held.astype(np.uint8)):
        check(Tensor(x).where(Tensor(condition), Tensor([5.0, 6.0])), np.float32([1, 6]))
        check(torpor.where(Tensor(condition), 1, 2), np.array([1, 2]))
    check(Tensor([1, 2]).where(Tensor(held), 5.5), np.float32([1, 5.5]))
    check(Tensor(x).where(condition=Tensor(held), other=0), np.float32([1, 0]))
    check(Tensor(held).where(Tensor(x), 0), np.float32([1, 0]))  # numbers are no condition
    both = Tensor([True, False]).where(Tensor([False, False]), Tensor([True, True]))
    assert both.tolist() == [True, True]  # as in PyTorch, the argument is the condition
    assert [found.tolist() for found in torpor.where(Tensor(held))] == [[0]]
    with pytest.raises(TypeError, match="condition of bools"):
        torpor.where(Tensor([1, 0]), 1, 2)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_what_chooses_inside_takes_values_of_a_conditions_format(dtype):
    x = np.array([[1, 0], [1, 1]], dtype)
    mask = Tensor([[True, False], [False, True]])
    check(Tensor(x).tril(), np.tril(x))
    check(Tensor(x).pad((1, 0), value=True if dtype == "bool" else 9),
          np.pad(x, ((0, 0), (1, 0)), constant_values=True if dtype == "bool" else 9))  # fmt: skip
    check(Tensor(x).masked_fill(mask, 0), np.where(mask.numpy(), x.dtype.type(0), x))
    check(Tensor(x).masked_scatter(mask, Tensor(x[::-1].copy())), np.array([[1, 0], [1, 1]], dtype))
    check(Tensor(x).topk(1, 1).values, x.max(1, keepdims=True))
    if dtype == "uint8":
        check(Tensor(x) ** Tensor(x), x**x)
        check(Tensor(x * 7).fmod(4), x * 7 % 4)
        logs = Tensor(np.log(np.float32([[0.25, 0.75]])))
        target = Tensor(np.uint8([1]))
        assert abs(logs.nll_loss(target).item() + math.log(0.75)) < 1e-6
        assert abs(logs.cross_entropy(target).item() + math.log(0.75)) < 1e-6


def test_squares_of_bools_are_int64():
    check(Tensor([True, False]).square(), np.array([1, 0]))


SIZES = ["uint8", "int16", "float16", "int32", "float64", "bfloat16", "float8_e5m2"]


@pytest.mark.parametrize("target", SIZES)
@pytest.mark.parametrize("source", SIZES)
def test_bits_as_another_format(source, target):
    """Of another size too: the last axis grows or shrinks."""
    raw = np.random.default_rng(3).integers(0, 256, (3, 16), np.uint8)
    array = raw.view(dtypes.__dict__[source].numpy)
    found = Tensor(array).view(target)
    expected = array.view(dtypes.__dict__[target].numpy)
    assert found.shape == expected.shape and found.dtype.name == target
    np.testing.assert_array_equal(found.numpy().view(np.uint8), raw)
    np.testing.assert_array_equal(found[1:, ::2].numpy(), expected[1:, ::2])


def test_bits_of_another_size_are_a_view():
    rng = np.random.default_rng(4)
    for _ in range(20):
        array = rng.integers(0, 256, (4, 16), np.uint8)
        x, formats = Tensor(array), ["uint8", "int16", "int32", "int64"]
        for _ in range(3):
            name, row, step = rng.choice(formats), int(rng.integers(4)), int(rng.integers(1, 3))
            left, right = x.view(str(name)), array.view(name)
            for place in ((row, slice(None)), (slice(None), slice(0, None, step))):
                value = int(rng.integers(100))
                left[place] += value
                right[place] += right.dtype.type(value)
        np.testing.assert_array_equal(x.numpy(), array)


def test_bits_that_have_no_place():
    with pytest.raises(ShapeError, match="no last axis"):
        Tensor(1.0).view("uint8")
    with pytest.raises(ShapeError, match="its last axis of 6 is no multiple"):
        Tensor.zeros(2, 6, dtype="uint8").view("int32")


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8, dtypes.int64, dtypes.uint64])
def test_numbers_beyond_a_format_compare_as_what_they_are(dtype):
    x = Tensor([0, 1, 100], dtype=dtype)
    for number in (-(10**30), dtype.min - 1, dtype.max + 1, 10**30):
        for compare in (
            operator.lt,
            operator.le,
            operator.eq,
            operator.ne,
            operator.gt,
            operator.ge,
        ):
            assert compare(x, number).tolist() == [compare(v, number) for v in (0, 1, 100)]
            assert compare(number, x).tolist() == [compare(number, v) for v in (0, 1, 100)]


def test_bits_of_floats_that_are_no_floats_have_no_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    bits = y.view(dtypes.int32)
    assert not bits.requires_grad
    bits[0] = 0
    assert y.tolist() == [0.0, 4.0]
