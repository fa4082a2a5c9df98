"""Gradients at ties, bounds, zeros and infinities. What is expected is written out: PyTorch's."""

import math

import numpy as np
import pytest

import torpor
import torpor.nn.functional as functional
from torpor import Tensor

INF, NAN = math.inf, math.nan
SELU = 1.0507009873554804934193349852946
ALPHA = 1.6732632423543772848170429916717

# By name: a function of tensors, its arguments, and for each argument the gradient of the sum of
# the results, the i-th of them weighted by i + 1.
ELEMENTS = {
    "expm1": (Tensor.expm1, [[0.0, -INF, 1e-30]], [[1, 0, 3]]),
    "log1p": (Tensor.log1p, [[0.0, -1.0, INF, 1.0]], [[1, INF, 0, 2]]),
    "sinh": (Tensor.sinh, [[0.0, -0.0, 80.0]], [[1, 2, 3 * math.cosh(80)]]),
    "softplus": (
        Tensor.softplus, [[0.0, 25.0, -200.0, INF, -INF, NAN]], [[0.5, 2, 0, 4, 0, NAN]],
    ),
    "logsigmoid": (Tensor.logsigmoid, [[0.0, 300.0, -300.0, INF, -INF]], [[0.5, 0, 3, 0, 5]]),
    "mish": (Tensor.mish, [[0.0, 50.0, -200.0]], [[0.6, 2, 0]]),
    "relu": (Tensor.relu, [[0.0, -0.0, -1.0, 1.0, INF, -INF, NAN]], [[0, 0, 0, 4, 5, 0, 7]]),
    "relu6": (Tensor.relu6, [[0.0, 6.0, 3.0, 7.0, NAN]], [[0, 0, 3, 0, 5]]),
    "hardtanh": (Tensor.hardtanh, [[-1.0, 1.0, 0.0, NAN]], [[0, 0, 3, 4]]),
    "hardsigmoid": (Tensor.hardsigmoid, [[-3.0, 3.0, 0.0, NAN]], [[0, 0, 0.5, 0]]),
    "hardswish": (
        Tensor.hardswish, [[-3.0, 3.0, 0.0, INF, -INF, NAN]], [[0, 2, 1.5, 4, 0, 6]],
    ),
    "leaky_relu": (Tensor.leaky_relu, [[0.0, 1.0, -1.0]], [[0.01, 2, 0.03]]),
    "elu": (Tensor.elu, [[0.0, -0.0, 100.0, -INF, NAN, -1e-30]], [[1, 2, 3, 0, 5, 6]]),
    "elu of 2": (lambda x: x.elu(2.0), [[0.0, 1.0, -INF]], [[2, 2, 0]]),
    "celu of 2": (lambda x: x.celu(2.0), [[0.0, -0.0, 3.0]], [[1, 2, 3]]),
    "selu": (Tensor.selu, [[0.0, 1.0]], [[SELU * ALPHA, 2 * SELU]]),
    "clamp": (lambda x: x.clamp(-1, 1), [[-1.0, 1.0, 0.0, 2.0, NAN]], [[1, 2, 3, 0, 0]]),
    "clamp min": (lambda x: x.clamp(min=0), [[0.0, -0.0, -1.0, INF]], [[1, 2, 0, 4]]),
    "clamp max": (lambda x: x.clamp(max=0), [[0.0, 1.0, -INF]], [[1, 0, 3]]),
    "clamp to a tensor": (
        lambda x, y: x.clamp(max=y), [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [[1, 2, 0], [0, 0, 3]],
    ),
    "clamp crossed": (lambda x: x.clamp(2, -2), [[0.0, 2.0, -2.0]], [[0, 0, 0]]),
    "clamp tensors": (
        Tensor.clamp,
        [[1.0, 0.0, 3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 2.0, 1.0, 1.0],
         [1.0, 2.0, 2.0, 1.0, 2.0, 1.0]],
        [[1, 0, 0, 0, 5, 0], [0, 2, 0, 0, 0, 0], [0, 0, 3, 4, 0, 0]],
    ),
    "atan2": (
        Tensor.atan2, [[0.0, -0.0, 0.0, 1.0], [0.0, 0.0, 2.0, 0.0]],
        [[0, 0, 1.5, 0], [0, 0, 0, -4]],
    ),
    "maximum of a number": (lambda x: x.maximum(1), [[0.0, 1.0, 2.0, NAN]], [[0, 1, 3, 4]]),
    "minimum of a number": (lambda x: x.minimum(1), [[0.0, 1.0, 2.0, NAN]], [[1, 1, 0, 4]]),
    "maximum": (Tensor.maximum, [[1.0, 2.0], [1.0, 3.0]], [[0.5, 0], [0.5, 2]]),
    "fmax": (Tensor.fmax, [[1.0, 2.0, NAN], [1.0, NAN, 3.0]], [[1, 2, 0], [0, 0, 3]]),
    "fmin": (Tensor.fmin, [[1.0, 2.0, 4.0], [1.0, NAN, 3.0]], [[1, 2, 0], [0, 0, 3]]),
    "abs": (Tensor.abs, [[0.0, -0.0, -2.0]], [[0, 0, -3]]),
    "sign": (Tensor.sign, [[0.0, NAN]], [[0, 0]]),
    "fmod": (
        Tensor.fmod, [[0.0, 1.0, -5.0, 4.0], [2.0, INF, 3.0, 2.0]],
        [[1, 2, 3, 4], [0, 0, 3, -8]],
    ),
    "remainder": (
        Tensor.remainder, [[1.0, -1.0, 5.0, INF], [-INF, INF, 3.0, 1.0]],
        [[1, 2, 3, 4], [1, 2, -3, NAN]],
    ),
    "divided down": (
        lambda x, y: x.div(y, rounding_mode="floor"), [[0.0, 1.0], [0.0, 3.0]], [[0, 0], [0, 0]],
    ),
    "power": (
        Tensor.pow, [[0.0, 0.0, 0.0, -1.0], [0.0, 1.0, 2.0, 0.0]], [[0, 2, 0, 0], [0, 0, 0, NAN]],
    ),
}  # fmt: skip
REDUCTIONS = {
    "norm": (lambda x: x.norm(2, 1), [[[0.0, 0.0], [3.0, 4.0]]], [[[0, 0], [1.2, 1.6]]]),
    "norm of 3": (lambda x: x.norm(3, 1), [[[0.0, 0.0], [0.0, 2.0]]], [[[0, 0], [0, 2]]]),
    "norm of 0": (lambda x: x.norm(0), [[0.0, 4.0]], [[0, 0]]),
    "norm of 1/2": (lambda x: x.norm(0.5), [[0.0, 4.0]], [[0, 1]]),
    "greatest magnitude": (lambda x: x.norm(INF), [[2.0, -2.0, 0.0]], [[0.5, -0.5, 0]]),
    "normalize": (
        lambda x: x.normalize(), [[[0.0, 0.0], [0.0, 2.0]]], [[[1e12, 2e12], [1.5, 0]]],
    ),
    "std": (lambda x: x.std(1), [[[2.0, 2.0], [0.0, 2.0]]], [[[0, 0], [-2**0.5, 2**0.5]]]),
    "var": (lambda x: x.var(1), [[[2.0, 2.0], [0.0, 2.0]]], [[[0, 0], [-4, 4]]]),
    "cosine": (
        lambda x, y: functional.cosine_similarity(x, y),
        [[[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]],
        [[[1e8, 0], [0, 0]], [[0, 0], [0, 0]]],
    ),
    "max": (Tensor.max, [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    "max of NaN": (Tensor.max, [[NAN, 3.0, NAN]], [[0.5, 0, 0.5]]),
    "amax": (
        lambda x: x.amax(1), [[[1.0, 3.0, 3.0], [INF, INF, 0.0]]], [[[0, 0.5, 0.5], [1, 1, 0]]],
    ),
    "max of rows": (
        lambda x: x.max(1).values, [[[3.0, 1.0, 3.0], [0.0, NAN, NAN]]], [[[1, 0, 0], [0, 2, 0]]],
    ),
    "min of columns": (
        lambda x: x.min(0, keepdim=True).values, [[[1.0, 2.0], [1.0, 0.0], [1.0, 0.0]]],
        [[[1, 0], [0, 2], [0, 0]]],
    ),
    "median": (Tensor.median, [[1.0, 1.0, 0.0, 1.0]], [[1 / 3, 1 / 3, 0, 1 / 3]]),
    "median of rows": (lambda x: x.median(1).values, [[[1.0, 2.0, 3.0]]], [[[0, 1, 0]]]),
    "cummax": (lambda x: x.cummax(0).values, [[1.0, 1.0, 0.0]], [[1, 5, 0]]),
    "pool": (
        lambda x: x.max_pool1d(2), [[[5.0, 5.0, -INF, -INF, 1.0, NAN]]], [[[1, 0, 2, 0, 0, 3]]],
    ),
    "pool of NaN": (lambda x: x.max_pool1d(3), [[[NAN, 7.0, NAN]]], [[[0, 0, 1]]]),
    "pool that overlaps": (
        lambda x: x.max_pool1d(3, 2, 1), [[[1.0, 1.0, 2.0, 2.0, 2.0]]], [[[1, 0, 2, 3, 0]]],
    ),
    "pool in padding": (
        lambda x: x.max_pool2d(2, 2, 1), [[[[-INF, -INF], [-INF, 0.0]]]], [[[[1, 2], [3, 4]]]],
    ),
    "logcumsumexp": (
        lambda x: x.logcumsumexp(0), [[1.0, -INF, 1.0]], [[4.5, 0, 1.5]],
    ),
    "logsumexp": (lambda x: x.logsumexp(0), [[-INF, 1.0]], [[0, 1]]),
    "prod": (lambda x: x.prod(1), [[[0.0, 2.0], [0.0, 0.0]]], [[[2, 0], [0, 0]]]),
    "cumprod": (lambda x: x.cumprod(0), [[0.0, 2.0, 3.0]], [[23, 0, 0]]),
}  # fmt: skip
LOSSES = {
    "binary_cross_entropy": (
        lambda p, t: p.binary_cross_entropy(t, reduction="none"),
        [[1.0, 0.0, 0.0, 0.5], [1.0, 0.0, 1.0, 0.0]], [[0, 0, -3e12, 8], [-INF, INF, INF, 0]],
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, t: x.binary_cross_entropy_with_logits(t, reduction="none"),
        [[0.0, 200.0, -200.0, INF], [0.5, 1.0, 1.0, 0.0]],
        [[0, 0, -3, 4], [0, -400, 600, -INF]],
    ),
    "smooth_l1": (
        lambda x, t: x.smooth_l1_loss(t, "none"), [[1.0, 0.0, INF, 0.5], [0.0, 0.0, 0.0, 0.0]],
        [[1, 0, 3, 2], [-1, 0, -3, -2]],
    ),
    "huber": (
        lambda x, t: x.huber_loss(t, "none", 2.0), [[2.0, -INF], [0.0, 0.0]], [[2, -4], [-2, 4]],
    ),
    "l1": (lambda x, t: x.l1_loss(t, "none"), [[1.0, 0.0], [1.0, 1.0]], [[0, -2], [0, 2]]),
}  # fmt: skip
CASES = {**ELEMENTS, **REDUCTIONS, **LOSSES}


def weighted(result):
    """Weights 1, 2, ... for the elements of a result."""
    return Tensor(np.arange(1.0, result.numel() + 1).reshape(result.shape))


def by_gradient(function, arrays):
    tensors = [Tensor(array) for array in arrays]
    result = function(*tensors)
    return result.gradient(*tensors, gradient=weighted(result))


def by_backward(function, arrays):
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    result = function(*tensors)
    if result.requires_grad:
        result.backward(weighted(result))
    return [tensor.zeros_like() if tensor.grad is None else tensor.grad for tensor in tensors]


def by_grad(function, arrays):
    """`torpor.grad` of the sum, whose infinite or NaN terms change no gradient."""

    def total(*tensors):
        result = function(*tensors)
        return (result * weighted(result)).sum()

    found = torpor.grad(total, tuple(range(len(arrays))))(*map(Tensor, arrays))
    return list(found)


@pytest.mark.parametrize("way", [by_gradient, by_backward, by_grad])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_pytorch(name, way):
    function, arrays, expected = CASES[name]
    found = way(function, [np.array(array) for array in arrays])
    for one, values in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), np.array(values, float), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["elu", "clamp", "norm", "max of rows", "pool that overlaps"])
def test_gradients_in_the_jit_are_the_same(name):
    function, arrays, expected = CASES[name]
    jitted = torpor.jit(lambda x: by_gradient(function, [x])[0])
    for _ in range(3):
        found = jitted(Tensor(np.array(arrays[0])))
    np.testing.assert_allclose(found.numpy(), np.array(expected[0], float), rtol=1e-6)


SECOND = {
    "expm1": (Tensor.expm1, [0.0, -INF], [1, 0]),
    "log1p": (Tensor.log1p, [0.0, 1.0], [-1, -0.25]),
    "softplus": (Tensor.softplus, [0.0, 300.0, -300.0], [0.25, 0, 0]),
    "elu": (Tensor.elu, [0.0, -INF, 200.0, 2.0], [0, 0, 0, 0]),
    "relu": (Tensor.relu, [0.0, 1.0], [0, 0]),
    "std": (Tensor.std, [2.0, 2.0], [0, 0]),
    "norm": (lambda x: x.norm(3), [0.0, 0.0], [0, 0]),
    "power": (lambda x: x.pow(x.full_like(0)), [-1.0, 0.0, 2.0], [0, 0, 0]),
    "var": (lambda x: x.var() * 1.5, [0.0, 4.0, 2.0], [0, 0, 0]),
    "squares": (lambda x: (x * x * x).clamp(-1, 8), [2.0, -1.0, 0.5, 1.0], [12, -6, 3, 6]),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_gradients(name):
    function, values, expected = SECOND[name]
    x = Tensor(np.array(values))
    (first,) = function(x).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_formats_keep_their_gradients(dtype):
    x = Tensor([0.0, -1.0, 1.0, 7.0], dtype=dtype)
    for function, expected in (
        (Tensor.relu6, [0, 0, 1, 0]), (lambda y: y.clamp(0, 7), [1, 0, 1, 1]),
        (Tensor.max, [0, 0, 0, 1]), (lambda y: y.max(0).values, [0, 0, 0, 1]),
        (lambda y: (y * 0).norm(), [0, 0, 0, 0]), (lambda y: (y * 0).std(), [0, 0, 0, 0]),
    ):  # fmt: skip
        (found,) = function(x).sum().gradient(x)
        assert found.dtype.name == dtype
        assert found.tolist() == expected


def test_integers_have_their_values_and_no_rule():
    x = Tensor([3, -4, 9])
    assert x.relu().tolist() == [3, 0, 9]
    assert x.clamp(0, 5).tolist() == [3, 0, 5]
    assert x.max().item() == 9 and x.max(0).values.item() == 9 and x.median().item() == 3
    assert x.hardtanh().tolist() == [1.0, -1.0, 1.0]
    assert x.reshape(1, 1, 3).max_pool1d(3).tolist() == [[[9]]]


@pytest.mark.parametrize("last", [1000.0, np.inf, np.nan])
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (Tensor.exp, np.exp), (Tensor.sin, np.cos), (lambda x: x * x, lambda x: 2 * x),
        (lambda x: x.log(), lambda x: 1 / x), (Tensor.silu, None),
    ],
)  # fmt: skip
def test_what_is_cut_away_has_a_gradient_of_0_whatever_it_is(function, slope, last):
    x = Tensor([1.0, 2.0, last]).requires_grad_()
    found = (function(x[:2]) * Tensor([3.0, 4.0])).sum().gradient(x)[0].numpy()
    share = 1 / (1 + np.exp(-np.array([1.0, 2.0])))
    slopes = share * (1 + np.array([1.0, 2.0]) * (1 - share)) if slope is None else slope(
        np.array([1.0, 2.0]))  # fmt: skip
    np.testing.assert_allclose(found, [*(slopes * [3.0, 4.0]), 0], rtol=1e-5)


def test_gates_and_second_gradients_of_slices_are_finite():
    x = Tensor(np.linspace(-2, 2, 24, dtype="f4").reshape(3, 8)).requires_grad_()
    left, right = x.chunk(2, -1)
    gated = (left * right.sigmoid()).silu() * 1.5
    assert np.isfinite(gated.sum().gradient(x)[0].numpy()).all()
    (first,) = (x[:2].softmax(1) * Tensor(np.arange(8.0))).sum().gradient(x)
    assert first.square().sum().gradient(x)[0].tolist()[2] == [0.0] * 8


def test_what_has_no_slope_takes_no_nan():
    """The sign of `copysign`, of whatever gradient."""
    x, y = Tensor([1.0, -2.0, 3.0]), Tensor([-1.0, 1.0, 0.5])
    first, second = x.copysign(y).neg().rsqrt().sum().gradient(x, y)
    np.testing.assert_allclose(first.numpy(), [-0.5, NAN, NAN])
    assert second.tolist() == [0, 0, 0]
