"""Scales multiplied with the sums of what shares them."""

import numpy as np
import pytest

from torpor import Context, Tensor, nn
from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.passes.factors import factored, term_of


def loaded(slot: int, dtype: DType = dtypes.float32) -> UOp:
    memory = UOp(Ops.PARAM, dtype, (), ParamArg(slot, 9))
    return UOp(Ops.LOAD, dtype, (UOp(Ops.INDEX, dtype, (memory, UOp.index_const(slot))),))


def code(slot: int) -> UOp:
    return loaded(slot, dtypes.uint8).cast(dtypes.float32)


X = [loaded(n) for n in range(2)]
CODES = [code(n) for n in range(2, 4)]
SCALE, SHIFT = loaded(5), loaded(6)


def test_what_shares_a_scale_and_a_shift():
    copies = [x * (c * SCALE + SHIFT) for x, c in zip(X, CODES, strict=True)]
    assert factored(copies) == [
        (X[0] * CODES[0] + X[1] * CODES[1]) * SCALE,
        (X[0] + X[1]) * SHIFT,
    ]


def test_equal_terms_all_count():
    copies = [X[0] * (CODES[0] * SCALE)] * 2
    assert factored(copies) == [(X[0] * CODES[0] + X[0] * CODES[0]) * SCALE]


def test_other_scales_and_other_terms_stay_apart():
    copies = [X[0] * (CODES[0] * SCALE), X[1] * (CODES[1] * SHIFT), X[0] * X[1]]
    assert factored(copies) == copies


def test_wide_codes_and_strict_floats_stay():
    wide = loaded(7, dtypes.int16).cast(dtypes.float32)
    assert term_of(X[0] * (wide * SCALE)) is None
    copies = [x * (c * SCALE) for x, c in zip(X, CODES, strict=True)]
    with Context(STRICT_FLOAT=1):
        assert factored(copies) == copies


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize(("rows", "block"), [(1, 32), (1, 34), (3, 32)])
def test_products_with_quantised_weights(bits: int, minimum: bool, rows: int, block: int):
    random = np.random.default_rng(5)
    weight = Tensor(random.standard_normal((37, block * 23), np.float32))
    x = random.standard_normal((rows, block * 23), np.float32)
    quantised = nn.quantise(weight, bits, block, minimum)
    codes = quantised.codes.numpy().astype(np.float64)
    if bits == 4:
        codes = np.concatenate([codes % 16, codes // 16], -1)
    if bits == 4 and not minimum:
        codes -= 8
    scaled = codes * quantised.scale.numpy().astype(np.float64)[..., None]
    if quantised.minimum is not None:
        scaled += quantised.minimum.numpy().astype(np.float64)[..., None]
    expected = x.astype(np.float64) @ scaled.reshape(37, -1).T
    error = np.linalg.norm(quantised(Tensor(x)).numpy() - expected) / np.linalg.norm(expected)
    assert error < 1e-6
