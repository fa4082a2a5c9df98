"""A value that two passes over a row need is computed once and kept."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.kernel import OptOps


def softmax_of(x):
    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return wide / wide.sum(-1, keepdims=True)


@pytest.mark.parametrize("columns", [1, 7, 64, 100, 1000, 20001])
@pytest.mark.parametrize("rows", [1, 33])
def test_softmax(rows, columns):
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32) * 10
    result = Tensor(x).softmax(-1).numpy()
    # x - max rounds to half an ulp of itself, which exp turns into a relative error; sums of
    # 20,001 numbers in 32 lanes lose a few units, the square root of their 625 steps at most
    bound = 2.0**-23 * (12 + np.abs(x - x.max(-1, keepdims=True)))
    expected = softmax_of(x)
    denormal = 2.0**-148  # steps of the smallest numbers
    assert (np.abs(result - expected) <= bound * expected + denormal).all()


def test_its_exponentials_are_kept_between_the_passes():
    (program,) = torpor.lower(Tensor.empty(64, 1024).softmax(-1), target="cpu")
    assert OptOps.STAGE in [opt.op for opt in program.opts]
    plain = torpor.lower(Tensor.empty(64, 1024).exp(), target="c")[0].source.count("convert")
    (program,) = torpor.lower(Tensor.empty(64, 1024).softmax(-1), target="c")
    assert program.source.count("local0") >= 3
    assert plain <= program.source.count("convert") <= 2 * plain


def test_infinities_and_nan_pass_through():
    x = np.float32([[1, np.inf, 2] * 8, [np.nan, 1, 2] * 8, [-np.inf, 0, 0] * 8])
    result = Tensor(x).softmax(-1).numpy()
    assert np.isnan(result[:2]).all()
    assert np.allclose(result[2].reshape(8, 3), [0, 1 / 16, 1 / 16])


def test_a_row_too_long_to_keep_is_computed_twice():
    (program,) = torpor.lower(Tensor.empty(64, 60000).softmax(-1), target="cpu")
    assert OptOps.STAGE not in [opt.op for opt in program.opts]
