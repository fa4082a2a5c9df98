import math

import ml_dtypes
import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.nn import functional as F

FORMATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FUNCTIONS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logsigmoid": lambda x: -np.logaddexp(0, -x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805
    * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "tan": np.tan,
    "expm1": np.expm1,
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_rounded_once(kind: str, name: str) -> None:
    """In 16 bits the result is the nearest number, but where float32 is as near to the next."""
    points = np.linspace(-15, 10, 501).astype(FORMATS[kind])
    exact = FUNCTIONS[name](points.astype(np.float64))
    found = getattr(torpor, name)(Tensor(points)).double().numpy()
    nearest = exact.astype(FORMATS[kind]).astype(np.float64)
    differ = found != nearest
    middle = (found + nearest) / 2
    assert np.all(abs(exact - middle)[differ] <= 1e-6 * abs(exact)[differ])
    assert differ.mean() < 0.01


def half(*values: float) -> Tensor:
    return Tensor(list(values), dtype="float16")


def test_steps_do_not_overflow() -> None:
    far = half(60000.0)
    assert far.lerp(-far, 0.5).tolist() == [0.0]
    assert far.lerp(-far, half(0.25)).tolist() == [30000.0]
    three = half(300.0, 300.0, 300.0)
    assert F.cosine_similarity(three, -three, dim=0).item() == -1.0
    assert three.huber_loss(half(-3.0, -3.0, -3.0), delta=400).item() == 45920.0
    row = Tensor([[300.0]], dtype="float16")
    assert half(-60000.0).addmm(row, row).tolist() == [[30000.0]]
    assert half(-60000.0).addmm(row, row, alpha=0.5).tolist() == [[-15000.0]]


def test_results_are_in_the_common_format() -> None:
    x = half(1.0, 2.0)
    assert x.lerp(Tensor([2.0, 2.0]), 0.5).dtype is torpor.float32
    assert x.lerp(half(3.0, 3.0), 0.5).dtype is torpor.float16
    assert x.norm().dtype is torpor.float16
    (slope,) = x.requires_grad_().silu().sum().gradient(x)
    exact = [s + v * s * (1 - s) for v in (1.0, 2.0) for s in (1 / (1 + math.exp(-v)),)]
    assert slope.dtype is torpor.float16
    np.testing.assert_allclose(slope.numpy(), exact, rtol=1e-3)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["atan2", "hypot", "logaddexp", "xlogy"])
def test_functions_of_integers_and_floats_have_the_float_s_format(kind: str, name: str) -> None:
    whole, part = np.array([3, 1, 200]), np.array([4.0, 0.3, 150.0]).astype(FORMATS[kind])
    wide = part.astype(np.float64)
    expected = {
        "atan2": np.arctan2(whole, wide), "hypot": np.hypot(whole, wide),
        "logaddexp": np.logaddexp(whole, wide), "xlogy": whole * np.log(wide),
    }[name]  # fmt: skip
    made = getattr(Tensor(whole), name)(Tensor(part))
    assert made.dtype.name == kind
    np.testing.assert_array_equal(made.numpy(), expected.astype(FORMATS[kind]))
