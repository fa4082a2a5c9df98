import math

import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, layouts, numbers
from torpor import Tensor, dtypes
from torpor.base.errors import ShapeError, ValueRangeError

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def softplus(a):
    return np.logaddexp(a, 0)


def elu(a):
    return np.where(a > 0, a, np.expm1(a))


# name: (NumPy's, least argument, greatest argument, further arguments of the method)
FUNCTIONS = {
    "exp": (np.exp, -5, 5), "exp2": (np.exp2, -5, 5), "expm1": (np.expm1, -2, 2),
    "log": (np.log, 0.1, 9), "log2": (np.log2, 0.1, 9), "log10": (np.log10, 0.1, 9),
    "log1p": (np.log1p, -0.9, 3), "sqrt": (np.sqrt, 0, 9), "square": (np.square, -3, 3),
    "rsqrt": (lambda a: 1 / np.sqrt(a), 0.1, 9), "reciprocal": (np.reciprocal, 0.1, 9),
    "sin": (np.sin, -9, 9), "cos": (np.cos, -9, 9), "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -4, 4), "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3),
    "erf": (erf, -3, 3), "abs": (np.abs, -3, 3), "sign": (np.sign, -3, 3), "neg": (np.negative,
        -3, 3),
    "floor": (np.floor, -3, 3), "ceil": (np.ceil, -3, 3), "trunc": (np.trunc, -3, 3),
    "round": (np.round, -3, 3), "relu": (lambda a: np.maximum(a, 0), -3, 3),
    "sigmoid": (sigmoid, -9, 9), "logsigmoid": (lambda a: -softplus(-a), -9, 9),
    "silu": (lambda a: a * sigmoid(a), -9, 9), "softplus": (softplus, -9, 9),
    "mish": (lambda a: a * np.tanh(softplus(a)), -5, 5), "elu": (elu, -3, 3), "celu": (elu, -3, 3),
    "selu": (
        lambda a: 1.0507009873554805 * np.where(a > 0, a,
        1.6732632423543772 * np.expm1(a)), -3, 3,
    ),
    "gelu": (lambda a: 0.5 * a * (1 + erf(a / math.sqrt(2))), -3, 3),
    "leaky_relu": (lambda a: np.where(a > 0, a, 0.01 * a), -3, 3),
    "relu6": (lambda a: np.clip(a, 0, 6), -3, 9), "hardtanh": (lambda a: np.clip(a, -1, 1), -3, 3),
    "hardswish": (lambda a: a * np.clip(a + 3, 0, 6) / 6, -5, 5),
    "softsign": (lambda a: a / (1 + np.abs(a)), -5, 5),
    "hardsigmoid": (lambda a: np.clip(a / 6 + 0.5, 0, 1), -5, 5),
    "quick_gelu": (lambda a: a * sigmoid(1.702 * a), -5, 5),
    "swish": (lambda a: a * sigmoid(a), -5, 5),
    "frac": (lambda a: a - np.trunc(a), -5, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_every_layout(name):
    function, low, high = FUNCTIONS[name]
    for _, x, a in layouts(numbers((4, 6), low=low, high=high)):
        expected = np.asarray(function(a.astype(np.float64))).astype(np.float32)
        check(getattr(x, name)(), expected, 5e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["exp", "log1p", "sqrt", "tanh", "sigmoid", "erf", "gelu", "sin"])
def test_other_formats(name, dtype):
    function, low, high = FUNCTIONS[name]
    array = numbers((3, 5), dtype, max(low, -3), min(high, 3))
    check(getattr(Tensor(array), name)(), function(array.astype(np.float64)).astype(dtype))


def test_integers_become_floats():
    check(Tensor([1, 4, 9]).sqrt(), np.array([1, 2, 3], np.float32))
    check(Tensor([True, False]).exp(), np.exp([1.0, 0.0]).astype(np.float32))


def test_integers_stay_where_rounding_means_nothing():
    whole = np.array([-2, 0, 3])
    for name in ("floor", "ceil", "trunc", "round"):
        check(getattr(Tensor(whole), name)(), whole)
    check(Tensor(whole).abs(), abs(whole))
    check(Tensor(whole).sign(), np.sign(whole))


def test_small_arguments_keep_their_digits():
    array = np.array([1e-30, -1e-10, 1e-8, 3e-7, -1e-5], np.float32)
    for name, function in (("log1p", np.log1p), ("expm1", np.expm1), ("sinh", np.sinh)):
        found = getattr(Tensor(array), name)().numpy().astype(np.float64)
        np.testing.assert_allclose(found, function(array.astype(np.float64)), rtol=1e-6)


SPECIAL = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 100.0, -100.0], np.float32)


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "log1p", "expm1", "sqrt", "tanh", "abs", "sign", "floor", "ceil", "round",
        "relu",
     "sigmoid", "softplus", "erf", "elu"],
)  # fmt: skip
def test_special_numbers(name):
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name][0](SPECIAL.astype(np.float64)).astype(np.float32)
    found = getattr(Tensor(SPECIAL), name)().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)


def test_signs_of_zero():
    found = Tensor(SPECIAL[3:5])
    assert not np.signbit(found.abs().numpy()).any()
    assert list(np.signbit((-found).numpy())) == [True, False]


def test_tests_for_special_numbers():
    x = Tensor(SPECIAL)
    check(x.isnan(), np.isnan(SPECIAL))
    check(x.isinf(), np.isinf(SPECIAL))
    check(x.isfinite(), np.isfinite(SPECIAL))
    check(Tensor([1, 2]).isfinite(), np.array([True, True]))
    check(x.nan_to_num(), np.nan_to_num(SPECIAL))


def test_round_to_decimals_and_gelu_by_tanh():
    array = numbers((20,))
    check(Tensor(array).round(2), np.round(array, 2))
    check(Tensor([0.5, 1.5, 2.5, -0.5]).round(), np.array([0, 2, 2, -0.0], np.float32))
    wide = array.astype(np.float64)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    check(Tensor(array).gelu("tanh"), (0.5 * wide * (1 + np.tanh(inner))).astype(np.float32), 5e-6)
    with pytest.raises(ValueError, match="approximate"):
        Tensor(array).gelu("exact")


@pytest.mark.parametrize(("dtype", "end"), [("float32", 89.4), ("float64", 710.4)])
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_up_to_the_end_of_the_format(name, dtype, end):
    array = np.concatenate([np.linspace(-end, end, 4001), [1e-9, 0.9, 1.1, -20.5]]).astype(dtype)
    wide = np.float64 if dtype == "float32" else np.longdouble
    expected = getattr(np, name)(array.astype(wide)).astype(dtype)
    assert np.isfinite(expected).all()
    found = getattr(Tensor(array), name)().numpy()
    np.testing.assert_array_max_ulp(found, expected, 3, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_beyond_it(name, dtype):
    array = np.array([11.5, -11.5, 800, -800, math.inf, -math.inf, math.nan, 0.0, -0.0], dtype)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(array.astype("f8")).astype(dtype)
    found = getattr(Tensor(array), name)().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


def test_activations_where_steps_in_their_format_would_round_too_much():
    array = np.array([-3.0, -2.5, 0.01, 3.0], np.float16)
    wide = array.astype("f8")
    exact = 0.5 * wide * (1 + erf(wide / math.sqrt(2)))
    np.testing.assert_allclose(Tensor(array).gelu().numpy(), exact, rtol=1e-3)
    assert Tensor([60000.0], dtype="float16").hardswish().item() == 60000 - 60000 % 32
    found = Tensor(np.array([-20.5, -25.0, 800.0])).logsigmoid().numpy()
    np.testing.assert_allclose(found, -np.logaddexp(0, [20.5, 25.0, -800.0]), rtol=1e-15)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.gelu("nope"),
        lambda x: x.clamp(),
        lambda x: x.div(x, rounding_mode="nope"),
        lambda x: x.pad((1, 1), mode="nope"),
        lambda x: x.mse_loss(x, reduction="nope"),
    ],
)
def test_an_unknown_choice_is_an_error_of_torpors_and_of_pythons(call):
    with pytest.raises(ValueRangeError) as raised:
        call(Tensor([1.0, 2.0]))
    assert isinstance(raised.value, ValueError)


def test_shrinking_activations():
    x = Tensor([-2.0, -0.5, 0.25, 0.5, 3.0])
    assert x.hardshrink().tolist() == [-2.0, 0.0, 0.0, 0.0, 3.0]
    assert x.softshrink().tolist() == [-1.5, 0.0, 0.0, 0.0, 2.5]
    assert x.threshold(0.25, 9.0).tolist() == [9.0, 9.0, 9.0, 0.5, 3.0]
    assert x.prelu(Tensor([0.5])).tolist() == [-1.0, -0.25, 0.25, 0.5, 3.0]
    rows = Tensor([[-1.0, -1.0], [2.0, -2.0]])
    assert rows.prelu(Tensor([1.0, 0.25])).tolist() == [[-1.0, -0.25], [2.0, -0.5]]
    assert x.tanhshrink().tolist() == pytest.approx([v - math.tanh(v) for v in x.tolist()])
    assert Tensor([[1.0, 0.0]]).glu().tolist() == [[0.5]]
    with pytest.raises(ShapeError, match="even length"):
        x.glu()


def test_integers_are_clamped_to_whole_bounds():
    made = Tensor([-3, -1, 0, 1, 3]).hardtanh(-1.5, 2.5)
    assert made.dtype is dtypes.int64 and made.tolist() == [-1, -1, 0, 1, 2]


def test_one_weight_keeps_a_number_a_number():
    assert Tensor(-2.0).prelu(Tensor([0.25])).tolist() == -0.5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("silu", {}),
        ("mish", {}),
        ("gelu", {}),
        ("gelu", {"approximate": "tanh"}),
        ("sigmoid", {}),
        ("cosh", {}),
        ("sinc", {}),
        ("lerp", {"end": 3.0, "weight": 0.25}),
    ],
)
def test_an_infinite_gradient_is_multiplied_by_the_slope(name, options):
    """inf * f'(x), not the difference of two that are infinite; slopes by differences."""
    x = Tensor(np.array([-3.0, -1.5, -0.5, 0.5, 2.0]), requires_grad=True)
    step = 1e-6
    higher, lower = (getattr(x.detach() + s, name)(**options).numpy() for s in (step, -step))
    expected = (higher - lower) / (2 * step)
    made = getattr(x, name)(**options)
    (slope,) = torpor.autograd.grad(made.sum(), [x], retain_graph=True)
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-7, atol=1e-9)
    (found,) = torpor.autograd.grad((made * math.inf).sum(), [x])
    np.testing.assert_array_equal(found.numpy(), expected * np.inf)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_expm1_is_right_to_two_last_places(name):
    edge = math.log(2)
    near = np.linspace(-edge * 1.01, edge * 1.01, 20_001)
    array = np.concatenate([near, np.linspace(-40, 80, 5_001), 10.0 ** np.arange(-37, 0)])
    array = array.astype(name)
    exact = np.expm1(array.astype(np.longdouble))
    found = Tensor(array).expm1().numpy().astype(np.longdouble)
    assert np.all(abs(found - exact) <= 2 * np.spacing(abs(exact).astype(name)))
